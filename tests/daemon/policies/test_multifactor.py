"""Slurm's own order, live: priorities that it tells are its own, and go on from there."""

from idlewatt.daemon.policies import named
from idlewatt.daemon.replay import engine
from idlewatt.daemon.replay.state import ClusterState, Start
from idlewatt.storage.records import Allocation, Job, JobState, Node, Partition, Request, SchedulerSnapshot
from idlewatt.storage.rules import SchedulerRules, SchedulerSettings

NOW = 1_795_219_200.0
POLICY = "multifactor+slurm-placement+slurm-backfill"


def waiting(number, priority, age_s=600.0):
    return Job(str(number), NOW - age_s, JobState.PENDING, "gpu", Request(8, 1), limit_s=3600.0, priority=priority)


def snapshot(*jobs, nodes=1, **settings):
    names = tuple(f"n{node}" for node in range(nodes))
    lines = tuple((name, value) for name, value in {"PriorityWeightAge": "1000", **settings}.items())
    return SchedulerSnapshot(NOW, tuple(Node(name, ("gpu",), 8, cpus=64) for name in names),
                             (Partition("gpu", names),), jobs,
                             SchedulerRules(site=SchedulerSettings(priority=lines)))


def started(*jobs, **more):
    state = ClusterState.from_snapshot(snapshot(*jobs, **more), NOW)
    return [state.workload.ids[action.job] for action in named(POLICY).decide(state) if isinstance(action, Start)]


def test_who_has_the_higher_priority_by_the_schedulers_own_word_goes_first_though_it_came_later():
    assert started(waiting(1, 50.0, 900.0), waiting(2, 70.0, 60.0)) == ["2"]
    assert started(waiting(1, 70.0, 900.0), waiting(2, 50.0, 60.0)) == ["1"]


def test_where_no_priority_is_told_age_decides():
    assert started(waiting(1, None, 900.0), waiting(2, None, 60.0)) == ["1"]


def test_priorities_that_were_told_grow_with_age_from_there():
    """One job ends in an hour; by then both that wait are older by as much, so the order that was told stays."""
    running = Job("0", NOW - 60, JobState.RUNNING, "gpu", Request(8, 1), limit_s=3600.0, start_s=NOW - 60,
                  allocations=(Allocation("n0", 8),))
    state = ClusterState.from_snapshot(snapshot(running, waiting(1, 50.0, 900.0), waiting(2, 70.0, 60.0)), NOW)
    foretold = engine.forecast(state, named(POLICY))
    by_id = {state.workload.ids[job]: found.start for job, found in foretold.items()}
    assert by_id["2"] < by_id["1"]
