"""Nodes that are powered down: who needs one waits until it is up, and what it drew meanwhile."""

import numpy as np

from idlewatt.daemon.policies import named
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.engine import run
from idlewatt.daemon.replay.power import occupation
from idlewatt.daemon.replay.timeline import begun, proceed
from idlewatt.daemon.replay.workload import Workload

JOBS = Workload.of([0.0, 5000.0, 5100.0], [100.0, 1000.0, 1000.0], [8, 4, 4])


def replayed(**terms):
    return run(Cluster.from_spec("1x8"), JOBS, named("fifo"), **terms)


def test_a_job_waits_on_its_nodes_until_what_was_powered_down_is_up():
    assert replayed(power_down_s=1800.0, wake_s=300.0).end.tolist() == [100.0, 6300.0, 6300.0]
    assert replayed(power_down_s=1800.0).end.tolist() == [100.0, 6000.0, 6100.0]
    assert replayed(wake_s=300.0).end.tolist() == [100.0, 6000.0, 6100.0]


def test_a_node_that_comes_up_is_counted_and_draws_what_a_busy_one_does():
    done = replayed(power_down_s=1800.0, wake_s=300.0)
    spent = occupation(done)
    assert done.state.arrays.meters.woken.tolist() == [1]
    assert (spent.busy, spent.empty, spent.down) == (1400.0, 1800.0, 3100.0)


def test_a_node_is_down_from_when_somebody_powers_it_down():
    done, event_list = begun(Cluster.from_spec("1x8"), JOBS, named("fifo"), wake_s=300.0)
    proceed(done.state, event_list, named("fifo"), 1000.0)
    done.state.arrays.meters.slept = 1000.0
    assert occupation(done, 1500.0).down.tolist() == [500.0]
    proceed(done.state, event_list, named("fifo"), np.inf)
    assert done.end.tolist() == [100.0, 6300.0, 6300.0]
    assert occupation(done).down.tolist() == [4000.0]
