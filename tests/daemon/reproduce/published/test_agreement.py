"""Our own engine gives every job the start that the published simulator's rules give it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idlewatt.daemon.policies import named
from idlewatt.daemon.replay import engine
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.workload import Workload
from idlewatt.daemon.reproduce.published.helios import HeliosJob, philly, replay, venus

POLICIES = [("fifo", "fifo+best-fit"), ("sjf", "sjf-oracle+best-fit")]


def starts(jobs, nodes, published, ours):
    """Return the starts under the published rules and under our engine."""
    jobs = sorted(jobs, key=lambda job: (job.submit_s, job.number))
    columns = zip(*[(job.submit_s, job.run_s, job.gpus) for job in jobs], strict=True)
    run = engine.run(Cluster.from_spec(f"{nodes}x8"), Workload.of(*columns), named(ours))
    replay(jobs, nodes, published)
    return [job.start_s for job in jobs], np.asarray(run.start).tolist()


@pytest.mark.parametrize(("published", "ours"), POLICIES)
@pytest.mark.parametrize(("load", "vc", "nodes"), [(philly, "7f04ca", 32), (philly, "0e4a51", 32), (venus, "vcvGl", 20),
                                                   (venus, "vcvlY", 2)])
def test_every_published_job_starts_at_the_same_second(traces, load, vc, nodes, published, ours):
    expected, found = starts(load(traces, vc), nodes, published, ours)
    assert found == expected


@pytest.mark.parametrize(("published", "ours"), POLICIES)
@settings(max_examples=25, deadline=None)
@given(jobs=st.lists(st.tuples(st.integers(0, 200), st.integers(1, 90), st.sampled_from([1, 2, 3, 4, 6, 8, 16, 24])),
                     min_size=1, max_size=30))
def test_any_jobs_start_at_the_same_second(published, ours, jobs):
    made = [HeliosJob(submit, number, gpus, run) for number, (submit, run, gpus) in enumerate(jobs)]
    expected, found = starts(made, 3, published, ours)
    assert found == expected
