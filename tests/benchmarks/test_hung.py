"""With 30 % of a thousand nodes hung on all ports, the others are seen as if nothing had happened.

Runs go one after the other: side by side they take each other's cores and caches, and CPU is what is compared. Each
takes some seven periods, which ``IDLEWATT_BENCH_PERIOD`` sets in seconds, and is told of as it ends. What was seen is
kept in the folder that ``IDLEWATT_BENCH_HUNG`` names, if any, so that whoever is interrupted goes on from there.
"""

import json
import os
import random
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

HERE = Path(__file__).parent
NODES, PORT, SAMPLES, DRAWS, SHARE = 1000, 21019, 6, 5, 0.3
PERIOD_S = int(os.environ.get("IDLEWATT_BENCH_PERIOD", "15"))
MOST_WATTS, MOST_CPU, ADVISED_S, MOST_MEGABYTES, STOPPED_S = 1.0, 1.10, 60.0, 400, 3.0


@contextmanager
def farm(port, hung):
    """Serve the nodes' pages on a port while a file says who hangs."""
    page = HERE.parent / "recorded/node_exporter.prom"
    process = subprocess.Popen((sys.executable, HERE / "farm.py", str(port), str(NODES), page, hung),
                               stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"ready\n"
        yield
    finally:
        process.kill()
        process.wait()


def configured(folder, run, port):
    """Return a configuration with a database of its own."""
    sources = [{"kind": kind, "static_configs": [
        {"targets": [f"127.{1 + node // 200}.{1 + node % 200}.{1 + number}:{port}"],
         "labels": {"node": f"dgx-{node:04d}"}} for node in range(NODES)]}
        for number, kind in enumerate(("dcgm", "node", "ipmi"))]
    path = folder / f"{run}.yml"
    path.write_text(yaml.safe_dump({
        "storage": {"url": f"sqlite:///{folder / run}.db"}, "sources": sources,
        "cycles": dict.fromkeys(("scrape", "assess"), f"{PERIOD_S}s")}))
    return path


def watch(folder, run, numbers, samples=SAMPLES):
    """Start a daemon while these nodes hang; return what it saw, or what was seen by a run before."""
    seen = folder / f"{run}-{PERIOD_S}.seen"
    if seen.exists():
        return json.loads(seen.read_text())
    hung = folder / f"{run}.json"
    hung.write_text(json.dumps(numbers))
    for left_over in folder.glob(f"{run}.db*"):
        left_over.unlink()
    with farm(PORT, hung):
        done = subprocess.run((sys.executable, HERE / "hung.py", configured(folder, run, PORT), str(NODES),
                               str(samples), hung), capture_output=True, text=True, check=False,
                              timeout=300 + 3 * samples * PERIOD_S)
    assert done.returncode == 0, done.stderr[-3000:]
    seen.write_text(done.stdout)
    return json.loads(done.stdout)


def difference(seen, whole, hung):
    """Return the largest difference of a healthy node's class in watts, from the third sample on."""
    names = [f"dgx-{number:04d}" for number in range(NODES) if number not in hung]
    return max(abs(ours["watts"].get(name, {}).get(power_class, 0.0) - theirs["watts"][name].get(power_class, 0.0))
               for ours, theirs in zip(seen["samples"][2:], whole["samples"][2:], strict=False) for name in names
               for power_class in theirs["watts"][name].keys() | ours["watts"].get(name, {}).keys())


@pytest.mark.timeout(7200)
def test_three_in_ten_nodes_that_hang_cost_only_themselves(tmp_path, capsys):
    folder = Path(os.environ.get("IDLEWATT_BENCH_HUNG", tmp_path))
    watch(folder, "warm", [], 1)  # compiled code and page caches are there for all that follow
    whole, found = watch(folder, "whole", []), []
    with capsys.disabled():
        print("", told("none hung", whole, whole), sep="\n", flush=True)
        for seed in range(DRAWS):
            hung = sorted(random.Random(seed).sample(range(NODES), round(SHARE * NODES)))
            seen = watch(folder, f"draw{seed}", hung)
            found.append((difference(seen, whole, set(hung)), seen))
            print(told(f"{len(hung)} of {NODES} hung, draw {seed}: differs by {found[-1][0]:.3f} W", seen, whole),
                  flush=True)
    for differs, seen in found:
        assert differs <= MOST_WATTS
        assert max(sample["age_p99_s"] for sample in seen["samples"][2:]) <= 2 * PERIOD_S
        assert seen["cpu"] < MOST_CPU * whole["cpu"]
        assert seen["advised_s"] < ADVISED_S
        assert seen["megabytes"] < MOST_MEGABYTES
        assert seen["stopped_s"] < STOPPED_S
        assert not any(seen["overruns"].get(name) for name in ("scrape", "jobs"))


def told(what, seen, whole):
    """Return the figures of a run in one line."""
    oldest = max(sample["age_p99_s"] for sample in seen["samples"][2:])
    return (f"{what}; age p99 {oldest:.1f} s (bound {2 * PERIOD_S}), CPU {seen['cpu']:.3f} of a core "
            f"(x{seen['cpu'] / whole['cpu']:.2f}, bound {MOST_CPU}), first advice {seen['advised_s']:.1f} s (bound "
            f"{ADVISED_S:.0f}), stop {seen['stopped_s']:.2f} s, at most {seen['megabytes']:.0f} MB, "
            f"{seen['descriptors']} descriptors, {seen['threads']} threads, overruns {seen['overruns']}")
