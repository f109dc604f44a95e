"""One view of several schedulers: each job by its own scheduler's rules, and unknown where two cannot be told apart."""

from dataclasses import replace
from functools import partial

import pytest

from idlewatt.daemon.advice.advisor import Advisor
from idlewatt.daemon.merged_schedulers import merged
from idlewatt.daemon.settings.advice import AdviceSettings
from idlewatt.exporters.source import SourceError
from idlewatt.storage.details import Details
from idlewatt.storage.records import Allocation, Job, JobState, Node, Partition, Request, SchedulerSnapshot
from idlewatt.storage.rules import Association, Ceilings, License, Qos, Reservation, SchedulerRules, SchedulerSettings

NOW, HOUR = 1_800_000_000.0, 3600.0
SITE = SchedulerSettings(preempt_type="none", preempt_mode=(), enforced=("limits",), memory_counts=True,
                         cores_whole=True, tree=False)
RULES = SchedulerRules(licenses=(), qos=(), associations=(), site=SITE)


def cluster(name, partition="", used=0, jobs=(), rules=RULES):
    """A cluster of one node of eight GPUs and one partition."""
    partition = partition or name
    node = Node(f"{name}1", (partition,), 8, cpus=128, gpus_allocated=used, cpus_allocated=used)
    return SchedulerSnapshot(NOW, (node,), (Partition(partition, (node.name,)),), tuple(jobs), rules)


def waits(partition, **more):
    request = Request(8, cpus=8, details=Details(**more.pop("details", {})))
    return Job("1", NOW - 60, JobState.PENDING, partition, request, limit_s=8 * HOUR, **more)


def advice(*snapshots):
    """What is said of the only job that waits."""
    settings = AdviceSettings(policy="fifo+best-fit+easy", shadow=())
    (said,) = Advisor(settings).advise(merged(snapshots, NOW, 600.0), NOW).recommendations
    return said


def test_a_scheduler_that_has_been_gone_for_long_does_not_age_the_other():
    gone, here = (SchedulerSnapshot(time_s, (Node(name, ("all",), 8),)) for time_s, name in ((0.0, "a"), (990.0, "b")))
    assert merged([gone, here], 1000.0, 600.0) == replace(here, whole=False)
    assert merged([gone], 1000.0, 600.0) == gone
    assert merged([], 1000.0, 600.0) is None
    both = merged([gone, here], 500.0, 600.0)
    assert (both.time_s, [node.name for node in both.nodes]) == (0.0, ["a", "b"])


def test_a_reservation_of_one_holds_its_jobs_beside_another():
    maint = Reservation("maint", ("a1",), NOW + HOUR, NOW + 20 * HOUR, True, ("root",))
    first = cluster("a", jobs=[waits("a")], rules=replace(RULES, reservations=(maint,)))
    alone, beside = advice(first), advice(first, cluster("b"))
    assert (alone.action, alone.reason) == (beside.action, beside.reason)
    assert beside.action == "hold"


def test_licences_of_one_are_known_beside_another_that_has_none():
    wanting = waits("a", details={"licenses": "matlab:1"})
    first = cluster("a", jobs=[wanting], rules=replace(RULES, licenses=(License("matlab", 4, 4),)))
    assert "Licenses: needs 1 of matlab, 0 free" in advice(first, cluster("b", rules=SchedulerRules())).reason


@pytest.mark.parametrize(("first", "second", "job", "told"), [
    (RULES, RULES, waits("gpu"), "two schedulers have partition gpu"),
    *((replace(RULES, **rules), replace(RULES, **other), waits("a", **job), told) for rules, other, job, told in (
        ({"reservations": (Reservation("maint", ("x",), NOW, NOW + 1, True),)},) * 2
        + ({}, "two schedulers have reservation maint"),
        ({"qos": (Qos("day", Ceilings(group=(("gpu", 9.0),))),)}, {"qos": (Qos("day"),)}, {"qos": "day"},
         "two schedulers have QOS day"),
        ({"associations": (Association("chem", ceilings=Ceilings(group=(("gpu", 9.0),))),)},) * 2
        + ({"account": "chem"}, "two schedulers have account chem"),
        ({"licenses": (License("matlab", 4),)},) * 2
        + ({"details": {"licenses": "matlab:1"}}, "two schedulers have licence matlab"),
        ({"licenses": None}, {}, {"details": {"licenses": "matlab:1"}}, "how many licences are free"),
    ))])
