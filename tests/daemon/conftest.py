"""A daemon on a simulated cluster: in this process, with a clock that stands until a test moves it, or in its own."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

import fresh_schema
import pytest
import requests
from forked import Forked

from idlewatt.daemon import config, opening
from idlewatt.daemon.service import Service
from idlewatt.exporters.simulated.cluster import ClusterShape, SimulatedCluster
from idlewatt.exporters.simulated.server import SimulatedSite, SimulationServer
from idlewatt.storage.history import History


@dataclass
class Rig:
    """The far end of the wire, the clock, and how to start a daemon on both."""

    folder: Path
    now_s: float = 1_795_219_200.0
    cluster: SimulatedCluster = field(init=False)
    server: SimulationServer = field(init=False)
    services: list[Service] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cluster = SimulatedCluster(ClusterShape(start_s=self.now_s))
        self.server = SimulationServer(SimulatedSite(self.cluster, self.clock))
        Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def clock(self) -> float:
        return self.now_s

    def text(self, **changes: str) -> str:
        """Return a configuration for this cluster; ``changes`` replace top-level parts, as YAML."""
        url = self.server.url
        parts = {
            "cluster": "rig",
            "advice": "{policy: limit-aged+best-fit+easy}",
            "storage": f"{{url: 'sqlite:///{self.folder / 'idlewatt.db'}'}}",
            # The beat hardly runs: tests call the cycles themselves.
            "cycles": "{scrape: 15s, jobs: 1h, assess: 1h, advise: 1h, record: 1h}",
            "sources": f"[{{kind: dcgm, http_sd_configs: [{{url: '{url}/targets/dcgm'}}]}}, "
                       f"{{kind: node, http_sd_configs: [{{url: '{url}/targets/node'}}]}}, "
                       f"{{kind: ipmi, http_sd_configs: [{{url: '{url}/targets/ipmi'}}]}}, "
                       f"{{kind: slurm_rest, url: '{url}'}}]"}
        return "".join(f"{key}: {value}\n" for key, value in (parts | changes).items())

    def service(self, **changes: str) -> Service:
        """Return a daemon that has opened its history and read nothing yet."""
        settings = config.parse(self.text(**changes))
        storage = settings.storage
        made = Service(settings, History.open(storage.url, storage.spool_folder, storage.backlog_bytes), self.clock)
        self.services.append(made)
        return made

    def watch(self, service: Service, seconds: float, step_s: float = 15.0) -> None:
        """Move the clock on and run the cycles as their beat would."""
        for _ in range(round(seconds / step_s)):
            self.now_s += step_s
            service.scrape()
            service.jobs()
            service.assess()


class CompiledHere:
    """Stands for the child that compiles ahead: decisions compile here, once for a worker."""

    def over(self) -> bool:
        return True

    def end(self) -> None:
        pass


@pytest.fixture
def rig(tmp_path, monkeypatch):
    monkeypatch.setattr(opening, "warm_up", lambda settings: CompiledHere())
    # A process full of tests has a tenth of a second of garbage to look through after each advice;
    # test_memory.py and daemons in processes of their own give memory back.
    monkeypatch.setattr("idlewatt.daemon.lean_loading.give_back", lambda: None)
    made = Rig(tmp_path)
    yield made
    for service in made.services:
        service.stop()
    made.server.shutdown()
    made.server.server_close()


class Process:
    """A real daemon in a process of its own, started from nothing or forked; its log is read as it is written."""

    def __init__(self, config: Path, *arguments: str, env: dict[str, str] | None = None,
                 from_nothing: bool = False) -> None:
        command = ("serve", f"--config.file={config}", *arguments)
        if not any(argument.startswith("--web.listen-address") for argument in arguments):
            command += ("--web.listen-address=127.0.0.1:0",)
        self.lines: list[str] = []
        environment = os.environ | (env or {})
        self.popen = subprocess.Popen(
            (sys.executable, "-m", "idlewatt.daemon.cli", *command), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
            text=True, env=environment, start_new_session=True) if from_nothing else Forked(command, environment)
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.popen.stderr:
            self.lines.append(line.rstrip("\n"))

    @property
    def log(self) -> str:
        return "\n".join(self.lines)

    @property
    def url(self) -> str:
        """Return where it listens, once it has said so."""
        return re.search(r"http://[\d.]+:\d+", self.said("event=listening"))[0]

    def said(self, text: str) -> str:
        """Return the first log line that holds ``text``, waiting for it."""
        self.until(lambda: text in self.log)
        return next(line for line in self.lines if text in line)

    def until(self, condition: Callable[[], object], timeout_s: float = 60.0) -> None:
        """Wait until the condition is true; fail with the log when the daemon ends or takes too long."""
        pause, deadline = Event(), time.monotonic() + timeout_s
        while not condition():
            assert self.popen.poll() is None, f"the daemon ended with {self.popen.returncode}:\n{self.log}"
            assert time.monotonic() < deadline, f"it never came to that; its log:\n{self.log}"
            pause.wait(0.02)

    def status(self, path: str, method: str = "GET") -> int:
        return requests.request(method, f"{self.url}{path}", timeout=60).status_code

    def page(self, path: str) -> str:
        return requests.get(f"{self.url}{path}", timeout=60).text

    def ready(self) -> None:
        self.until(lambda: self.status("/-/ready") == 200)

    def metric(self, series: str) -> float | None:
        """Return the value of one series of the metrics page."""
        found = re.search(rf"^{re.escape(series)} (\S+)$", self.page("/metrics"), re.MULTILINE)
        return float(found[1]) if found else None

    def ended(self, timeout_s: float = 60.0) -> int:
        """Return the exit status, waiting for the end."""
        status = self.popen.wait(timeout_s)
        self._reader.join(10)
        return status

    def stop(self) -> int:
        self.popen.terminate()
        return self.ended()

    def vanish(self) -> None:
        """End it and whatever it has started, at once."""
        with suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.kill()  # a forked one may not lead its group yet
        self.ended()
        self.popen.stderr.close()


@pytest.fixture
def configured(rig):
    """Return a function that writes the configuration of a brisk daemon on the simulated cluster, and its database."""
    def write(*, database: bool = True, **changes: str) -> Path:
        if database and "storage" not in changes:
            fresh_schema.lay(rig.folder / "idlewatt.db")
        brisk = {"cycles": "{scrape: 200ms, jobs: 200ms, assess: 200ms, advise: 200ms, record: 200ms}"}
        path = rig.folder / "idlewatt.yml"
        path.write_text(rig.text(**brisk | changes))
        return path

    return write


@pytest.fixture
def daemon():
    """Return a function that starts a daemon; every one is gone at the end of the test."""
    started: list[Process] = []

    def start(config: Path, *arguments: str, **options) -> Process:
        started.append(Process(config, *arguments, **options))
        return started[-1]

    yield start
    for process in started:
        process.vanish()
