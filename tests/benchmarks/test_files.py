"""How many files a reader has to know: those that are entered in a scrape and in a round of advice."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest

import idlewatt.daemon
from idlewatt.daemon import config
from idlewatt.daemon.service import Service
from idlewatt.exporters.simulated.cluster import ClusterShape, SimulatedCluster
from idlewatt.exporters.simulated.server import SimulatedSite, SimulationServer
from idlewatt.storage.history import History

ROOT = Path(idlewatt.daemon.__file__).parents[1]
ROOMS = ("daemon", "exporters", "storage")
NOW = 1_795_219_200.0
SERVED_WITHIN_S = 240


@contextmanager
def entered() -> Iterator[set[str]]:
    """Collect the files of the package in which a function is called, by any thread that starts meanwhile."""
    found: set[str] = set()
    rooms = tuple(f"{ROOT}/{room}/" for room in ROOMS)

    def note(frame, event, _):
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(rooms):
            found.add(name.removeprefix(f"{ROOT}/"))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


@pytest.fixture
def service(tmp_path):
    cluster, now_s = SimulatedCluster(ClusterShape(start_s=NOW)), [NOW]
    server = SimulationServer(SimulatedSite(cluster, lambda: now_s[0]))
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    settings = config.parse(
        f"cluster: files\nstorage: {{url: 'sqlite:///{tmp_path}/idlewatt.db'}}\n"
        f"sources: [{{kind: dcgm, http_sd_configs: [{{url: '{server.url}/targets/dcgm'}}]}}, "
        f"{{kind: node, http_sd_configs: [{{url: '{server.url}/targets/node'}}]}}, "
        f"{{kind: ipmi, http_sd_configs: [{{url: '{server.url}/targets/ipmi'}}]}}, "
        f"{{kind: slurm_rest, url: '{server.url}'}}]\n")
    made = Service(settings, History.open(settings.storage.url, settings.storage.spool_folder,
                                          settings.storage.backlog_bytes), lambda: now_s[0])
    for _ in range(40):
        now_s[0] += 15.0
        made.scrape(), made.jobs(), made.assess()
    yield made
    made.stop()
    server.shutdown()


def tell(capsys, name: str, files: set[str], most: int) -> None:
    with capsys.disabled():
        print(f"\n{name}: {len(files)} files (wanted <= {most})\n  " + "\n  ".join(sorted(files)))


def test_files_of_a_scrape_and_of_a_round_of_advice(service, capsys):
    deadline = time.monotonic() + SERVED_WITHIN_S
    while not service._warm_up.over():
        assert time.monotonic() < deadline
        Event().wait(0.1)
    service.advise()  # policies are loaded once
    with entered() as scraped:
        service.scrape()
        service.assess()
    with entered() as advised:
        service.advise()
    tell(capsys, "scrape and assess", scraped, 25)
    tell(capsys, "advice: files of service and advice",
         {file for file in advised if file.startswith(("daemon/advice", "daemon/service"))}, 12)
    assert scraped
    assert advised
