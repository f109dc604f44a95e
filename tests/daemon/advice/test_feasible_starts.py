"""Starts as the scheduler would take them: what it would refuse is held, and what costs something is said with it."""

from dataclasses import replace

import pytest

from idlewatt.daemon.advice.advisor import Advisor
from idlewatt.daemon.settings.advice import AdviceSettings
from idlewatt.storage.details import Details
from idlewatt.storage.records import Allocation, Job, JobState, Node, NodeState, Partition, Request, SchedulerSnapshot
from idlewatt.storage.rules import Association, Ceilings, License, Qos, Reservation, SchedulerRules, SchedulerSettings

NOW = 1_000_000.0
SITE = SchedulerSettings("none", (), enforced=("limits",), memory_counts=True, cores_whole=True, tree=False)


def node(name, **facts):
    return Node(name, **{"partitions": ("p",), "gpus": 8, "cpus": 64, "memory_bytes": 1 << 40} | facts)


def waits(job_id, gpus, each=None, **facts):
    details = facts.pop("details", Details())
    usual = {"partition": "p", "limit_s": 3600.0, "user": "alice", "account": "proj", "qos": "normal"}
    return Job(job_id, NOW - 60, JobState.PENDING, request=Request(gpus, 1, each, 1, details=details), **usual | facts)


def runs(job_id, name, gpus, **facts):
    usual = {"partition": "p", "user": "bob", "account": "proj", "qos": "normal"}
    return Job(job_id, NOW - 900, JobState.RUNNING, request=Request(gpus), start_s=NOW - 600, limit_s=7200.0,
               allocations=(Allocation(name, gpus, None, 2, 1 << 30),), **usual | facts)


def recommended(nodes, *jobs, site=SITE, partitions=(), policy="priority+best-fit+whole-nodes", **rules):
    """Return recommendations by job."""
    snapshot = SchedulerSnapshot(NOW, tuple(nodes), tuple(partitions), jobs, SchedulerRules(site=site, **rules))
    advice = Advisor(AdviceSettings(policy=policy, shadow=(), draws=0)).advise(snapshot, NOW)
    return {row.job_id: row for row in advice.recommendations}


def advised(nodes, *jobs, **facts):
    """Return action, placement and reason by job."""
    return {job_id: (row.action, str(row.placement) if row.action == "start" else row.cause, row.reason)
            for job_id, row in recommended(nodes, *jobs, **facts).items()}


def test_a_job_that_splits_as_it_fits_starts_on_what_is_left():
    advice = advised([node("a", gpus_allocated=4, cpus_allocated=2), node("b", gpus_allocated=5, cpus_allocated=2)],
                     runs("8", "a", 4), runs("9", "b", 5), waits("1", 7))
    assert advice["1"][:2] == ("start", "a:4,b:3")


def test_what_a_limit_refuses_does_not_keep_others_from_starting():
    accounts = (Association("proj", ceilings=Ceilings(group=(("gpu", 6.0),))), Association("proj", "alice"))
    advice = advised([node("a")], waits("1", 4, 4), waits("2", 4, 4), waits("3", 2, 2), associations=accounts)
    assert (advice["1"][:2], advice["3"][:2]) == (("start", "a:4"), ("start", "a:2"))
    assert advice["2"] == ("hold", "ahead", "those who come first leave too little: the limit of account proj is "
                                          "6 GPUs in all: 6 in use, it needs 4")


def test_what_those_who_come_first_use_up_is_said_to_be_theirs():
    """The limit and the licences would do for each alone."""
    licences = (License("ansys", 1, 0),)
    advice = advised([node("a")], *(waits(number, 1, 1, details=Details(licenses="ansys")) for number in "12"),
                     licenses=licences)
    assert advice["2"] == ("hold", "ahead", "those who come first leave too little: the scheduler would say Licenses: "
                                          "needs 1 of ansys, 0 free")


@pytest.mark.parametrize("policy", ["priority+best-fit+whole-nodes", "limit-aged+best-fit+easy"])
def test_of_a_job_that_waits_for_a_licence_nobody_says_that_it_starts_now(policy):
    rows = recommended([node("a")], waits("1", 4, 4, details=Details(licenses="ansys")), waits("2", 6, 6),
                       waits("3", 8, 8), licenses=(License("ansys", 1, 1),), policy=policy)
    assert {job_id: row.expected_start_s for job_id, row in rows.items()} == {"1": None, "2": NOW, "3": NOW + 3600}
    assert (rows["1"].action, rows["1"].cause, rows["1"].placement) == ("hold", "licenses", None)


