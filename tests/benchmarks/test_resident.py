"""The memory of the whole daemon at 1,000 nodes of eight GPUs and 2,000 jobs that wait, over 3,000 cycles.

Some seconds of CPU a cycle; $IDLEWATT_BENCH_CYCLES makes it shorter, $IDLEWATT_BENCH_NODES smaller, where as many jobs
start and end in a minute as at the large site.
"""

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import yaml

HERE = Path(__file__).parent
SETTLED, SLURM_PORT = 300, 21_019
CYCLES = int(os.environ.get("IDLEWATT_BENCH_CYCLES", SETTLED + 3000))
MOST_MEGABYTES, MOST_SLOPE, A_DAY, TOLD = 300, 1.0, 5760, 100
"""MB; MB per 1,000 cycles; cycles a day; cycles between lines that tell how it goes."""


@pytest.fixture
def slurm(farm):
    command = (sys.executable, HERE / "site_in_time.py", str(SLURM_PORT), str(farm.nodes), str(int(time.time())))
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    yield f"http://127.0.0.1:{SLURM_PORT}"
    process.kill()
    process.wait()


def watched(farm, slurm: str, folder: Path) -> list[dict[str, float]]:
    """Return what the daemon told of itself as its cycles went by."""
    sources = [{"kind": kind, "static_configs": farm.labelled(number)}
               for number, kind in enumerate(("dcgm", "node", "ipmi"))]
    sources.append({"kind": "slurm_rest", "url": slurm})
    (folder / "site.yml").write_text(yaml.safe_dump(
        {"storage": {"url": f"sqlite:///{folder / 'idlewatt.db'}"}, "sources": sources}))
    command = (sys.executable, HERE / "resident.py", folder / "site.yml", slurm, str(CYCLES))
    rows = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True,
                          env=os.environ | {"MALLOC_ARENA_MAX": "2", "SLURM_JWT": "none"}) as process:
        for row in map(json.loads, process.stdout or ()):
            rows.append(row)
            if row["cycles"] % TOLD == 0:
                print(f"cycle {row['cycles']}: VmRSS {row['VmRSS']:.1f} MB, VmHWM {row['VmHWM']:.1f} MB, "
                      f"{row['cpu_s'] / row['cycles']:.2f} CPU-s a cycle, database {row['database'] / 1e6:.0f} MB, "
                      f"{slope(rows):+.2f} MB per 1,000 cycles", flush=True)
    assert process.returncode == 0
    return rows


def settled(rows: list[dict[str, float]]) -> list[dict[str, float]]:
    """Return what was told after the first cycles, in which everything is seen for the first time."""
    return [row for row in rows if row["cycles"] >= min(SETTLED, CYCLES // 2)]


def slope(rows: list[dict[str, float]]) -> float:
    """Return how fast the resident memory grows once settled, MB per 1,000 cycles; NaN as long as nobody can say."""
    found = settled(rows)
    if len(found) < 2:
        return float("nan")
    return 1000 * np.polyfit([row["cycles"] for row in found], [row["VmRSS"] for row in found], 1)[0]


@pytest.mark.timeout(8 * 3600)
def test_the_daemon_of_a_large_site_stays_small(farm, slurm, tmp_path, capsys):
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 32_768), most))  # as the unit sets it
    with capsys.disabled():
        rows = watched(farm, slurm, tmp_path)
    first, *_, last = settled(rows)
    grown = (last["database"] - first["database"]) / 1e6 * A_DAY / max(1, last["cycles"] - first["cycles"])
    largest = max(row["VmRSS"] for row in settled(rows))
    with capsys.disabled():
        print(f"\n{CYCLES} cycles of the whole daemon, {farm.nodes} nodes: VmRSS {largest:.0f} MB at most "
              f"(bound {MOST_MEGABYTES}, ratio {largest / MOST_MEGABYTES:.2f}), VmHWM {last['VmHWM']:.0f} MB, "
              f"slope {slope(rows):+.2f} MB per 1,000 cycles (bound {MOST_SLOPE:+.0f}); "
              f"{last['cpu_s'] / CYCLES:.2f} CPU-s a cycle; database {grown:.0f} MB a day")
    assert (last["gpus"], last["advised"]) == (8 * farm.nodes, 4 * farm.nodes)
    assert largest <= MOST_MEGABYTES
    assert slope(rows) <= MOST_SLOPE
