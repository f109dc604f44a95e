"""What jobs bring to their priorities beside their sizes."""

import pytest

from idlewatt.daemon.replay.priority.calculator import PriorityCalculator
from idlewatt.daemon.replay.state import ClusterState
from idlewatt.storage.records import Job, JobState, Node, Partition, Request, SchedulerSnapshot
from idlewatt.storage.rules import SchedulerRules, SchedulerSettings

NOW = 1_000_000.0
SITE = SchedulerSettings(priority=(("PriorityType", "priority/multifactor"), ("PriorityWeightPartition", "1000")))


@pytest.mark.parametrize(("named", "expected"), [("low", 10), ("low,med", 500), ("med,low", 500), ("gone,low", 10)])
def test_a_job_of_several_partitions_has_the_largest_of_their_factors(named, expected):
    partitions = tuple(Partition(name, ("n0",), priority_factor=factor)
                       for name, factor in (("low", 1), ("med", 50), ("high", 100)))
    job = Job("1", NOW - 60, JobState.PENDING, named, Request(1, 1), limit_s=3600.0)
    state = ClusterState.from_snapshot(
        SchedulerSnapshot(NOW, (Node("n0", ("low", "med", "high"), 8),), partitions, (job,), SchedulerRules(site=SITE)),
        NOW)
    calculator = PriorityCalculator(state.cluster, state.workload, state.arrays)
    assert calculator.factors(NOW)["PARTITION"].tolist() == pytest.approx([expected])
