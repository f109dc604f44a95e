"""The opening scene as the daemon's own sources and accounting see it over HTTP."""

import threading
from contextlib import ExitStack

import pytest

from idlewatt.daemon.waste import WasteAccountant, WasteSettings
from idlewatt.exporters.simulated.cluster import ClusterShape, SimulatedCluster
from idlewatt.exporters.simulated.server import SimulatedSite, SimulationServer
from idlewatt.exporters.source import kinds
from idlewatt.storage.power_classes import WASTED, PowerClass
from idlewatt.storage.telemetry import Telemetry

PAGES = ("dcgm", "node", "ipmi")


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in (2, 3))])
def test_every_class_of_waste_is_seen_within_a_quarter_of_an_hour(seed):
    now = [ClusterShape().start_s]
    site = SimulatedSite(SimulatedCluster(ClusterShape(seed=seed)), lambda: now[0])
    with SimulationServer(site) as server, ExitStack() as stack:
        stack.callback(server.shutdown)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        configs = [{"kind": kind, "http_sd_configs": [{"url": f"{server.url}/targets/{kind}"}]} for kind in PAGES]
        sources = [kinds()[config["kind"]].model_validate(config).build(lambda: now[0])
                   for config in (*configs, {"kind": "slurm_rest", "url": server.url})]
        for source in sources:
            stack.callback(source.close)
        accountant, seen = WasteAccountant(WasteSettings(), interval_s=60), set()
        for _ in range(15):
            now[0] += 60
            *telemetry, snapshot = [source.read() for source in sources]
            assessment = accountant.assess(snapshot, Telemetry(
                tuple(gpu for part in telemetry for gpu in part.gpus),
                tuple(node for part in telemetry for node in part.nodes)), now[0])
            assert abs(assessment.unaccounted_watts) < 1e-6
            seen |= {power_class for watts in assessment.totals.values()
                     for power_class, power in watts.items() if power > 0}
            stranded = [sum(causes.values()) for causes in assessment.stranded.values()]
            assert all(stranded), "gpus are stranded in both partitions"
    assert seen >= {*WASTED, PowerClass.PRODUCTIVE, PowerClass.HOST_ACTIVE}