def test_what_two_schedulers_call_by_one_name_is_unknown(first, second, job, told):
    shared = "gpu" if job.partition == "gpu" else ""
    said = advice(cluster("a", shared, used=0, jobs=[job], rules=first), cluster("b", shared, rules=second))
    assert (said.action, said.reason) == ("unknown", f"unknown: {told}: not known here")


def test_names_that_mean_the_same_and_have_no_limits_are_no_matter():
    rules = replace(RULES, qos=(Qos("normal"),), associations=(Association("root"),))
    said = advice(cluster("a", jobs=[waits("a", qos="normal", account="root")], rules=rules), cluster("b", rules=rules))
    assert said.action == "start"


def test_settings_on_which_two_schedulers_do_not_agree_are_not_known():
    both = merged([cluster("a"), cluster("b", rules=replace(RULES, site=replace(SITE, enforced=())))], NOW, 600.0)
    assert both.rules.site == replace(SITE, enforced=None)


class Pair:
    """A daemon that reads two schedulers, each of one node and one running job."""

    def __init__(self, rig, monkeypatch):
        self.rig, self.patch, self.away = rig, monkeypatch, set()
        self.service = self.started()

    def started(self):
        sources = ", ".join(f"{{kind: slurm_rest, name: {name}, url: '{self.rig.server.url}'}}" for name in "ab")
        service = self.rig.service(sources=f"[{sources}]")
        for watched in service.sources:
            self.patch.setattr(watched.source, "read", partial(self.read, watched.name))
        return service

    def restart(self):
        self.service.stop()
        self.service = self.started()

    def read(self, name):
        if name in self.away:
            raise SourceError(f"{name} is away")
        job = Job(name, NOW, JobState.RUNNING, name, Request(8), start_s=NOW, allocations=(Allocation(f"{name}1", 8),))
        return replace(cluster(name, used=8, jobs=[job]), time_s=self.rig.now_s)

    def look(self, after_s=60.0):
        self.rig.now_s += after_s
        self.service.jobs()

    def changes(self):
        return [(change.node.name, change.present) for change in self.service.history.node_changes(0.0, 2 * NOW)]


@pytest.fixture
def pair(rig, monkeypatch):
    return Pair(rig, monkeypatch)


def test_nodes_of_a_scheduler_that_is_silent_for_long_are_not_recorded_as_gone(pair):
    pair.look()
    pair.away.add("b")
    for _ in range(12):
        pair.look()
    assert [node.name for node in pair.service.known.snapshot.nodes] == ["a1"]
    pair.away.clear()
    pair.look()
    assert pair.changes() == [("a1", True), ("b1", True)]


@pytest.mark.parametrize("late", ["a", "b"])
def test_nodes_of_a_scheduler_that_answers_later_after_a_restart_are_not_recorded_as_gone(pair, late):
    pair.look()
    pair.restart()
    pair.away.add(late)
    pair.look()
    pair.away.clear()
    pair.look(0.0)
    assert pair.changes() == [("a1", True), ("b1", True)]


def test_a_view_is_whole_only_with_all_schedulers():
    first, second = cluster("a"), cluster("b")
    assert merged([first], NOW, 600.0).whole
    assert merged([first, second], NOW, 600.0).whole
    assert not merged([first, None], NOW, 600.0).whole
    assert not merged([replace(first, time_s=NOW - 601.0), second], NOW, 600.0).whole
