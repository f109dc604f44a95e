"""What starts whatever Slurm does not tell, and what is not known because of it."""

from dataclasses import replace

import pytest

from idlewatt.daemon.advice.advisor import Advisor
from idlewatt.daemon.settings.advice import AdviceSettings
from idlewatt.storage.details import Details
from idlewatt.storage.records import (
    Allocation,
    Job,
    JobState,
    Node,
    NodeState,
    Partition,
    Request,
    SchedulerSnapshot,
)
from idlewatt.storage.rules import Association, Ceilings, Reservation, SchedulerRules, SchedulerSettings
from idlewatt.storage.waiting import WaitReason

NOW = 1_000_000.0
SITE = SchedulerSettings("none", (), enforced=("limits",), memory_counts=True, cores_whole=True, tree=False)
GREEDY, PLANS = "priority+best-fit+greedy", "priority+best-fit+whole-nodes"


def node(name, **facts):
    return Node(name, **{"partitions": ("p",), "gpus": 8, "cpus": 64, "memory_bytes": 1 << 40} | facts)


def waits(job_id, gpus, *, nodes=1, features="", required=(), model="", details=None, **facts):
    request = Request(gpus, nodes, gpus or None, 1, gpu_model=model, features=features, required_nodes=required,
                      details=details or Details())
    return Job(job_id, NOW - 60, JobState.PENDING, "p", request, limit_s=3600.0, user="alice", **facts)


def runs(job_id, name, gpus):
    return Job(job_id, NOW - 900, JobState.RUNNING, "p", Request(gpus), start_s=NOW - 600, limit_s=7200.0, user="bob",
               allocations=(Allocation(name, gpus, None, 2, 1 << 30),))


def advised(policy, nodes, *jobs, partitions=(), **rules):
    """Return the recommendation by job."""
    snapshot = SchedulerSnapshot(NOW, tuple(nodes), partitions, jobs, SchedulerRules(**{"site": SITE} | rules))
    recommendations = Advisor(AdviceSettings(policy=policy, shadow=(), draws=0)).advise(snapshot, NOW).recommendations
    return {one.job_id: one for one in recommendations}


def test_who_starts_only_if_slurm_preferred_another_node_for_a_job_without_gpus_is_unknown():
    """4+0, which waits for 4+1, is kept a, where job 1 is looked for, or b, where nobody was."""
    nodes = [node("a", partitions=("p", "q"), gpus_allocated=1), node("b", gpus_allocated=1)]
    advice = advised(GREEDY, nodes, runs("8", "a", 1), runs("9", "b", 1),
                     replace(waits("1", 8, priority=9.0), partition="q"), waits("4+0", 0, group="4", priority=7.0),
                     waits("4+1", 8, group="4", priority=7.0), waits("5", 1, required=("b",), priority=1.0))
    assert (advice["5"].action, advice["5"].cause) == ("unknown", "unknown")
    assert "Slurm does not report which nodes its last job with GPUs made it prefer" in advice["5"].reason


def test_who_breaks_a_limit_on_gpus_makes_slurm_prefer_nodes_all_the_same():
    """Slurm looks for nodes of job 1 before it finds the limit, so that 4+0 is kept b."""
    nodes = [node("a", gpu_model="a100", cpus_allocated=4, gpus_allocated=1),
             node("b", gpu_model="v100", gpus_allocated=1, cpus_allocated=2)]
    few = (Association("few", ceilings=Ceilings(group=(("gpu", 1.0),))), Association("root"))
    jobs = [waits("1", 2, model="v100", priority=9.0, account="few"), waits("4+0", 0, group="4", priority=7.0),
            waits("4+1", 8, group="4", priority=7.0), waits("5", 0, required=("b",), priority=1.0),
            waits("6", 0, required=("a",), priority=1.0)]
    advice = advised(GREEDY, nodes, runs("8", "a", 1), runs("9", "b", 1),
                     *(job if job.account else replace(job, account="root") for job in jobs), associations=few)
    assert {number: one.action for number, one in advice.items()} == {
        "1": "hold", "4+0": "hold", "4+1": "hold", "5": "hold", "6": "start"}


def test_nodes_that_nobody_was_looked_for_on_stay_preferred_while_the_backfill_starts_others_elsewhere():
    """Main looks for job 1 on a and c, though c is drained; the backfill starts 3 on a; 4+0 may be kept h and i."""
    nodes = [node("a", partitions=("p", "q"), gpus_allocated=2),
             node("c", partitions=("p", "q"), state=NodeState.DRAINED),
             node("h", partitions=("p", "s"), gpus_allocated=8), node("i", partitions=("p", "s"), gpus_allocated=8)]
    first = waits("1", 8, priority=9.0, reason=WaitReason.NODES_UNAVAILABLE, reason_text="ReqNodeNotAvail")
    advice = advised(GREEDY, nodes, runs("7", "a", 2), runs("8", "h", 8), runs("9", "i", 8),
                     replace(first, partition="q"), waits("4+0", 0, nodes=2, group="4", priority=7.0),
                     waits("4+1", 8, group="4", priority=7.0), waits("3", 1, priority=5.0),
                     replace(waits("5", 0, priority=4.0), partition="s"))
    assert {number: one.action for number, one in advice.items()} == {
        "1": "hold", "4+0": "hold", "4+1": "hold", "3": "unknown", "5": "unknown"}


