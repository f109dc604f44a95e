"""A scorer on sites that it was not made for: wherever it would do harm it is silent, and the site's order decides."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from idlewatt.daemon.agents.doubts import longest_queue, queues_seen, sizes_seen
from idlewatt.daemon.agents.histories import subset
from idlewatt.daemon.agents.scorer.agent import MEMBERS, Scorer, inputs_of
from idlewatt.daemon.agents.scorer.arena import blank
from idlewatt.daemon.agents.scorer.network import INPUTS, layer
from idlewatt.daemon.policies import named
from idlewatt.daemon.replay.engine import run
from idlewatt.daemon.replay.state import ClusterState
from idlewatt.daemon.reproduce.agents import claims, elsewhere
from idlewatt.daemon.reproduce.agents.setting import FULL
from idlewatt.daemon.reproduce.scorer.regimes import INCUMBENT, Regime, judging
from idlewatt.storage.records import ModelCard

TRACES = Path(__file__).parents[3] / "traces"
STEPS = 30
"""As many as a quiet machine of two cores makes in 20 s."""


def first(whole, jobs):
    return replace(whole, workload=subset(whole.workload, np.arange(jobs)), since_s=-np.inf)


def made_up(nodes, limits="informative", load=1.1, jobs=250):
    return first(judging(Regime(nodes, limits, load), 0), jobs)


def venus():
    return first(elsewhere.slice_of(replace(elsewhere.trace_of("Venus vcvGl"), nodes=16), TRACES), 400)


@pytest.fixture(scope="module")
def longest_first():
    """Return what nobody should listen to, with the card of a training on 4 nodes with limits that tell something."""
    weights = np.tile(blank(7 * 86400.0), (MEMBERS, 1))
    layer(weights, "order.linear")[:, INPUTS.index("best guess"), 0] = -1.0
    home = made_up(4)
    inputs = inputs_of(ClusterState.of(home.cluster, home.workload))
    seen = {name: (float(column.min() - 0.1), float(column.max() + 0.1))
            for name, column in zip(INPUTS, inputs.T, strict=True)}
    past = run(home.cluster, home.workload, named(INCUMBENT))
    return Scorer(weights, ModelCard("scorer", "1", 0.0, 0, "", "", "", kind="scorer", seen={
        **seen, **sizes_seen([home.cluster]), **queues_seen([longest_queue(past)])}))


@pytest.mark.parametrize(("site", "why"), [
    (lambda: made_up(20, jobs=500), "size"), (venus, "size"), (lambda: made_up(1), "size"),
    (lambda: made_up(4, "no", 0.9, 400), "jobs")])
def test_a_scorer_abstains_outside_its_training_range_and_no_job_waits_longer(longest_first, site, why):
    one = elsewhere.tried(longest_first, "4 nodes", "elsewhere", [site()])
    assert one.alone > 1.01, "it would do harm"
    assert one.doubting <= 1.01
    assert max(one.doubts, key=one.doubts.get) == why
    assert sum(one.doubts.values()) > 0.95 * one.rounds > 0


def test_a_scorer_abstains_when_no_known_fact_distinguishes_jobs(longest_first):
    known = {name: bounds for name, bounds in longest_first.card.seen.items() if name not in INPUTS}
    anywhere = Scorer(longest_first.members, replace(longest_first.card, seen=known))
    one = elsewhere.tried(anywhere, "4 nodes", "no limits, no users", [made_up(4, "no", 0.9, 400)])
    assert one.alone > 1.01
    assert one.doubting <= 1.01
    assert one.doubts["run times"] > 0.95 * one.rounds


@pytest.mark.parametrize("nodes", [4, 8])
def test_a_scorer_that_does_harm_on_its_own_site_abstains_where_that_is_foreseen(longest_first, nodes):
    one = elsewhere.tried(longest_first, "4 nodes", "at home", [made_up(nodes)])
    assert one.alone > 1.2, "it does not doubt itself"
    assert one.doubting <= 1.01
    assert max(one.doubts, key=one.doubts.get) == "later"


def test_a_site_of_several_histories_has_an_interval_and_its_worst_history(longest_first):
    short, long = made_up(20, jobs=400), made_up(20, jobs=500)
    both, one, other = (elsewhere.tried(longest_first, "4 nodes", "20 nodes", windows)
                        for windows in ([short, long], [short], [long]))
    assert both.alone == pytest.approx((one.alone * other.alone) ** 0.5)
    assert (both.rounds, both.doubts) == (one.rounds + other.rounds, {"size": one.rounds + other.rounds})
    assert (both.doubting, both.interval, both.worst) == (1.0, (1.0, 1.0), 1.0)
    assert one.interval is None


def test_copies_of_a_trace_have_its_jobs_a_little_earlier_or_later_in_the_order_of_their_submission():
    trace = first(made_up(4), 60)
    same, *moved = elsewhere.copies(trace)
    assert same is trace
    assert len(moved) == elsewhere.EACH - 1
    for work in (window.workload for window in moved):
        assert (np.diff(work.submit) >= 0).all()
        rows = [trace.workload.ids.index(name) for name in work.ids]
        shifts = work.submit - trace.workload.submit[rows]
        assert 0 < np.abs(shifts).max() <= elsewhere.MOVED_S
        np.testing.assert_array_equal(work.run, trace.workload.run[rows])
    assert len({window.workload.submit.tobytes() for window in moved}) == len(moved)


def test_the_report_counts_harmful_scorers_and_histories():
    served = [elsewhere.Served("a", "b", 1.5, 1.54, 1.0, None, 1.0, 200, {"size": 200}),
              elsewhere.Served("a", "c", 1.5, 0.8, 0.9, (0.8, 1.1), 1.03, 1100, {"jobs": 110, "members": 330}),
              elsewhere.Served("a", "d", 1.5, 0.8, 1.02, (0.99, 1.05), 1.04, 100, {})]
    section = claims.facts([], [], FULL, served)["sections"][-1]
    assert ("Of 3 pairs 1 are more than 1 % worse without abstention, 1.540 at worst, and 1 with it, 1.020 at worst. "
            "In 2 pairs a single history is, with abstention, 1.040 at worst.") in section.paragraphs[-1]
    assert [row[4:] for row in section.tables[0].rows] == [
        ("1.000", "1.000", "200", "100%", "size 100%"),
        ("0.900 (0.800 to 1.100)", "1.030", "1,100", "40%", "members 30%, jobs 10%"),
        ("1.020 (0.990 to 1.050)", "1.040", "100", "0%", "")]
    assert claims.facts([], [], FULL)["sections"] == []


@pytest.mark.long
@pytest.mark.parametrize("home", [elsewhere.HOMES[0], elsewhere.HOMES[3]], ids=lambda home: home.name)
def test_no_trained_scorer_is_worse_than_the_sites_own_order_elsewhere(home, tmp_path):
    # By steps, since a busy machine trains less in the same time.
    found = list(elsewhere.served(home, TRACES, tmp_path, np.inf, STEPS))
    assert [one for one in found if one.doubting > 1.01] == []
    assert any(one.alone > 1.01 for one in found)
