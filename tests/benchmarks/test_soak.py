"""The served daemon beside a busy site whose servers flap: what it takes of its machine, minute by minute.

A thousand DGX nodes, 2,000 waiting jobs, twenty starts a minute; each half minute another 5 % of the nodes hang on all
ports. ``IDLEWATT_SOAK_MINUTES`` says for how long, 10 unless told.
"""

import json
import os
import random
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import yaml
from spent import cpu_seconds

HERE = Path(__file__).parent
NODES, FLAPPING = 1000, 50
PAGES_PORT, SLURM_PORT, OUR_PORT = 21024, 21025, 21026
MINUTES = float(os.environ.get("IDLEWATT_SOAK_MINUTES", "10"))
MOST_MEGABYTES, MOST_DESCRIPTORS, SLOWEST_S = 300, 4096, 1.0


@pytest.fixture
def site(tmp_path):
    """The pages of the nodes and Slurm's REST API, and a function that lets other nodes hang."""
    hung = tmp_path / "hung.json"
    hung.write_text("[]")
    recorded = HERE.parent / "recorded/node_exporter.prom"
    farm = subprocess.Popen((sys.executable, HERE / "farm.py", str(PAGES_PORT), str(NODES), recorded, hung),
                            stdout=subprocess.PIPE)
    slurm = subprocess.Popen((sys.executable, HERE / "site_in_time.py", str(SLURM_PORT), str(NODES), str(time.time())),
                             stdout=subprocess.PIPE)
    assert (farm.stdout.readline(), slurm.stdout.readline()) == (b"ready\n", b"ready\n")

    def flap(numbers):
        hung.write_text(json.dumps(numbers))
        farm.send_signal(1)

    yield flap
    for process in (farm, slurm):
        process.kill()
        process.wait()


@pytest.fixture
def daemon(site, tmp_path):
    """The daemon as the unit starts it, and the folder of its database."""
    sources = [{"kind": kind, "static_configs": [
        {"targets": [f"127.{1 + node // 200}.{1 + node % 200}.{1 + number}:{PAGES_PORT}"],
         "labels": {"node": f"dgx-{node:04d}"}} for node in range(NODES)]}
        for number, kind in enumerate(("dcgm", "node", "ipmi"))]
    sources.append({"kind": "slurm_rest", "url": f"http://127.0.0.1:{SLURM_PORT}"})
    (tmp_path / "config.yml").write_text(yaml.safe_dump(
        {"storage": {"url": f"sqlite:///{tmp_path}/idlewatt.db"}, "sources": sources}))
    process = subprocess.Popen((sys.executable, "-m", "idlewatt.daemon.cli", "serve", "--config.file",
                                tmp_path / "config.yml", f"--web.listen-address=127.0.0.1:{OUR_PORT}"),
                               stderr=(tmp_path / "log").open("w"), env=os.environ | {"MALLOC_ARENA_MAX": "2"})
    yield process
    process.terminate()
    process.wait(30)


def answer(path):
    """Return the body of one of our pages and the seconds that it took; None while nobody answers."""
    began = time.monotonic()
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{OUR_PORT}/{path}", timeout=30) as reply:
            return reply.read(), time.monotonic() - began
    except urllib.error.HTTPError as error:
        return error.read(), time.monotonic() - began
    except OSError:
        return None, time.monotonic() - began


def megabytes(pid, name):
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split(f"{name}:")[1].split()[0]) / 1024


def database_bytes(folder):
    return sum(path.stat().st_size for path in folder.glob("idlewatt.db*"))


def minute(site, draw, pid):
    """Let a minute pass on the site while Prometheus scrapes us; return how long its scrapes took."""
    latencies, ends = [], time.monotonic() + 60
    for second in range(60):
        if second % 30 == 0:
            site(draw.sample(range(NODES), FLAPPING))
        urllib.request.urlopen(f"http://127.0.0.1:{SLURM_PORT}/step?s=1", timeout=30).read()
        if second % 15 == 7:
            latencies.append(answer("metrics")[1])
        time.sleep(max(0.0, ends - 60 + second + 1 - time.monotonic()))
    return latencies


@pytest.mark.timeout(60 * MINUTES + 600)
def test_a_busy_site_whose_servers_flap(site, daemon, tmp_path, capsys):
    deadline = time.monotonic() + 120
    while (answer("-/ready")[0] or b"") != b"idlewatt is ready.\n":
        assert time.monotonic() < deadline, answer("-/ready")
        time.sleep(0.5)
    draw, rows, slowest = random.Random(1), [], []
    for _ in range(round(MINUTES)):
        cpu, size = cpu_seconds(daemon.pid), database_bytes(tmp_path)
        slowest += minute(site, draw, daemon.pid)
        rows.append(((cpu_seconds(daemon.pid) - cpu) / 60, megabytes(daemon.pid, "VmRSS"),
                     megabytes(daemon.pid, "VmHWM"), len(os.listdir(f"/proc/{daemon.pid}/fd")),
                     (database_bytes(tmp_path) - size) / 2**20, max(slowest[-4:])))
    with capsys.disabled():
        print("\nminute    CPU   VmRSS   VmHWM descriptors  database  /metrics")
        for number, (cpu, resident, most, descriptors, growth, latency) in enumerate(rows, 1):
            print(f"{number:>6} {cpu:>6.2f} {resident:>5.0f}MB {most:>5.0f}MB {descriptors:>11} {growth:>+7.2f}MB "
                  f"{latency:>8.2f}s")
        print(f"/metrics: median {statistics.median(slowest):.3f} s, slowest {max(slowest):.3f} s")
    assert max(row[2] for row in rows) <= MOST_MEGABYTES
    assert max(row[3] for row in rows) <= MOST_DESCRIPTORS
    assert statistics.median(slowest) < SLOWEST_S
