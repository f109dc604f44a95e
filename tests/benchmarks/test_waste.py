"""How long a cycle of accounting takes at 1,000 nodes, and what a simulated week leaves in memory."""

import gc
import os
import random
import time
from dataclasses import replace
from pathlib import Path

from idlewatt.daemon.waste import WasteAccountant, WasteSettings
from idlewatt.storage.records import Allocation, Job, JobState, Node, Partition, Request, SchedulerSnapshot
from idlewatt.storage.telemetry import GpuReading, NodeReading, Telemetry
from idlewatt.storage.waiting import WaitReason

GIB = 2**30


def site(nodes, running, pending, seed=1):
    """Return a scheduler's answer: half the running jobs hold whole nodes, every pending job asks differently."""
    chance = random.Random(seed)
    names = [f"dgx-{number:04}" for number in range(nodes)]
    jobs, taken = [], dict.fromkeys(names, 0)
    for number, name in enumerate(chance.sample(names * max(1, -(-running // nodes)), running)):
        gpus = min(chance.choice([8, 4, 2, 1]), 8 - taken[name])
        if gpus > 0:
            indexes = tuple(range(taken[name], taken[name] + gpus)) if number % 4 else None
            jobs.append(Job(f"{number}", 0.0, JobState.RUNNING, "gpu", Request(gpus), start_s=0.0,
                            user=f"u{number % 50}", limit_s=86400.0, allocations=(Allocation(name, gpus, indexes),)))
            taken[name] += gpus
    for number in range(pending):
        count = chance.choice([1, 1, 1, 2, 4])
        gpus = chance.choice([1, 2, 4, 8])
        request = Request(gpus * count, count, gpus, chance.randint(1, 300) * count, chance.randint(1, 1200) * GIB)
        jobs.append(Job(f"p{number}", 0.0, JobState.PENDING, "gpu", request, reason=WaitReason.PRIORITY))
    known = tuple(Node(name, ("gpu",), 8, "a100", 256, 1024 * GIB, gpus_allocated=taken[name],
                       cpus_allocated=chance.randint(0, 256), memory_allocated_bytes=chance.randint(0, 1000) * GIB)
                  for name in names)
    return SchedulerSnapshot(0.0, known, (Partition("gpu", tuple(names), default=True),), tuple(jobs))


def telemetry(names, now, chance):
    gpus = tuple(GpuReading(f"GPU-{name}-{index}", name, index, now, "NVIDIA A100-SXM4-40GB",
                            50.0 + chance.random() * 300, now * 100.0, round(chance.random(), 1), "sm_active",
                            0.5, 3e6, 4e10, 40.0, 400.0)
                 for name in names for index in range(8))
    return Telemetry(gpus, tuple(NodeReading(name, now, 3000.0, "ipmi") for name in names))


def test_a_cycle_over_1000_nodes_takes_less_than_0_35_cpu_seconds():
    snapshot, chance = site(1000, 500, 2000), random.Random(2)
    names = [node.name for node in snapshot.nodes]
    accountant, spent = WasteAccountant(WasteSettings()), []
    for cycle in range(8):
        now = 1000.0 + 15 * cycle
        pages = telemetry(names, now, chance)
        fresh = replace(snapshot, time_s=now)
        began = time.process_time()
        found = accountant.assess(fresh, pages, now)
        spent.append(time.process_time() - began)
    median = sorted(spent)[len(spent) // 2]
    print(f"\nassess 1,000 nodes x 8 GPUs, 500 running, 2,000 pending: median {median:.3f} CPU s, "
          f"worst {max(spent):.3f}; {0.35 / median:.1f}x faster than asked")
    assert abs(found.unaccounted_watts) < 1e-3
    assert median < 0.35


def test_a_simulated_week_at_64_nodes_leaves_less_than_60_megabytes():
    """A cycle every five minutes for a week, every job giving way to another each hour."""
    chance, accountant = random.Random(3), WasteAccountant(WasteSettings(), 300.0)
    snapshot = site(64, 60, 200)
    names = [node.name for node in snapshot.nodes]
    began = None
    for cycle in range(2016):
        now = 1000.0 + 300.0 * cycle
        jobs = tuple(renewed(job, (cycle + number) // 12) for number, job in enumerate(snapshot.jobs))
        accountant.assess(replace(snapshot, time_s=now, jobs=jobs), telemetry(names, now, chance), now)
        accountant.drain_closed()
        if cycle == 100:
            began = resident()
    grown = (resident() - began) / 2**20
    print(f"\na simulated week at 64 nodes: {grown:+.1f} MB resident, "
          f"peak {peak_kilobytes() / 1024:.0f} MB")
    assert grown < 60


def peak_kilobytes():
    """Return the most that was resident; ``ru_maxrss`` would be that of the parent where it was more."""
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])


def renewed(job, hour):
    """Return the job that took this one's place in a later hour."""
    return replace(job, job_id=f"{job.job_id}-{hour}", submit_s=3600.0 * hour,
                   start_s=None if job.start_s is None else 3600.0 * hour)


def resident():
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