def test_who_the_main_scheduler_starts_is_started_before_it_looks_for_the_others():
    """It starts job 1 on a, then looks for 2 on h, in vain: 4+0 is kept h, where 5 does not start."""
    nodes = [node("a", gpu_model="a100", gpus_allocated=1), node("h", gpu_model="h100", gpus_allocated=8)]
    advice = advised(GREEDY, nodes, runs("8", "a", 1), runs("9", "h", 8), waits("1", 0, required=("a",), priority=9.0),
                     waits("2", 2, model="h100", priority=8.0), waits("4+0", 0, group="4", priority=7.0),
                     waits("4+1", 8, group="4", priority=7.0), waits("5", 0, required=("h",), priority=1.0))
    assert {number: one.action for number, one in advice.items()} == {
        "1": "start", "2": "hold", "4+0": "hold", "4+1": "hold", "5": "hold"}


def stopping():
    """Return a node, who runs there, and two components that wait for it and stop the main scheduler meanwhile."""
    parts = [waits(f"7+{number}", 8, required=("z",), group="7", priority=8.0) for number in range(2)]
    return node("z", gpus_allocated=8), (runs("6", "z", 8), *parts)


def counting(policy, *behind):
    """Return advice beside a job of one node with x and one with y, which is reserved soon."""
    busy, stopped = stopping()
    nodes = [node("a", features=("x",)), node("b", features=("x",)), node("c", features=("y",)), busy]
    first = waits("1", 2, features="[x*1&y*1]", nodes=2, priority=9.0)
    first = replace(first, request=replace(first.request, gpus_per_node=None))
    soon = Reservation("soon", ("c",), NOW + 600, NOW + 3600, users=("root",))
    advice = advised(policy, nodes, first, *stopped, *behind, reservations=(soon,))
    return {number: one for number, one in advice.items() if not number.startswith("7")}


def test_slurm_keeps_nodes_for_who_counts_features_though_it_cannot_start_also_where_nothing_is_planned():
    """Slurm takes any node for the feature that no node has now, finds out at the start, and keeps both."""
    advice = [counting(policy, waits("2", 8, priority=1.0)) for policy in (PLANS, GREEDY)]
    assert [{number: one.action for number, one in each.items()} for each in advice] == [
        {"1": "hold", "2": "hold"}, {"1": "hold", "2": "hold"}]


def test_a_job_that_finds_one_node_of_two_makes_the_backfill_prefer_nodes_by_what_is_free_there():
    """Slurm's main scheduler goes by all 8 GPUs of a, its backfill by the free one; it keeps b for 2+1: 3 starts."""
    nodes = [node("a", gpus_allocated=7, cpus_allocated=7), node("b", gpus=4, gpus_allocated=4, cpus_allocated=32)]
    first = waits("1", 8, nodes=2, priority=9.0)
    first = replace(first, request=replace(first.request, gpus_per_node=None))
    parts = [waits("2+0", 8, group="2", priority=8.0), waits("2+1", 0, group="2", priority=8.5)]
    last = waits("3", 1, required=("a",), priority=5.0)
    assert advised(GREEDY, nodes, runs("8", "a", 7), runs("9", "b", 4), first, *parts, last)["3"].action == "start"


def test_who_counts_several_features_with_gpus_may_start_or_not():
    """Slurm looks for x with all GPUs, then for y, and fails at times where a and b would do."""
    nodes = [node("a", features=("x",)), node("b", features=("y",)), node("c")]
    first = waits("1", 2, features="x*1&y*1", nodes=2, priority=9.0)
    first = replace(first, request=replace(first.request, gpus_per_node=1))
    advice = advised(PLANS, nodes, first, waits("2", 7, priority=5.0, required=("a",)),
                     waits("3", 8, priority=5.0, required=("c",)))
    assert {number: one.action for number, one in advice.items()} == {"1": "unknown", "2": "unknown", "3": "start"}
    assert "each of the features that it counts" in advice["1"].reason
    bracketed = replace(first, request=replace(first.request, features="[x*1&y*1]"))
    assert advised(PLANS, nodes, bracketed)["1"].action == "start"


@pytest.mark.parametrize(("features", "action"), [
    ("[x*1&y*1]", "unknown"), ("[y*1&x*1]", "start"), ("[z*1&y*1]", "start")])