def test_components_of_a_heterogeneous_job_start_together_or_not_at_all():
    parts = [waits("4+0", 2, 2, group="4"), waits("4+1", 7, 7, group="4")]
    advice = advised([node("a")], *parts)
    assert {row[0] for row in advice.values()} == {"hold"}
    assert advice["4+0"][1:] == ("group", "its component 4+1 cannot start now, and all start together")
    advice = advised([node("a"), node("b")], *parts)
    assert {row[:2] for row in advice.values()} == {("start", "a:2"), ("start", "b:7")}


def test_an_exclusive_job_is_advised_with_all_the_gpus_that_it_will_get():
    job = waits("1", 1, 1)
    job = replace(job, request=replace(job.request, exclusive=True))
    assert advised([node("a")], job)["1"][:2] == ("start", "a:8")


FULL = node("a", gpus_allocated=8, cpus_allocated=2)
BY_QOS = (Qos("normal"), Qos("urgent", preempts=("normal",), priority=100.0))


@pytest.mark.parametrize(("site", "action", "reason"), [
    (replace(SITE, preempt_type="qos", preempt_mode=("REQUEUE",)), "start",
     "starts by preempting 9 of bob (8 GPUs) on a"),
    (replace(SITE, preempt_type="qos", preempt_mode=("SUSPEND", "GANG")), "hold", "no GPU is free in p"),
    (SITE, "hold", "no GPU is free in p"),
    (replace(SITE, preempt_type=None), "unknown", "unknown: whether it may preempt others is not known (PreemptType)"),
    (replace(SITE, preempt_type="qos", preempt_mode=("REQUEUE",), exempt_s=3600.0), "hold", "no GPU is free in p"),
])
def test_what_preemption_can_take_is_said_with_whom_it_would_cost(site, action, reason):
    advice = advised([FULL], runs("9", "a", 8), waits("1", 2, 2, qos="urgent"), site=site, qos=BY_QOS)
    assert (advice["1"][0], advice["1"][2]) == (action, reason)
    ordinary = advised([FULL], runs("9", "a", 8), waits("1", 2, 2), site=site, qos=BY_QOS)
    assert ordinary["1"][0] == "hold"


def test_a_partition_of_a_higher_tier_takes_what_a_lower_one_holds():
    site = replace(SITE, preempt_type="partition_prio", preempt_mode=("REQUEUE",))
    partitions = (Partition("p", ("a",)), Partition("high", ("a",), priority_tier=5))
    shared = replace(FULL, partitions=("p", "high"))
    advice = advised([shared], runs("9", "a", 8), waits("1", 2, 2, partition="high"), site=site, partitions=partitions)
    assert advice["1"] == ("start", "a:2", "starts by preempting 9 of bob (8 GPUs) on a")
    kept = (replace(partitions[0], preempt_mode=("OFF",)), partitions[1])
    advice = advised([shared], runs("9", "a", 8), waits("1", 2, 2, partition="high"), site=site, partitions=kept)
    assert advice["1"][0] == "hold"


def test_a_node_that_is_powered_down_is_woken_where_no_other_has_room():
    off = node("b", state=NodeState.POWERED_DOWN, wakes=True)
    advice = advised([FULL, off], runs("9", "a", 8), waits("1", 2, 2))
    assert advice["1"] == ("start", "b:2", "starts as soon as b has been woken")
    assert advised([node("a"), off], waits("1", 2, 2))["1"][1] == "a:2"


def test_a_plan_keeps_its_nodes_whole_from_those_who_would_still_run_then():
    half = node("a", gpus_allocated=4, cpus_allocated=2)
    long, first = waits("2", 2, 2, priority=1.0, limit_s=86400.0), waits("1", 8, 8, priority=9.0)
    advice = advised([half], runs("9", "a", 4), first, long, waits("3", 2, 2, priority=1.0, limit_s=3600.0))
    assert {job: row[0] for job, row in advice.items()} == {"1": "hold", "2": "hold", "3": "start"}
    assert advice["2"][1] == "ahead"


def walked(nodes, *jobs, policy="priority+best-fit+whole-nodes", partitions=(), site=SITE, **rules):
    """Return where each job starts, or why it is held."""
    snapshot = SchedulerSnapshot(NOW, tuple(nodes), tuple(partitions), jobs, SchedulerRules(site=site, **rules))
    advice = Advisor(AdviceSettings(policy=policy, shadow=(), draws=0)).advise(snapshot, NOW)
    return {row.job_id: str(row.placement) if row.action == "start" else row.cause
            for row in advice.recommendations}


GREEDY = "priority+best-fit+greedy"


