"""Does the replayed incumbent preempt whom a real Slurm does? The same submissions through both."""

import pytest
from incumbent.controller_log import LOGGED, read
from incumbent.fidelity import last_reckoning, run, submissions
from incumbent.preemption import compare
from incumbent.site import Preempting, site
from test_fidelity import LINES, PARAMETERS, STEADY

BY_QOS = Preempting(("PreemptType=preempt/qos", "PreemptMode=REQUEUE"),
                    ("urgent Preempt=normal,high", "high Preempt=normal"), credential_s=15)
BY_TIER = Preempting(("PreemptType=preempt/partition_prio", "PreemptMode=CANCEL"),
                     fast="PriorityTier=10", slow="PriorityTier=1")


KINDS = (("qos, requeued", BY_QOS), ("partition_prio, cancelled", BY_TIER))


def each(*groups):
    """Return a mark by which a test runs for each kind of preemption, on the worker of its group."""
    return pytest.mark.parametrize(("name", "preempting"), [
        pytest.param(*kind, marks=pytest.mark.xdist_group(group)) for kind, group in zip(KINDS, groups, strict=True)])



def alike(capsys, name, preempting, plan):
    """Return how alike a real Slurm and replays are that are given these submissions, and print it."""
    with site(PARAMETERS, *LINES, *LOGGED, weights=STEADY, preempting=preempting) as slurm:
        seen, reckoned_s = run(slurm, plan), last_reckoning(slurm)
        record = read(slurm.conf.parents[1] / "log/slurmctld.log")
    found = compare(seen, record, plan, reckoned_s)
    with capsys.disabled():
        print(f"\n{len(plan)} jobs, preempted by {name}: {found}")
    return found


@pytest.mark.stack
@pytest.mark.long
@pytest.mark.timeout(1800)
@each("slurms", "slurms")
def test_a_real_slurm_and_ours_preempt_the_same_jobs_for_the_same(capsys, name, preempting):
    found = alike(capsys, name, preempting, submissions(4, 50, 2.0, 8, qos=(5, 3, 2)))

    assert found.decisions >= 2
    # Whoever ends while a decision is taken may be gone for one of them only: six of 83 decisions were others so far.
    assert found.alike >= found.decisions - -(-found.decisions // 5)
    # From then on each goes its own way: more victims are the same than chance would take (a quarter), waits are alike.
    assert found.same >= 0.35
    assert 0.4 * found.victims <= found.replayed <= 2.5 * found.victims
    assert abs(found.off) <= 0.4
    # Who preempts starts in a round or two, of 2 s each, and does not wait as long as others.
    assert abs(found.urgent_replayed_s - found.urgent_s) <= 3.0


@pytest.mark.stack
@pytest.mark.long
@pytest.mark.timeout(2700)
@each("requeued", "cancelled")
def test_a_queue_of_hundreds_that_preempt_one_another_is_one_that_the_replays_might_have_been(capsys, name, preempting):
    """Jobs run for 20 s: the controller's second from one look to the next is an eighth of a job of 8 s."""
    found = alike(capsys, name, preempting, submissions(14, 200, 2.0, 20, qos=(5, 3, 2)))

    assert found.alike >= 0.85 * found.decisions
    assert found.rank_correlation >= 0.95
    # Two real runs were 13 and 18 % apart: a run is a draw, and replays vary as it does.
    assert abs(found.off) <= 0.05 + 2 * found.spread_s / found.replayed_s