def test_a_feature_may_take_the_only_node_of_a_feature_that_is_counted_after_it(features, action):
    """Slurm 22.05 takes b for x and then finds no node for y, although a would do for x."""
    nodes = [node("a", features=("x", "z")), node("b", features=("x", "y"))]
    job = waits("1", 2, nodes=2, features=features)
    job = replace(job, request=replace(job.request, gpus_per_node=1))
    assert advised(GREEDY, nodes, job)["1"].action == action


def test_nodes_of_a_job_whose_features_may_fail_to_find_theirs_are_kept_or_not():
    """Slurm fails to start 1 on a and b, but keeps both; 2 would be on b, and 3 on c, which nobody else wants."""
    nodes = [node("a", features=("x",)), node("b", features=("x", "y")), node("c")]
    first = waits("1", 2, nodes=2, features="[x*1&y*1]", priority=9.0)
    first = replace(first, request=replace(first.request, gpus_per_node=1))
    advice = advised(PLANS, nodes, first, waits("2", 7, required=("b",), priority=5.0),
                     waits("3", 8, required=("c",), priority=5.0))
    assert {number: one.action for number, one in advice.items()} == {"1": "unknown", "2": "unknown", "3": "start"}


def test_who_counts_features_in_brackets_with_gpus_in_all_may_start_only_where_each_feature_finds_all_of_them():
    """Slurm wants both GPUs on the node with x, and both on that with y; of either feature any nodes will do."""
    first = waits("1", 2, nodes=2)
    advice = {(features, taken): advised(
        GREEDY, [node("a", features=("x",)), node("b", features=("y",), gpus_allocated=taken)], runs("9", "b", taken),
        replace(first, request=replace(first.request, features=features, gpus_per_node=None)))["1"].action
        for features in ("[x*1&y*1]", "[x*1]", "[x*2|y*2]", "") for taken in (6, 7)}
    assert [advice["[x*1&y*1]", taken] for taken in (6, 7)] == ["unknown", "hold"]
    assert [advice[features, 7] for features in ("[x*1]", "[x*2|y*2]", "")] == ["start", "hold", "start"]


def test_who_would_delay_a_plan_starts_by_the_main_scheduler_which_looks_first_and_knows_of_none():
    """Job 1 is planned on a and b once 9 ends, and does not stop main, which starts 2 on a before."""
    nodes = [node("a"), node("b", gpus_allocated=8)]
    first = waits("1", 16, nodes=2, priority=9.0, reason=WaitReason.NODES_UNAVAILABLE, reason_text="ReqNodeNotAvail")
    first = replace(first, request=replace(first.request, gpus_per_node=8))
    last = waits("2", 8, priority=5.0)
    assert advised(PLANS, nodes, runs("9", "b", 8), first, replace(last, limit_s=9000.0))["2"].action == "start"
    stops = replace(first, reason=WaitReason.RESOURCES, reason_text="Resources")
    assert advised(PLANS, nodes, runs("9", "b", 8), stops, replace(last, limit_s=9000.0))["2"].action == "hold"


def test_components_stop_the_main_scheduler_though_they_are_said_to_wait_for_nodes_out_of_reach():
    """As above, but 2 is left to the backfill by 7+0, which knows of the plan for 1."""
    busy, (runner, *parts) = stopping()
    out_of_reach = {"reason": WaitReason.NODES_UNAVAILABLE, "reason_text": "ReqNodeNotAvail"}
    first = waits("1", 16, nodes=2, priority=9.0, **out_of_reach)
    first = replace(first, request=replace(first.request, gpus_per_node=8))
    advice = advised(PLANS, [node("a"), node("b", gpus_allocated=8), busy], runs("9", "b", 8), runner, first,
                     *(replace(part, **out_of_reach) for part in parts),
                     replace(waits("2", 8, priority=5.0), limit_s=9000.0))
    assert advice["2"].action == "hold"


def test_of_the_same_priority_lower_numbers_come_first_and_all_tasks_of_an_array_together():
    """Though Slurm tells of an array that it could begin a second later than a job behind it."""
    tasks = waits("1", 4, priority=5.0, raw_id=1, array="1", tasks=2, eligible_s=NOW - 59)
    advice = advised(GREEDY, [node("a")], tasks, waits("2", 4, priority=5.0, raw_id=2))
    assert {number: one.action for number, one in advice.items()} == {"1": "start", "2": "hold"}


def test_who_waits_for_nodes_of_one_partition_may_start_in_another_and_is_unknown():
    """Slurm says of job 1 that nodes of q are out of reach; it starts on a in p, so that nobody else does there."""
    nodes = [node("a"), node("b", partitions=("q",), state=NodeState.DRAINED)]
    first = waits("1", 8, priority=9.0, reason=WaitReason.NODES_UNAVAILABLE, reason_text="ReqNodeNotAvail")
    advice = advised(GREEDY, nodes, replace(first, partition="p,q"), waits("2", 8, priority=1.0))
    assert {number: one.action for number, one in advice.items()} == {"1": "unknown", "2": "hold"}
    assert "(ReqNodeNotAvail)" in advice["1"].reason
    assert advised(GREEDY, nodes, first, waits("2", 8, priority=1.0))["2"].action == "start"


