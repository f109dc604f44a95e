"""Preemption in the replay of Slurm's own policy."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from idlewatt.daemon.policies import named
from idlewatt.daemon.replay import engine
from idlewatt.daemon.replay.cluster import Cluster, NodeEvent
from idlewatt.daemon.replay.priority.preemption import CANCELLED, KEPT, REQUEUED, Group, SchedulerPreemption
from idlewatt.daemon.replay.priority.site import Scheduling
from idlewatt.daemon.replay.workload import Charged, Workload
from idlewatt.daemon.settings.priority import BackfillSettings, PrioritySettings

pytestmark = pytest.mark.timeout(900)  # the walk that preempts is compiled here, beside others that compile
OTHER_ORDERS = pytest.mark.long  # a second walk is compiled for them
POLICY = "multifactor+slurm-placement+slurm-backfill"
HIGH = Group(1.0, KEPT, frozenset({"low"}))


def jobs(*rows, **more):
    """Return a workload of rows (submitted, seconds, GPUs, QOS)."""
    submit, run, gpus, qos = zip(*rows, strict=True)
    return Workload.of(submit, run, gpus, limit=more.pop("limit", run),
                       charged=Charged(("",) * len(rows), qos, np.zeros(len(rows))), **more)


def replay(cluster, workload, becomes=REQUEUED, groups=None, order="multifactor", until=np.inf, **more):
    known = groups or {"high": HIGH, "low": Group(0.0, becomes)}
    preemption = SchedulerPreemption("qos", known, **{"returns_s": 121.0, **more})
    scheduling = Scheduling(preemption=preemption, backfill=BackfillSettings(interval_s=30.0, resolution_s=1),
                            priority=PrioritySettings(age=1000.0, calc_period_s=10.0))
    site = Cluster.from_spec(cluster) if isinstance(cluster, str) else cluster
    return engine.run(replace(site, scheduling=scheduling), workload,
                      named(POLICY.replace("multifactor", order)), until=until)


def test_a_requeued_job_begins_anew_and_not_before_its_credential_is_over():
    run = replay("1x4", jobs((0, 1000, 4, "low"), (10, 50, 4, "high")))

    assert run.start.tolist() == [0, 10]
    assert run.end.tolist() == [10 + 121 + 1000, 60]  # free from 60 on, and its 10 s are lost
    assert run.state.arrays.jobs.preempted.tolist() == [1, 0]


def test_a_cancelled_job_is_over():
    run = replay("1x4", jobs((0, 1000, 4, "low"), (10, 50, 4, "high")), CANCELLED)

    assert run.end.tolist() == [10, 60]
    assert run.state.arrays.jobs.preempted.tolist() == [1, 0]


def test_whoever_would_stay_is_waited_for():
    run = replay("1x4", jobs((0, 1000, 4, "low"), (10, 50, 4, "high")), KEPT)

    assert run.start.tolist() == [0, 1000]


def test_nobody_is_preempted_before_he_has_run_for_his_time():
    run = replay("1x4", jobs((0, 1000, 4, "low"), (10, 50, 4, "high"), (100, 50, 1, "low")), exempt_s={"low": 95.0})

    assert run.start.tolist()[:2] == [0, 100]  # the first look after 95 s


def test_a_walk_follows_when_a_node_comes_back_though_no_job_came_or_ended():
    rows = jobs((0, 36000, 4, "low"), (10, 100, 8, "low"), (20, 3600, 4, "low"))
    cluster = Cluster.from_spec("2x4").with_events([NodeEvent(0, "node0001", "down"), NodeEvent(100, "node0001", "up")])

    assert replay(cluster, rows).start.tolist() == [0, 36000, 100]


def test_only_as_many_go_as_hold_nodes_that_are_wanted():
    run = replay("3x4", jobs((0, 1000, 4, "low"), (0, 1000, 4, "low"), (0, 1000, 4, "low"), (10, 50, 4, "high")))

    assert run.state.arrays.jobs.preempted.sum() == 1


def test_the_order_is_changed_so_that_fewer_go():
    # In order of rank the two of node 0 would go, two GPUs each; the one of node 1 has four and is enough, but comes
    # last as its QOS ranks higher: the first try takes it in, and then it goes alone.
    groups = {"high": Group(9.0, KEPT, frozenset({"low", "mid"})), "low": Group(0.0, REQUEUED),
              "mid": Group(1.0, REQUEUED)}
    rows = jobs((0, 1000, 3, "low"), (0, 1000, 4, "mid"), (0, 1000, 1, "none"), (10, 50, 4, "high"), nodes=[1] * 4)
    run = replay("2x4", rows, groups=groups)

    assert run.state.arrays.jobs.preempted.tolist() == [0, 1, 0, 0]
    assert run.start.tolist() == [0, 0, 0, 10]


def test_the_least_go_first_or_the_youngest_where_that_is_told():
    rows = jobs((0, 1000, 4, "low"), (5, 1000, 4, "low"), (10, 50, 4, "high"))

    assert replay("2x4", rows).state.arrays.jobs.preempted.tolist() == [1, 0, 0]
    assert replay("2x4", rows, youngest_first=True).state.arrays.jobs.preempted.tolist() == [0, 1, 0]


def test_by_tier_the_higher_partition_takes_the_place_of_the_lower():
    groups = {"work": Group(1.0, REQUEUED), "now": Group(9.0, KEPT, frozenset({"work"}))}
    preemption = SchedulerPreemption("partition_prio", groups)
    scheduling = Scheduling(preemption=preemption, tiers={"now": 9})
    nodes = replace(Cluster.from_spec("1x4"), scheduling=scheduling)
    members = nodes.partitions["default"]
    workload = Workload.of([0, 10], [1000, 50], [4, 4], limit=[1000, 50], partition=["work", "now"])
    run = engine.run(replace(nodes, partitions={"work": members, "now": members}), workload, named(POLICY))

    assert run.start.tolist() == [0, 10]
    assert run.state.arrays.jobs.preempted.tolist() == [1, 0]


def test_who_is_not_first_in_line_starts_a_round_of_the_backfill_after_he_made_room():
    # The first of high waits for the eight GPUs of "none", the second can preempt the low one on node 1.
    rows = jobs((0, 1000, 4, "none"), (0, 1000, 4, "low"), (5, 100, 8, "top"), (6, 100, 4, "high"),
                limit=[1000, 1000, 100, 100])
    groups = {"high": HIGH, "top": Group(9.0), "low": Group(0.0, REQUEUED)}
    run = replay("2x4", rows, groups=groups)

    assert run.state.arrays.jobs.preempted.tolist() == [0, 1, 0, 0]
    made = run.state.arrays.jobs.since
    assert run.start[3] > 6
    assert (run.start[3] - 5) % 30 < 1e-6
    assert made[3] == run.start[3]


def test_without_preemption_the_runs_are_what_they_were():
    rows = jobs(*((minute * 60, 300 + 7 * minute, 1 + minute % 4, "low") for minute in range(200)))
    plain = replace(Cluster.from_spec("2x4"), scheduling=Scheduling())
    never = replace(plain, scheduling=Scheduling(preemption=SchedulerPreemption("qos", {"high": HIGH, "low": Group()})))

    assert engine.run(plain, rows, named(POLICY)).digest == engine.run(never, rows, named(POLICY)).digest


def test_the_same_run_is_the_same_and_every_job_ends():
    random = np.random.default_rng(3)
    rows = jobs(*((float(at), float(run), int(gpus), str(qos)) for at, run, gpus, qos in zip(
        np.cumsum(random.exponential(100, 150)), random.integers(50, 3000, 150), random.choice([1, 2, 4, 8], 150),
        random.choice(["low", "low", "high"], 150), strict=True)))
    run = replay("3x4", rows)

    assert np.isfinite(run.end).all()
    assert run.state.arrays.jobs.preempted.sum() >= 5
    assert replay("3x4", rows).digest == run.digest
    assert (run.end - run.state.arrays.jobs.since >= rows.run - 1e-6).all()
    assert run.state.arrays.nodes.free_gpus.tolist() == [4, 4, 4]


@OTHER_ORDERS
@pytest.mark.parametrize("order", ["fifo", "sjf-limit"])
def test_whoever_made_room_has_it_although_others_come_first_by_the_order(order):
    # In order the second of low comes before the high one, and would take the place of the first.
    run = replay("1x4", jobs((0, 900, 4, "low"), (1, 900, 4, "low"), (10, 950, 4, "high")), order=order, until=1e6,
                 returns_s=1.0)

    assert run.start.tolist()[2] == 10
    assert np.isfinite(run.end).all()
    assert run.state.arrays.jobs.preempted.tolist() == [1, 0, 0]


@OTHER_ORDERS
def test_those_that_nobody_preempts_keep_their_order():
    rows = jobs((0, 50, 4, "high"), (1, 50, 4, "low"), (2, 50, 4, "low"), (3, 50, 4, "high"), (4, 50, 4, "low"))
    run = replay("1x4", rows, order="fifo")

    assert np.argsort(run.start).tolist() == [0, 3, 1, 2, 4]


@OTHER_ORDERS
def test_where_jobs_take_a_place_by_turns_for_ever_nobody_is_preempted_more_than_so_often():
    # The one of low comes before middle, middle before high, both by order; high may preempt low, and comes last.
    groups = {"high": HIGH, "low": Group(0.0, REQUEUED), "middle": Group(0.5)}
    rows = jobs((0, 20_000, 4, "none"), (0, 15_000, 4, "low"), (5, 15_000, 4, "low"), (6, 100, 8, "middle"),
                (7, 100, 4, "high"))
    run = replay("2x4", rows, groups=groups, order="fifo", until=1e6, returns_s=1.0, most_times=7)

    assert run.state.arrays.jobs.preempted.tolist() == [0, 7, 7, 0, 0]
    assert np.isfinite(run.end).all()


QOS = ("high", "middle", "low", "none")
ROWS = st.lists(st.tuples(st.integers(0, 300), st.integers(1, 600), st.sampled_from([1, 2, 3, 4, 8]),
                          st.sampled_from(QOS)), min_size=2, max_size=14)
OVER = st.fixed_dictionaries({name: st.tuples(st.frozensets(st.sampled_from(QOS)), st.sampled_from(
    [KEPT, REQUEUED, REQUEUED, CANCELLED])) for name in QOS})


@OTHER_ORDERS
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(ROWS, OVER, st.sampled_from(["fifo", "multifactor", "sjf-limit"]), st.sampled_from([1.0, 121.0]), st.booleans(),
       st.booleans())
def test_every_replay_with_preemption_ends_with_every_job_done(rows, over, order, returns_s, youngest, strict):
    groups = {name: Group(float(rank), what, frozenset(under) - {name})
              for rank, (name, (under, what)) in enumerate(over.items())}
    work, most = jobs(*sorted(rows)), 40
    latest = float(work.submit.max() + (most + 1) * (work.run + 200.0).sum())
    run = replay("2x4", work, groups=groups, order=order, until=latest, returns_s=returns_s, youngest_first=youngest,
                 strict_order=strict, most_times=most)

    assert np.isfinite(run.end).all()
    assert run.state.arrays.nodes.free_gpus.tolist() == [4, 4]
    if run.cluster.scheduling.preemption.level(QOS) is not None:
        assert run.state.arrays.jobs.preempted.max() < most  # an order among qualities of service is enough to end
