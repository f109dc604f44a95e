"""Let the policies advise the demo's opening scene once, so that their compiled code is on disk before time starts.

Compiling takes half a minute on a new machine: with an accelerated clock that would be half an hour of the show.
"""

from __future__ import annotations

import json

from ...exporters.simulated import slurm
from ...exporters.simulated.cluster import SimulatedCluster
from ...exporters.slurm_json import load, parse_job, parse_list, parse_node, parse_partition
from ...storage.records import SchedulerSnapshot
from ..advice import AdviceSettings, Advisor


def rehearse() -> None:
    """Advise on the opening scene."""
    cluster = SimulatedCluster()
    nodes, partitions, jobs = (load(json.dumps(answer(cluster)))
                               for answer in (slurm.nodes, slurm.partitions, slurm.jobs))
    snapshot = SchedulerSnapshot(cluster.now_s, parse_list(nodes, "nodes", parse_node).records,
                                 parse_list(partitions, "partitions", parse_partition).records,
                                 parse_list(jobs, "jobs", parse_job).records)
    Advisor(AdviceSettings()).advise(snapshot, cluster.now_s)


if __name__ == "__main__":
    rehearse()
