import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from idlewatt.daemon.policies import named
from idlewatt.daemon.replay import engine, timeline
from idlewatt.daemon.replay.cluster import Cluster, NodeEvent
from idlewatt.daemon.replay.outcome import utilization
from idlewatt.daemon.replay.power import PowerModel, energy, joules, occupation
from idlewatt.daemon.replay.state import ClusterState
from idlewatt.daemon.replay.workload import Workload
from idlewatt.storage.eligibility import Constraint

MODEL = PowerModel()
CLUSTER = Cluster.from_spec("3x4").with_events([NodeEvent(time, "node0001", kind)
                                                for time, kind in ((1050.0, "down"), (1400.0, "up"))])


def workload(seed, jobs=40, gap=20):
    random = np.random.default_rng(seed)
    submit = np.cumsum(random.integers(0, gap, jobs)) + 1000
    return Workload.of(submit, random.integers(0, 300, jobs), random.integers(1, 13, jobs), limit=400.0)


POLICIES = st.sampled_from(["fifo", "sjf-limit+best-fit+easy", "srtf", "random+random-fit+greedy", "wfp3"])


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 1000), POLICIES, st.sampled_from([0.0, 5.0]), st.sampled_from([np.inf, 60.0]))
def test_looking_on_changes_nothing_and_the_timeline_adds_up_to_the_run(seed, policy, overhead, delay):
    work = workload(seed)
    run, seen = timeline.follow(CLUSTER, work, named(policy), model=MODEL, seed=seed, preemption_s=overhead,
                              power_down_s=delay)
    alone = engine.run(CLUSTER, work, named(policy), seed=seed, preemption_s=overhead, power_down_s=delay)
    assert run.digest == alone.digest
    length = np.diff(seen.time)
    assert (seen.watts.T @ length).sum() == pytest.approx(energy(alone, MODEL).total, rel=1e-6)
    capacity = CLUSTER.gpus.sum() * length.sum()
    assert (seen.used * length).sum() * CLUSTER.gpus.sum() / capacity == pytest.approx(utilization(alone), rel=1e-6)
    assert seen.waiting[-1] == 0
    assert ((seen.used >= -1e-9) & (seen.used <= 1 + 1e-9)).all()


def test_a_timeline_stays_small_however_long_the_tail():
    work = Workload.of([0.0, 1.0], [1.0, 5e7], [1, 1])
    _, seen = timeline.follow(CLUSTER, work, named("fifo"), model=MODEL)
    assert len(seen.waiting) <= timeline.SAMPLES
    assert seen.time[-1] == pytest.approx(5e7, rel=0.01)


def test_an_empty_workload_has_an_empty_timeline():
    _, seen = timeline.follow(CLUSTER, Workload.of([], [], []), named("fifo"), model=MODEL)
    assert len(seen.waiting) == len(seen.used) == 0


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([np.inf, 60.0]), st.floats(0, 1e4))
def test_what_is_carried_on_to_a_later_end_is_what_a_later_look_would_have_found(seed, delay, more):
    run = engine.run(CLUSTER, workload(seed), named("fifo"), power_down_s=delay)
    until = run.state.now + more
    carried = joules(occupation(run).later(until), CLUSTER.gpus, MODEL)
    assert carried.total == pytest.approx(energy(run, MODEL, until=until).total, rel=1e-9)


def test_bars_never_overlap_and_hold_as_many_gpus_as_their_jobs(monkeypatch):
    run = engine.run(CLUSTER, workload(3), named("fifo"))
    bars = timeline.bars(run)
    for bar in bars:
        beside = bars[(bars["node"] == bar["node"]) & (bars["start"] < bar["end"]) & (bars["end"] > bar["start"])]
        beside = beside[(beside["slot"] < bar["slot"] + bar["gpus"]) & (beside["slot"] + beside["gpus"] > bar["slot"])]
        assert len(beside) == 1
    ran = np.flatnonzero(run.workload.run > 0)
    held = np.bincount(bars["job"], weights=bars["gpus"], minlength=len(run.workload))
    np.testing.assert_array_equal(held[ran], run.workload.gpus[ran])
    monkeypatch.setattr(timeline, "BARS", 12)
    assert 0 < len(np.unique(timeline.bars(run)["job"])) <= 12


def test_energies_between_moments_add_up_and_an_idle_cluster_draws_power():
    instants = (0.0, 500.0, 1500.0, 90000.0)
    run, drawn = timeline.energies(CLUSTER, workload(5), named("fifo"), instants, MODEL)
    assert drawn[0] == 0
    assert drawn[1] == pytest.approx(500 * (12 * MODEL.idle + 3 * MODEL.host))
    assert (np.diff(drawn) > 0).all()
    assert not np.isnan(run.end).any()


def test_what_a_look_ahead_knows_of_nodes_is_forgotten_when_reservations_change():
    state = ClusterState.of(CLUSTER, workload(1))
    state.arrays = state.arrays._replace(outlook=np.ones(9, np.int64))
    changes = [timeline.Reserved(1000.0, "node0001", "mine")]
    reserved_nodes = timeline.ReservedNodes(state, workload(1), CLUSTER, changes)
    reserved_nodes.proceed(lambda until: None, 1000.0)
    assert state.arrays.eligible[0].tolist() == [1, 0, 1]
    assert not state.arrays.outlook.any()


def test_a_job_whose_reservation_has_ended_for_good_starts_elsewhere_and_one_that_comes_again_is_waited_for():
    mine = Workload.of([150.0], [10.0], [4], eligible=[0], constraints=(Constraint(reservation="mine"),))
    cluster, once = Cluster.from_spec("2x4"), [timeline.Reserved(0.0, "node0001", "mine"),
                                               timeline.Reserved(100.0, "node0001", "")]
    again = [*once, timeline.Reserved(500.0, "node0000", "mine"), timeline.Reserved(900.0, "node0000", "")]
    runs = [timeline.replay(cluster, mine, named("fifo+first-fit"), changes) for changes in ((), once, again)]
    assert [run.start.tolist() for run in runs] == [[150.0], [150.0], [500.0]]
