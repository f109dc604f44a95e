"""Five thousand nodes: read through a Prometheus, beside scraping directly, and what one core carries."""

import json
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

HERE = Path(__file__).parent
PORT, SIZES, PERIOD_S = 21023, (1000, 5000), 15.0


def through_prometheus(nodes):
    """Return CPU seconds a round and MB at most, asking a Prometheus about so many nodes."""
    server = subprocess.Popen((sys.executable, HERE / "fleet.py", str(PORT), str(nodes)), stdout=subprocess.PIPE)
    try:
        assert server.stdout.readline() == b"ready\n"
        done = subprocess.run((sys.executable, HERE / "fleet_cycle.py", f"http://127.0.0.1:{PORT}", str(nodes), "5"),
                              capture_output=True, text=True, check=True, timeout=300)
    finally:
        server.kill()
        server.wait()
    found = json.loads(done.stdout)
    assert (found["gpus"], found["unmeasured"]) == (8 * nodes, 0)
    return statistics.median(found["cpu_s"][1:]), found["megabytes"]


def directly(farm, folder):
    """Return the same of scraping dcgm, node and ipmi pages of each node."""
    sources = [{"kind": kind, "static_configs": farm.labelled(number)}
               for number, kind in enumerate(("dcgm", "node", "ipmi"))]
    (folder / "farm.yml").write_text(yaml.safe_dump(
        {"storage": {"url": f"sqlite:///{folder / 'idlewatt.db'}"}, "sources": sources}))
    done = subprocess.run((sys.executable, HERE / "cycle.py", folder / "farm.yml", str(farm.nodes), "5"),
                          capture_output=True, text=True, check=True, timeout=300)
    found = json.loads(done.stdout)
    return statistics.median(found["cpu_s"][1:]), found["megabytes"]


@pytest.mark.timeout(900)
def test_five_thousand_nodes_through_a_prometheus_beside_direct_scraping(farm, tmp_path, capsys):
    rows = [(farm.nodes, "direct", *directly(farm, tmp_path))]
    rows += [(nodes, "prometheus", *through_prometheus(nodes)) for nodes in SIZES]
    with capsys.disabled():
        print(f"\n{'nodes':>6} {'source':<11} {'CPU-s a round':>13} {'MB at most':>11} {'nodes a core':>13}")
        for nodes, source, cpu_s, megabytes in rows:
            print(f"{nodes:>6} {source:<11} {cpu_s:>13.2f} {megabytes:>11.0f} {nodes * PERIOD_S / cpu_s:>13.0f}")
    of_five_thousand = next(cpu_s for nodes, _, cpu_s, _ in rows if nodes == max(SIZES))
    assert of_five_thousand < PERIOD_S, "one core keeps up with a round each period"
