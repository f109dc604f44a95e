"""A small recorded past: a finished job, one that runs, one of a hostile user, an array; beside them a free GPU."""

from dataclasses import replace

from idlewatt.storage.power_classes import PowerClass
from idlewatt.storage.records import Allocation, GpuRollup, Job, JobState, Request, SchedulerSnapshot
from idlewatt.storage.run_energy import EnergyShare

NOW = 1_800_000_000.0
START = NOW - 7200.0
HOSTILE = "<script>alert(1)</script>\"'&"
IDLE, WORK, FREE, HOST = (PowerClass.ALLOCATED_IDLE, PowerClass.PRODUCTIVE, PowerClass.IDLE_UNALLOCATED,
                          PowerClass.HOST_ACTIVE)


def job(job_id="4711", user="alice", *, ended=True, gpus=4, **more):
    known = {"start_s": START, "end_s": START + 3600 if ended else None, "user": user, "account": "lab",
             "name": "train", "limit_s": 86400.0, "cpus": 0, "array": ""} | more
    held = (Allocation("dgx01", gpus, tuple(range(gpus)), cpus=64, memory_bytes=2**38),)
    return Job(job_id, START - 600, JobState.COMPLETED if ended else JobState.RUNNING, "a100", Request(gpus),
               allocations=held, **{name: value for name, value in known.items() if name != "cpus"})


def shares(of, *, gpus=4, idle=("dgx01:2", "dgx01:3"), windows=12):
    for number in range(windows):
        joules = {WORK: 120_000.0, IDLE: 60_000.0, HOST: 20_000.0}
        yield EnergyShare(START + 300 * number, 300.0, "dgx01", "a100", joules, of.job_id, of.submit_s, of.start_s,
                          of.user, of.account, "NVIDIA A100-SXM4-40GB", gpus, 300.0, 300.0 * gpus, 300.0 * gpus,
                          150.0 * gpus, 0.0, 700.0 + number, 5.0 * 2**30, idle, 0.25, 1.5)


def record(history):
    """A finished job, one that runs, one of a hostile user, two tasks of an array; beside them a free GPU."""
    jobs = [job(), job("4712", "bob", ended=False), job("666", HOSTILE, name=HOSTILE),
            *(job(f"900_{task}", "carol", array="900", gpus=1) for task in (1, 2))]
    for one in jobs:
        running = replace(one, state=JobState.RUNNING, end_s=None)
        history.record_snapshot(SchedulerSnapshot(START, (), (), (running,)))
        if one.state.finished:
            history.record_finished([one])
    told = [share for one in jobs for share in shares(one)]
    nobody = [EnergyShare(START + 300 * number, 300.0, "dgx01", "a100", {FREE: 30_000.0}) for number in range(12)]
    history.record_shares(sorted([*told, *nobody], key=lambda share: share.start_s))
    history.record_rollups([GpuRollup(START + 300 * number, 300.0, "dgx01", f"GPU-{index}", index, 300.0, 30_000.0,
                                      0.9 if index < 2 else 0.0, 1.0 if index < 2 else 0.0, 100.0, 120.0, 300.0)
                            for number in range(12) for index in range(4)])
    return jobs
