"""Requests for one type of GPUs where nodes have several: Slurm counts each, and advice only their sum."""

from dataclasses import replace

import pytest

from idlewatt.daemon.replay.admission.gate import Gate, Hold
from idlewatt.exporters.slurm.gpu_types import with_types_in_doubt
from idlewatt.storage.records import Job, JobState, Node, Partition, Request, SchedulerSnapshot

SEVERAL = "GPUs of several types"
MIXED = Node("m1", ("gpu",), 32, "a100", 64, gpus_allocated=4, gpu_models=("a100", "1g.5gb"))
PURE = Node("p1", ("gpu", "pure"), 8, "a100")


def doubts(*nodes: Node, partition: str = "gpu", state: JobState = JobState.PENDING, partitions=(), **request):
    job = Job("1", 1.0, state, partition, Request(**{"gpus": 1, "gpu_model": "a100"} | request))
    return with_types_in_doubt((job,), nodes, partitions)[0].request.details.unknown


@pytest.mark.parametrize("model", ["a100", "A100", "1g.5gb"])
def test_how_many_of_one_type_are_free_on_a_node_of_several_is_not_known(model):
    assert doubts(MIXED, PURE, gpu_model=model) == (f"how many {model} are free on m1, which has {SEVERAL}",)
    assert doubts(MIXED, replace(MIXED, name="m2"), gpu_model=model) == (
        f"how many {model} are free on 2 nodes that have {SEVERAL}",)


@pytest.mark.parametrize("request_", [
    {"gpu_model": ""}, {"gpu_model": "h100"}, {"partition": "pure"}, {"excluded_nodes": ("m1",)},
    {"required_nodes": ("p1",)}, {"state": JobState.RUNNING}])
def test_what_such_a_node_does_not_decide_is_known(request_):
    assert doubts(MIXED, PURE, **request_) == ()


def test_nodes_that_only_the_partition_names_count_and_so_do_those_of_any_partition_of_a_job():
    partitions = (Partition("night", ("m1",)),)
    assert doubts(MIXED, PURE, partition="night", partitions=partitions)
    assert doubts(MIXED, PURE, partition="pure,night", partitions=partitions)
    assert doubts(MIXED, PURE, required_nodes=("p1",), nodes=2)


@pytest.mark.parametrize("model", ["a100", "1g.5gb"])
def test_a_job_for_one_of_several_types_is_told_neither_to_start_nor_that_it_can_never_run(model):
    job = Job("1", 1.0, JobState.PENDING, "gpu", Request(1, gpu_model=model), limit_s=3600.0)
    (job,) = with_types_in_doubt((job,), (MIXED,), ())
    gate = Gate(SchedulerSnapshot(2.0, (MIXED,), (Partition("gpu", ("m1",)),), (job,)), 2.0)
    assert gate.bars(job) == Hold(
        "unknown", f"unknown: how many {model} are free on m1, which has {SEVERAL}: not known here")