def test_who_loses_nodes_to_those_before_is_tried_on_others_before_those_behind_start():
    """Two nodes of three: the first job takes one whole, and the last may not take what the second needs then."""
    whole = waits("1", 2, 2, priority=9.0)
    whole = replace(whole, request=replace(whole.request, exclusive=True))
    pair = replace(waits("2", 2, 1, priority=5.0, details=Details(whole_memory=True)))
    pair = replace(pair, request=replace(pair.request, nodes=2))
    advice = walked([node("a"), node("b"), node("c")], whole, pair, waits("3", 8, 8, priority=1.0), policy=GREEDY)
    assert advice == {"1": "a:8", "2": "b:1,c:1", "3": "ahead"}


def test_what_is_refused_now_is_planned_and_keeps_its_nodes():
    """All the memory of a node is wanted, of which some is in use: nobody long may start there meanwhile."""
    whole = waits("1", 1, 1, priority=9.0, details=Details(whole_memory=True))
    advice = walked([node("a", gpus_allocated=1, cpus_allocated=2, memory_allocated_bytes=1 << 30)], runs("9", "a", 1),
                    whole, waits("2", 1, 1, priority=5.0, limit_s=86_400.0), waits("3", 1, 1, priority=1.0))
    assert advice == {"1": "room", "2": "ahead", "3": "a:1"}


@pytest.mark.parametrize(("limit_s", "advice"), [(6600.0, "ahead"), (6500.0, "a:1")])
def test_who_ends_in_the_minute_in_which_a_plan_begins_is_held(limit_s, advice):
    """The running job ends in 6600 s; plans begin at whole minutes."""
    half = node("a", gpus_allocated=4, cpus_allocated=2)
    found = walked([half], runs("9", "a", 4), waits("1", 8, 8, priority=9.0), waits("2", 1, 1, limit_s=limit_s))
    assert found["2"] == advice


def test_jobs_of_reservations_come_before_all_others():
    mine = waits("2", 8, 8, priority=1.0)
    mine = replace(mine, request=replace(mine.request, reservation="soon"))
    soon = Reservation("soon", ("a",), NOW + 86_400, NOW + 90_000, users=("alice",), flags=("FLEX",))
    advice = walked([node("a")], waits("1", 8, 8, priority=9.0), mine, reservations=(soon,), policy=GREEDY)
    assert advice == {"2": "a:8", "1": "ahead"}


PARTS = [waits("4+0", 2, 2, group="4", priority=9.0), waits("4+1", 2, 2, group="4", priority=9.0)]


@pytest.mark.parametrize("policy", [GREEDY, "priority+best-fit+whole-nodes"])
def test_components_share_no_node(policy):
    """Slurm starts heterogeneous jobs at the end of a round only, and each component keeps its node whole till then."""
    assert set(walked([node("a")], *PARTS, policy=policy).values()) == {"group", "ahead"}
    assert walked([node("a"), node("b")], *PARTS, waits("5", 1, 1, priority=1.0), policy=policy) == {
        "4+0": "a:2", "4+1": "b:2", "5": "a:1"}


def test_a_component_that_fits_keeps_its_node_from_those_behind_it():
    assert walked([node("a")], *PARTS, waits("5", 1, 1, priority=1.0), policy=GREEDY)["5"] == "ahead"


def test_the_first_nodes_are_filled_with_tasks():
    """``-n40 -N2`` takes 38 CPUs of the first node and a core of the second, not 20 of each."""
    nodes = [node(name, gpus=0, cpus=64, threads_per_core=2) for name in "ab"]
    wide = waits("1", 0, priority=9.0, details=Details(tasks=40))
    wide = replace(wide, request=replace(wide.request, nodes=2, cpus=40))
    narrow = waits("2", 0, priority=1.0, details=Details(tasks=60))
    narrow = replace(narrow, request=replace(narrow.request, cpus=60))
    assert walked(nodes, wide, narrow, policy=GREEDY) == {"1": "a:0,b:0", "2": "b:0"}


SPECIAL, USUAL = Partition("special", ("a",), priority_tier=3), Partition("all", ("a", "b"))


def test_who_names_partitions_of_several_tiers_comes_later_in_the_lower_one():
    """In ``special`` it would be before all others, but there is no room: in ``all`` the other one comes first."""
    both = waits("1", 8, 8, priority=1.0, partition="special,all")
    other = waits("2", 8, 8, priority=5.0, partition="all")
    full = node("a", partitions=("special", "all"), gpus_allocated=8, cpus_allocated=2)
    advice = walked([full, node("b", partitions=("all",))], runs("9", "a", 8), both, other,
                    partitions=(SPECIAL, USUAL), policy=GREEDY)
    assert advice == {"2": "b:8", "1": "ahead"}
    free = node("a", partitions=("special", "all"))
    assert walked([free], both, other, partitions=(SPECIAL, USUAL), policy=GREEDY)["1"] == "a:8"


