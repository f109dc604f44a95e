"""What a replay warns of."""

from dataclasses import replace

import numpy as np
import pytest

from idlewatt.daemon.cli._conclusion import conclusion, warnings
from idlewatt.daemon.policies.limits import knowing
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
    (BARE, REQUEUED, ["jobs preempt others by their quality of service, which this history does not hold for them: "
                      "nobody does in the replay"]),
    (TOLD, CANCELLED, ["a job that is cancelled for another's sake counts as completed at that moment"])])
def test_the_effect_of_preemption_on_figures_is_stated(workload, becomes, expected):
    assert told(workload, becomes) == expected


def test_what_is_not_replayed_is_said_where_the_scheduler_s_own_backfill_is():
    assert told(TOLD, REQUEUED, notes=(GRACE,)) == [GRACE]
    assert told(TOLD, REQUEUED, "fifo+easy", notes=(GRACE,)) == []


def test_parameters_of_the_scheduler_that_are_not_replayed_are_said_where_its_own_backfill_is():
    settings = {"SchedulerParameters": "bf_max_job_user=20,bf_interval=60,partition_job_depth=9"}
    cluster = replace(Cluster.from_spec("1x8"), scheduling=Scheduling.of_config_lines(settings))
    assert list(warnings(cluster, TOLD, [SLURMS])) == [
        "SchedulerParameters also name bf_max_job_user, partition_job_depth, which Slurm goes by and the replay does "
        "not"]
    assert list(warnings(cluster, TOLD, ["fifo+easy"])) == []


def priorities(settings, policy=SLURMS, workload=TOLD, **told):
    scheduling = replace(Scheduling.of_config_lines(settings), **told)
    return list(warnings(replace(Cluster.from_spec("1x8"), scheduling=scheduling), workload, [policy]))


def test_what_priorities_go_by_and_the_replay_does_not_is_said_where_the_scheduler_s_own_order_is():
    settings = {"PriorityWeightAssoc": "10", "PriorityFlags": "INCR_ONLY"}
    assert priorities(settings) == [
        "Slurm's priorities also go by PriorityWeightAssoc, PriorityFlags=INCR_ONLY, which the replay does not"]
    assert priorities(settings, "fifo+easy") == []
    [said] = priorities({"PriorityFlags": "NO_NORMAL_ALL"})
    assert said.startswith("Slurm reports PriorityFlags=NO_NORMAL_ALL where any one of")


def test_missing_accounts_qos_and_nice_values_are_stated_if_priorities_use_them():
    [said] = priorities({"PriorityWeightQOS": "10"}, workload=BARE)
    assert said.startswith("priorities go by accounts, qualities of service and nice values, which this history does")
    assert priorities({"PriorityWeightAge": "10"}, workload=BARE) == []


def test_where_shares_count_it_is_said_what_is_not_known_of_charges():
    shares = {"PriorityWeightFairShare": "10"}
    assert priorities(shares) == [
        "what partitions charge for (TRESBillingWeights) is not known: CPUs count in the replay"]
    assert priorities(shares, billing={"default": {}}) == priorities({}) == []
    assert priorities(shares, billing={"default": {"cpu": 1.0, "gpu:a100": 2.0, "license/matlab": 3.0}}) == [
        "partitions also charge for license/matlab, of which the replay does not know who holds them"]


def test_without_an_order_of_preemption_the_order_of_the_replay_is_stated():
    groups = {"low": Group(0.0, REQUEUED), "middle": Group(), "high": Group(1.0, KEPT, frozenset({"low"}))}
    scheduling = Scheduling(preemption=SchedulerPreemption("qos", groups))
    [said] = warnings(replace(Cluster.from_spec("1x8"), scheduling=scheduling), TOLD, [SLURMS])

    assert said.endswith("in the replay nobody is preempted more than 1000 times")


RUNS = np.random.default_rng(1).lognormal(8.0, 1.2, 200).round()
BY_LIMIT = "sjf-limit+best-fit+easy"


def limited(limit):
    return Workload.of(np.arange(200.0) * 1e5, RUNS, np.ones(200), limit=np.broadcast_to(limit, 200))


@pytest.mark.parametrize(("limit", "policy", "expected"), [
    (np.where(np.arange(200) == 7, 1e5, RUNS), BY_LIMIT,
     ["the time limits of 100% of the jobs are their very run times: sjf-limit+best-fit+easy is an oracle here, for "
      "nobody knows run times beforehand, and no candidate"]),
    (3 * RUNS, "fifo+easy", ["the time limits of 100% of the jobs are 3 times their very run times: the backfill of "
                             "fifo+easy knows when jobs end"]),
    (86400.0, BY_LIMIT, ["100% of the jobs have the same time limit: sjf-limit+best-fit+easy is first come, first "
                         "served here, and no candidate"]),
    (86400.0, "wfp3", ["100% of the jobs have the same time limit: wfp3 goes by waits and sizes alone here, and no "
                       "candidate"]),
    (86400.0, "fifo+easy", []), (RUNS * np.linspace(1, 3, 200), BY_LIMIT, [])])
def test_missing_or_too_precise_limits_are_warned_of_if_policies_use_them(limit, policy, expected):
    assert list(warnings(Cluster.from_spec("4x8"), limited(limit), [policy, "sjf-oracle"])) == expected


def test_a_policy_that_knows_run_times_by_limits_is_not_called_the_best():
    lines = [{"policy": name, "jct_ratio": ratio} for name, ratio in (("fifo", 1.0), (BY_LIMIT, 0.5), ("qssf", 0.9))]
    told = replace(limited(2 * RUNS), prediction=np.full(200, 600.0))
    oracles = knowing([BY_LIMIT, "qssf"], told)
    assert oracles == (BY_LIMIT,)
    assert knowing(["qssf"], limited(2 * RUNS)) == ("qssf",), "it goes by limits while nothing is predicted"
    assert conclusion(lines, "fifo", oracles).startswith("qssf has the shortest mean JCT, 10.0 % below fifo")
    assert conclusion(lines, "fifo").startswith(BY_LIMIT)
    assert knowing([BY_LIMIT], limited(86400.0)) == ()
