"""Answers on which independent simulators agree to the cent.

Node level: HeliosArtifact and Lucid; count only: AccaSim, CQSim, deep-batch-scheduler, SimPy and Tiresias.
"""

import pytest
from synthetic import synthetic

from idlewatt.daemon.policies import named
from idlewatt.daemon.replay import engine
from idlewatt.daemon.replay.cluster import Cluster


@pytest.mark.parametrize(("jobs", "load", "fifo", "sjf", "count_only"), [
    (10_000, 0.95, 4363.97, 2360.30, 2462.59), (10_000, 1.1, 10475.07, 2665.60, 6634.95),
    (100_000, 0.95, 19107.10, 2666.12, 5313.41)])
def test_mean_completion_times_equal_those_of_other_simulators_to_the_cent(jobs, load, fifo, sjf, count_only):
    workload = synthetic(jobs, load)
    for spec, policy, expected in (("64x8", "fifo", fifo), ("64x8", "sjf-oracle", sjf), ("1x512", "fifo", count_only)):
        run = engine.run(Cluster.from_spec(spec), workload, named(policy))
        assert round(float((run.end - workload.submit).mean()), 2) == expected


def test_backfilling_helps_and_keeps_the_reservation_of_the_first_in_line():
    workload = synthetic(10_000, 0.95)
    cluster = Cluster.from_spec("64x8")
    plain, easy = (engine.run(cluster, workload, named(name)) for name in ("fifo", "fifo+easy"))
    assert (easy.end - workload.submit).mean() < 0.6 * (plain.end - workload.submit).mean()
