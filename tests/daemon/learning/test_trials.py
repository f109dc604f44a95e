"""Who is tried: heuristics that did better earlier and that the site's limits can tell apart, a few at a time."""

from dataclasses import replace

import numpy as np
import pytest
from null_sites import site

from idlewatt.daemon.agents.kinds import TraceWindow
from idlewatt.daemon.learning.promotion_criteria import TRIALS
from idlewatt.daemon.learning.trials import (
    JUDGED,
    TRIED,
    YEAR_S,
    Tried,
    begun_together,
    heuristics_on_trial,
    judged_by_hand,
    no_turn,
    prospects,
    shortlist,
    shortlists_left,
    spent_by_hand,
    trials,
)
from idlewatt.daemon.policies.limits import unfit
from idlewatt.daemon.replay.cluster import Cluster, NodeEvent
from idlewatt.daemon.replay.site_speeds import FLAT_SPEEDS, SiteSpeeds, SpeedCell, SpeedGroup
from idlewatt.daemon.replay.workload import Workload
from idlewatt.daemon.settings.training import TRIAL_S
from idlewatt.storage.promotions import Decision, Promotion
from idlewatt.storage.records import Node

DAY_S = 86400.0
SLOW = SiteSpeeds("site", (SpeedGroup("*", "*", 50, spread={"spine": SpeedCell(0.4, 0.35, 0.45, "measured", 50)}),))
BY_LIMIT, FIFO = "sjf-limit+best-fit+easy", "fifo+best-fit+easy"


@pytest.fixture(scope="module")
def earlier():
    cluster, work = site(8.0, nodes=2, daily=150, load=0.95)
    return TraceWindow(cluster, work, DAY_S)


def limited(earlier, limit):
    return replace(earlier.workload, limit=np.broadcast_to(np.asarray(limit, float), len(earlier.workload)).copy())


@pytest.mark.parametrize(("limit", "words"), [
    (np.inf, "100% of the jobs have no time limit: sjf-limit is first come, first served here"),
    (86400.0, "100% of the jobs have the same time limit"), (None, "")])
def test_an_order_by_limits_that_tell_nothing_says_so(earlier, limit, words):
    work = earlier.workload if limit is None else limited(earlier, limit)
    assert (words in unfit(BY_LIMIT, work)) if words else unfit(BY_LIMIT, work) == ""
    assert unfit(FIFO, work) == "", "who does not look at limits does not mind"


@pytest.mark.parametrize("differ", [0, 1, 100])
def test_limits_that_are_run_times_are_found_even_where_some_differ(earlier, differ):
    limit = earlier.workload.run.copy()
    limit[:differ] *= 2.0
    assert "very run times" in unfit(BY_LIMIT, limited(earlier, limit))


@pytest.mark.parametrize("made", [
    lambda run: 2 * run, lambda run: 3 * run, lambda run: 1.002 * run, lambda run: np.ceil(run / 60) * 60,
    lambda run: np.where(np.arange(len(run)) % 100 < 49, run, 36000.0 * (1 + np.arange(len(run)) % 7))])
def test_an_oracle_in_whatever_form_is_no_candidate(earlier, made):
    assert "run times" in unfit(BY_LIMIT, limited(earlier, made(earlier.workload.run)))


def test_jobs_that_ran_into_their_limit_are_no_leak(earlier):
    work = replace(earlier.workload, run=earlier.workload.limit.copy())
    assert unfit(BY_LIMIT, work) == ""


def test_who_knows_run_times_is_no_candidate(earlier):
    assert "knows true run times" in unfit("sjf-oracle+best-fit+easy", earlier.workload)
    assert not any("oracle" in name for name in shortlist([earlier], FIFO))


def test_the_shortlist_holds_what_did_better_earlier_and_not_the_incumbent(earlier):
    found = shortlist([earlier], FIFO)
    assert 0 < len(found) <= 10
    assert FIFO not in found
    assert BY_LIMIT in found
    assert len(shortlist([earlier], FIFO, most=1)) == 1
    blind = replace(earlier, workload=limited(earlier, np.inf))
    assert not any("limit" in name for name in shortlist([blind], FIFO))


@pytest.mark.parametrize(("speeds", "waits"), [(FLAT_SPEEDS, False), (SLOW, True)])
def test_the_shortlist_is_chosen_at_the_speeds_of_the_site(speeds, waits):
    """Jobs of two nodes that end before the next one comes, unless the switch between them makes them slow."""
    jobs = np.arange(200)
    run = np.where(jobs % 2, 300.0, 900.0)
    work = Workload.of(jobs * 1000.0, run, np.full(200, 16), limit=2 * run, application=int(not speeds.flat))
    nodes = [Node(f"n{number}", ("default",), 8, leaf=f"l{number}") for number in range(2)]
    earlier = TraceWindow(Cluster.from_records(nodes), work, 0.0, speeds)
    assert (BY_LIMIT in shortlist([earlier], FIFO)) is waits


