"""What the daemon on the demo costs: memory at rest and over a simulated week; and how soon help answers."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import requests
from cost import slowness

from idlewatt.daemon.agents.scorer.agent import MEMBERS, save
from idlewatt.daemon.agents.scorer.network import SIZE
from idlewatt.daemon.cli import _parts, demo
from idlewatt.storage.ledger import Ledger
from idlewatt.storage.promotions import Decision, Promotion
from idlewatt.storage.records import ModelCard

MOST_MEGABYTES, MOST_GROWTH_MEGABYTES, MOST_HELP_S, MOST_FIRST_ADVICE_S = 250, 25, 0.3, 60
WEEK_S, SPEED, PORT = 7 * 86400, 10_080, 27_100


def daemon_of(folder: Path) -> int:
    """Return the process that serves the configuration of the folder."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"serve" in words and f"--config.file={folder / 'idlewatt.yml'}".encode() in words:
            return int(process.name)
    raise AssertionError("no daemon serves it")


def megabytes(pid: int, fact: str = "VmRSS") -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split(f"{fact}:")[1].split()[0]) / 1024


@pytest.fixture
def watched(tmp_path, request, monkeypatch):
    """The demo's cluster and daemon at a speed; yields the daemon's process and address."""
    speed, arenas = request.param
    if arenas:
        monkeypatch.setenv("MALLOC_ARENA_MAX", arenas)
    start_s = float(int(time.time()))
    site = demo.DemoPlan(tmp_path, 4, 1, speed, PORT, "slurm")
    with demo._simulation(site, start_s, []) as simulation:
        config = demo._write_config(site, simulation)
        with demo._daemon(config, PORT, speed, start_s, tmp_path, []) as url:
            yield daemon_of(tmp_path), url


def settle(url: str, seconds: float) -> None:
    """Let the daemon work for so long, and look at all it shows as people and Prometheus would."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for path in ("/", "/metrics", "/api/v1/waste", "/api/v1/recommendations"):
            requests.get(f"{url}{path}", timeout=10).raise_for_status()
        time.sleep(1)


def promote(folder: Path, url: str) -> None:
    """Make a scorer active that was never trained but is sure of itself, and wait until it advises."""
    weights = np.repeat(np.random.default_rng(1).normal(0, 0.1, (1, SIZE)), MEMBERS, axis=0)
    save(folder / "models" / "scorer" / "1", weights, ModelCard("scorer", "1", 0.0, 0, "", "", "", kind="scorer"))
    with Ledger.open(f"sqlite:///{folder / 'idlewatt.db'}") as ledger:
        ledger.decide(Promotion(time.time(), "scorer@1", Decision.PROMOTE, "operator", "to see what it costs"))
    while 'idlewatt_abstaining{policy="scorer@1"}' not in requests.get(f"{url}/metrics", timeout=10).text:
        time.sleep(0.5)  # its code is being compiled


@pytest.mark.parametrize("watched", [(60.0, ""), (60.0, "2")], indirect=True, ids=["as it is", "as the unit sets it"])
def test_the_daemon_on_the_demo_stays_small_and_knows_no_torch(watched, capsys):
    pid, url = watched
    settle(url, 20)
    found = megabytes(pid)
    with capsys.disabled():
        print(f"\ndaemon on the demo: {found:.0f} MB resident, {megabytes(pid, 'VmHWM'):.0f} MB at most "
              f"(bound {MOST_MEGABYTES}, ratio {found / MOST_MEGABYTES:.2f})")
    assert found < MOST_MEGABYTES
    assert "torch" not in Path(f"/proc/{pid}/maps").read_text()


@pytest.mark.parametrize("watched", [(60.0, "2")], indirect=True, ids=["as the unit sets it"])
def test_the_daemon_with_an_active_agent_stays_as_small(watched, tmp_path, capsys):
    pid, url = watched
    settle(url, 5)
    promote(tmp_path, url)
    settle(url, 20)
    found = megabytes(pid)
    with capsys.disabled():
        print(f"\nwith an active agent: {found:.0f} MB resident (bound {MOST_MEGABYTES}, "
              f"ratio {found / MOST_MEGABYTES:.2f})")
    assert 'idlewatt_abstaining{policy="scorer@1"} 0.0' in requests.get(f"{url}/metrics", timeout=10).text
    assert found < MOST_MEGABYTES
    assert "torch" not in Path(f"/proc/{pid}/maps").read_text()


@pytest.mark.parametrize("watched", [(SPEED, "2")], indirect=True, ids=["a week in a minute"])
def test_memory_is_flat_over_a_simulated_week_with_an_active_agent(watched, tmp_path, capsys):
    pid, url = watched
    promote(tmp_path, url)
    settle(url, 15)  # a day and a half: everything has been done at least once
    before = megabytes(pid)
    settle(url, WEEK_S / SPEED)
    grown = megabytes(pid) - before
    with capsys.disabled():
        print(f"\na simulated week of the demo: {before:.0f} MB {grown:+.1f} MB (bound {MOST_GROWTH_MEGABYTES:+d}, "
              f"ratio {grown / MOST_GROWTH_MEGABYTES:.2f})")
    assert grown < MOST_GROWTH_MEGABYTES


def test_four_nodes_have_their_first_advice_within_a_minute_of_a_start_without_machine_code(
        tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "machine-code"))
    monkeypatch.setattr(_parts, "READY_WITHIN_S", 900.0)  # slow cores are measured, too
    start_s, site = float(int(time.time())), demo.DemoPlan(tmp_path, 4, 1, 60.0, PORT, "slurm")
    with demo._simulation(site, start_s, []) as simulation:
        config = demo._write_config(site, simulation)
        began = time.monotonic()
        with demo._daemon(config, PORT, 60.0, start_s, tmp_path, []):
            took = time.monotonic() - began
    with capsys.disabled():
        print(f"\nfirst advice of a daemon that compiles all: {took:.0f} s (bound {MOST_FIRST_ADVICE_S} s, ratio "
              f"{took / MOST_FIRST_ADVICE_S:.2f}), on cores {slowness():.1f} times slower than usual ones")
    assert took < MOST_FIRST_ADVICE_S


def test_help_answers_at_once(capsys):
    command = (Path(sys.executable).with_name("idlewatt"), "--help")
    took = []
    for _ in range(7):
        began = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True, env=os.environ | {"COLUMNS": "80"})
        took.append(time.perf_counter() - began)
    with capsys.disabled():
        print(f"\nidlewatt --help: {min(took):.2f} s (bound {MOST_HELP_S} s, ratio {min(took) / MOST_HELP_S:.2f})")
    assert min(took) < MOST_HELP_S
