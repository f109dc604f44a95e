"""Limits on what jobs may use over time: a real Slurm holds whom the advice holds, and starts the others."""

from dataclasses import replace

import pytest
from judge.clusters import random_cluster, write_templates
from judge.rounds import advice_of, snapshots
from judge.slurm import ACTING, FROZEN, booted, enrol, running, wait_for

pytestmark = [pytest.mark.stack, pytest.mark.long, pytest.mark.xdist_group("judges"), pytest.mark.timeout(1800)]
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


PAST = {"urgent": ("GrpTRESMins=gres/gpu=0",), "two": ("GrpTRESMins=gres/gpu=100", "MaxJobsPerUser=-1"),
        "mine": ("GrpWall=5",), "brief": ("GrpTRESMins=gres/gpu=30",)}
EARLIER = "--qos=mine -t5", "--qos=brief -t5 --gpus-per-node=1"
"""They end after 75 seconds: 1.25 minutes of mine and a GPU-minute of brief are used."""
ONE_GPU, TWO_GPUS = " --gpus-per-node=1", " --gpus-per-node=2"
BY_THE_PAST = {
    "--qos=urgent -t30": "start", "--qos=urgent -t30" + ONE_GPU: "hold",
    "--qos=two -t60" + TWO_GPUS: "start", "--qos=two -t70" + ONE_GPU: "start", "--qos=two -t33" + ONE_GPU: "start",
    "--qos=mine -t4": "start", "--qos=mine -t5": "start",
    "--qos=brief -t30" + ONE_GPU: "start", "--qos=brief -t9" + ONE_GPU: "start"}
SAFELY = BY_THE_PAST | {"--qos=two -t60" + TWO_GPUS: "hold", "--qos=two -t33" + ONE_GPU: "hold",
                        "--qos=mine -t5": "hold", "--qos=brief -t30" + ONE_GPU: "hold"}
"""Of the 100 GPU-minutes of two, 120 are too many and 70 leave 30; of the 30 of brief one is used, and of the 5 minutes
of mine a whole one: what runs beside does not count there. Slurm drops parts of a minute of what is used and of what is
left, so that after its first PriorityCalcPeriod 31 would fit."""

STARTED = ("RUNNING", "COMPLETING", "TIMEOUT")


@pytest.mark.parametrize(("enforced", "wanted"), [("associations,limits,qos", BY_THE_PAST),
                                                  ("associations,limits,qos,safe", SAFELY)])
def test_a_real_slurm_holds_jobs_by_what_others_have_used_so_far(enforced, wanted):
    cluster = replace(random_cluster(3), multifactor=True)  # usage is counted by this plug-in alone

    def write(folder):
        write_templates(cluster, folder)
        conf = folder / "slurm.conf.in"
        conf.write_text(conf.read_text().replace("=associations,limits,qos\n", f"={enforced}\n"))

    common = "--uid=news", "-A", "physics", "-p", "all", "-N1"
    with booted(write) as slurm:
        enrol(slurm)
        for qos, limits in PAST.items():
            slurm.run("sacctmgr", "-i", "modify", "qos", qos, "set", *limits)
        slurm.schedule(ACTING)
        for options in EARLIER:
            slurm.submit([*common, *options.split()], seconds=75)
        wait_for(lambda: not slurm.run("squeue", "-h", "-t", "PD,R,CG"), 240)
        slurm.schedule(FROZEN)
        # Beyond the time in which the queue may settle: a job that ends early leaves others what it did not use.
        jobs = {slurm.submit([*common, *options.split()], seconds=3000): options for options in wanted}
        told, by_rest = (advice_of(snapshot, snapshot.time_s, "priority+best-fit+greedy")
                         for snapshot in snapshots(slurm, cluster).values())
        assert {options: told[job].action for job, options in jobs.items()} == wanted
        assert "start" not in {by_rest[job].action for job in jobs}  # slurmrestd tells no usage
        slurm.release(ACTING)
        slurm.settle()
        found = slurm.queue()  # those too that have come to their limit meanwhile: four minutes are not long
        assert {options: "start" if found[int(job)]["job_state"] in STARTED else "hold"
                for job, options in jobs.items()} == wanted
