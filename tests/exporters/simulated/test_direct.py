"""Read directly, the cluster is what it is over HTTP."""

from threading import Thread

import pytest

from idlewatt.exporters import source
from idlewatt.exporters.simulated import direct
from idlewatt.exporters.simulated.cluster import ClusterShape, SimulatedCluster
from idlewatt.exporters.simulated.server import SimulatedSite, SimulationServer
from idlewatt.exporters.simulated.slurm_shapes import SETTINGS

START_S = 1_795_219_200.0


@pytest.fixture
def now():
    """A clock that stands where it is put."""
    class Clock:
        now_s = START_S

        def __call__(self) -> float:
            return self.now_s

    return Clock()


@pytest.fixture
def near(now):
    cluster = SimulatedCluster(ClusterShape(start_s=START_S))
    return {config.kind: config.build(now) for config in direct.sources(cluster, now)}


@pytest.fixture
def far(now):
    server = SimulationServer(SimulatedSite(SimulatedCluster(ClusterShape(start_s=START_S)), now))
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    pages = {kind: {"kind": kind, "http_sd_configs": [{"url": f"{server.url}/targets/{kind}"}]}
             for kind in ("dcgm", "ipmi", "cgroup")}
    configs = pages | {"slurm_rest": {"kind": "slurm_rest", "url": server.url, "settings": SETTINGS}}
    built = {kind: source.kinds()[kind].model_validate(config).build(now) for kind, config in configs.items()}
    yield built
    for reader in built.values():
        reader.close()
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("kind", ["dcgm", "ipmi", "cgroup", "slurm_rest"])
def test_both_ways_tell_the_same(near, far, now, kind):
    for _ in range(3):
        now.now_s += 600.0
        assert near[kind].read() == far[kind].read()


def test_accounting_tells_the_same_both_ways(near, far, now):
    now.now_s += 7200.0
    finished = near["slurm_rest"].completed(START_S)
    assert finished == far["slurm_rest"].completed(START_S)
    assert finished


def test_an_exporter_that_fell_over_is_down_and_its_gpus_are_missing(near, now):
    near["dcgm"].read()
    now.now_s += 7080.0
    nodes = {gpu.node for gpu in near["dcgm"].read().gpus}
    assert nodes == {"dgx-a100-01", "dgx-a100-02", "dgx-v100-01"}
    assert [(health.target, health.error, health.last_success_s) for health in near["dcgm"].health() if not health.up] \
        == [("dgx-v100-02", "the hostengine is gone", START_S)]


def test_no_configuration_file_can_name_such_a_source():
    assert direct.DirectConfig not in source.kinds().values()
