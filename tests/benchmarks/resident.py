"""The whole daemon in a process of its own, cycle after cycle: ``python resident.py CONFIG SLURM CYCLES``.

A cycle is 15 s of the daemon's time: all pages are fetched, Slurm is read, watts are judged and published; every
other one advises, every fourth records, every 240th thins out, and what is said beyond starts is considered as often as
it is by default. Time is accelerated: nothing is waited for. Prints one JSON object a line: cycles, VmRSS and VmHWM in
MB (``ru_maxrss`` would be that of the parent, where it was more), seconds of CPU since the first cycle and the size of
the database.
"""

import json
import sys
import time
import urllib.request
from pathlib import Path

from prometheus_client import CollectorRegistry

from idlewatt.daemon import config
from idlewatt.daemon.main import _prepare
from idlewatt.daemon.memory import give_back, save, settle
from idlewatt.daemon.service import Service
from idlewatt.daemon.view import DaemonView
from idlewatt.daemon.web.page import render
from idlewatt.exporters.publish import page, registry
from idlewatt.storage.history import History

STEP_S, REPORT = 15.0, 25


def megabytes() -> dict[str, float]:
    status = Path("/proc/self/status").read_text()
    return {name: int(status.split(f"{name}:")[1].split()[0]) / 1024 for name in ("VmRSS", "VmHWM")}


class Clock:
    def __init__(self) -> None:
        self.now_s = float(int(time.time()))

    def __call__(self) -> float:
        return self.now_s


def recommend(service: Service, number: int) -> None:
    """Consider what is due of the subjects beyond starts."""
    for name in service._recommenders:
        every = round(service.settings.recommenders.of(name).every / STEP_S)
        if number % max(1, every) == 0:
            service.recommend(name)


def cycle(service: Service, view: DaemonView, pages: CollectorRegistry, number: int) -> None:
    service.jobs()
    service.scrape()
    service.assess()
    if number % 2 == 0:
        service.advise()
    recommend(service, number)
    if number % 4 == 3:
        service.record()
        give_back()  # as main does each minute
    if number % 240 == 239:
        service.retention()
    page(pages)
    render(view, "/metrics")


def counted(service: Service) -> dict[str, int]:
    """Return how much the daemon knows; apart, because whoever keeps what is known keeps a second of everything."""
    found = service.known
    return {"gpus": len(found.assessment.gpu_verdicts), "jobs": len(found.snapshot.jobs),
            "advised": len(found.advice.recommendations)}


def main(path: Path, slurm: str, cycles: int) -> None:
    save()  # as serve() does
    settings, clock = config.load(path), Clock()
    _prepare(path, settings.storage.url)
    service = Service(settings, History.open(settings.storage.url), clock)
    view = DaemonView(service, lambda: settings)
    pages = registry(view.published)
    settle()  # as start() does
    while not service._warm_up.over():
        time.sleep(0.2)
    began_s = time.process_time()
    for number in range(cycles):
        urllib.request.urlopen(f"{slurm}/step?s={STEP_S}").read()
        clock.now_s += STEP_S
        cycle(service, view, pages, number)
        if number % REPORT == REPORT - 1:
            print(json.dumps({"cycles": number + 1, **megabytes(), "cpu_s": time.process_time() - began_s,
                              "database": Path(settings.storage.url.rpartition(":///")[2]).stat().st_size,
                              **counted(service)}), flush=True)
    service.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
