"""Our priority/multifactor beside a real Slurm's, factor by factor, by ``sprio -l`` and ``sshare -a -l``."""

import time
from dataclasses import replace

import numpy as np
import pytest
from incumbent.oracle import factors, shares, snapshot
from incumbent.site import restart, site
from judge.slurm import wait_for

from idlewatt.daemon.replay.priority.clerk import Clerk
from idlewatt.daemon.replay.priority.factors import priority
from idlewatt.daemon.replay.priority.fair_share import Tree, standing
from idlewatt.daemon.replay.state import ClusterState

ACTING = "bf_interval=1,sched_interval=1,batch_sched_delay=0"
FROZEN = "defer,sched_interval=-1,bf_interval=3600"
LINES = ("PriorityCalcPeriod=1", "PriorityMaxAge=10", "PriorityDecayHalfLife=30")
USED = (("physics", "games", 24), ("physics", "man", 8), ("biology", "news", 12), ("guests", "lp", 16))
"""Account, user and CPUs of jobs of a few seconds that give everybody a past."""
A_SECOND = 100_000 / 600
"""What a second of waiting adds to a priority: PriorityWeightAge over PriorityMaxAge."""
WISHES = (
    ("physics", "games", ("--gpus=4", "-N1", "-c3")), ("physics", "man", ("--gpus=2", "-n5", "--mem=4000", "-N1")),
    ("biology", "news", ("-N2", "--gpus-per-node=1", "--qos=high")), ("biology", "man", ("-pfast", "--qos=urgent")),
    ("guests", "news", ("-N3", "-n12")), ("guests", "lp", ("--gpus=1", "-c8", "-pfast")))


def use_up(slurm):
    """Let jobs run and end, so that usage differs."""
    for account, user, cpus in USED:
        slurm.submit(("-A", account, f"--uid={user}", "-n1", f"-c{cpus}", "-t1"), seconds=5)
    wait_for(lambda: not slurm.run("squeue", "-h"), 60)


def clerk_of(slurm):
    """Return our reckoning of the present queue, with the usage that Slurm tells, and the jobs' numbers."""
    seen = snapshot(slurm)
    state = ClusterState.from_snapshot(seen, seen.time_s)
    usage = {key: float(row["rawusage"]) for key, row in shares(slurm).items() if key[1]}
    cluster = replace(state.cluster, scheduling=replace(state.cluster.scheduling, usage=usage))
    return Clerk(cluster, state.workload, state.arrays), [job.job_id for job in state.records]


def differences(slurm):
    """Return the largest difference of each factor between sprio and us, and when Slurm reckoned by its ages."""
    told, (clerk, numbers) = factors(slurm), clerk_of(slurm)
    # A frozen scheduler lets age begin when it first looks: the moment is found by one age, and must fit all others.
    now = float(np.median([clerk.since[row] + told[number]["AGE"] / A_SECOND for row, number in enumerate(numbers)]))
    parts = clerk.factors(now)
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
@pytest.mark.xdist_group("slurms")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("more", [
    (), pytest.param(("PriorityFavorSmall=yes",), marks=pytest.mark.long),
    pytest.param(("PriorityFlags=NO_FAIR_TREE", "FairShareDampeningFactor=2"), marks=pytest.mark.long),
    pytest.param(("PriorityFlags=SMALL_RELATIVE_TO_TIME,ACCRUE_ALWAYS",), marks=pytest.mark.long)], ids=str)
def test_every_factor_is_that_of_sprio_and_every_share_that_of_sshare(more, capsys):
    with site(ACTING, *LINES, *more) as slurm:
        use_up(slurm)
        slurm.schedule(FROZEN)
        for account, user, options in WISHES:
            slurm.submit(("-A", account, f"--uid={user}", "-t5", *options))
        restart(slurm)
        restarted = time.time()
        wait_for(lambda: len(factors(slurm)) == len(WISHES))
        apart, rows = differences(slurm), standings(slurm)

    with capsys.disabled():
        print(f"\n{more}: largest differences to sprio {({name: round(value, 2) for name, value in apart.items()})}")
        for key, told, ours in rows:
            print(f"  sshare {'/'.join(key):16} {told} ours {tuple(round(value, 6) for value in ours)}")
    assert all(value <= 1.0 for name, value in apart.items() if name not in ("AGE", "PRIORITY", "TRES", "MOMENT"))
    assert apart["TRES"] <= 3.0  # sprio cuts each resource to a whole number
    assert apart["AGE"] <= 1.5 * A_SECOND
    assert apart["PRIORITY"] <= 1.5 * A_SECOND + 2
    assert abs(apart["MOMENT"] - restarted) <= 10
    for key, told, ours in rows:
        assert ours == pytest.approx(told, abs=0.01, nan_ok=True), key  # sshare tells usage in whole CPU-seconds
        assert ours[2] == pytest.approx(told[2], abs=0.01 if "NO_FAIR_TREE" in "".join(more) else 1e-6)
