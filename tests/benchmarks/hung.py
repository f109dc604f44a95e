"""The daemon over a farm some of whose nodes hang, in a process of its own: ``hung.py CONFIG NODES SAMPLES HUNG``.

It prints one JSON object: of each sample (assessment) the watts by node and class and the 99th percentile of the age
of healthy nodes' facts; CPU seconds per second over the last samples, all of them after the first advice, so that what
a start costs is not among them; seconds from the start to the first advice; descriptors, threads and memory at their
most.
"""

import json
import math
import os
import sys
import time
from pathlib import Path

from cycle import scheduler

from idlewatt.daemon import config
from idlewatt.daemon.cycles import Collection
from idlewatt.daemon.main import _allow_descriptors
from idlewatt.daemon.service import Service
from idlewatt.exporters.source import Role, Watched
from idlewatt.storage.history import History

STARTED = time.time() - (time.clock_gettime(time.CLOCK_BOOTTIME) - int(
    Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK"))
PATIENCE_S = 240.0
COUNTED = 4
"""Samples over which CPU is counted."""


class Scheduler:
    """A scheduler that answers at once."""

    name = "slurm"
    role: Role = "scheduler"

    def __init__(self, nodes):
        self._nodes = nodes

    def read(self):
        return scheduler(self._nodes)

    def health(self):
        return ()

    def close(self):
        pass


def watts(found):
    """Return the watts of each node by class."""
    nodes = {node.node: {node.host_class.value: node.host_watts} for node in found.nodes}
    for gpu in found.gpu_verdicts:
        for power_class, share in gpu.shares():
            classes = nodes[gpu.node]
            classes[power_class.value] = classes.get(power_class.value, 0.0) + share
    return nodes


def ages(telemetry, now_s, healthy):
    """Return the age of each fact that healthy nodes have, infinite where there is none."""
    gpus = {(gpu.node, gpu.index): now_s - gpu.time_s for gpu in telemetry.gpus}
    meters = {(node.node, node.power_source): now_s - node.time_s for node in telemetry.nodes}
    wanted = [gpus.get((name, gpu), math.inf) for name in healthy for gpu in range(8)]
    return sorted(wanted + [meters.get((name, "ipmi"), math.inf) for name in healthy])


def status(name):
    return float(next(line.split()[1] for line in Path("/proc/self/status").read_text().splitlines()
                      if line.startswith(f"{name}:")))


def main(path, nodes, samples, hung):
    _allow_descriptors()
    settings = config.load(path)
    service = Service(settings, History.open(settings.storage.url), time.time)
    service._collection = Collection([*service.sources, Watched(Scheduler(nodes), time.time)])
    healthy = [f"dgx-{number:04d}" for number in range(nodes) if number not in hung]
    found, advised, cpu, most = [], None, [], {"descriptors": 0, "threads": 0}
    service.start()
    deadline, wanted = time.monotonic() + PATIENCE_S + samples * settings.cycles.assess, samples
    while (len(found) < wanted or advised is None) and time.monotonic() < deadline:
        known = service.known
        most = {"descriptors": max(most["descriptors"], len(os.listdir("/proc/self/fd"))),
                "threads": max(most["threads"], int(status("Threads")))}
        if advised is None and known.advice is not None:
            advised, wanted = time.time() - STARTED, max(samples, len(found) + COUNTED + 1)
        if known.assessment and known.snapshot and (not found or found[-1]["time_s"] < known.assessment.time_s):
            old = ages(known.telemetry, known.assessment.time_s, healthy)
            found.append({"time_s": known.assessment.time_s, "age_p99_s": old[int(0.99 * len(old))],
                          "watts": watts(known.assessment)})
            cpu.append((time.process_time(), time.monotonic()))
        time.sleep(0.05)
    (cpu_from, from_s), (cpu_to, to_s) = cpu[max(0, len(cpu) - 1 - COUNTED)], cpu[-1]
    began = time.monotonic()
    service.stop()
    print(json.dumps({"samples": found, "cpu": (cpu_to - cpu_from) / (to_s - from_s), "advised_s": advised,
                      "stopped_s": time.monotonic() - began, "megabytes": status("VmHWM") / 1024, **most,
                      "overruns": {name: health.overruns for name, health in service.beat.health().items()}}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), set(json.loads(Path(sys.argv[4]).read_text())))