def test_for_who_waits_for_reserved_nodes_others_are_planned():
    """Job 1, of which Slurm says Reservation, is planned on a once 9 ends; 2 would delay it."""
    busy, stopped = stopping()
    nodes = [node("a", gpus_allocated=4), node("b", state=NodeState.RESERVED, reservation="r"), busy]
    known = Reservation("r", ("b",), NOW - 60, NOW + 86400, users=("root",))
    first = waits("1", 8, priority=9.0, reason=WaitReason.RESERVATION, reason_text="Reservation")
    last = waits("2", 4, priority=5.0)
    advice = [advised(PLANS, nodes, runs("9", "a", 4), first, *stopped, replace(last, limit_s=limit_s),
                      reservations=(known,)) for limit_s in (3600.0, 9000.0)]
    assert [one["2"].action for one in advice] == ["start", "hold"]


def test_nodes_named_for_a_job_of_two_partitions_are_withheld_from_the_main_scheduler_by_the_first():
    """Advice names a for job 1, which q lacks: the main scheduler leaves a alone and starts 2, so that few is full."""
    nodes = [node("a"), node("b"), node("c", partitions=("q",), gpus_allocated=8)]
    few = (Association("few", ceilings=Ceilings(group=(("jobs", 1.0),))), Association("root"))
    first = replace(waits("1", 8, priority=9.0, account="few"), partition="q,p")
    last = waits("2", 8, priority=5.0, account="few")
    advice = [advised(PLANS, nodes, replace(runs("9", "c", 8), account="root"), job, last, associations=few)
              for job in (first, replace(first, partition="p"))]
    assert [{number: one.action for number, one in each.items()} for each in advice] == [
        {"1": "unknown", "2": "unknown"}, {"1": "start", "2": "hold"}]


def test_who_waits_in_a_reservation_stops_those_behind_it_in_the_main_scheduler():
    """Job 1 is planned on r once 9 ends; 2, which would delay it, would start if only partitions were stopped."""
    known = Reservation("r", ("r",), NOW - 60, NOW + 86400, users=("alice",))
    inside = [replace(job, request=replace(job.request, reservation="r"), limit_s=9000.0)
              for job in (waits("1", 8, priority=9.0), waits("2", 1, priority=5.0))]
    advice = advised(PLANS, [node("r", gpus_allocated=4, state=NodeState.RESERVED, reservation="r")], runs("9", "r", 4),
                     *inside, reservations=(known,))
    assert {number: one.action for number, one in advice.items()} == {"1": "hold", "2": "hold"}


def beside_one_with_unknown_switches(tree, *, leaves=True, others=()):
    """Return advice where job 1 could start on a and c, below two leaf switches; 2 wants a, 3 wants e."""
    below = dict(zip("abcde", ("one", "one", "two", "two", "one"), strict=True)) if leaves else {}
    nodes = [node(name, leaf=below.get(name, ""), gpus=4 if name == "e" else 8,
                  gpus_allocated=8 if name in "bd" else 0) for name in "abcde"]
    first = waits("1", 8, nodes=2, priority=9.0, details=Details(switches=None))
    first = replace(first, request=replace(first.request, gpus=16, gpus_per_node=8))
    advice = advised(PLANS, [*nodes, node("f", partitions=("q",))], runs("8", "b", 8), runs("9", "d", 8), first,
                     *others, waits("2", 8, priority=5.0, required=("a",)),
                     waits("3", 1, priority=4.0, required=("e",)),
                     replace(waits("4", 8, priority=3.0), partition="q"), site=replace(SITE, tree=tree))
    return {number: one.action for number, one in advice.items()}, advice["2"].reason


def test_who_stands_behind_a_job_that_may_ask_for_few_switches_is_unknown_where_that_decides():
    advice, reason = beside_one_with_unknown_switches(True)
    assert advice == {"1": "unknown", "2": "unknown", "3": "start", "4": "start"}
    assert reason == ("unknown: which nodes are kept for 1, which comes first, is not known: whether it asks for few "
                      "switches (TopologyPlugin) is not known")


def test_where_the_configuration_says_that_there_are_no_switches_nobody_is_unknown():
    assert beside_one_with_unknown_switches(False)[0] == {
        "1": "start", "2": "hold", "3": "start", "4": "start"}


def test_where_switches_are_not_known_either_whoever_may_share_nodes_with_such_a_job_is_unknown():
    advice, _ = beside_one_with_unknown_switches(True, leaves=False)
    assert advice == {"1": "unknown", "2": "hold", "3": "unknown", "4": "start"}
    assert beside_one_with_unknown_switches(None)[0] == advice


def test_in_long_queues_whoever_may_share_nodes_with_such_a_job_is_unknown():
    many = [waits(str(number), 8, priority=1.0) for number in range(100, 205)]
    advice, _ = beside_one_with_unknown_switches(True, others=many)
    assert [advice[number] for number in "1234"] == ["unknown", "hold", "unknown", "start"]