def test_nothing_is_tried_against_an_incumbent_under_which_a_job_never_ends():
    """The third job wants both nodes, which it has before one is lost for good only if it goes before the second."""
    work = Workload.of([0, 1, 2], [50, 2000, 100], [16, 8, 16], limit=[100, 7200, 300])
    cluster = Cluster.from_spec("2x8").with_events([NodeEvent(500, "node0001", "down")])
    window = TraceWindow(cluster, work, 0.0)
    assert shortlist([window], FIFO) == ()
    assert all(prospect.ratio is None and f"never end under {FIFO}" in (prospect.unfit or prospect.why)
               for prospect in prospects([window], FIFO))
    assert shortlist([replace(window, since_s=3.0)], FIFO) == (), "of which no job counts"


def test_a_trial_lasts_until_it_is_decided_or_too_old():
    def decided(time_s, decision, model=BY_LIMIT):
        return Promotion(time_s, model, decision, "nightly", "", {TRIED: 0.0})

    begun = [decided(DAY_S, Decision.SHADOW)]
    assert [one.name for one in heuristics_on_trial(trials(begun, 2 * DAY_S))] == [BY_LIMIT]
    assert heuristics_on_trial(trials([*begun, decided(2 * DAY_S, Decision.PROMOTE)], 3 * DAY_S)) == ()
    assert heuristics_on_trial(trials(begun, TRIAL_S + DAY_S)) == ()
    assert trials(begun, 400 * DAY_S) == (), "a year later it is forgotten"
    assert trials([Promotion(0.0, "a@1", Decision.SHADOW, "operator", "")], DAY_S) == ()


def test_a_heuristic_that_is_tried_again_has_a_trial_of_its_own_whose_beginning_stays():
    def judged(day, since_day):
        return Promotion(day * DAY_S, BY_LIMIT, Decision.SHADOW, "nightly", "", {TRIED: since_day * DAY_S})

    again = [judged(14, 0), judged(90, 76)]
    assert heuristics_on_trial(trials(again, 91 * DAY_S)) == (Tried(BY_LIMIT, 76 * DAY_S, over=False),)
    early = [judged(14, 0), judged(30, 16)]
    assert heuristics_on_trial(trials(early, 31 * DAY_S)) == (Tried(BY_LIMIT, 16 * DAY_S, over=False),)


def test_a_heuristic_that_leaves_takes_its_share_of_the_error_with_it():
    tried = [Tried(BY_LIMIT, 0.0, over=False), Tried(FIFO, 0.0, over=True), Tried("a@1", 0.0, over=False)]
    assert begun_together(tried, 0.0) == 2
    assert begun_together(tried, DAY_S) == 0


def test_a_year_holds_only_some_shortlists_of_heuristics_whoever_is_on_them():
    begun = [Tried(name, number * 76 * DAY_S, over=True) for number in range(TRIALS) for name in (BY_LIMIT, FIFO)]
    assert shortlists_left([]) == TRIALS
    assert shortlists_left([*begun[2:], Tried("a@1", 5.0, over=True)]) == 1
    assert shortlists_left(begun) == 0


def test_another_kind_of_agent_brings_no_error_of_its_own():
    tried = [Tried(f"{kind}@{number}", number * 76 * DAY_S, over=True) for number, kind in enumerate("aabb")]
    assert "4 agents were tried within a year" in no_turn(tried, "c")
    assert no_turn(tried[1:], "c") == ""
    assert "4 agents were tried within a year" in no_turn(tried[1:], "c", by_hand=1)


def test_trainings_by_hand_are_counted_for_a_year_and_those_of_nights_are_not():
    def told(model, by, time_s, **figures):
        return Promotion(time_s, model, Decision.SHADOW, by, "", figures)

    now_s = 2 * YEAR_S
    decisions = [told("a@1", "operator", now_s, against={"fifo": {}}), told("a@2", "operator", 1.0, against={"f": {}}),
                 told("a@3", "nightly", now_s, against={"fifo": {}}), told("a@3", "operator", now_s, against={"f": {}}),
                 told("a@4", "operator", now_s), told(BY_LIMIT, "operator", now_s, against={"fifo": {}})]
    assert judged_by_hand(decisions, now_s, ["a@3", "a@5"]) == {"a@1", "a@5"}
    assert spent_by_hand(decisions, now_s) == 0
    spent = [told("a@1", "operator", 1.0, **{JUDGED: 4}), told("a@2", "operator", now_s, **{JUDGED: 2})]
    assert spent_by_hand(spent, now_s) == 2


def test_a_trial_that_begins_far_ahead_by_a_wrong_clock_blocks_nobody_and_counts():
    begun = [Promotion(0.0, "a@1", Decision.SHADOW, "nightly", "", {TRIED: 10 * YEAR_S})]
    (found,) = trials(begun, DAY_S)
    assert found.over
    assert no_turn([found], "a") == ""
    soon = [Promotion(0.0, "a@1", Decision.SHADOW, "nightly", "", {TRIED: 2 * DAY_S})]
    assert not trials(soon, DAY_S)[0].over, "two hosts whose clocks differ a little"
