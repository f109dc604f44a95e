import pytest

from idlewatt.daemon.advice.held_gpus import HeldGpus
from idlewatt.storage.records import Allocation, Node
from idlewatt.storage.telemetry import GpuReading


def of(part, indexes, gpus=4):
    """Return the indexes of a job's GPUs where NVML has these on a node with so many."""
    found = [GpuReading(f"G{index}", "n1", index, 0.0) for index in indexes]
    return [gpu and gpu.index for gpu in HeldGpus(found, [Node("n1", ("a",), gpus)]).of(part)]


def test_the_scheduler_counts_without_the_holes_of_nvml():
    assert of(Allocation("n1", 2, (1, 3)), [4, 0, 1, 3]) == [1, 4]


def test_a_gpu_that_telemetry_has_lost_keeps_its_place():
    assert of(Allocation("n1", 3, (0, 1, 3)), [0, 2, 3]) == [0, None, 3]


@pytest.mark.parametrize(("gpus", "found"), [(4, [0, 1, 2, 3]), (2, [None, None]), (0, [])])
def test_gpus_that_nobody_names_are_known_only_if_they_are_all(gpus, found):
    assert of(Allocation("n1", gpus), range(4)) == found


@pytest.mark.parametrize("part", [Allocation("n1", 1, (99,)), Allocation("n1", 1, (-1,)), Allocation("gone", 1)])
def test_a_gpu_that_cannot_be_is_not_known(part):
    assert of(part, range(4)) == [None]


def test_absurd_amounts_take_no_memory():
    assert len(of(Allocation("n1", 2**60), range(4), gpus=2**60)) <= 1000