def beside_a_flexible_reservation(policy, **expected):
    """Return advice on job 1, which reaches beyond its reservation of a and may be on one node, and on 2 behind it."""
    flexible = Reservation("r", ("a",), NOW - 60, NOW + 86400, users=("alice",), flags=("FLEX",))
    nodes = [node("a", gpus_allocated=8, state=NodeState.RESERVED, reservation="r"), node("b"), node("c", gpus=4)]
    first = waits("1", 6, priority=9.0, details=Details(**expected))
    first = replace(first, request=replace(first.request, reservation="r", gpus_per_node=None))
    advice = advised(policy, nodes, runs("9", "a", 8), first, waits("2", 8, priority=5.0), waits("3", 1, priority=4.0),
                     reservations=(flexible,))
    return {number: one.action for number, one in advice.items()}


def test_who_is_expected_on_more_nodes_than_its_flexible_reservation_has_is_looked_at_by_the_backfill_alone():
    """Slurm's main scheduler, which comes first, passes over job 1 and starts 2 on b."""
    for policy in (GREEDY, PLANS):
        advice = [beside_a_flexible_reservation(policy, nodes_expected=nodes) for nodes in (2, 1)]
        assert advice == [{"1": "hold", "2": "start", "3": "start"}, {"1": "start", "2": "hold", "3": "start"}]


def test_a_component_hears_of_the_first_time_at_which_the_other_would_fit_though_nodes_are_kept_for_others_then():
    """4+0 would fit on a once 9 ends, when a is kept for 1: planned an hour later, 4+1 has b kept from then on."""
    nodes = [node("a", gpus_allocated=8), node("b")]
    parts = [waits(f"4+{number}", 8, group="4", priority=7.0, required=(name,)) for number, name in enumerate("ab")]
    behind = [replace(waits("5", 8, priority=5.0, required=("b",)), limit_s=limit_s) for limit_s in (6000.0, 9000.0)]
    advice = [advised(PLANS, nodes, runs("9", "a", 8), waits("1", 8, priority=9.0, required=("a",)), *parts, job)
              for job in behind]
    assert [one["5"].action for one in advice] == ["start", "hold"]


def test_slurm_keeps_nodes_for_who_counts_features_that_no_two_nodes_have():
    """a, the only node with x and with y, is found for x; for y any node will do: b is kept as well."""
    nodes = [node("a", features=("x", "y")), node("b"), node("c", gpus=4)]
    first = waits("1", 1, nodes=2, features="[x*1&y*1]", priority=9.0)
    advice = advised(PLANS, nodes, first, *(waits(str(number), 4, required=(name,)) for number, name in (
        (2, "a"), (3, "b"), (4, "c"))))
    assert {number: one.action for number, one in advice.items()} == {
        "1": "hold", "2": "hold", "3": "hold", "4": "start"}
    assert "can never run" in advice["1"].reason


def test_without_brackets_a_node_that_is_found_for_one_feature_has_to_have_the_next():
    """Slurm finds a or b for x, and looks for y among nodes that include it."""
    first = waits("1", 1, nodes=2, features="x*1&y*1")
    advice = [advised(GREEDY, [node("a", features=("x", "y")), node("b", features=features)], first)["1"].action
              for features in (("x", "y"), ("x",), ("y",))]
    assert advice == ["start", "unknown", "start"]


@pytest.mark.parametrize(("features", "taken", "second", "action"), [
    ("x*1&y*1", 6, (), "start"), ("x*1&y*1", 6, ("x",), "unknown"),
    ("x*1&y*1", 7, (), "hold"), ("[x*1&y*1]", 6, (), "hold")])
def test_without_brackets_one_node_counts_for_all_features_and_others_need_none(features, taken, second, action):
    """As Slurm 22.05 started it: a has both features and room for both GPUs, b is the second node that 1 asks for."""
    nodes = [node("a", features=("x", "y"), gpus_allocated=taken), node("b", features=second)]
    first = waits("1", 2, nodes=2)
    first = replace(first, request=replace(first.request, features=features, gpus_per_node=None))
    assert advised(PLANS, nodes, runs("9", "a", taken), first)["1"].action == action


