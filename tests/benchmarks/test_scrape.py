"""Scraping a thousand DGX servers costs less CPU than a real Prometheus spends on the same pages."""

import json
import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from idlewatt.exporters.dcgm import DcgmConfig
from idlewatt.exporters.ipmi import IpmiConfig
from idlewatt.exporters.node import NodeConfig

HERE = Path(__file__).parent
NODES, PORT, PROMETHEUS_PORT, INTERVAL = 1000, 21017, 21018, 10
SOURCES = {"dcgm": DcgmConfig, "node": NodeConfig, "ipmi": IpmiConfig}
MOST_MEGABYTES = 400


def addresses(kind: int) -> list[str]:
    return [f"127.{1 + node // 200}.{1 + node % 200}.{1 + kind}:{PORT}" for node in range(NODES)]


@pytest.fixture
def farm():
    command = [sys.executable, HERE / "farm.py", str(PORT), str(NODES), HERE.parent / "recorded/node_exporter.prom"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    yield
    process.kill()
    process.wait()


@pytest.fixture
def prometheus(farm, tmp_path):
    jobs = [{"job_name": name, "static_configs": [{"targets": addresses(kind)}]} for kind, name in enumerate(SOURCES)]
    config = {"global": {"scrape_interval": f"{INTERVAL}s"}, "scrape_configs": jobs}
    (tmp_path / "prometheus.yml").write_text(json.dumps(config))
    command = [shutil.which("prometheus"), f"--config.file={tmp_path}/prometheus.yml",
               f"--storage.tsdb.path={tmp_path}",
               f"--web.listen-address=127.0.0.1:{PROMETHEUS_PORT}", "--log.level=error"]
    process = subprocess.Popen(command)
    yield process
    process.send_signal(signal.SIGTERM)
    process.wait()


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def samples_scraped() -> float:
    query = f"http://127.0.0.1:{PROMETHEUS_PORT}/api/v1/query?query=sum(scrape_samples_scraped)"
    with urllib.request.urlopen(query) as answer:
        result = json.load(answer)["data"]["result"]
    return float(result[0]["value"][1]) if result else 0.0


def cpu_per_round_of_prometheus(process: subprocess.Popen) -> float:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:  # until every target was scraped and the series exist
        time.sleep(2)
        try:
            if samples_scraped() > NODES * 1200:
                break
        except OSError:
            continue
    rounds = []
    for _ in range(3):
        before = cpu_seconds(process.pid)
        time.sleep(INTERVAL)
        rounds.append(cpu_seconds(process.pid) - before)
    return statistics.median(rounds)


def cpu_of_round(sources) -> float:
    before = time.process_time()
    boards, nodes, watts = (source.read() for source in sources)
    spent = time.process_time() - before
    assert len(boards.gpus) == 8 * NODES
    assert len(nodes.nodes) == len(watts.nodes) == NODES
    return spent


def labelled(kind: int) -> list[dict[str, object]]:
    return [{"targets": [target], "labels": {"node": f"dgx-{node:04d}"}} for node, target in enumerate(addresses(kind))]


def test_a_round_over_a_thousand_servers_costs_less_than_prometheus_spends(prometheus, capsys):
    theirs = cpu_per_round_of_prometheus(prometheus)
    prometheus.send_signal(signal.SIGSTOP)
    sources = [config(static_configs=labelled(kind)).build(time.time) for kind, config in enumerate(SOURCES.values())]
    first, *rounds = [cpu_of_round(sources) for _ in range(6)]
    prometheus.send_signal(signal.SIGCONT)
    ours = statistics.median(rounds)
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    for source in sources:
        source.close()
    with capsys.disabled():
        print(f"\n{NODES} nodes: {ours:.2f} CPU-s a round (the first {first:.2f}), Prometheus {theirs:.2f}, "
              f"ratio {ours / theirs:.2f}; {megabytes:.0f} MB resident at most")
    assert ours <= theirs
    assert megabytes < MOST_MEGABYTES
