"""Shares in a person's words."""

import pytest

from idlewatt.daemon.advice.rightsizing import wording
from idlewatt.daemon.advice.rightsizing.rows import _ask
from idlewatt.daemon.advice.rightsizing.sensitivity import NodeShare, SpeedEstimate
from idlewatt.storage.records import Allocation, Job, JobState, Request
from idlewatt.storage.steering import Steering

GIB = 2**30


def speed_estimate(basis="measured", has=(64, 0), least=(30, 0), best=(64, 0), **more):
    return SpeedEstimate(basis, NodeShare(*has), NodeShare(*least), NodeShare(*best), **more)


def test_two_that_both_gain():
    shares = [("123", NodeShare(24, 0), 0.1)]
    assert wording.gift("124", shares, wording.worth(0.3, 0.1, shares)) == \
        "give job 124 the 24 cores that job 123 does not use; both finish sooner"


@pytest.mark.parametrize(("shares", "sooner", "at_least", "told"), [
    ([("123", NodeShare(24, 0), 0.0)], 0.3, 0.1,
     "the 24 cores that job 123 does not use; it finishes 30 % sooner, job 123 no later"),
    ([("123", NodeShare(24, 0), -0.001), ("7", NodeShare(0, 8 * GIB), 0.0)], 0.3, 0.0,
     "the 24 cores and the 8 GiB of memory that jobs 123 and 7 do not use; it may finish 30 % sooner, jobs 123 and 7 "
     "no later"),
    ([("123", NodeShare(24, 0), -0.02)], 0.3, 0.1,
     "the 24 cores that job 123 does not use; it finishes 30 % sooner, job 123 2 % later"),
    ([("", NodeShare(3, 0), 0.0)], 0.1, 0.1, "the 3 cores that nobody holds; it finishes 10 % sooner"),
    ([("", NodeShare(3, 0), 0.0), ("5", NodeShare(2, 0), 0.0)], 0.1, 0.1,
     "the 5 cores that job 5 does not use or nobody holds; it finishes 10 % sooner, job 5 no later"),
    ([("1", NodeShare(3, 0), 0.2), ("2", NodeShare(0, GIB), 0.1)], 0.1, 0.1,
     "the 3 cores and the 1 GiB of memory that jobs 1 and 2 do not use; all finish sooner")])
def test_who_gives_what_and_what_becomes_of_both(shares, sooner, at_least, told):
    assert wording.gift("124", shares, wording.worth(sooner, at_least, shares)) == f"give job 124 {told}"


def test_where_a_job_could_start_and_when_it_would_otherwise():
    assert wording.starts("n1", 7200.0) == "it can start now on n1 instead of in 2.0 h"
    assert wording.starts("n1", None) == "it can start now on n1"


def test_why_a_job_may_be_taken_from():
    known = speed_estimate(has=(64, 64 * GIB), used=25.9, memory_used=20.0 * GIB)
    assert wording.given(["9"], NodeShare(24, 0), known, 1800.0) == \
        "does not use 24 of its 64 cores (its 95th percentile in 30 min is 25.9): job 9 could"
    assert wording.given(["9", "10"], NodeShare(0, 40 * GIB), known, 1800.0) == \
        "does not use 40 of its 64 GiB (at the most 20 in use): jobs 9 and 10 could"


@pytest.mark.parametrize(("known", "told"), [
    (speed_estimate("fair-share"), "nothing is known of its needs yet: it keeps what it has"),
    (speed_estimate("prior"), "by the model that its name shows it needs what it has; not measured yet"),
    (speed_estimate("prior", best=(90, 0)),
     "by the model that its name shows it could use more cores, but nobody near has "
                                     "any to give; not measured yet"),
    (speed_estimate(), "does not use 34 of its 64 cores, but nobody near needs them"),
    (speed_estimate(least=(64, 0)), "uses what it has"),
    (speed_estimate(least=(64, 0), best=(90, 0)), "its GPUs wait for its cores, but nobody near has any to give")])
def test_why_a_job_keeps_what_it_has(known, told):
    assert wording.kept(known) == told


def test_what_is_asked_of_slurm_leaves_givers_enough_and_takes_no_more_than_there_is():
    has = NodeShare(40, 64 * GIB)
    assert wording.ask(NodeShare(27, 64 * GIB), has, 4) == "--cpus-per-gpu=7"
    assert wording.ask(NodeShare(55, 64 * GIB), has, 4) == "--cpus-per-gpu=13"
    assert wording.ask(NodeShare(40, 30 * GIB + 1), has, 4) == "--mem-per-gpu=7681M"
    assert wording.ask(NodeShare(80, 70 * GIB), has, 4) == "--cpus-per-gpu=20 --mem-per-gpu=17920M"
    assert wording.ask(has, has, 4) == wording.ask(NodeShare(1, 1), has, 0) == ""


@pytest.mark.parametrize("wanted", [9, 10, 11])
def test_nothing_is_asked_of_slurm_where_whole_cpus_of_each_gpu_lead_to_the_other_side(wanted):
    """Of 10 CPUs for 4 GPUs a giver of one would be asked to take 12, a taker of one to give 2."""
    assert wording.ask(NodeShare(wanted, 30 * GIB), NodeShare(10, 30 * GIB), 4) == ""
    assert wording.ask(NodeShare(wanted, 28 * GIB), NodeShare(10, 30 * GIB), 4) == "--mem-per-gpu=7168M"


def test_each_pod_of_a_giver_keeps_what_it_needs():
    """Of 40 cores of 4 pods it needs 27: 6 for each pod would be 24."""
    pods = Steering("team", container="train", pods=("p0", "p1", "p2", "p3"))
    job = Job("team/train", 0.0, JobState.RUNNING, "gpu", Request(4), steering=pods, allocations=(Allocation("n1", 4),))
    assert '"cpu":"7"' in _ask(job, NodeShare(27, 64 * GIB), NodeShare(40, 64 * GIB), 4)
    assert _ask(job, NodeShare(38, 64 * GIB), NodeShare(40, 64 * GIB), 4) == ""
