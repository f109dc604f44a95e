"""A whole cycle over a thousand DGX servers costs less CPU than a real Prometheus spends on scraping them."""

import json
import statistics
import subprocess
import sys
from pathlib import Path

import yaml

MOST_MEGABYTES = 400
MOST_SERIES = 25_000
"""Of 1,000 nodes of eight GPUs: a state for each GPU, and for each node its power, waste and GPUs by state."""


def test_fetching_parsing_and_assessing_a_thousand_servers(farm, prometheus, tmp_path, capsys):
    theirs = prometheus.cpu_per_round()
    prometheus.pause()
    sources = [{"kind": kind, "static_configs": farm.labelled(number)}
               for number, kind in enumerate(("dcgm", "node", "ipmi"))]
    (tmp_path / "farm.yml").write_text(yaml.safe_dump(
        {"storage": {"url": f"sqlite:///{tmp_path / 'idlewatt.db'}"}, "sources": sources}))
    done = subprocess.run((sys.executable, Path(__file__).with_name("cycle.py"), tmp_path / "farm.yml",
                           str(farm.nodes), "6"), capture_output=True, text=True, check=True, timeout=100)
    found = json.loads(done.stdout)
    first, *rounds = found["cpu_s"]
    ours = statistics.median(rounds)
    with capsys.disabled():
        print(f"\ncycle over {farm.nodes} nodes: {ours:.2f} CPU-s (the first {first:.2f}), Prometheus {theirs:.2f}, "
              f"ratio {ours / theirs:.2f} (bound 1.00); {found['megabytes']:.0f} MB resident at most "
              f"(bound {MOST_MEGABYTES}, ratio {found['megabytes'] / MOST_MEGABYTES:.2f})")
        print(f"series on /metrics with 2,000 jobs that wait, by waste.job_series: {found['series']}")
    none, ten, hundred = (found["series"][number] for number in ("0", "10", "100"))
    assert (ten - none, hundred - none) == (3 * 10, 3 * 100)
    assert none < MOST_SERIES
    assert (found["gpus"], found["nodes"], found["unmeasured"]) == (8 * farm.nodes, farm.nodes, 0)
    assert abs(found["unaccounted"]) < 1e-3
    assert ours <= theirs
    assert found["megabytes"] < MOST_MEGABYTES
