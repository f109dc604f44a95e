"""What a day writes at 1,000 nodes of eight GPUs, 2,000 jobs that wait and twenty that start a minute.

An hour in accelerated time, after two in which the tables settle, scaled to a day: every round of advice names other
nodes for what is held, with other figures and another expected start, and a tenth of the reasons change.
"""

import random
from collections.abc import Iterator

import pytest
from site_in_time import PENDING_PER_NODE, BusySite, name_of

from idlewatt.daemon.flavours import FlavourBook
from idlewatt.storage import schema, space
from idlewatt.storage.history import History
from idlewatt.storage.recommendations import Alternative, Placement, Recommendation
from idlewatt.storage.records import GpuRollup, Job, PowerClass, WasteReading

NODES, ROUND_S, WINDOW_S, HOUR_S, DAY_S = 1000, 30.0, 300.0, 3600.0, 86400.0
SETTLED_H, WATCHED_H = 2, 1
STARTS = 30
"""Jobs that could start now in each round, of each policy."""
MOST_ADVICE_JOBS, MOST_FINE, MOST_KEPT = 50.0, 100.0, 20.0
"""MB a day."""
OF_ADVICE_AND_JOBS = ("jobs", "job_changes", "runs", "allocations", "recommendations", "advice_changes", "verdicts",
                      "phrases", "adherence")
AGEING = ("gpu_windows", "waste_windows", "waste", "advice_changes")
REASONS = ("needs {} GPUs, {} are free in p1", "{} GPUs are free in p1 but scattered: at most {} on one node",
           "there is room now, but jobs that come first take it or would be delayed", "no GPU is free in p1")


class Flapping:
    """Advice on what waits, as it really comes: another node and another figure at every look."""

    def __init__(self) -> None:
        self._draw, self._kinds = random.Random(2), dict[str, int]()

    def on(self, pending: list[Job], now_s: float) -> Iterator[Recommendation]:
        for policy, shadow in (("limit-aged+best-fit+easy", False), ("fifo+first-fit", True)):
            starting = {job.job_id for job in self._draw.sample(pending, STARTS)}
            for job in pending:
                yield self._start(job, now_s, policy, shadow) if job.job_id in starting else \
                    self._hold(job, now_s, policy, shadow)

    def _placement(self, job: Job) -> Placement:
        nodes = tuple(name_of(self._draw.randrange(NODES)) for _ in range(job.request.nodes))
        return Placement(nodes, (job.request.gpus_per_node or 0,) * len(nodes))

    def _start(self, job: Job, now_s: float, policy: str, shadow: bool) -> Recommendation:
        others = () if shadow else tuple(
            Alternative(self._placement(job), "leaves 4 GPUs free beside running jobs", 0.25) for _ in range(3))
        return Recommendation(job.job_id, job.submit_s, job.partition, now_s, policy, "wait", "start",
                              "fits exactly: no GPU of the node stays free", self._placement(job), now_s, others,
                              shadow, communication_cost=0.2)

    def _hold(self, job: Job, now_s: float, policy: str, shadow: bool) -> Recommendation:
        kind = self._kinds.get(job.job_id, 0)
        if self._draw.random() < 0.1:
            kind = self._kinds[job.job_id] = self._draw.randrange(len(REASONS))
        reason = REASONS[kind].format(self._draw.randrange(64), self._draw.randrange(8))
        change = None if shadow else self._draw.gauss(0, 600)
        return Recommendation(job.job_id, job.submit_s, job.partition, now_s, policy, "wait", "hold", reason,
                              self._placement(job), now_s + self._draw.randrange(86400), (), shadow,
                              wait_change_s=change, interval_s=None if change is None else (change - 60, change + 60))


