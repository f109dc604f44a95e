"""GIST where it serves: the demo's past, or two partitions of Philly in the folder of traces that is named.

Agents learn by counted episodes, from several seeds, anew and going on from one that learned on earlier days; they
are judged beside heuristics and chance on days that nobody learned from. Prints tables for docs/figures.md.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from idlewatt.daemon.agents.gist_mdrl import live, site_training
from idlewatt.daemon.agents.gist_mdrl.kind import KIND
from idlewatt.daemon.agents.histories import Material, Split, split, subset
from idlewatt.daemon.agents.kinds import TrainingConfig
from idlewatt.daemon.learning.pairs import Exam, HeldOutRun, replayed
from idlewatt.daemon.policies import named
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.workload import Workload
from idlewatt.daemon.replay.workload_builder import from_trace
from idlewatt.daemon.reproduce.gist.seeds import mean_of
from idlewatt.daemon.settings.flavours import FlavourSettings
from idlewatt.exporters.simulated.cluster import ClusterShape, SimulatedCluster
from idlewatt.exporters.simulated.jobs import SimulatedJob, flavors
from idlewatt.storage.traces import read_trace

EPISODES, TUNED, ROUND = 100, 50, 100
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
    cluster = SimulatedCluster(ClusterShape(nodes=4, seed=1, start_s=0.0, hour_s=HOUR_S, tick_s=30.0))
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
    return Material("Philly, two partitions", Cluster.from_mapping({"nodes": nodes}), subset(work, rows)), ()


def trained(material: Material, flavours: tuple[FlavourSettings, ...], seed: int, folder: Path,
            start: Path | None = None) -> tuple[Split, Path]:
    """Return the parts of a history and the folder of the agents that learned from it."""
    parts = split(material, seed=seed)
    config = TrainingConfig(parts.fit, parts.select, INCUMBENT, seed, 1e9, folder, KIND.objective, start,
                            steps=EPISODES if start is None else TUNED, flavours=flavours)
    for _ in KIND.train(config):
        pass
    return parts, folder / "best"


def row_of(trial: HeldOutRun) -> Row:
    """Return the five figures of a trial."""
    ended = np.isfinite(trial.jct)
    makespan = sum(replay.last_end_s - replay.times[0] for replay in trial.replays)
    return (trial.utilization, makespan / DAY_S, float(trial.jct[ended].mean()), float(trial.wait[ended].mean()),
            sum(float(replay.joules[-1]) for replay in trial.replays) / 3.6e6)


def judged(source: str | None, seed: int) -> tuple[Row, Row, str]:
    """Return the figures of the agents of one seed, anew and fine-tuned, and how both are listened to."""
    # Later history is replayed after each round: it takes longer than to learn.
    site_training.ROUND = ROUND
    material, flavours = material_of(source)
    earlier = float(np.quantile(material.workload.submit, EARLIER))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parts, best = trained(material, flavours, seed, folder / f"{seed}-anew")
        anew = live.load(best)
        _, first = trained(material.until(earlier), flavours, seed, folder / f"{seed}-earlier")
        _, best = trained(material, flavours, seed, folder / f"{seed}-tuned", first)
        tuned, exam = live.load(best), Exam.of(parts.test)
        return row_of(replayed(anew, exam, seed)), row_of(replayed(tuned, exam, seed)), f"{anew.mode}, {tuned.mode}"


def beside(source: str | None, seed: int) -> dict[str, Row]:
    """Return the figures of heuristics and of chance on the same days."""
    exam = Exam.of(split(material_of(source)[0], seed=0).test)
    return {name: row_of(replayed(named(name), exam, seed)) for name in OTHERS if not seed or "random" in name}


def show(title: str, found: Mapping[str, list[Row]]) -> None:
    """Print a table, intervals over seeds."""
    print(f"\n{title}\n\n| policy | U | makespan (d) | completion (s) | wait (s) | kWh |\n|---|---|---|---|---|---|")
    for name, rows in found.items():
        cells = (mean_of([row[column] for row in rows], digits) for column, digits in enumerate((3, 2, 0, 0, 0)))
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def material_of(source: str | None) -> tuple[Material, tuple[FlavourSettings, ...]]:
    """Return the demo's past, or that of the traces in a folder."""
    return demo() if source is None else philly(Path(source))


def main(sources: Sequence[str | None], seeds: int, workers: int) -> None:
    """Train, judge and print, several seeds at a time."""
    turns = [(source, seed) for source in sources for seed in range(seeds)]
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        others = [pool.submit(beside, *turn) for turn in turns]
        agents = [pool.submit(judged, *turn) for turn in turns]
        for source in sources:
            mine = [number for number, turn in enumerate(turns) if turn[0] == source]
            found: dict[str, list[Row]] = {"gist_mdrl, anew": [], "gist_mdrl, fine-tuned": []}
            for number in mine:
                anew, tuned, mode = agents[number].result()
                found["gist_mdrl, anew"].append(anew)
                found["gist_mdrl, fine-tuned"].append(tuned)
                print(f"seed {turns[number][1]}, listened to: {mode}; {anew}; {tuned}", flush=True)
            for number in mine:
                for name, row in others[number].result().items():
                    found.setdefault(name, []).append(row)
            show("the demo's past" if source is None else "Philly, two partitions", found)


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--traces", help="folder of the packaged traces: Philly is judged, too")
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--workers", type=int, default=2)
    told = options.parse_args()
    main([None, *filter(None, [told.traces])], told.seeds, told.workers)