def test_who_finds_no_room_and_breaks_a_limit_besides_does_not_stop_the_main_scheduler():
    """Main goes on behind 3 and starts 2, sooner or later, though it delays the plan for 1."""
    few = (Association("few", ceilings=Ceilings(group=(("gpu", 9.0),))), Association("root"))
    planned = waits("1", 16, nodes=2, priority=8.0, reason=WaitReason.NODES_UNAVAILABLE, reason_text="ReqNodeNotAvail")
    planned = replace(planned, request=replace(planned.request, gpus_per_node=8), account="root")
    breaks = waits("3", 16, nodes=2, priority=9.0, account="few")
    breaks = replace(breaks, request=replace(breaks.request, gpus_per_node=8))
    last = replace(waits("2", 8, priority=5.0, account="root"), limit_s=9000.0)
    beside = replace(waits("4", 0, priority=1.0, account="root"), partition="q")  # who looks at nodes counts then
    advice = advised(PLANS, [node("a"), node("b", gpus_allocated=8), node("c", partitions=("q",), gpus=0)],
                     replace(runs("9", "b", 8), account="root"), breaks, planned, last, beside, associations=few)
    assert {number: one.action for number, one in advice.items()} == {
        "3": "hold", "1": "hold", "2": "start", "4": "start"}


def test_slurm_tries_again_at_the_end_of_a_reservation_only_where_it_has_nodes_of_the_partition():
    """At 6600 a is kept, and what is kept changes twice in q before it comes free: 5 is not planned, and 6 starts."""
    reserved = Reservation("r", ("f",), NOW - 60, NOW + 10_000, users=("root",))
    nodes = [node("a", gpus_allocated=8), *(node(name, partitions=("q",), gpus_allocated=8) for name in "ce"),
             node("d"), node("f", partitions=("q",), state=NodeState.RESERVED, reservation="r")]
    jobs = [replace(waits("1", 8, required=("a",), priority=9.0), limit_s=600.0),
            replace(waits("2", 8, required=("a",), priority=8.0), limit_s=600.0),
            replace(waits("3", 8, required=("c",), priority=7.0), limit_s=300.0, partition="q"),
            replace(waits("4", 8, required=("e",), priority=6.0), limit_s=300.0, partition="q"),
            replace(waits("5", 8, nodes=2, priority=5.0), limit_s=60.0),
            replace(waits("6", 8, required=("d",), priority=4.0), limit_s=14_000.0)]
    advice = advised(PLANS, nodes, runs("7", "a", 8), runs("8", "c", 8), replace(runs("9", "e", 8), limit_s=7800.0),
                     *jobs, reservations=(reserved,))
    assert {number: one.action for number, one in advice.items()} == {**dict.fromkeys("12345", "hold"), "6": "start"}


def test_who_waits_for_a_reservation_to_end_is_planned_for_the_minute_in_which_it_does():
    """It ends at a whole minute, 1220 s from now: 2 would still run then."""
    reserved = Reservation("r", ("a",), NOW - 60, NOW + 1220, users=("root",))
    nodes = [node("a", state=NodeState.RESERVED, reservation="r"), node("b")]
    advice = [advised(PLANS, nodes, waits("1", 8, nodes=2, priority=9.0), replace(last, limit_s=limit_s),
                      reservations=(reserved,))["2"].action
              for last in (waits("2", 8, priority=5.0),) for limit_s in (1150.0, 1250.0)]
    assert advice == ["start", "hold"]


def test_who_counts_features_is_planned_though_it_breaks_a_limit_if_the_last_of_them_does_not():
    """Slurm counts 3 GPUs of the 6 that 1 asks for, and plans it on a and b once 9 ends; 2 would delay it."""
    few = (Association("few", ceilings=Ceilings(group=(("gpu", 5.0),))), Association("root"))
    busy, stopped = stopping()
    nodes = [node("a", features=("x",)), node("b", features=("y",), gpus_allocated=8), busy]
    advice = []
    for features in ("[x*1&y*1]", "x|y"):
        first = waits("1", 3, nodes=2, features=features, priority=9.0, account="few")
        first = replace(first, request=replace(first.request, gpus=6))
        last = replace(waits("2", 8, required=("a",), priority=5.0), limit_s=9000.0)
        others = [replace(job, account="root") for job in (runs("9", "b", 8), *stopped, last)]
        advice.append(advised(PLANS, nodes, first, *others, associations=few))
    assert [(one["1"].cause, one["2"].action) for one in advice] == [("limit", "hold"), ("limit", "start")]


def test_the_main_scheduler_withholds_nodes_that_are_named_in_vain_from_those_behind():
    """1 is withheld a, which it names beside b, which is reserved; so 2 cannot have a and c, and 3 starts on c."""
    kept = Reservation("r", ("b",), NOW - 60, NOW + 86400, users=("root",))
    advice = {}
    for state in (NodeState.RESERVED, NodeState.DRAINED):
        nodes = [node("a"), node("b", state=state, reservation="r" * (state is NodeState.RESERVED)),
                 node("c", partitions=("p", "q")), node("d", gpus_allocated=8)]
        first = waits("1", 1, nodes=2, required=("a", "b"), priority=9.0, reason=WaitReason.NODES_UNAVAILABLE,
                      reason_text="ReqNodeNotAvail")
        jobs = (runs("9", "d", 8), first, waits("2", 1, nodes=2, required=("a", "c"), priority=5.0),
                replace(waits("3", 8, required=("c",), priority=1.0), partition="q"))
        rows = advised(GREEDY, nodes, *jobs, reservations=(kept,) if state is NodeState.RESERVED else ())
        advice[state] = {number: one.action for number, one in rows.items()}
    assert advice == {NodeState.RESERVED: {"1": "hold", "2": "hold", "3": "start"},
                      NodeState.DRAINED: {"1": "hold", "2": "start", "3": "hold"}}


