"""The accounting on a real page: eight H100, one of them serving a model that nobody asks."""

from dataclasses import replace
from pathlib import Path

import kube_objects as make
import pytest

from idlewatt.exporters.dcgm import METRICS, parse
from idlewatt.exporters.exposition import Exposition
from idlewatt.exporters.kubernetes import KubernetesConfig
from idlewatt.exporters.simulated.api_server import Api, ApiServer
from idlewatt.exporters.simulated.api_store import NODES, PODS, Store
from idlewatt.exporters.targets import Target
from idlewatt.storage.power_classes import PowerClass

PAGE = Path(__file__).parents[2] / "recorded" / "dcgm_h100_8gpu_k8s.prom"
NOW = 1_800_000_000.0


@pytest.fixture
def gpus():
    target = Target("http://gpu-node-1:9400/metrics", "gpu-node-1:9400")
    return parse(Exposition(METRICS).samples(PAGE.read_bytes()), target, 1000.0).gpus


def test_a_loaded_model_that_nobody_asks_is_allocated_idle_and_the_rest_of_the_node_is_free(site, gpus):
    names = {gpu.node for gpu in gpus}
    node = site.node(*names, gpu_model="h100", gpus_allocated=1)
    served = site.running("42", node.name, [0])
    found = site.judge([node], [served], gpus, [site.wall(2500.0, node.name)])
    assert found.gpus["gpu"][PowerClass.ALLOCATED_IDLE] == 1
    assert found.gpus["gpu"][PowerClass.IDLE_UNALLOCATED] == 7
    assert found.totals["gpu"][PowerClass.ALLOCATED_IDLE] == pytest.approx(113.611)
    assert 7 * 64 < found.totals["gpu"][PowerClass.IDLE_UNALLOCATED] < 7 * 75
    assert found.wall_watts == 2500.0
    assert found.unaccounted_watts == pytest.approx(0.0, abs=1e-9)
    assert {verdict.activity_source for verdict in found.gpu_verdicts} == {gpu.activity_source for gpu in gpus}


def test_under_kubernetes_the_same_page_and_an_api_server_tell_who_holds_the_gpu(site, gpus):
    """Its namespace and pod are those of the page; nobody has to guess which of the eight GPUs it holds."""
    store = Store()
    store.put(NODES, make.node("gpu-node-1", labels={"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}))
    store.put(PODS, make.pod("vllm-agg-0-vllmdecodeworker-s65j5", make.owner("DynamoGraphDeployment", "vllm-agg",
                                                                             "nvidia.com/v1alpha1"),
                             namespace="dynamo-workload", on="gpu-node-1", created_s=NOW - 1000))
    server = ApiServer(Api(store)).begin()
    source = KubernetesConfig(kind="kubernetes", url=server.url).build(lambda: NOW)
    snapshot = source.read()
    source.close()
    server.shutdown()
    server.server_close()
    seen = tuple(replace(gpu, time_s=NOW) for gpu in gpus)
    found = site.accountant().assess(snapshot, site.telemetry(seen, (site.wall(2500.0, "gpu-node-1", NOW),)), NOW)
    [held] = [verdict for verdict in found.gpu_verdicts if verdict.allocated]
    assert (held.index, held.job_id, held.account, held.guessed, held.state) == (
        0, "dynamo-workload/vllm-agg", "dynamo-workload", False, PowerClass.ALLOCATED_IDLE)
    assert found.gpus["shared"][PowerClass.IDLE_UNALLOCATED] == 7
    assert sum(classes[PowerClass.UNMEASURED] for classes in found.totals.values()) == 0.0


def test_gpu_util_of_100_at_idle_watts_is_busy_but_drawing_idle_power(site):
    """GPU_UTIL only says that some kernel was resident: SM_ACTIVE of the same GPU can be next to nothing."""
    gpu = site.gpu(watts=95.0, u=0.05, resident=1.0)
    found = site.judge([site.node(gpus=1, gpus_allocated=1)], [site.running()], [gpu])
    assert found.gpu_verdicts[0].state is PowerClass.ALLOCATED_HUNG
