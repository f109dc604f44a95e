import json

import pytest

from idlewatt.exporters.simulated import slurm
from idlewatt.exporters.simulated.cluster import ClusterShape, SimulatedCluster
from idlewatt.exporters.slurm.gpu_parts import with_shares
from idlewatt.exporters.slurm.parse_json import load, parse_job, parse_list
from idlewatt.exporters.slurm.parse_node import parse_node
from idlewatt.storage.gpu_parts import GpuPart


def told(hardware):
    cluster = SimulatedCluster(ClusterShape(nodes=8, hardware=hardware, tick_s=60))
    cluster.advance(cluster.now_s + 3600)
    nodes = parse_list(load(json.dumps(slurm.nodes(cluster))), "nodes", parse_node).records
    jobs = parse_list(load(json.dumps(slurm.jobs(cluster))), "jobs", parse_job).records
    return nodes, with_shares(tuple(jobs), nodes)


def test_a_mixed_site_has_a_gpu_of_which_jobs_hold_a_quarter_and_a_half_and_nobody_else_gets_it():
    nodes, jobs = told("mixed")
    held = {part: allocation for job in jobs for allocation in job.allocations for part in allocation.parts}
    assert list(held) == [GpuPart("shard", 7, 1.0, 0.25), GpuPart("shard", 7, 2.0, 0.5)]
    assert {(allocation.node, allocation.gpus) for allocation in held.values()} == {("hgx-h100-01", 0)}
    here = next(node for node in nodes if node.name == "hgx-h100-01")
    assert here.slices == (("shard", 32, 3),)
    assert 7 in here.gpu_indexes_allocated
    assert not any(job.partition == "H100" and job.request.nodes > 1 for job in jobs)  # it could never start
    assert not any(7 in (part.gpu_indexes or ()) for job in jobs for part in job.allocations
                   if part.node == "hgx-h100-01" and job.state.active)


@pytest.mark.parametrize("hardware", ["dgx", "mi300x", "gb200-nvl72"])
def test_other_sites_have_no_parts(hardware):
    nodes, jobs = told(hardware)
    assert not any(node.slices for node in nodes)
    assert not any(allocation.parts for job in jobs for allocation in job.allocations)
