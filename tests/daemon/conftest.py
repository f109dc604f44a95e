"""A daemon on a simulated cluster, in this process, with a clock that stands until a test moves it."""

import time
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

import pytest

from idlewatt.daemon import config
from idlewatt.daemon.service import Service
from idlewatt.exporters.simulated.cluster import Shape, SimulatedCluster
from idlewatt.exporters.simulated.server import SimulationServer, Site
from idlewatt.storage.history import History


@dataclass
class Rig:
    """The far end of the wire, the clock, and how to start a daemon on both."""

    folder: Path
    now_s: float = 1_795_219_200.0
    cluster: SimulatedCluster = field(init=False)
    server: SimulationServer = field(init=False)
    services: list[Service] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cluster = SimulatedCluster(Shape(start_s=self.now_s))
        self.server = SimulationServer(Site(self.cluster, self.clock))
        Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def clock(self) -> float:
        return self.now_s

    def text(self, **changes: str) -> str:
        """Return a configuration for this cluster; ``changes`` replace top-level parts, as YAML."""
        url = self.server.url
        parts = {
            "cluster": "rig",
            "storage": f"{{url: 'sqlite:///{self.folder / 'idlewatt.db'}'}}",
            # The beat hardly runs: tests call the cycles themselves.
            "cycles": "{scrape: 15s, jobs: 1h, assess: 1h, advise: 1h, record: 1h}",
            "sources": f"[{{kind: dcgm, http_sd_configs: [{{url: '{url}/targets/dcgm'}}]}}, "
                       f"{{kind: node, http_sd_configs: [{{url: '{url}/targets/node'}}]}}, "
                       f"{{kind: ipmi, http_sd_configs: [{{url: '{url}/targets/ipmi'}}]}}, "
                       f"{{kind: slurm_rest, url: '{url}'}}]"}
        return "".join(f"{key}: {value}\n" for key, value in (parts | changes).items())

    def service(self, **changes: str) -> Service:
        """Return a daemon that has opened its history and read nothing yet."""
        settings = config.parse(self.text(**changes))
        made = Service(settings, History.open(settings.storage.url), self.clock)
        self.services.append(made)
        return made

    def advise(self, service: Service) -> None:
        """Advise as soon as the policies are compiled."""
        deadline = time.monotonic() + 240
        while not service._rehearsal.over():
            assert time.monotonic() < deadline, "the policies are never compiled"
            Event().wait(0.02)
        service.advise()

    def watch(self, service: Service, seconds: float, step_s: float = 15.0) -> None:
        """Move the clock on and run the cycles as their beat would."""
        for _ in range(round(seconds / step_s)):
            self.now_s += step_s
            service.scrape()
            service.jobs()
            service.assess()


@pytest.fixture
def rig(tmp_path):
    made = Rig(tmp_path)
    yield made
    for service in made.services:
        service.stop()
    made.server.shutdown()
    made.server.server_close()