def test_memory_by_cpu_of_a_node_of_ones_own_is_that_of_all_its_cpus():
    """As Slurm reckons: 64 CPUs of 4 GB are more than the 250 GB of the node, though only four are asked for."""
    job = waits("1", 0, priority=1.0, details=Details(tasks=4, memory_per_cpu_bytes=4_000 << 20))
    job = replace(job, request=replace(job.request, exclusive=True, cpus=4))
    assert walked([node("a", gpus=0, cpus=64, memory_bytes=250_000 << 20)], job, policy=GREEDY)["1"] != "a:0"
    assert walked([node("a", gpus=0, cpus=64, memory_bytes=256_000 << 20)], job, policy=GREEDY) == {"1": "a:0"}


def test_who_can_start_only_after_a_reservation_is_planned_then():
    """A node of two is reserved for an hour: from then on both are kept for the job of two nodes."""
    soon = Reservation("soon", ("b",), NOW, NOW + 3600, users=("root",))
    pair = waits("1", 16, 8, priority=9.0)
    pair = replace(pair, request=replace(pair.request, nodes=2))
    advice = walked([node("a"), node("b")], pair, waits("2", 8, 8, priority=1.0, limit_s=7200.0),
                    waits("3", 8, 8, priority=1.0, limit_s=3000.0), reservations=(soon,))
    assert advice == {"1": "nodes", "2": "ahead", "3": "a:8"}


def test_gpus_of_a_split_job_are_taken_as_slurm_splits_them():
    """Of four GPUs on two nodes the first gives all that it can, but for one on each of the others."""
    split = waits("1", 4, priority=9.0)
    split = replace(split, request=replace(split.request, nodes=2))
    advice = walked([node("a", gpus=4), node("b", gpus=4)], split, waits("2", 3, 3, priority=1.0),
                    waits("3", 1, 1, priority=1.0), policy=GREEDY)
    assert advice == {"1": "a:3,b:1", "2": "b:3", "3": "a:1"}


PLANS = "priority+best-fit+whole-nodes"


def test_a_limit_of_those_who_start_first_leaves_nothing_kept_for_who_breaks_it():
    """Slurm finds the limit before it would keep nodes."""
    accounts = (Association("proj"), Association("small", ceilings=Ceilings(group=(("gpu", 5.0),))))
    advice = walked([node("a"), node("b", gpus_allocated=8, cpus_allocated=2)], runs("9", "b", 8),
                    waits("1", 4, 4, priority=9.0, account="small"), waits("2", 8, 8, priority=8.0, account="small"),
                    waits("3", 4, 4, priority=1.0, limit_s=90_000.0), policy=PLANS, associations=accounts)
    assert (advice["1"], advice["3"]) == ("a:4", "a:4")


@pytest.mark.parametrize("policy", [GREEDY, "priority+best-fit+whole-nodes"])
@pytest.mark.parametrize(("barred", "fits", "behind"), [("4+1", "4+0", "ahead"), ("4+0", "4+1", "ahead")])
def test_half_a_heterogeneous_job_never_starts(policy, barred, fits, behind):
    """One component breaks a limit on GPUs, which Slurm sees last; the other keeps its node all the same."""
    accounts = (Association("proj"), Association("small", ceilings=Ceilings(group=(("gpu", 1.0),))))
    parts = [waits(name, 2, 2, group="4", priority=priority, account="small" if name == barred else "proj")
             for name, priority in (("4+0", 9.0), ("4+1", 8.0))]
    advice = walked([node("a")], *parts, waits("5", 1, 1, priority=1.0, limit_s=60.0), policy=policy,
                    associations=accounts)
    assert (advice[barred], advice["5"]) == ("limit", behind)
    assert advice[fits] in ("group", "ahead")


def test_components_behind_one_that_cannot_start_keep_nothing():
    """Slurm looks at no further component of a job once one was found not to start."""
    parts = [waits("4+0", 8, 8, group="4", priority=9.0, partition="taken"),
             waits("4+1", 2, 2, group="4", priority=8.0)]
    nodes = [node("a"), node("b", partitions=("taken",), gpus_allocated=8, cpus_allocated=2)]
    advice = walked(nodes, runs("9", "b", 8, partition="taken"), *parts, waits("5", 1, 1, priority=1.0), policy=GREEDY)
    assert advice["5"] == "a:1"