@pytest.mark.parametrize(("begin_s", "third"), [(NOW - 60, "start"), (NOW + 3600, "hold")])
def test_who_begins_later_keeps_no_nodes_whatever_was_said_of_it(begin_s, third):
    """As above, 1 names a and b, which is reserved; while its begin time has not come 2 starts on a and c."""
    kept = Reservation("r", ("b",), NOW - 60, NOW + 86400, users=("root",))
    nodes = [node("a"), node("b", state=NodeState.RESERVED, reservation="r"), node("c", partitions=("p", "q")),
             node("d", gpus_allocated=8)]
    first = waits("1", 1, nodes=2, required=("a", "b"), priority=9.0, reason=WaitReason.NODES_UNAVAILABLE,
                  reason_text="ReqNodeNotAvail", eligible_s=begin_s)
    behind = (waits("2", 1, nodes=2, required=("a", "c"), priority=5.0),
              replace(waits("3", 8, required=("c",), priority=1.0), partition="q"))
    assert advised(GREEDY, nodes, runs("9", "d", 8), first, *behind, reservations=(kept,))["3"].action == third


@pytest.mark.parametrize("policy", [GREEDY, PLANS])
def test_who_finds_no_room_in_a_reservation_stops_the_main_scheduler_for_those_in_it(policy):
    """1 finds no two nodes of 8 free GPUs, so 3 comes after 2, which is in no reservation and takes all of c."""
    kept = Reservation("r", ("a", "b"), NOW - 60, NOW + 86400, users=("alice",), flags=("FLEX",))
    nodes = [*(node(name, state=NodeState.RESERVED, reservation="r", gpus_allocated=8) for name in "ab"), node("c")]
    jobs = [waits("1", 8, nodes=2, priority=9.0), waits("2", 8, required=("c",), priority=5.0),
            waits("3", 8, required=("c",), priority=1.0)]
    jobs = [replace(job, request=replace(job.request, reservation="r")) if job.job_id != "2" else job for job in jobs]
    advice = advised(policy, nodes, runs("8", "a", 8), runs("9", "b", 8), *jobs, reservations=(kept,))
    assert {number: said.action for number, said in advice.items() if number in "123"} == {
        "1": "hold", "2": "start", "3": "hold"}


def test_a_task_that_nobody_names_nodes_for_is_split_over_a_leaf_as_slurm_does_also_where_one_node_would_do():
    """Both tasks want 40 CPUs: the first has them on a, the second the last 4 of a and the rest of c, beside it."""
    nodes = [node("a", leaf="1", spine="s", cpus_allocated=20), node("b", leaf="2", spine="s"),
             node("c", leaf="1", spine="s"), node("d", leaf="2", spine="s")]
    running = replace(runs("9", "a", 0), allocations=(Allocation("a", 0, None, 20, 1 << 30),))
    task = waits("7", 0, details=Details(tasks=40, switches=0), array="7", tasks=2, priority=9.0)
    task = replace(task, request=replace(task.request, cpus=40))
    last = waits("2", 0, required=("a",), details=Details(switches=0), priority=5.0)
    advice = advised(PLANS, nodes, running, task, replace(last, request=replace(last.request, cpus=4)),
                     site=replace(SITE, tree=True))
    assert (advice["7"].action, advice["7"].placement.nodes, advice["2"].action) == ("start", ("a",), "hold")


@pytest.mark.parametrize("excludes", [{"excluded_nodes": ("x",)}, {"features": "ib"}])
def test_a_plan_waits_for_no_end_on_a_node_that_the_job_cannot_have(excludes):
    """Job 1 begins on a when 8 ends there, together with 9 on y, and not only when 10 ends on x; 2 would delay it."""
    busy, stopped = stopping()
    nodes = [node("a", gpus_allocated=1, features=("ib",)), node("x", gpus_allocated=8),
             node("y", partitions=("q",), gpus_allocated=8), busy]
    running = [runs("8", "a", 1), replace(runs("9", "y", 8), partition="q"),
               replace(runs("10", "x", 8), limit_s=36_000.0)]
    first = waits("1", 8, priority=9.0)
    first = replace(first, request=replace(first.request, **excludes))
    last = replace(waits("2", 1, required=("a",), priority=5.0), limit_s=10_000.0)
    advice = advised(PLANS, nodes, *stopped, *running, first, last)
    assert (advice["1"].action, advice["2"].action) == ("hold", "hold")


