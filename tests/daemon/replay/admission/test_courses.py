"""What starts whatever Slurm does not tell, and what is not known because of it."""

from dataclasses import replace

from idlewatt.daemon.advice.advisor import Advisor
from idlewatt.daemon.settings.advice import AdviceSettings
from idlewatt.storage.details import Details
from idlewatt.storage.records import Allocation, Job, JobState, Node, Request, SchedulerSnapshot
from idlewatt.storage.rules import Association, Ceilings, Reservation, SchedulerRules, SchedulerSettings

NOW = 1_000_000.0
SITE = SchedulerSettings("none", (), enforced=("limits",), memory_counts=True, cores_whole=True, tree=False)
GREEDY, PLANS = "priority+best-fit+greedy", "priority+best-fit+whole-nodes"


def node(name, **facts):
    return Node(name, **{"partitions": ("p",), "gpus": 8, "cpus": 64, "memory_bytes": 1 << 40} | facts)


def waits(job_id, gpus, *, nodes=1, features="", required=(), model="", details=None, **facts):
    asked = Request(gpus, nodes, gpus or None, 1, gpu_model=model, features=features, required_nodes=required,
                    details=details or Details())
    return Job(job_id, NOW - 60, JobState.PENDING, "p", asked, limit_s=3600.0, user="alice", **facts)


def runs(job_id, name, gpus):
    return Job(job_id, NOW - 900, JobState.RUNNING, "p", Request(gpus), start_s=NOW - 600, limit_s=7200.0, user="bob",
               allocations=(Allocation(name, gpus, None, 2, 1 << 30),))


def advised(policy, nodes, *jobs, **rules):
    """Return the recommendation by job."""
    snapshot = SchedulerSnapshot(NOW, tuple(nodes), (), jobs, SchedulerRules(site=SITE, **rules))
    said = Advisor(AdviceSettings(policy=policy, shadow=(), draws=0)).advise(snapshot, NOW).recommendations
    return {one.job_id: one for one in said}


def test_who_starts_only_if_slurm_preferred_another_node_for_a_job_without_gpus_is_unknown():
    """A component that waits for the other keeps a node: b if the main scheduler was there before, else a."""
    nodes = [node("a", gpu_model="a100", cpus_allocated=4, gpus_allocated=1),
             node("b", gpu_model="v100", gpus_allocated=8, cpus_allocated=2)]
    told = advised(GREEDY, nodes, runs("8", "a", 1), runs("9", "b", 8), waits("1", 2, model="v100", priority=9.0),
                   waits("4+0", 0, group="4", priority=7.0), waits("4+1", 8, group="4", priority=7.0),
                   waits("5", 0, required=("b",), priority=1.0), waits("6", 0, required=("a",), priority=1.0))
    assert (told["5"].action, told["5"].cause) == ("unknown", "unknown")
    assert "Slurm does not tell which nodes its last job with GPUs made it prefer" in told["5"].reason
    assert told["6"].action == "start"


def test_who_breaks_a_limit_on_gpus_makes_slurm_prefer_nodes_all_the_same():
    """Slurm looks for nodes of job 1 before it finds the limit: 4+0 is kept b, but where its settings are just read."""
    nodes = [node("a", gpu_model="a100", cpus_allocated=4, gpus_allocated=1),
             node("b", gpu_model="v100", gpus_allocated=1, cpus_allocated=2)]
    few = (Association("few", ceilings=Ceilings(group=(("gpu", 1.0),))), Association("root"))
    jobs = [waits("1", 2, model="v100", priority=9.0, account="few"), waits("4+0", 0, group="4", priority=7.0),
            waits("4+1", 8, group="4", priority=7.0), waits("5", 0, required=("b",), priority=1.0),
            waits("6", 0, required=("a",), priority=1.0)]
    told = advised(GREEDY, nodes, runs("8", "a", 1), runs("9", "b", 1),
                   *(job if job.account else replace(job, account="root") for job in jobs), associations=few)
    assert {number: one.action for number, one in told.items()} == {
        "1": "hold", "4+0": "hold", "4+1": "hold", "5": "unknown", "6": "start"}


def counting(*behind):
    """Return advice beside a job of one node with x and one with y, which is reserved soon."""
    nodes = [node("a", features=("x",)), node("b", features=("x",)), node("c", features=("y",))]
    first = waits("1", 2, features="[x*1&y*1]", nodes=2, priority=9.0)
    first = replace(first, request=replace(first.request, gpus_per_node=None))
    soon = Reservation("soon", ("c",), NOW + 600, NOW + 3600, users=("root",))
    return advised(PLANS, nodes, first, *behind, reservations=(soon,))


def test_where_slurm_keeps_nodes_for_who_counts_features_though_it_cannot_start_nothing_is_known():
    """Slurm takes any node for the feature that no node has now, finds out at the start, and keeps both."""
    told = counting(waits("2", 8, priority=1.0))
    assert told["1"].action == "hold"
    assert told["2"].action == "unknown"
    assert "count features" in told["2"].reason
