"""A booted systemd with the shipped unit installed, for tests of the daemon under its hardening."""

import json
import shutil
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import requests
import yaml
from cost import patient, pause, widened
from machine_code import taking

from idlewatt.daemon.replay.compiled import cache_folder

REPOSITORY = Path(__file__).parents[2]
SANDBOX = REPOSITORY / "tests/systemd/sandbox.sh"
PYTHON = f"/opt/python/bin/python3.{sys.version_info.minor}"
# A Python built with a shared library looks for it where it was built, which the unit may not see.
PROGRAM = f"""#!/bin/sh
export LD_LIBRARY_PATH=/opt/python/lib
export PYTHONPATH=/opt/idlewatt/lib:/opt/dependencies
exec {PYTHON} -m idlewatt.daemon.cli "$@"
"""
CACHE = "/var/cache/idlewatt"
COMPILED_THERE = "easy"
"""The module whose machine code no daemon is handed."""
Found = TypeVar("Found")
# What an administrator may change without touching the unit; a test does not wait a minute for a watchdog.
DROP_IN = """[Service]
RestartSec=1s
WatchdogSec={watchdog_s:.0f}s
"""


class Machine:
    """A booted systemd with the unit installed, and a port on which its daemon listens."""

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        self.folder, self.config = folder, yaml.safe_dump(dict(config))
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def boot(self, *shown: Path) -> None:
        """Boot, with Python and the package where the hardened unit can see them: it hides /home and /root.

        Folders that are ``shown`` can be read inside where they are outside.
        """
        program = self.folder.with_name(f"{self.folder.name}-program")
        program.mkdir()
        (program / "idlewatt").write_text(PROGRAM)
        (program / "idlewatt").chmod(0o755)
        program.chmod(0o755)
        bound: dict[str | Path, str | Path] = {
            sys.base_prefix: "/opt/python", sysconfig.get_path("purelib"): "/opt/dependencies",
            REPOSITORY: "/opt/idlewatt/lib/idlewatt", program: "/opt/idlewatt/bin",
            cache_folder(): "/opt/compiled", **{folder: folder for folder in shown}}
        subprocess.run([SANDBOX, "start", self.folder, *(f"{source}:{place}" for source, place in bound.items())],
                       check=True, timeout=900)

    def install(self) -> None:
        """Follow the steps of `idlewatt install-systemd --help`."""
        program = "/opt/idlewatt/bin/idlewatt"
        self.run(program, "install-systemd", "--program", program)
        self.write("/etc/idlewatt/config.yml", self.config)
        self.write("/etc/default/idlewatt", f'ARGS="--web.listen-address=127.0.0.1:{self.port}"')
        self.write("/etc/systemd/system/idlewatt.service.d/test.conf", DROP_IN.format(watchdog_s=widened(2)))
        self.run("systemd-sysusers")
        self.run("systemd-tmpfiles", "--create", "/etc/tmpfiles.d/idlewatt.conf")
        self.run("systemctl", "daemon-reload")

    def take_machine_code(self) -> None:
        """Hand the unit what this run's tests have compiled, as if it had been compiled there by an earlier start."""
        self.run("install", "--directory", "--owner=idlewatt", "--group=idlewatt", CACHE)
        self.run(PYTHON, *taking("/opt/compiled", CACHE, COMPILED_THERE, "/opt/idlewatt/lib/idlewatt/daemon"))
        self.run("chown", "--recursive", "idlewatt:idlewatt", CACHE)

    def machine_code(self) -> set[str]:
        """Return the files of machine code that there are, and when each was written."""
        return set(self.run("find", CACHE, "-name", "*.nbc", "-printf", "%f %T@\\n").splitlines())

    def stop(self) -> None:
        """End it, with all that it holds."""
        subprocess.run([SANDBOX, "stop", self.folder], check=True, timeout=900)
        shutil.rmtree(self.folder.with_name(f"{self.folder.name}-program"))

    def run(self, *argv: str, input: str | None = None) -> str:
        """Run a command inside as root and return what it prints."""
        done = subprocess.run([SANDBOX, "exec", self.folder, *argv], capture_output=True, text=True, timeout=900,
                              input=input)
        assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def write(self, path: str, text: str) -> None:
        """Write a file as an editor would: it keeps its owner and mode."""
        self.run("sh", "-c", 'mkdir -p "$(dirname "$1")" && cat > "$1"', "-", path, input=text)

    def show(self, name: str) -> str:
        """Return a property of the unit."""
        return self.run("systemctl", "show", "--property", name, "--value", "idlewatt")

    def hurry(self) -> bool:
        """Let what runs as the unit's user go before the other tests, for which it would wait: trainings give way."""
        self.run("sh", "-c", "renice -n -10 -u idlewatt || true")  # it fails where nothing of the user's runs any more
        return True

    def page(self) -> str:
        """Return the metrics; '' while the daemon gives none in time, as when it starts or trains on a busy machine."""
        try:
            return requests.get(f"{self.url}/metrics", timeout=60).text
        except (requests.ConnectionError, requests.Timeout):
            return ""

    def value(self, name: str) -> float:
        """Return the value of a metric without labels, or of one series; NaN while there is none."""
        return next((float(line.rpartition(" ")[2]) for line in self.page().splitlines()
                     if line.startswith(f"{name} ")), float("nan"))

    def series(self, name: str) -> list[str]:
        """Return the lines of a metric with labels."""
        return [line for line in self.page().splitlines() if line.startswith(f"{name}{{")]

    def ready(self) -> bool:
        """Tell whether the daemon answers that it is ready."""
        try:
            return requests.get(f"{self.url}/-/ready", timeout=60).ok
        except requests.ConnectionError:
            return False

    def advised(self) -> bool:
        """Tell whether the daemon advises: its policies are compiled."""
        try:
            return bool(self.advice())
        except requests.ConnectionError:
            return False

    def advice(self) -> list[dict[str, Any]]:
        """Return the recommendations."""
        return self.rows("recommendations")

    def rows(self, endpoint: str) -> list[dict[str, Any]]:
        """Return the rows of an endpoint of the API."""
        rows: list[dict[str, Any]] = requests.get(f"{self.url}/api/v1/{endpoint}", timeout=60).json()["data"]
        return rows

    def query(self, sql: str) -> list[list[Any]]:
        """Return what SQLite answers, beside the daemon."""
        script = ("import json, sqlite3; database = sqlite3.connect('/var/lib/idlewatt/idlewatt.db'); "
                  f"print(json.dumps(database.execute({sql!r}).fetchall()))")
        rows: list[list[Any]] = json.loads(self.run(PYTHON, "-c", script))
        return rows

    @staticmethod
    def wait_for(condition: Callable[[], Found], seconds: float = 180) -> Found:
        """Return the first truthy answer of the condition, within seconds of a usual machine that does nothing else."""
        began_s = time.monotonic()
        while not (found := condition()):
            assert time.monotonic() < began_s + patient(seconds), f"not within {seconds:g} s"
            pause(began_s)
        return found
