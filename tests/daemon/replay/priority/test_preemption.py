"""What is told of preemption, and in which order it puts jobs."""

import numpy as np
import pytest

from idlewatt.daemon.replay.priority.preemption import (
    CANCELLED,
    GRACE,
    KEPT,
    NO_GROUPS,
    NO_QOS,
    REQUEUED,
    RULES_UNKNOWN,
    SUSPENDS,
    TURNS,
    WITHIN,
    Group,
    SchedulerPreemption,
    in_turn,
)
from idlewatt.daemon.replay.priority.ranking import ranking_of
from idlewatt.daemon.replay.priority.site import Scheduling
from idlewatt.daemon.replay.workload import Charged, Workload
from idlewatt.storage.records import Partition
from idlewatt.storage.rules import Qos, SchedulerRules, SchedulerSettings

PARTITIONS = (Partition("idle", (), priority_tier=1, preempt_mode=("CANCEL",)),
              Partition("work", (), priority_tier=2), Partition("fixed", (), priority_tier=1, preempt_mode=("OFF",)),
              Partition("now", (), priority_tier=9))


def preemption_of(kind, mode, qos=(), partitions=PARTITIONS, **more):
    site = SchedulerSettings(preempt_type=kind, preempt_mode=mode, **more)
    return SchedulerPreemption.of(SchedulerRules(qos=qos, site=site), partitions)


def test_by_quality_of_service_each_preempts_those_that_its_list_names_as_their_own_mode_says():
    qos = (Qos("low"), Qos("spot", preempt_mode=("CANCEL",), exempt_s=60.0),
           Qos("high", priority=70000.0, preempts=("low", "spot", "gone")))
    found = preemption_of("qos", ("REQUEUE",), qos, exempt_s=5.0)

    assert found.groups == {"low": Group(0.0, REQUEUED), "spot": Group(0.0, CANCELLED),
                            "high": Group(65535.0, REQUEUED, frozenset({"low", "spot"}))}
    assert found.exempt_s == {"spot": 60.0}
    assert found.usual_exempt_s == 5.0
    assert found.takes_place
    assert found.notes == (GRACE,)


def test_by_tier_each_partition_preempts_all_lower_ones_but_those_that_are_off():
    found = preemption_of("partition_prio", ("REQUEUE",))

    assert {name: (group.becomes, group.over) for name, group in found.groups.items()} == {
        "idle": (CANCELLED, frozenset()), "fixed": (KEPT, frozenset()), "work": (REQUEUED, frozenset({"idle"})),
        "now": (REQUEUED, frozenset({"idle", "work"}))}


@pytest.mark.parametrize(("kind", "mode", "qos", "notes"), [
    ("none", ("REQUEUE",), (), ()), ("qos", (), (), ()), (None, ("REQUEUE",), (), (RULES_UNKNOWN,)),
    ("qos", None, (), (RULES_UNKNOWN,)), ("qos", ("REQUEUE",), None, (NO_QOS,)),
    ("qos", ("SUSPEND", "GANG"), (Qos("a", preempts=("b",)), Qos("b")), (SUSPENDS, TURNS, GRACE)),
    ("qos", ("GANG",), (Qos("a", preempt_mode=("WITHIN",)),), (TURNS, WITHIN))])
def test_what_is_not_told_or_not_replayed_is_said_and_preempts_nobody(kind, mode, qos, notes):
    found = preemption_of(kind, mode, qos)

    assert found.notes == notes
    assert not found.takes_place


def test_settings_alone_do_not_tell_who_preempts_whom():
    assert Scheduling.of_config_lines({"PreemptType": "preempt/qos"}).preemption.notes == (NO_GROUPS,)
    assert Scheduling.of_config_lines({"PreemptType": "preempt/none"}).preemption == SchedulerPreemption()


def test_words_of_the_scheduler_change_who_goes_first():
    found = preemption_of("partition_prio", ("REQUEUE",),
                          parameters=("preempt_youngest_first", "preempt_reorder_count=3"))

    assert (found.youngest_first, found.strict_order, found.reorders) == (True, False, 3)
    assert preemption_of("partition_prio", ("REQUEUE",), parameters=("preempt_strict_order",)).strict_order


def ordered(scheduling, qos, partition, priority):
    workload = Workload.of([0.0] * len(qos), [1.0] * len(qos), [1] * len(qos), partition=partition,
                           charged=Charged(("",) * len(qos), tuple(qos), np.zeros(len(qos))))
    rows = np.arange(len(qos))
    return ranking_of(scheduling, workload)(rows, np.array(priority, float), np.zeros(len(qos))).tolist()


def test_a_higher_tier_comes_before_any_priority():
    qos = [""] * 4
    assert ordered(Scheduling(tiers={"now": 9}), qos, ["work", "now", "work", "now"], [9, 1, 5, 2]) == [3, 1, 0, 2]
    assert ordered(Scheduling(), qos, ["work", "now", "work", "now"], [9, 1, 5, 2]) == [0, 2, 3, 1]


def test_who_may_preempt_the_other_comes_before_any_tier():
    groups = {"high": Group(1.0, KEPT, frozenset({"low"})), "low": Group(0.0, REQUEUED)}
    scheduling = Scheduling(tiers={"now": 9}, preemption=SchedulerPreemption("qos", groups))

    assert ordered(scheduling, ["low", "high", "low"], ["now", "work", "work"], [9, 1, 5]) == [1, 0, 2]


def test_where_preemption_is_no_order_jobs_are_merged_two_by_two():
    """High preempts low; the third is above both or below both, or, as here, goes round in a circle with them."""
    groups = {"high": Group(1.0, KEPT, frozenset({"low"})), "low": Group(0.0, REQUEUED), "other": Group(0.0, REQUEUED)}
    preemption = SchedulerPreemption("qos", groups)
    scheduling = Scheduling(preemption=preemption)

    assert preemption.level(["high", "low", "other"]) is None
    assert ordered(scheduling, ["low", "high"], ["a", "a"], [9, 1]) == [1, 0]
    # glibc merges [low] with [high, other sorted: other, high]: low comes before other, high then last.
    assert ordered(scheduling, ["low", "high", "other"], ["a"] * 3, [9, 1, 5]) == [0, 2, 1]


def test_merging_sorts_where_there_is_an_order():
    numbers = np.random.default_rng(1).permutation(101).tolist()
    assert in_turn(lambda one, other: one < other, numbers) == sorted(numbers)
