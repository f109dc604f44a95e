"""How many files a reader has to know: those that are entered in a scrape, a round of advice, a night's training."""

import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from types import FrameType

import pytest
from sites import SINCE, record, site

import idlewatt.daemon
from idlewatt.daemon import config
from idlewatt.daemon.agents.histories import DAY_S
from idlewatt.daemon.learning import nightly
from idlewatt.daemon.learning.training_scheduler import TrainingTask
from idlewatt.daemon.service import Service
from idlewatt.exporters.simulated.cluster import ClusterShape, SimulatedCluster
from idlewatt.exporters.simulated.server import SimulatedSite, SimulationServer
from idlewatt.storage.history import History

ROOT = Path(idlewatt.daemon.__file__).parents[1]
ROOMS = ("daemon", "exporters", "storage")
NOW = 1_795_219_200.0
SERVED_WITHIN_S = 240


def loading(frame: FrameType | None) -> bool:
    """Tell whether a frame runs because a file is being imported."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


@contextmanager
def entered() -> Iterator[set[str]]:
    """Collect the files of the package in which a function is called, by any thread that starts meanwhile.

    What runs because a file is loaded (its own lines, those of its classes, what they call) is not what is asked for.
    """
    found: set[str] = set()
    rooms = tuple(f"{ROOT}/{room}/" for room in ROOMS)

    def note(frame, event, _):
        name = frame.f_code.co_filename
        if event == "call" and name not in known and name.startswith(rooms) and not loading(frame):
            known.add(name)
            found.add(name.removeprefix(f"{ROOT}/"))

    known: set[str] = set()

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def test_what_is_only_loaded_is_not_entered(tmp_path, monkeypatch):
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    (tmp_path / "daemon").mkdir()
    (tmp_path / "daemon/loaded.py").write_text("class Loaded:\n    kinds = tuple(str(one) for one in (1, 2))\n")
    (tmp_path / "daemon/called.py").write_text("import loaded\n\ndef called():\n    return loaded.Loaded.kinds\n")
    monkeypatch.syspath_prepend(str(tmp_path / "daemon"))
    with entered() as files:
        import called
        called.called()
    assert files == {"daemon/called.py"}


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
        made.scrape()
        made.jobs()
        made.assess()
    yield made
    made.stop()
    server.shutdown()


def tell(capsys, name: str, files: set[str], most: int) -> None:
    with capsys.disabled():
        print(f"\n{name}: {len(files)} files (wanted <= {most})\n  " + "\n  ".join(
            f"{file} {len((ROOT / file).read_text().splitlines())}" for file in sorted(files)))
        print("  by room: " + ", ".join(f"{room} {count}" for room, count in sorted(by_room(files).items())))


def by_room(files: Iterable[str]) -> Counter[str]:
    """Count files by room: storage, exporters, each folder of the daemon, and the daemon's own files."""
    return Counter("/".join(file.split("/")[:-1][:2]) if file.startswith("daemon/") else file.partition("/")[0]
                   for file in files)


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


def test_files_of_a_nights_training(tmp_path, capsys):
    """The agent that the configuration trains unless told otherwise, on three weeks of a crowded site."""
    url = f"sqlite:///{tmp_path}/idlewatt.db"
    record(url, site(days=20, jobs=1700, dependency=-1))
    task = TrainingTask.of(config.parse(f"storage: {{url: '{url}'}}\ntraining: {{budget: 20s}}"),
                           SINCE + 20 * DAY_S + 3600)
    with entered() as trained:
        night = nightly.carry_out(task)
    tell(capsys, f"a night's training ({task.agent})", trained, 30)
    assert night.result == "done", night.message
