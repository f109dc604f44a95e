"""Commands run as a person would run them, against a real web server on the simulated cluster."""

import csv
import io
import json
from dataclasses import replace

import pytest
from click.testing import CliRunner, Result

from idlewatt.daemon.cli import main
from idlewatt.daemon.service import Service
from idlewatt.daemon.view import DaemonView
from idlewatt.daemon.web.app import WebApp
from idlewatt.daemon.web.gate import WebConfigFile
from idlewatt.daemon.web.server import WebServer, listen
from idlewatt.storage.records import Job


class Shell:
    """Runs commands in this process; where they ask a daemon, they ask this one."""

    def __init__(self, service: Service | None, url: str) -> None:
        self.service, self.url = service, url

    def run(self, *arguments: str, **options) -> Result:
        env = {"IDLEWATT_URL": self.url, "COLUMNS": "220"} | options.pop("env", {})
        return CliRunner().invoke(main, arguments, env=env, **options)

    def text(self, *arguments: str) -> str:
        done = self.run(*arguments)
        assert done.exit_code == 0, done.output
        return done.stdout

    def json(self, *arguments: str) -> list[dict]:
        return json.loads(self.text(*arguments, "--format", "json"))

    def csv(self, *arguments: str) -> list[dict[str, str]]:
        return list(csv.DictReader(io.StringIO(self.text(*arguments, "--format", "csv"))))

    def submit(self, job: Job) -> None:
        """Let the daemon see one more job."""
        known = self.service.known
        snapshot = replace(known.snapshot, jobs=(*known.snapshot.jobs, job))
        self.service.known = replace(known, snapshot=snapshot)


@pytest.fixture
def serve(rig):
    """Return a function that serves a daemon that has looked once, as a web configuration says."""
    started = []

    def start(web_config=None) -> Shell:
        service = rig.service()
        for cycle in (service.jobs, service.scrape, service.assess):
            cycle()
        gate = WebConfigFile(web_config)
        view = DaemonView(service, lambda: service.settings)
        server = WebServer(WebApp(view, gate), [listen("127.0.0.1:0")], gate)
        server.start()
        started.append(server)
        return Shell(service, server.urls[0].rstrip("/"))

    yield start
    for server in started:
        server.stop()


@pytest.fixture
def shell(serve) -> Shell:
    return serve()


@pytest.fixture
def alone() -> Shell:
    """Commands where no daemon runs."""
    return Shell(None, "http://127.0.0.1:1")
