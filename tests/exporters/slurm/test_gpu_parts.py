"""Shards of GPUs as real Slurm 22.05 tells them, and other parts as its documentation writes them."""

import pytest

from idlewatt.exporters.slurm.gpu_parts import with_shares
from idlewatt.exporters.slurm.gres import Parts, parse_others, parse_parts
from idlewatt.exporters.slurm.parse_json import load, parse_job, parse_list
from idlewatt.exporters.slurm.parse_node import parse_node
from idlewatt.storage.gpu_parts import GpuPart
from idlewatt.storage.records import Allocation, Job, JobState, Node, Request


@pytest.fixture
def cluster(recorded):
    """Return nodes and jobs of the recording: eight GPUs of four shards each."""
    nodes = parse_list(load(recorded("slurm/shards/sinfo.json")), "nodes", parse_node).records
    jobs = parse_list(load(recorded("slurm/shards/squeue.json")), "jobs", parse_job).records
    return nodes, {job.name: job for job in with_shares(jobs, nodes)}


def test_real_slurm_tells_which_gpu_a_shard_is_of_and_how_much_of_it(cluster):
    _, jobs = cluster
    assert {name: jobs[name].allocations[0].parts for name in ("infer-a", "infer-b", "infer-c", "train")} == {
        "infer-a": (GpuPart("shard", 0, 1.0, 0.25),), "infer-b": (GpuPart("shard", 4, 2.0, 0.5),),
        "infer-c": (GpuPart("shard", 0, 3.0, 0.75),), "train": ()}


def test_a_gpu_of_which_a_shard_is_taken_is_not_handed_out_whole(cluster):
    ((node,), _) = cluster
    assert (node.gpus, node.gpus_allocated, node.gpu_indexes_allocated) == (8, 4, (0, 4, 5, 6))
    assert node.slices == (("shard", 32, 6),)


@pytest.fixture
def in_percent(recorded):
    """Return nodes and jobs of the recording with MPS: two nodes of eight GPUs, each of 100."""
    nodes = parse_list(load(recorded("slurm/mps/sinfo.json")), "nodes", parse_node).records
    jobs = parse_list(load(recorded("slurm/mps/squeue.json")), "jobs", parse_job).records
    return nodes, {job.name: job for job in with_shares(jobs, nodes)}


def test_real_slurm_tells_which_gpu_a_percentage_by_mps_is_of(in_percent):
    nodes, jobs = in_percent
    assert {name: jobs[name].allocations[0].parts for name in ("infer-a", "infer-b", "train")} == {
        "infer-a": (GpuPart("mps", 0, 25.0, 0.25),), "infer-b": (GpuPart("mps", 0, 50.0, 0.5),), "train": ()}
    assert [part.words for part in jobs["infer-b"].allocations[0].parts] == ["50 % of GPU 0 (MPS 50)"]
    assert [(node.gpus_allocated, node.gpu_indexes_allocated, node.slices) for node in nodes] == [
        (3, (0, 4, 5), (("mps", 800, 75),)), (0, (), (("mps", 800, 0),))]


def test_where_room_for_mps_is_nobody_says_but_slurm(in_percent):
    """It let 60 wait for GPU 0, of which 75 were taken, beside five idle GPUs: one GPU of a node serves MPS."""
    _, jobs = in_percent
    assert {name: jobs[name].request.details.unknown for name in ("infer-c", "two", "train")} == {
        "infer-c": ("where mps:60 is free",), "two": ("where mps:200 is free",), "train": ()}


@pytest.mark.parametrize(("text", "found"), [
    ("gres:mps:60", ("mps:60",)), ("gres/shard:a100:2,gres/gpu:a100:1", ("shard:a100:2",)), ("gres:gpu:4", ()),
    ("gres:gpu", ()), ("gpu:4", ()), ("", ()), ("gres/nvme:1", ("nvme:1",)), ("mps:5", ("mps:5",)), ("cpu:4", ()),
    ("gres:gpumem:4", ("gpumem:4",)), ("gres:" + "x" * 500, ())])
def test_what_is_no_gpu_is_told_as_it_was_asked_for(text, found):
    assert parse_others(text) == found


@pytest.mark.parametrize(("text", "parts"), [
    ("shard:3(IDX:0)", (Parts("shard", 3, (0,)),)), ("gres:shard:2", (Parts("shard", 2),)),
    ("gpu:a100:2(IDX:5-6),mps:a100:50(IDX:1)", (Parts("mps", 50, (1,)),)), ("shard", (Parts("shard", 1),)),
    ("shard:a100:32(S:0-1)", (Parts("shard", 32),)), ("shard:(null):2(IDX:0,4)", (Parts("shard", 2, (0, 4)),)),
    ("gpu:8", ()), ("", ()), ("shard:x:y:z", ()), ("shard:-1", ()),
    ("shard:99999999999999", ()), ("shard:4(IDX:GPU-aa)", (Parts("shard", 4),)), ("shards:4", ())])
def test_parts_are_read_and_nothing_else_is_taken_for_one(text, parts):
    assert parse_parts(text) == parts


@pytest.mark.parametrize(("parts", "slices", "shares"), [
    ((GpuPart("mps", 0, 50.0),), (("mps", 800, 50),), (0.5,)),
    ((GpuPart("shard", 0, 4.0), GpuPart("shard", 1, 4.0)), (("shard", 8, 8),), (1.0, 1.0)),
    ((GpuPart("shard", 0, 3.0), GpuPart("shard", 1, 3.0)), (("shard", 8, 6),), (None, None)),
    ((GpuPart("shard", 0, 9.0),), (("shard", 8, 8),), (None,)), ((GpuPart("shard", 0, 1.0),), (), (None,))])
def test_the_share_is_told_only_where_slurm_tells_it(parts, slices, shares):
    node = Node("n", ("p",), 8 if slices and slices[0][0] == "mps" else 2, slices=slices)
    job = Job("1", 0.0, JobState.RUNNING, "p", Request(0), allocations=(Allocation("n", 0, parts=parts),))
    ((found,), ) = (with_shares((job,), (node,)),)
    assert tuple(part.share for part in found.allocations[0].parts) == shares
