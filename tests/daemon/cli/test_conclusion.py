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


def priorities(settings, policy=SLURMS, workload=TOLD, **told):
    scheduling = replace(Scheduling.told(settings), **told)
    return list(warnings(replace(Cluster.from_spec("1x8"), scheduling=scheduling), workload, [policy]))


def test_what_priorities_go_by_and_the_replay_does_not_is_said_where_the_scheduler_s_own_order_is():
    settings = {"PriorityWeightAssoc": "10", "PriorityFlags": "INCR_ONLY"}
    assert priorities(settings) == [
        "Slurm's priorities also go by PriorityWeightAssoc, PriorityFlags=INCR_ONLY, which the replay does not"]
    assert priorities(settings, "fifo+easy") == []
    [said] = priorities({"PriorityFlags": "NO_NORMAL_ALL"})
    assert said.startswith("Slurm tells PriorityFlags=NO_NORMAL_ALL where any one of")


def test_a_history_that_tells_no_accounts_qos_and_nice_values_says_so_where_priorities_go_by_them():
    [said] = priorities({"PriorityWeightQOS": "10"}, workload=BARE)
    assert said.startswith("priorities go by accounts, qualities of service and nice values, which this history does")
    assert priorities({"PriorityWeightAge": "10"}, workload=BARE) == []


def test_where_shares_count_it_is_said_what_is_not_known_of_charges():
    shares = {"PriorityWeightFairShare": "10"}
    assert priorities(shares) == [
        "what partitions charge for (TRESBillingWeights) is not told: CPUs count in the replay"]
    assert priorities(shares, billing={"default": {}}) == priorities({}) == []
    assert priorities(shares, billing={"default": {"cpu": 1.0, "gpu:a100": 2.0, "license/matlab": 3.0}}) == [
        "partitions also charge for license/matlab, of which the replay does not know who holds them"]


def test_where_preemption_knows_no_order_it_is_said_how_the_replay_ends_all_the_same():
    groups = {"low": Group(0.0, REQUEUED), "middle": Group(), "high": Group(1.0, KEPT, frozenset({"low"}))}
    scheduling = Scheduling(preemption=SchedulerPreemption("qos", groups))
    [said] = warnings(replace(Cluster.from_spec("1x8"), scheduling=scheduling), TOLD, [SLURMS])

    assert said.endswith("in the replay nobody is preempted more than 1000 times")
