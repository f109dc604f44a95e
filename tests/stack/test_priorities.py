"""Our priority/multifactor beside a real Slurm's, factor by factor, by ``sprio -l`` and ``sshare -a -l``."""

import json
import time
from dataclasses import replace

import numpy as np
import pytest
from incumbent.oracle import factors, shares, snapshot
from incumbent.site import WEIGHTS, Preempting, restart, site
from judge.slurm import wait_for

from idlewatt.daemon.replay.priority.billing import charged_of_runs
from idlewatt.daemon.replay.priority.calculator import PriorityCalculator
from idlewatt.daemon.replay.priority.factors import priority
from idlewatt.daemon.replay.priority.fair_share import Tree, standing
from idlewatt.daemon.replay.state import ClusterState
from idlewatt.daemon.replay.workload import Workload
from idlewatt.storage.charges import Charge
from idlewatt.storage.records import JobState

ACTING = "bf_interval=1,sched_interval=1,batch_sched_delay=0"
FROZEN = "defer,sched_interval=-1,bf_interval=3600"
LINES = ("PriorityCalcPeriod=1", "PriorityMaxAge=10", "PriorityDecayHalfLife=30")
USED = (("physics", "games", 24), ("physics", "man", 8), ("biology", "news", 12), ("guests", "lp", 16))
"""Account, user and CPUs of jobs of a few seconds that give everybody a past."""
A_SECOND = 100_000 / 600
"""What a second of waiting adds to a priority: PriorityWeightAge over PriorityMaxAge."""
WISHES = (
    ("physics", "games", ("--gpus=4", "-N1", "-c3", "--nice=300")),
    ("physics", "man", ("--gpus=2", "-n5", "--mem=4000", "-N1", "--nice=-2")),
    ("biology", "news", ("-N2", "--gpus-per-node=1", "--qos=high", "--nice=-1500")),
    ("biology", "man", ("-pfast", "--qos=urgent")),
    ("guests", "news", ("-N3", "-n12")), ("guests", "lp", ("--gpus=1", "-c8", "-pfast")))
CHARGED = "TRESBillingWeights=CPU=1.0,Mem=0.5G,GRES/gpu=3.5,node=2"
DEAR = "TRESBillingWeights=CPU=1000.0,Mem=500G,GRES/gpu=3500,node=2000"
"""A thousand times as much: sshare tells usage in whole units, and the classic formula follows it closely."""
WEIGHED = (*(line for line in WEIGHTS if "TRES" not in line),
           "PriorityWeightTRES=CPU=3000,Mem=500,GRES/gpu=7000,billing=900,node=1100", "PriorityWeightAssoc=6000")
HELD = (("-n1", "-c3"), ("-N1", "-c3", "--gpus=2", "--mem=4000"), ("-N2", "--gpus-per-node=1"),
        ("-N1", "-n2", "--exclusive", "--mem=3000"), ("-pfast", "-N1", "-c2", "--gpus=1"))
"""What jobs hold whose charges are compared."""


def use_up(slurm):
    """Let jobs run and end, so that usage differs."""
    for account, user, cpus in USED:
        slurm.submit(("-A", account, f"--uid={user}", "-n1", f"-c{cpus}", "-t1"), seconds=5)
    wait_for(lambda: not slurm.run("squeue", "-h"))


def calculator_of(slurm):
    """Return our reckoning of the present queue, with the usage that Slurm tells, and the jobs' numbers."""
    seen = snapshot(slurm)
    state = ClusterState.from_snapshot(seen, seen.time_s)
    usage = {key: float(row["rawusage"]) for key, row in shares(slurm).items() if key[1]}
    cluster = replace(state.cluster, scheduling=replace(state.cluster.scheduling, usage=usage))
    return PriorityCalculator(cluster, state.workload, state.arrays), [job.job_id for job in state.records]


def differences(slurm):
    """Return the largest difference of each factor between sprio and us, and when Slurm reckoned by its ages."""
    told, (calculator, numbers) = factors(slurm), calculator_of(slurm)
    # A frozen scheduler lets age begin when it first looks: the moment is found by one age, and must fit all others.
    now = float(np.median([calculator.since[row] + told[number]["AGE"] / A_SECOND
                           for row, number in enumerate(numbers)]))
    parts = calculator.factors(now)
    parts = {**parts, "PRIORITY": priority(parts)}
    assert set(told) == set(numbers)
    return {name: max(abs(float(parts[name][row]) - told[number][name]) for row, number in enumerate(numbers))
            for name in parts} | {"MOMENT": now}


def standings(slurm):
    """Return what sshare prints and what we make of the same usage: shares, effective usage, factor, by association."""
    told, scheduling = shares(slurm), ClusterState.from_snapshot(snapshot(slurm), 0.0).cluster.scheduling
    tree = Tree(scheduling.members)
    usage = np.zeros(len(tree))
    for key, row in told.items():
        if key[1]:
            tree.add(usage, tree.rows[key], float(row["rawusage"]))
    ours = standing(scheduling.priority, tree, usage)
    return [(key, tuple(float(row[name] or "nan") for name in ("normshares", "effectvusage", "fairshare")),
             tuple(float(column[tree.rows[key]]) for column in (ours.shares, ours.effective, ours.factor)))
            for key, row in told.items() if key[1]]


