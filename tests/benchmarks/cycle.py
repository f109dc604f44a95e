"""The daemon's cycles over the farm, in a process of their own: ``python cycle.py CONFIG NODES ROUNDS``.

Prints one JSON object: CPU seconds of each round (fetch, parse, assess), the most memory that was ever resident, and
how many series ``/metrics`` has by how many jobs it publishes one by one.
"""

import json
import sys
import time
from dataclasses import replace
from pathlib import Path

from idlewatt.daemon import config
from idlewatt.daemon.service import Service
from idlewatt.daemon.view import DaemonView
from idlewatt.exporters.publish import registry
from idlewatt.storage.history import History
from idlewatt.storage.records import Allocation, Job, JobState, Node, Partition, Request, SchedulerSnapshot


def scheduler(nodes: int) -> SchedulerSnapshot:
    """Return a scheduler's answer: every other node is taken by one job, 2,000 jobs wait."""
    names = [f"dgx-{number:04d}" for number in range(nodes)]
    known = tuple(Node(name, ("gpu",), 8, "a100", 256, 1 << 40, gpus_allocated=8 * (number % 2))
                  for number, name in enumerate(names))
    running = [Job(str(number), 0.0, JobState.RUNNING, "gpu", Request(8), user=f"u{number % 50}", start_s=0.0,
                   limit_s=1e9, allocations=(Allocation(name, 8, tuple(range(8))),))
               for number, name in enumerate(names) if number % 2]
    waiting = [Job(f"{nodes + number}", 0.0, JobState.PENDING, "gpu", Request(1 + number % 16))
               for number in range(2000)]
    return SchedulerSnapshot(time.time(), known, (Partition("gpu", tuple(names)),), (*running, *waiting))


def most_megabytes() -> float:
    """Return the most memory that was resident: ``ru_maxrss`` would be the parent's where that was more."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def series(service: Service) -> dict[str, int]:
    """Return how many series are published with none, ten and a hundred of the running jobs one by one."""
    view, found = DaemonView(service, lambda: service.settings), {}
    for jobs in (0, 10, 100):
        waste = service.settings.waste.model_copy(update={"job_series": jobs})
        service.settings = service.settings.model_copy(update={"waste": waste})
        found[str(jobs)] = sum(len(metric.samples) for metric in registry(view.published).collect())
    return found


def main(path: Path, nodes: int, rounds: int) -> None:
    settings = config.load(path)
    service = Service(settings, History.open(settings.storage.url), time.time)
    snapshot, spent = scheduler(nodes), []
    for _ in range(rounds):
        service.known = replace(service.known, snapshot=replace(snapshot, time_s=time.time()))
        before = time.process_time()
        service.scrape()
        service.assess()
        spent.append(time.process_time() - before)
    found = service.known.assessment
    print(json.dumps({"cpu_s": spent, "megabytes": most_megabytes(),
                      "series": series(service), "gpus": len(found.gpu_verdicts), "nodes": len(found.nodes),
                      "unaccounted": found.unaccounted_watts,
                      "unmeasured": sum(found.unmeasured_gpus.values())}))
    service.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
