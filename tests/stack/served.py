"""The daemon under test: a child process, met as an operator meets it, by its API, page, database and signals."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests
import yaml
from cost import patient
from prometheus_client.parser import text_string_to_metric_families

from idlewatt.storage.history import History
from idlewatt.storage.reading import HistoryReader

UP_WITHIN_S = 120
"""The first start compiles the policies, on a machine that may be busy."""


class Daemon:
    """One configuration and the process that runs it, which may be started again and again."""

    def __init__(self, folder: Path, config: dict[str, Any], address: str) -> None:
        self.url, self._address = f"http://{address}", address
        self._config, self._log = folder / "idlewatt.yml", folder / "daemon.log"
        self._config.write_text(yaml.safe_dump(config))
        self._storage = config["storage"]["url"]
        self._process: subprocess.Popen[bytes] | None = None
        self.started_s: float | None = None
        """When it was started first."""
        self.seen_s: float | None = None
        """When it had first seen the cluster."""

    def start(self) -> None:
        """Start and wait until it has seen the cluster."""
        self.started_s = self.started_s or time.time()
        with self._log.open("ab") as log:
            began = log.tell()
            self._process = subprocess.Popen(
                (sys.executable, "-m", "idlewatt.daemon.cli", "serve", f"--config.file={self._config}",
                 f"--web.listen-address={self._address}"), stdout=log, stderr=log)
        deadline = time.monotonic() + patient(UP_WITHIN_S)
        while b"event=ready" not in self._log.read_bytes()[began:] or not self._has_read():
            assert self._process.poll() is None, self.log()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.1)
        self.seen_s = self.seen_s or time.time()

    def _has_read(self) -> bool:
        """Tell whether it has read its scheduler and assessed: it serves before."""
        return requests.get(f"{self.url}/-/ready", timeout=60).ok

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal that ends it; return the exit status."""
        self._process.send_signal(number)
        return self._process.wait(patient(20))

    @contextmanager
    def looking_away(self) -> Iterator[None]:
        """Stop the process for a while, so that something happens between two of its glances."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Leave no process behind."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(20)

    def rows(self, endpoint: str, **filters: str) -> list[dict[str, Any]]:
        """Return the rows of an endpoint of the API."""
        answer = requests.get(f"{self.url}/api/v1/{endpoint}", params=filters, timeout=60)
        assert answer.ok, answer.text
        return answer.json()["data"]

    def page(self) -> str:
        """Return the metrics page."""
        return requests.get(f"{self.url}/metrics", timeout=60).text

    def samples(self, name: str) -> list[tuple[dict[str, str], float]]:
        """Return labels and value of every sample of that name."""
        return [(sample.labels, sample.value) for family in text_string_to_metric_families(self.page())
                for sample in family.samples if sample.name == name]

    def value(self, name: str, **labels: str) -> float | None:
        """Return the one sample of that name whose labels include these."""
        found = [value for own, value in self.samples(name) if labels.items() <= own.items()]
        return found[0] if len(found) == 1 else None

    def history(self) -> HistoryReader:
        """Return the database, opened beside the daemon."""
        return History.read_only(self._storage)

    @property
    def database(self) -> str:
        """Return the path of its SQLite file."""
        return self._storage.removeprefix("sqlite:///")

    def log(self) -> str:
        """Return what it logged."""
        return self._log.read_text(errors="replace")
