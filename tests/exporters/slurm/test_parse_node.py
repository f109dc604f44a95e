"""Nodes of Slurm 25.05 that are configured otherwise than the one written by hand."""

import json

import pytest

from idlewatt.exporters.slurm.parse_json import load, parse_list
from idlewatt.exporters.slurm.parse_node import parse_node


@pytest.fixture
def node_with(recorded):
    """Return the function that reads a node of 25.05 of which some fields say something else."""
    def read(**fields):
        page = json.loads(recorded("slurm/later/hand_written_25.05_nodes.json"))
        page["nodes"] = [page["nodes"][0] | fields]
        (node,) = parse_list(load(json.dumps(page)), "nodes", parse_node).records
        return node

    return read


def test_gpus_in_use_whose_type_nobody_configured_are_in_use(node_with):
    node = node_with(gres="gpu:8", gres_used="gpu:(null):6(IDX:0-5)")
    assert (node.gpus, node.gpus_allocated, node.gpu_indexes_allocated) == (8, 6, (0, 1, 2, 3, 4, 5))


@pytest.mark.parametrize(("fields", "threads"), [
    ({"cpus": 96, "effective_cpus": 96}, 1), ({"cpus": 96, "effective_cpus": 92}, 1), ({"cpus": 64}, 1),
    ({"cpus": 192, "effective_cpus": 96}, 2), ({"cores": None, "cpus": 96}, 2), ({"sockets": 1, "cpus": 96}, 2)])
def test_a_node_configured_with_as_many_cpus_as_cores_gives_one_thread_of_each(node_with, fields, threads):
    assert node_with(**fields).threads_per_core == threads


@pytest.mark.parametrize(("kept", "left"), [
    (48_000, 2_000_000), (0, 2_048_000), (None, 2_048_000), ({"set": False, "infinite": False, "number": 0}, 2_048_000),
    (3_000_000, 0)])
def test_memory_that_is_kept_for_slurms_own_daemons_is_not_for_jobs(node_with, kept, left):
    assert node_with(specialized_memory=kept).memory_bytes == left * 2**20


@pytest.mark.parametrize(("gres", "models"), [
    ("gpu:a100:4(S:0-1),gpu:1g.5gb:28(S:0-1)", ("a100", "1g.5gb")), ("gpu:a100:4(S:0),gpu:A100:4(S:1)", ()),
    ("gpu:a100:4,gpu:t4:0", ()), ("gpu:8,shard:a100:32", ()), ("gpu:t4:4,gpu:a100:2,gpu:t4:2", ("t4", "a100"))])
def test_a_node_with_gpus_of_several_types_names_all_of_them(node_with, gres, models):
    assert node_with(gres=gres).gpu_models == models