def test_who_asks_by_socket_is_given_what_it_asks_for_in_words_and_command():
    job = replace(waits("1", 4, details=Details(gpus_per_socket=2, tasks=2)), raw_id=1)
    snapshot = SchedulerSnapshot(NOW, (node("a", sockets=2, threads_per_core=2, gpu_indexes_allocated=()),), (),
                                 (job,), SchedulerRules(site=SITE))
    row, = Advisor(AdviceSettings(policy=GREEDY, shadow=(), draws=0)).advise(snapshot, NOW).recommendations
    assert (row.action, row.command) == ("start", "scontrol update jobid=1 ReqNodeList=a")


def test_no_task_beyond_the_limit_of_an_array_is_planned_once_so_many_have_started():
    """Slurm looks at no further task then, so that nothing is kept for the second; 3 stops the main scheduler."""
    tasks = [waits(f"1_{number}", 5, 5, priority=9.0, array="1", array_limit=1) for number in range(2)]
    other = waits("3", 8, 8, priority=5.0)
    other = replace(other, request=replace(other.request, features="y"))
    full = node("b", features=("y",), gpus_allocated=8, cpus_allocated=2)
    behind = waits("2", 2, 2, priority=1.0, limit_s=86_400.0)
    advice = walked([node("a"), full], runs("9", "b", 8), *tasks, other, behind)
    assert (advice["1_0"], advice["2"]) == ("a:5", "a:2")


def test_of_an_array_all_tasks_are_planned_in_its_first_partition_and_one_in_each_of_the_others():
    """As a real Slurm 22.05 planned ``--array=0-3%2 -p v100,special``; job 2 has room beside one task in q."""
    tasks = [waits(f"1_{number}", 8, 8, priority=9.0, array="1", partition="p,q", raw_id=1) for number in range(2)]
    nodes = [node(name, partitions=(part,), gpus_allocated=4, cpus_allocated=2) for name, part in ("ap", "bq", "cq")]
    behind = waits("2", 4, 4, priority=1.0, partition="q", limit_s=86_400.0)
    advice = walked(nodes, *(runs(name, name, 4, partition="pqq"["abc".index(name)]) for name in "abc"), *tasks, behind)
    assert advice == {"1_0": "room", "1_1": "room", "2": "c:4"}


def test_who_is_told_all_the_memory_of_a_larger_node_is_planned_all_the_same():
    """Slurm tells that for who does not ask for memory, and takes what goes along with its GPUs."""
    first = waits("1", 8, 8, priority=9.0, details=Details(memory_per_gpu_bytes=1 << 34))
    first = replace(first, request=replace(first.request, memory_bytes=1 << 40, gpu_model="v100"))
    behind = waits("2", 2, 2, priority=1.0, limit_s=86_400.0)
    behind = replace(behind, request=replace(behind.request, gpu_model="v100"))
    small = node("b", gpu_model="v100", memory_bytes=1 << 39, gpus_allocated=4, cpus_allocated=2)
    advice = walked([node("a", gpu_model="a100"), small], runs("9", "b", 4), first, behind)
    assert advice == {"1": "room", "2": "ahead"}


def test_gpus_by_task_go_first_to_as_many_tasks_of_each_node_as_a_core_holds():
    """As a real Slurm 22.05 split ``--gpus-per-task=2 -n4`` over two nodes."""
    job = waits("1", 8, details=Details(gpus_per_task=2, tasks=4))
    job = replace(job, request=replace(job.request, nodes=2, cpus=4))
    assert walked([node(name, threads_per_core=2) for name in "ab"], job) == {"1": "a:4,b:4"}


def test_no_node_is_worth_powering_down_on_which_a_job_is_advised_to_start_now():
    """By preemption, which the policy's own forecast knows nothing of."""
    site = replace(SITE, preempt_type="partition_prio", preempt_mode=("REQUEUE",))
    partitions = (Partition("p", ("a", "b")), Partition("high", ("a", "b"), priority_tier=5))
    nodes = (*(replace(one, partitions=("p", "high")) for one in (FULL, node("b"))), node("c", partitions=("other",)))
    wide = waits("1", 16, 8, partition="high")
    jobs = (replace(runs("9", "a", 8), limit_s=86400.0), replace(wide, request=replace(wide.request, nodes=2)))
    snapshot = SchedulerSnapshot(NOW, nodes, partitions, jobs, SchedulerRules(site=site))
    settings = AdviceSettings(policy="priority+best-fit+whole-nodes", shadow=(), draws=0, spare_nodes=0)
    advice = Advisor(settings).advise(snapshot, NOW)
    (start,) = (row for row in advice.recommendations if row.action == "start")
    assert start.placement.nodes == ("a", "b")
    assert list(advice.power_down) == ["c"]