@pytest.mark.stack
@pytest.mark.xdist_group("judges")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("more", [
    (), pytest.param(("PriorityFavorSmall=yes",), marks=pytest.mark.long),
    pytest.param(("PriorityFlags=NO_FAIR_TREE", "FairShareDampeningFactor=2"), marks=pytest.mark.long),
    pytest.param(("PriorityFlags=SMALL_RELATIVE_TO_TIME,ACCRUE_ALWAYS",), marks=pytest.mark.long),
    pytest.param(("PriorityFlags=MAX_TRES,NO_NORMAL_ALL",), marks=pytest.mark.long)], ids=str)
def test_every_factor_is_that_of_sprio_and_every_share_that_of_sshare(more, capsys):
    with site(ACTING, *LINES, *more, weights=WEIGHED, preempting=Preempting(slow=DEAR)) as slurm:
        use_up(slurm)
        slurm.schedule(FROZEN)
        for account, user, options in WISHES:
            slurm.submit(("-A", account, f"--uid={user}", "-t5", *options))
        restart(slurm)
        restarted = time.time()
        wait_for(lambda: len(factors(slurm)) == len(WISHES))
        apart, rows = differences(slurm), standings(slurm)
        of_associations = {told["ASSOC"] for told in factors(slurm).values()}

    with capsys.disabled():
        print(f"\n{more}: largest differences to sprio {({name: round(value, 2) for name, value in apart.items()})}")
        for key, told, ours in rows:
            print(f"  sshare {'/'.join(key):16} {told} ours {tuple(round(value, 6) for value in ours)}")
    assert all(value <= 1.0 for name, value in apart.items() if name not in ("AGE", "PRIORITY", "TRES", "MOMENT"))
    assert len(of_associations) == 4, "inherited, own, of a user alone, and none"
    assert apart["TRES"] <= 3.0  # sprio cuts each resource to a whole number
    assert apart["AGE"] <= 1.5 * A_SECOND
    assert apart["PRIORITY"] <= 1.5 * A_SECOND + 2
    assert abs(apart["MOMENT"] - restarted) <= 10
    for key, told, ours in rows:
        assert ours == pytest.approx(told, abs=1e-5, nan_ok=True), key


def charges(slurm):
    """Return by number what Slurm charges each running job for a second, and what we do."""
    told = {str(job["job_id"]): job["billable_tres"] for job in json.loads(slurm.run("squeue", "--json"))["jobs"]}
    seen = snapshot(slurm)
    state = ClusterState.from_snapshot(seen, seen.time_s)
    waiting = Workload.from_records([replace(job, state=JobState.PENDING) for job in seen.jobs])
    cluster = state.cluster
    calculator = PriorityCalculator(cluster, waiting, ClusterState.of(cluster, waiting).arrays)
    runs = [Charge(job.account, job.user, job.qos, sum(part.cpus for part in job.allocations), 0.0, None, job.partition,
                   len(job.allocations), sum(part.gpus for part in job.allocations), job.request.gpu_model,
                   sum(part.memory_bytes for part in job.allocations)) for job in seen.jobs]
    recorded = dict(zip((job.job_id for job in seen.jobs), charged_of_runs(cluster.scheduling, runs), strict=True))
    return [(told[number], float(calculator._bill.asked[row]), float(recorded[number]))
            for row, number in enumerate(waiting.ids)]


@pytest.mark.stack
@pytest.mark.xdist_group("judges")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("flags", ["", pytest.param("PriorityFlags=MAX_TRES", marks=pytest.mark.long)])
def test_jobs_are_charged_what_slurm_charges_them_and_usage_is_that_of_sshare(flags, capsys):
    lines = (flags, "PriorityCalcPeriod=1", "PriorityDecayHalfLife=1000-00:00:00")
    with site(ACTING, *lines, preempting=Preempting(slow=CHARGED)) as slurm:
        for options in HELD:
            slurm.submit(("-A", "physics", "--uid=games", "-t5", *options), seconds=20)
        wait_for(lambda: slurm.run("squeue", "-h", "-t", "R").count("\n") == len(HELD))
        found = charges(slurm)
        wait_for(lambda: not slurm.run("squeue", "-h"))
        ran = [line.split("|") for line in slurm.run("sacct", "-aXnP", "-o", "jobid,elapsedraw").split()]
        told = float(shares(slurm)["physics", "games"]["rawusage"])

    with capsys.disabled():
        print(f"\n{flags}: (billable_tres, ours, ours of the record) {found}; sshare {told}")
    for slurms, ours, recorded in found:
        assert (ours, recorded) == pytest.approx((slurms, slurms))
    assert len(ran) == len(HELD)
    used = sum(rate * float(seconds) for (rate, _, _), (_, seconds) in zip(found, ran, strict=True))
    # Ends are booked to the second.
    assert told == pytest.approx(used, abs=2 * sum(rate for rate, _, _ in found))
