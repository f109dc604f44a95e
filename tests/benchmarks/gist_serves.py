"""GIST where it serves: the demo's past, or two partitions of Philly in the folder of traces that is named.

Agents learn by counted episodes, from several seeds, anew and going on from one that learned on earlier days; they
are judged beside heuristics and chance on days that nobody learned from. Prints tables for docs/figures.md.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from idlewatt.daemon.agents.gist_mdrl import course as course_of_gist
from idlewatt.daemon.agents.gist_mdrl import live
from idlewatt.daemon.agents.gist_mdrl.kind import KIND
from idlewatt.daemon.agents.histories import Material, Split, split, taken
from idlewatt.daemon.agents.kinds import Course
from idlewatt.daemon.learning.exam import Exam, Trial, replayed
from idlewatt.daemon.policies import named
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.workload import Workload
from idlewatt.daemon.replay.workload_builder import from_trace
from idlewatt.daemon.reproduce.gist.seeds import mean_of
from idlewatt.daemon.settings.flavours import FlavourSettings
from idlewatt.exporters.simulated.cluster import Shape, SimulatedCluster
from idlewatt.exporters.simulated.jobs import SimulatedJob, flavors
from idlewatt.storage.traces import read_trace

SEEDS, EPISODES, TUNED, ROUND = 3, 100, 50, 100
EARLIER = 0.8
"""Share of the jobs that an agent learned from before it is fine-tuned."""
DAYS, HOUR_S, DAY_S = 14, 120.0, 86400.0
CLUSTERS, SPAN = {"103959": 4, "6c71a0": 4}, (79, 90)
"""Virtual clusters of Philly with servers, and the days that are taken of them."""
INCUMBENT = "fifo+first-fit"
OTHERS = (INCUMBENT, "ljf+first-fit", "fifo+first-fit+easy", "qssf+best-fit+easy", "sjf-limit+best-fit+easy",
          "random-feasible")
Row = tuple[float, ...]
"""U, makespan in days, completion and wait in seconds, kWh."""


def demo() -> tuple[Material, tuple[FlavourSettings, ...]]:
    """Return what the demo's cluster of four servers went through, and Table 2 in its hours."""
    cluster = SimulatedCluster(Shape(nodes=4, seed=1, start_s=0.0, hour_s=HOUR_S, tick_s=30.0))
    ended: dict[int, SimulatedJob] = {}
    for _ in cluster.run(DAYS * DAY_S, 3600.0):
        ended |= {job.job_id: job for job in cluster.finished}
    jobs = sorted(ended.values(), key=lambda job: (job.submit_s, job.job_id))
    run = [max(1.0, (job.end_s or 0.0) - (job.start_s or 0.0)) for job in jobs]
    work = Workload.of([job.submit_s for job in jobs], run, [job.flavor.gpus for job in jobs],
                       nodes=[job.nodes for job in jobs], cpus=[job.cpus for job in jobs],
                       memory=[job.memory_bytes for job in jobs], limit=[job.flavor.limit_s for job in jobs],
                       partition=[job.partition for job in jobs], user=[job.user.name for job in jobs])
    nodes = [{"name": server.name, "gpus": server.model.gpus, "cpus": server.model.cpus,
              "memory_bytes": server.model.memory_bytes, "partitions": [server.model.partition]}
             for server in cluster.servers]
    table = tuple(FlavourSettings(name=one.name, gpus=one.gpus, partition=partition, limit=one.limit_s)
                  for partition, some in flavors(HOUR_S).items() for one in some)
    return Material("the demo's past", Cluster.from_mapping({"nodes": nodes}), work), table


