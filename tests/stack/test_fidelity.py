"""Does the replayed incumbent start jobs when a real Slurm does? The same submissions through both."""

import pytest
from incumbent.controller_log import LOGGED, read
from incumbent.decisions import agreement
from incumbent.fidelity import apart, last_reckoning, replayed, run, submissions
from incumbent.site import site

PARAMETERS = "bf_interval=2,batch_sched_delay=0,bf_resolution=1"
LINES = ("PriorityCalcPeriod=1", "PriorityMaxAge=10", "PriorityDecayHalfLife=60")
STEADY = ("PriorityWeightAge=100000", "PriorityWeightFairShare=10000", "PriorityWeightJobSize=5000",
          "PriorityWeightPartition=8000", "PriorityWeightQOS=30000", "PriorityWeightTRES=CPU=1000,GRES/gpu=2000")
"""A rank in Fair Tree is worth nine seconds of age: with many times that, a second's delay turns the queue around."""


def really(seed, jobs, load, mean_s):
    """Return the queue of random jobs on a real Slurm when it is over, its controller's log and its last reckoning."""
    with site(PARAMETERS, *LINES, *LOGGED, weights=STEADY) as slurm:
        seen, reckoned_s = run(slurm, submissions(seed, jobs, load, mean_s)), last_reckoning(slurm)
        return seen, read(slurm.conf.parents[1] / "log/slurmctld.log"), reckoned_s


@pytest.mark.long
@pytest.mark.stack
@pytest.mark.xdist_group("rounds")
@pytest.mark.timeout(1800)
def test_each_round_of_a_real_backfill_starts_and_plans_what_ours_does_from_the_same_state(capsys):
    seen, record, reckoned_s = really(5, 60, 3.0, 4)
    found, alike = replayed(seen, record, reckoned_s), agreement(seen, record)

    with capsys.disabled():
        print(f"\nreal Slurm and ours: {alike}; {found}")
    assert found.jobs == 60
    assert found.waited >= 20
    assert alike.starts >= 10
    assert alike.plans >= 50
    # A job that ends while a round begins is gone for one of them only.
    assert alike.alike >= 0.95 * alike.rounds
    assert alike.plans_alike >= 0.9 * alike.plans


@pytest.mark.stack
@pytest.mark.long
@pytest.mark.timeout(2700)
@pytest.mark.parametrize("seed", [
    pytest.param(seed, marks=pytest.mark.xdist_group(f"queue {seed}")) for seed in (43, 44)])
def test_hundreds_of_jobs_wait_as_long_in_the_replay_as_they_really_did_twice(capsys, seed):
    runs = [really(seed, 300, 3.0, 8) for _ in range(2)]
    first_s, second_s, alike = apart(*(one[:2] for one in runs))
    found = [replayed(*one) for one in runs]

    with capsys.disabled():
        print(f"\ntwo real runs of the same submissions: mean waits {first_s:.2f} and {second_s:.2f} s "
              f"({second_s / first_s - 1:+.1%}), rank correlation of starts {alike:.4f}")
        for (seen, record, _), one in zip(runs, found, strict=True):
            print(f"one of them and its replays: {one}; {agreement(seen, record)}")
    real_s, replayed_s = (first_s + second_s) / 2, sum(one.replayed_s for one in found) / 2
    # Two real runs are that far apart by themselves; 5 % is what the replay may add.
    assert abs(replayed_s / real_s - 1) <= 0.05 + abs(second_s - first_s) / (2 * real_s)
    # Where two real runs agree less than that with each other, a replay agrees as well as another real run does.
    assert sum(one.rank_correlation for one in found) / 2 >= min(0.98, alike), [one.rank_correlation for one in found]
