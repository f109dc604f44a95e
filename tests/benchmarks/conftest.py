"""A thousand DGX servers on loopback, and a real Prometheus that scrapes them."""

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from spent import cpu_seconds

HERE = Path(__file__).parent
NODES = int(os.environ.get("IDLEWATT_BENCH_NODES", "1000"))
PORT, PROMETHEUS_PORT, INTERVAL = 21017, 21018, 10
KINDS = ("dcgm", "node", "ipmi")


class Farm:
    """The servers' exporters, each at its own address."""

    nodes = NODES

    def addresses(self, kind: int) -> list[str]:
        return [f"127.{1 + node // 200}.{1 + node % 200}.{1 + kind}:{PORT}" for node in range(NODES)]

    def labelled(self, kind: int) -> list[dict[str, object]]:
        """Return target groups that name the node of each address."""
        return [{"targets": [target], "labels": {"node": f"dgx-{node:04d}"}}
                for node, target in enumerate(self.addresses(kind))]


class Prometheus:
    """A Prometheus that scrapes the farm every ten seconds."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def cpu_per_round(self) -> float:
        """Return the CPU seconds of a round over all targets, the median of three, once the series exist."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not self._settled():
            time.sleep(2)
        rounds = []
        for _ in range(3):
            before = cpu_seconds(self._process.pid)
            time.sleep(INTERVAL)
            rounds.append(cpu_seconds(self._process.pid) - before)
        return statistics.median(rounds)

    def pause(self) -> None:
        """Stand still, so that others can be timed."""
        self._process.send_signal(signal.SIGSTOP)

    @staticmethod
    def _settled() -> bool:
        query = f"http://127.0.0.1:{PROMETHEUS_PORT}/api/v1/query?query=sum(scrape_samples_scraped)"
        try:
            with urllib.request.urlopen(query) as answer:
                result = json.load(answer)["data"]["result"]
        except OSError:
            return False
        return bool(result) and float(result[0]["value"][1]) > NODES * 1200


@pytest.fixture
def farm():
    command = [sys.executable, HERE / "farm.py", str(PORT), str(NODES), HERE.parent / "recorded/node_exporter.prom"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    yield Farm()
    process.kill()
    process.wait()


@pytest.fixture
def prometheus(farm, tmp_path):
    jobs = [{"job_name": name, "static_configs": [{"targets": farm.addresses(kind)}]}
            for kind, name in enumerate(KINDS)]
    config = {"global": {"scrape_interval": f"{INTERVAL}s"}, "scrape_configs": jobs}
    (tmp_path / "prometheus.yml").write_text(json.dumps(config))
    command = [shutil.which("prometheus"), f"--config.file={tmp_path}/prometheus.yml",
               f"--storage.tsdb.path={tmp_path}",
               f"--web.listen-address=127.0.0.1:{PROMETHEUS_PORT}", "--log.level=error"]
    process = subprocess.Popen(command)
    yield Prometheus(process)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGCONT)
    process.wait()