def philly(traces: Path) -> tuple[Material, tuple[FlavourSettings, ...]]:
    """Return some weeks of two virtual clusters of Philly, on as few servers as make their jobs wait."""
    work = from_trace(read_trace(traces / "philly" / "philly_jobs.csv.gz")).workload
    since_s, until_s = (float(work.submit[0]) + days * DAY_S for days in SPAN)
    chosen = [work.partition_names.index(name) for name in CLUSTERS]
    rows = np.flatnonzero(np.isin(work.partition, chosen) & (work.submit >= since_s) & (work.submit < until_s))
    nodes = [{"name": name, "count": count, "gpus": 8, "partitions": [name]} for name, count in CLUSTERS.items()]
    return Material("Philly, two partitions", Cluster.from_mapping({"nodes": nodes}), taken(work, rows)), ()


def trained(material: Material, flavours: tuple[FlavourSettings, ...], seed: int, folder: Path,
            start: Path | None = None) -> tuple[Split, Path]:
    """Return the parts of a history and the folder of the agents that learned from it."""
    parts = split(material, seed=seed)
    course = Course(parts.fit, parts.select, INCUMBENT, seed, 1e9, folder, KIND.objective, start,
                    steps=EPISODES if start is None else TUNED, flavours=flavours)
    for progress in KIND.train(course):
        told = f"seed {seed}, {folder.name}: {progress.done:.0%}, {progress.score:.3f}"
        print(f"  {time.strftime('%X')} {told}", file=sys.stderr, flush=True)
    return parts, folder / "best"


def row_of(trial: Trial) -> Row:
    """Return the five figures of a trial."""
    ended = np.isfinite(trial.jct)
    makespan = sum(course.last_end_s - course.times[0] for course in trial.courses)
    return (trial.utilization, makespan / DAY_S, float(trial.jct[ended].mean()), float(trial.wait[ended].mean()),
            sum(float(course.joules[-1]) for course in trial.courses) / 3.6e6)


def judged(material: Material, flavours: tuple[FlavourSettings, ...], folder: Path) -> Iterator[tuple[str, list[Row]]]:
    """Yield each policy with its figures, of agents from each seed."""
    earlier = float(np.quantile(material.workload.submit, EARLIER))
    anew, tuned, exam = list[Row](), list[Row](), Exam((), ())
    for seed in range(SEEDS):
        parts, best = trained(material, flavours, seed, folder / f"{seed}-anew")
        exam = Exam.of(parts.test)
        if not seed:
            show("beside", {name: [row_of(replayed(named(name), exam, seed))] for name in OTHERS})
        anew.append(row_of(replayed(live.load(best), exam, seed)))
        _, first = trained(material.until(earlier), flavours, seed, folder / f"{seed}-earlier")
        _, best = trained(material, flavours, seed, folder / f"{seed}-tuned", first)
        tuned.append(row_of(replayed(live.load(best), exam, seed)))
        print(f"  {anew[-1]}; fine-tuned {tuned[-1]}", file=sys.stderr, flush=True)
    yield "gist_mdrl", anew
    yield "gist_mdrl, fine-tuned", tuned
    for name in OTHERS:
        yield name, [row_of(replayed(named(name), exam, seed)) for seed in range(SEEDS if "random" in name else 1)]


def show(title: str, found: Mapping[str, list[Row]]) -> None:
    """Print a table, intervals over seeds."""
    print(f"\n{title}\n\n| policy | U | makespan (d) | completion (s) | wait (s) | kWh |\n|---|---|---|---|---|---|")
    for name, rows in found.items():
        cells = (mean_of([row[column] for row in rows], digits) for column, digits in enumerate((3, 2, 0, 0, 0)))
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def main(traces: str | None) -> None:
    """Train, judge and print."""
    # Later history is replayed after each round: it takes longer than to learn.
    course_of_gist.ROUND = ROUND
    material, flavours = demo() if traces is None else philly(Path(traces))
    work = material.workload
    print(f"{material.source}: {len(work)} jobs, {np.ptp(work.submit) / DAY_S:.1f} days", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        show(material.source, dict(judged(replace(material, notes=()), flavours, Path(folder))))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
