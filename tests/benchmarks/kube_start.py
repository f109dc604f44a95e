"""A process that reads a cluster for the first time: ``kube_start.py URL`` prints what that costs, as JSON."""

import json
import os
import resource
import sys
import time

from idlewatt.exporters.kubernetes import KubernetesConfig


def spent() -> tuple[float, float]:
    """Return the CPU seconds of the process until now: its own, and the system's for it."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime, used.ru_stime


def main() -> None:
    source = KubernetesConfig(kind="kubernetes", url=sys.argv[1]).build(time.time)
    imported = sum(spent())
    user, system = spent()
    snapshot = source.read()
    first_user, first_system = spent()
    source.read()
    print(json.dumps({"jobs": len(snapshot.jobs), "imports": imported, "user": first_user - user,
                      "system": first_system - system, "look": sum(spent()) - first_user - first_system}), flush=True)
    os._exit(0)  # its watches would be waited for


main()
