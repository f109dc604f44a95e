"""What a replay warns of."""

from dataclasses import replace

import numpy as np
import pytest

from idlewatt.daemon.cli._conclusion import warnings
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.priority.preemption import CANCELLED, GRACE, KEPT, REQUEUED, Group, SchedulerPreemption
from idlewatt.daemon.replay.priority.site import Scheduling
from idlewatt.daemon.replay.workload import Charged, Workload

SLURMS = "multifactor+slurm-placement+slurm-backfill"
BARE = Workload.of([0.0, 100.0], [10.0, 10.0], [1, 1], limit=[20.0, 20.0])
TOLD = replace(BARE, charged=Charged(("", ""), ("low", "high"), np.zeros(2)))


def told(workload, becomes, policy=SLURMS, notes=()):
    groups = {"low": Group(0.0, becomes), "high": Group(1.0, KEPT, frozenset({"low"}))}
    scheduling = Scheduling(preemption=SchedulerPreemption("qos", groups, notes=notes))
    return list(warnings(replace(Cluster.from_spec("1x8"), scheduling=scheduling), workload, [policy]))


@pytest.mark.parametrize(("workload", "becomes", "expected"), [
    (TOLD, REQUEUED, []), (BARE, KEPT, []),
    (BARE, REQUEUED, ["jobs preempt others by their quality of service, which this history does not tell of them: "
                      "nobody does in the replay"]),
    (TOLD, CANCELLED, ["a job that is cancelled for another's sake counts as completed at that moment"])])
def test_what_preemption_makes_of_figures_is_said(workload, becomes, expected):
    assert told(workload, becomes) == expected


def test_what_is_not_replayed_is_said_where_the_scheduler_s_own_backfill_is():
    assert told(TOLD, REQUEUED, notes=(GRACE,)) == [GRACE]
    assert told(TOLD, REQUEUED, "fifo+easy", notes=(GRACE,)) == []


def test_parameters_of_the_scheduler_that_are_not_replayed_are_said_where_its_own_backfill_is():
    settings = {"SchedulerParameters": "bf_max_job_user=20,bf_interval=60,partition_job_depth=9"}
    cluster = replace(Cluster.from_spec("1x8"), scheduling=Scheduling.told(settings))
    assert list(warnings(cluster, TOLD, [SLURMS])) == [
        "SchedulerParameters also name bf_max_job_user, partition_job_depth, which Slurm goes by and the replay does "
        "not"]
    assert list(warnings(cluster, TOLD, ["fifo+easy"])) == []


def test_where_preemption_knows_no_order_it_is_said_how_the_replay_ends_all_the_same():
    groups = {"low": Group(0.0, REQUEUED), "middle": Group(), "high": Group(1.0, KEPT, frozenset({"low"}))}
    scheduling = Scheduling(preemption=SchedulerPreemption("qos", groups))
    [said] = warnings(replace(Cluster.from_spec("1x8"), scheduling=scheduling), TOLD, [SLURMS])

    assert said.endswith("in the replay nobody is preempted more than 1000 times")