def test_a_partitions_cpus_come_back_to_its_plans_when_its_own_jobs_end():
    """Job 1 waits for 8, which has all that q may use of a, and not for 9, which ends on c before 2 would end."""
    narrow = Partition("q", nodes=("a", "c"), most_cpus_per_node=16)
    busy, stopped = stopping()
    nodes = [node("a", partitions=("p", "q"), cpus_allocated=16),
             node("c", partitions=("p", "q"), gpus=0, cpus=16, cpus_allocated=16), busy]
    running = [replace(runs(number, name, 0), partition="q", limit_s=limit_s,
                       allocations=(Allocation(name, 0, None, 16, 1 << 30),))
               for number, name, limit_s in (("8", "a", 7200.0), ("9", "c", 1500.0))]
    jobs = [replace(waits("1", 1, priority=9.0), partition="q"), waits("2", 1, required=("a",), priority=5.0)]
    advice = advised(PLANS, nodes, *running, *stopped, *jobs, partitions=(narrow,))
    assert (advice["1"].action, advice["2"].action) == ("hold", "start")


@pytest.mark.parametrize(("first", "starts"), [
    ({}, "3"), ({"reason": WaitReason.QUOTA, "reason_text": "AssocGrpJobsLimit"}, "3"),
    ({"reason": WaitReason.NODES_UNAVAILABLE, "reason_text": "ReqNodeNotAvail"}, "3"),
    ({"reason": WaitReason.HELD, "reason_text": "JobHeldUser"}, "2"),
    ({"request": Request(2, 1, 2, 1)}, "2")])
def test_a_job_that_needs_more_nodes_than_are_in_service_stops_its_partition_also_where_nothing_is_planned(
        first, starts):
    """Job 1 needs two nodes of q, and d is drained: main gives c to nobody, so that 3 has b before 2 is looked at."""
    nodes = [node("a", gpus_allocated=8), node("b"), node("c", partitions=("p", "q"), gpus_allocated=7),
             node("d", partitions=("p", "q"), state=NodeState.DRAINED)]
    jobs = [replace(waits("1", 2, nodes=2, priority=9.0), **{"partition": "q"} | first),
            waits("2", 1, nodes=2, required=("b", "c"), priority=8.0), waits("3", 8, required=("b",), priority=5.0)]
    advice = advised(GREEDY, nodes, runs("8", "a", 8), runs("9", "c", 7), *jobs)
    assert [number for number in "23" if advice[number].action == "start"] == [starts]


def test_slurms_backfill_looks_for_nodes_of_their_own_for_each_feature_that_a_job_counts():
    """Main would start 1 on a, which has both; the backfill finds a for x, and then b for y unless a is named."""
    advice = {}
    for stops in (False, True):
        for features in ((), ("y",)):
            busy, stopped = stopping()
            nodes = [node("a", features=("x", "y")), node("b", features=features), busy]
            first = waits("1", 0, features="x*1&y*1", priority=5.0)
            one = advised(GREEDY, nodes, first, *stopped) if stops else advised(GREEDY, nodes, first)
            advice[stops, features] = one["1"]
    assert {key: one.action for key, one in advice.items()} == {
        (False, ()): "start", (False, ("y",)): "start", (True, ()): "hold", (True, ("y",)): "unknown"}
    assert "on nodes of their own" in advice[True, ("y",)].reason


def test_who_counts_more_features_than_it_takes_nodes_can_run_on_a_node_that_has_them_all():
    """As ``-N2 -n1 -C 'x*1&y*1'`` asks for, of which sbatch makes one node."""
    busy = [node(name, features=("x", "y"), cpus_allocated=64) for name in "bc"]
    advice = [advised(GREEDY, [node("a", features=("x",)), *others],
                      waits("1", 0, features="x*1&y*1", details=Details(most_nodes=1)))["1"] for others in (busy, ())]
    assert ["can never run" in one.reason for one in advice] == [False, True]


def test_slurm_looks_for_later_nodes_of_who_finds_no_room_and_breaks_a_limit_on_gpus_besides():
    """Once a and b are free alike 2 is planned on a, and 3 does not delay it on b, of which more is free now."""
    few = (Association("few", ceilings=Ceilings(group=(("gpu", 2.0),))), Association("root"))
    before = replace(waits("4", 1, priority=10.0, account="few"), partition="q")
    both = waits("1", 2, nodes=2, priority=9.0, account="few"), waits("2", 0, priority=8.0, account="root")
    alone = [replace(job, request=replace(job.request, gpus_per_node=None, exclusive=True)) for job in both]
    last = replace(waits("3", 1, required=("b",), priority=5.0, account="root"), limit_s=9000.0)
    busy = [replace(job, account="root") for job in (runs("8", "a", 6), runs("9", "b", 3))]
    nodes = [node("a", gpus_allocated=6), node("b", gpus_allocated=3), node("c", partitions=("q",))]
    advice = advised(PLANS, nodes, *busy, before, *alone, last, associations=few)
    assert {number: one.action for number, one in advice.items()} == {
        "4": "start", "1": "hold", "2": "hold", "3": "start"}
