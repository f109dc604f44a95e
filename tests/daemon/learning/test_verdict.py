"""By what a candidate may earn its place, and that several ways are wrong no more often than one."""

from dataclasses import replace

import numpy as np
import pytest
from gate_trials import Looks

from idlewatt.daemon.learning.evidence import FINE_RATES, NOTHING, USE_RATES, Comparison
from idlewatt.daemon.learning.promotion_criteria import COMPLETION, DOWN, ENERGY, ON, UTILIZATION, PromotionCriteria
from idlewatt.daemon.learning.verdict import Verdict, not_better, share, why
from idlewatt.storage.promotions import Decision

TERMS = PromotionCriteria(error=1 / 320)
POWERED = replace(TERMS, power_down_s=1800.0)
INCUMBENT = "fifo"


@pytest.mark.parametrize(("objective", "terms", "open_ways"), [
    ("", TERMS, (COMPLETION,)), ("jct_mean+wait_p99", TERMS, (COMPLETION,)),
    ("", POWERED, (COMPLETION, ENERGY)), ("jct_mean+energy", TERMS, (COMPLETION, ENERGY)),
    ("energy_wasted", TERMS, (COMPLETION, ENERGY)), ("utilization", TERMS, (COMPLETION, UTILIZATION)),
    ("utilization+energy", POWERED, (COMPLETION, ENERGY, UTILIZATION))])
def test_only_ways_that_are_open_to_the_candidate_at_the_site_share_the_error(objective, terms, open_ways):
    found = Verdict("a@1", Decision.SHADOW, (), INCUMBENT, INCUMBENT, objective=objective, terms=terms)
    assert terms.ways(objective) == found.ways == open_ways
    assert share(found) * len(open_ways) == pytest.approx(terms.error)


def surely(evidence, estimate=0.9, **more):
    """Return a ratio with so much evidence, as a multiple of what is needed were it the only way."""
    spread = 0.001 * estimate
    return Comparison(estimate, estimate - spread, estimate + spread, 40, estimate,
                      np.log(evidence / TERMS.error), np.log(evidence / TERMS.error), **more)


def verdict(objective="", terms=TERMS, **figures):
    bounded = Comparison(1.0, 1.0, 1.0, 40, 1.0, within=np.log(1.001 / TERMS.error), bound=1.01)
    told = {"against": bounded, "energy": {ON: NOTHING, DOWN: NOTHING}, "utilization": NOTHING} | figures
    return Verdict("a@1", Decision.SHADOW, (), INCUMBENT, INCUMBENT, objective=objective, terms=terms,
                   **{name: {INCUMBENT: value} for name, value in told.items()})


@pytest.mark.parametrize(("objective", "terms", "needed"), [
    ("", TERMS, 1), ("", POWERED, 2), ("utilization", TERMS, 2), ("utilization", POWERED, 3)])
def test_each_way_needs_the_evidence_of_its_share_of_the_error(objective, terms, needed):
    figures = {"against": surely}
    if terms is POWERED:
        figures["energy"] = lambda evidence: {DOWN: surely(evidence), ON: NOTHING}
    if objective == "utilization":
        figures["utilization"] = lambda evidence: surely(evidence, 1.1)
    for name, figure in figures.items():
        enough, short = (verdict(objective, terms, **{name: figure(needed * by)}) for by in (1.001, 0.999))
        assert list(not_better(enough)) == []
        assert "better" in why(enough, INCUMBENT)
        assert list(not_better(short)), name
    assert f"{320 * needed} needed" in next(not_better(verdict(objective, terms, against=surely(0.999 * needed))))


def test_energy_earns_nothing_where_no_node_is_powered_down_and_the_candidate_is_not_after_it():
    drawn = {ON: surely(9.0), DOWN: surely(9.0)}
    assert list(not_better(verdict(energy=drawn)))
    assert list(not_better(verdict("energy", energy=drawn))) == []
    assert list(not_better(verdict(terms=POWERED, energy=drawn))) == []


def test_all_ways_together_are_wrong_no_more_often_than_the_error_says():
    """Of 400 candidates of which nothing is better, looked at after each of 60 blocks, with an error of a tenth."""
    random, error, trials = np.random.default_rng(7), 0.1, 400
    wrong = {1: 0, 3: 0}
    for _ in range(trials):
        for shares in wrong:
            wrong[shares] += any(
                Looks.at(np.exp(random.normal(0.0, spread, 60)), np.ones(60), rates=rates).below(error / shares).any()
                for spread, rates in ((0.1, (2.0, 4.0, 8.0, 16.0, 32.0)), (0.003, FINE_RATES), (0.03, USE_RATES)))
    assert wrong[3] <= error * trials
    assert wrong[1] > 1.2 * error * trials, "each with the whole error"
