"""The recorded programs, page by page through the real sources into one watch, as a site would see them.

They ran one after the other on one GPU, 7 or 13 s each, with a page every second. The watch's windows are four seconds
here instead of five minutes; nothing else of it or of the rules differs.
"""

import gzip
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

from idlewatt.daemon.advice.held_gpus import HeldGpus
from idlewatt.daemon.causes import CauseWatch, reported_causes, watch, words
from idlewatt.exporters import cgroup, dcgm, node
from idlewatt.exporters.exposition import Exposition
from idlewatt.exporters.targets import Target
from idlewatt.storage.records import Allocation, Job, JobState, Node, Request, SchedulerSnapshot
from idlewatt.storage.telemetry import Telemetry
from idlewatt.storage.underuse import Cause, CauseTally

RECORDED = Path(__file__).parents[2] / "recorded/h100_programs"
CPUS = 16
TARGET = Target("http://n0/metrics", "n0", {"node": "n0"})
SOURCES = (dcgm.METRICS, node.METRICS, cgroup.METRICS)


def names() -> list[str]:
    """Return the programs of which there are pages."""
    return sorted(path.name.removesuffix(".prom.gz") for path in RECORDED.glob("*.prom.gz"))


def pages(name: str) -> Iterator[tuple[float, bytes]]:
    """Yield when each page was read, and the page."""
    for text in gzip.decompress((RECORDED / f"{name}.prom.gz").read_bytes()).split(b"# page ")[1:]:
        time_s, _, page = text.partition(b"\n")
        yield float(time_s), page


def telemetry(name: str) -> Iterator[tuple[float, Telemetry]]:
    """Yield what the three sources make of each page."""
    parsers = (dcgm.parse, node.NodePages().parse, cgroup.parse)
    for time_s, page in pages(name):
        read = [parse(Exposition(metrics).samples(page), TARGET, time_s)
                for parse, metrics in zip(parsers, SOURCES, strict=True)]
        yield time_s, Telemetry(tuple(gpu for one in read for gpu in one.gpus),
                                tuple(server for one in read for server in one.nodes),
                                tuple(job for one in read for job in one.jobs))


def job(name: str, start_s: float) -> Job:
    """Return the job that ran a program, under a name as people give one."""
    called = name.replace("clean", "train").replace("precision", "train").replace("apart", "train")
    return Job("1", start_s, JobState.RUNNING, "p", Request(1), name=called, start_s=start_s,
               allocations=(Allocation("n0", 1, (0,), CPUS),))


def judged(name: str, watcher: CauseWatch) -> tuple[tuple[CauseTally, ...], tuple[tuple[CauseTally, float], ...]]:
    """Return what a watch makes of one program, and what is told of it."""
    nodes, now, running = (Node("n0", ("p",), 1, cpus=CPUS),), 0.0, None
    for now, read in telemetry(name):
        running = running or job(name, now)
        watcher.observe(SchedulerSnapshot(now, nodes, (), (running,)), read, HeldGpus(read.gpus, nodes).of, now)
    for _, rows, _ in watcher.running(now):
        return rows, reported_causes(rows, 1)
    return (), ()


def shortened() -> Iterator[None]:
    """Make the watch's windows fit recordings of seconds."""
    with patch.multiple(watch, WINDOW_S=4.0, SETTLE_S=0.0), patch.object(words, "LEAST_S", 4.0):
        yield


def says(name: str, watcher: CauseWatch) -> Cause:
    """Return the cause that is told of a program; ``unknown`` or ``none`` where none is."""
    rows, causes = judged(name, watcher)
    if causes:
        return causes[0][0].cause
    return max(rows, key=lambda row: row.gpu_seconds).cause
