"""The accounting on a real page: eight H100, one of them serving a model that nobody asks."""

from pathlib import Path

import pytest

from idlewatt.exporters.dcgm import METRICS, parse
from idlewatt.exporters.exposition import Exposition
from idlewatt.exporters.targets import Target
from idlewatt.storage.power_classes import PowerClass

PAGE = Path(__file__).parents[2] / "recorded" / "dcgm_h100_8gpu_k8s.prom"


@pytest.fixture
def boards():
    target = Target("http://gpu-node-1:9400/metrics", "gpu-node-1:9400")
    return parse(Exposition(METRICS).samples(PAGE.read_bytes()), target, 1000.0).gpus


def test_a_loaded_model_that_nobody_asks_is_allocated_idle_and_the_rest_of_the_node_is_free(site, boards):
    names = {board.node for board in boards}
    node = site.node(*names, gpu_model="h100", gpus_allocated=1)
    served = site.running("42", node.name, [0])
    found = site.judge([node], [served], boards, [site.wall(2500.0, node.name)])
    assert found.gpus["gpu"][PowerClass.ALLOCATED_IDLE] == 1
    assert found.gpus["gpu"][PowerClass.IDLE_UNALLOCATED] == 7
    assert found.totals["gpu"][PowerClass.ALLOCATED_IDLE] == pytest.approx(113.611)
    assert 7 * 64 < found.totals["gpu"][PowerClass.IDLE_UNALLOCATED] < 7 * 75
    assert found.wall_watts == 2500.0
    assert found.unaccounted_watts == pytest.approx(0.0, abs=1e-9)
    assert {verdict.activity_source for verdict in found.boards} == {board.activity_source for board in boards}


def test_gpu_util_of_100_at_idle_watts_is_busy_but_drawing_idle_power(site):
    """GPU_UTIL only says that some kernel was resident: SM_ACTIVE of the same board can be next to nothing."""
    board = site.board(watts=95.0, u=0.05, resident=1.0)
    found = site.judge([site.node(gpus=1, gpus_allocated=1)], [site.running()], [board])
    assert found.boards[0].state is PowerClass.ALLOCATED_HUNG