def rollups(draw: random.Random, start_s: float) -> list[GpuRollup]:
    """Return a window of GPUs of which each draws and does something else."""
    found = []
    for node in range(NODES):
        for index in range(8):
            watts, most = round(draw.uniform(50, 390), 3), round(draw.uniform(390, 400), 3)
            activity, peak = round(draw.random(), 6), round(draw.random(), 6)
            found.append(GpuRollup(start_s, WINDOW_S, name_of(node), f"GPU-{node:08x}-{index:04x}", index, WINDOW_S,
                                   watts * WINDOW_S, activity, peak, watts, most, WINDOW_S * (node % 20 > 0)))
    return found


def waste(draw: random.Random, start_s: float) -> list[WasteReading]:
    """Return the energy of a window: three classes on each node, and their sums."""
    classes = (PowerClass.PRODUCTIVE, PowerClass.HOST_ACTIVE, PowerClass.ALLOCATED_IDLE)
    parts = [WasteReading(start_s, WINDOW_S, f"p{node % 4}", power_class, round(draw.uniform(1e4, 1e6), 3),
                          name_of(node)) for node in range(NODES) for power_class in classes]
    sums = [WasteReading(start_s, WINDOW_S, f"p{part}", power_class, draw.uniform(1e6, 1e8))
            for part in range(4) for power_class in classes]
    return sums + parts


def hours(history: History, site: BusySite, advice: Flapping, count: int) -> None:
    draw, flavours = random.Random(3), FlavourBook()
    for turn in range(int(count * HOUR_S / ROUND_S)):
        site.step(ROUND_S)
        history.record_snapshot(flavours.with_flavours(site.snapshot()))
        history.record_recommendations(advice.on(site.pending, site.now_s))
        if turn % (WINDOW_S / ROUND_S) == 0:
            start_s = site.now_s // WINDOW_S * WINDOW_S
            history.record_rollups(rollups(draw, start_s))
            history.record_waste(waste(draw, start_s))


def megabytes(history: History) -> dict[str, float]:
    """Return the size of every table with its indexes, half-empty pages included."""
    with history._reading() as connection:
        return {name: space._bytes(connection, table) / 1e6 for name, table in schema.metadata.tables.items()}


def a_day(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    return {name: (after[name] - before[name]) * 24 / WATCHED_H for name in after}


def told(growth: dict[str, float]) -> str:
    rows = sorted(growth.items(), key=lambda row: -row[1])
    return ", ".join(f"{name} {size:.2f}" for name, size in rows if abs(size) >= 0.005)


@pytest.mark.timeout(1800)
def test_a_day_of_a_large_site_stays_small(tmp_path, capsys):
    site, advice = BusySite(NODES, 1_795_219_200.0), Flapping()
    with History.open(f"sqlite:///{tmp_path}/history.db") as history:
        hours(history, site, advice, SETTLED_H)
        before = megabytes(history)
        hours(history, site, advice, WATCHED_H)
        fine = a_day(before, megabytes(history))
        for day in (15, 36):
            history.compact(site.now_s + day * DAY_S)
        history.vacuum()
        aged = megabytes(history)
    # What ages is thinned out since the beginning; jobs and what became of advice on them stay as they are.
    kept = fine | {name: aged[name] / (SETTLED_H + WATCHED_H) * 24 for name in AGEING}
    of_advice = sum(fine[name] for name in OF_ADVICE_AND_JOBS)
    with capsys.disabled():
        for what, found, bound in (("advice, jobs and changes", of_advice, MOST_ADVICE_JOBS),
                                   ("the whole database while fine", sum(fine.values()), MOST_FINE),
                                   ("after retention", sum(kept.values()), MOST_KEPT)):
            print(f"\n{what}: {found:.1f} MB a day (bound {bound:.0f}, ratio {found / bound:.2f})", end="")
        print(f"\nwhile fine, MB a day by table: {told(fine)}\nafter retention: {told(kept)}; "
              f"{len(site.pending)} of {PENDING_PER_NODE * NODES} wait")
    assert of_advice <= MOST_ADVICE_JOBS
    assert sum(fine.values()) <= MOST_FINE
    assert sum(kept.values()) <= MOST_KEPT
