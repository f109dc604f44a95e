"""How fast a million jobs of plain CSV become columns."""

import time

import numpy as np
import pytest

from idlewatt.storage.traces import read_trace

JOBS = 1_000_000


@pytest.fixture(scope="module")
def million(tmp_path_factory):
    path = tmp_path_factory.mktemp("million") / "jobs.csv"
    random = np.random.default_rng(1)
    runs, sizes, users = (random.integers(1, high, JOBS).tolist() for high in (100_000, 9, 500))
    with path.open("w") as file:
        file.write("job,submit_s,run_s,gpus,limit_s,user,partition,cpus,mem_bytes,nodes\n")
        file.writelines(f"{job},{job // 3},{runs[job]},{sizes[job]},86400,u{users[job]},p{job % 3},8,17179869184,1\n"
                        for job in range(JOBS))
    return path


def test_a_million_jobs_are_read_in_two_seconds(million):
    best = min(timed(million) for _ in range(3))
    print(f"\nplain CSV: {JOBS / best:,.0f} jobs/s, {best:.2f} s for {JOBS:,}")
    assert best < 2


def timed(path):
    start = time.perf_counter()
    assert len(read_trace(path)) == JOBS
    return time.perf_counter() - start
