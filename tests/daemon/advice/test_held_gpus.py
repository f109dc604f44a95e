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


def test_gpus_on_which_an_exporter_names_a_pod_of_the_job_are_its_own_if_they_are_as_many():
    def readings(*names):
        return HeldGpus([GpuReading(f"G{index}", "n1", index, 0.0, jobs=jobs) for index, jobs in enumerate(names)],
                        [Node("n1", ("a",), 4)])

    pod, pods = ("team/a-0",), Allocation("n1", 2, members=("team/a-0", "team/a-1"))
    assert [gpu.index for gpu in readings(pod, (), ("team/a-1",), ("team/b",)).of(pods)] == [0, 2]
    assert readings(pod, (), (), ("team/b",)).of(pods) == [None, None]
    assert readings(pod, pod, pod, ()).of(pods) == [None, None]
    assert [gpu.index for gpu in readings((), (), (), ()).of(Allocation("n1", 1, gpu_uuids=("G3",)))] == [3]
