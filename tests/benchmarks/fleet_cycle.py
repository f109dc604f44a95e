"""The prometheus source over a fleet, in a process of its own: ``python fleet_cycle.py URL NODES ROUNDS``.

Prints one JSON object: CPU seconds of each round (ask, decode, assess) and VmHWM in MB.
"""

import json
import sys
import time
from pathlib import Path

from cycle import scheduler

from idlewatt.daemon.waste import WasteAccountant, WasteSettings
from idlewatt.exporters.prometheus_api import PrometheusConfig


def main(url, nodes, rounds):
    source = PrometheusConfig(url=url).build(time.time)
    accountant, snapshot, spent = WasteAccountant(WasteSettings(), 15.0), scheduler(nodes), []
    for _ in range(rounds):
        before = time.process_time()
        found = accountant.assess(snapshot, source.read(), time.time())  # type: ignore[arg-type]
        spent.append(time.process_time() - before)
    peak = next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines()
                if line.startswith("VmHWM:"))
    source.close()
    print(json.dumps({"cpu_s": spent, "megabytes": peak / 1024, "gpus": len(found.gpu_verdicts),
                      "unmeasured": sum(found.unmeasured_gpus.values())}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
