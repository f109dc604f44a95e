"""Limits on what jobs may use over time: a real Slurm holds whom the advice holds, and starts the others."""

import pytest
from judge.clusters import random_cluster
from judge.rounds import advice_of, snapshots
from judge.slurm import ACTING, FROZEN, running

pytestmark = [pytest.mark.stack, pytest.mark.long, pytest.mark.xdist_group("judges"), pytest.mark.timeout(300)]
LIMITS = ("GrpTRESRunMins=gres/gpu=100", "MaxTRESMinsPerJob=gres/gpu=60")
WANTED = {"-t30 --gpus-per-node=2": "start", "-t31 --gpus-per-node=2": "hold", "-t39 --gpus-per-node=1": "start",
          "-t20 --gpus-per-node=1": "hold"}
"""The third leaves one GPU-minute of the 100 of all; a job of 62 GPU-minutes is too long by itself."""


def test_a_real_slurm_holds_jobs_by_what_they_and_the_running_ones_may_still_use():
    cluster = random_cluster(3)
    with running(cluster) as slurm:
        slurm.run("sacctmgr", "-i", "modify", "qos", "urgent", "set", *LIMITS)
        slurm.schedule(FROZEN)
        common = "--uid=news", "-A", "physics", "-p", "all", "-N1", "--qos=urgent"
        jobs = {slurm.submit([*common, *options.split()]): action
                for options, action in WANTED.items()}
        for snapshot in snapshots(slurm, cluster).values():
            told = advice_of(snapshot, snapshot.time_s, "priority+best-fit+greedy")
            assert {job: told[job].action for job in jobs} == jobs
            # The last would start but for those that start first.
            assert [told[job].cause for job, action in jobs.items() if action == "hold"] == ["limit", "ahead"]
        slurm.release(ACTING)
        states = slurm.settle()
        assert {job: "start" if states[job][0] == "RUNNING" else "hold" for job in jobs} == jobs
        # Once all has started, the first of the two is beyond both limits.
        held = {states[job][1] for job, action in jobs.items() if action == "hold"}
        assert held <= {"QOSMaxGRESMinutesPerJob", "QOSGrpGRESRunMinutes"}
