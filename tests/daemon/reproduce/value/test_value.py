"""``idlewatt reproduce value``: whom the gate lets decide, who does harm, and what it says without traces."""

import numpy as np
from command import reproduce

from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.workload import Workload
from idlewatt.daemon.reproduce.value.claims import Contest, _row
from idlewatt.daemon.reproduce.value.gating import promotions
from idlewatt.daemon.reproduce.value.outcomes import ReplayOutcome
from idlewatt.daemon.reproduce.value.sites import TRACES
from idlewatt.daemon.reproduce.value.tried import INCUMBENT, QUANTILES, SITE, TRUTH, told

DAY = 86400.0
JOBS = 6000
SUBMIT = np.linspace(0.0, 60 * DAY, JOBS)
WORK = Workload.of(SUBMIT, np.full(JOBS, 100.0), np.ones(JOBS, int))


def outcome(factor, seed=0, wait=0.0):
    jct = factor * 100.0 * np.random.default_rng(seed).lognormal(0.0, 0.3, JOBS)
    waits, marks = np.full(JOBS, wait), np.arange(0.0, 61 * DAY, DAY)
    return ReplayOutcome(SUBMIT, SUBMIT + jct, waits, np.ones(JOBS), marks * 1000.0, marks, 0)


def test_who_is_better_is_promoted_after_two_fortnights_and_who_is_not_never():
    [one] = promotions(WORK, {INCUMBENT: outcome(1.0), "better": outcome(0.8, 1), "equal": outcome(1.0, 2)}, INCUMBENT)
    assert one.name == "better"
    assert one.since_s >= 28 * DAY
    assert list(promotions(WORK, {INCUMBENT: outcome(1.0), "equal": outcome(1.0, 2)}, INCUMBENT)) == []


def test_who_lets_others_wait_longer_is_not_promoted():
    found = {INCUMBENT: outcome(1.0, wait=1000.0), "unfair": outcome(0.8, 1, wait=5000.0)}
    assert list(promotions(WORK, found, INCUMBENT)) == []


def test_a_row_tells_what_is_harmed():
    contest = Contest(TRACES[0], Cluster.from_spec("1x8"), WORK, {
        (INCUMBENT, "all nodes on"): [outcome(1.0)], ("bad", "all nodes on"): [outcome(1.2, wait=1e5)]})
    assert _row(contest, "bad", "heuristic")[-1] == "JCT, p99, group"
    assert _row(contest, INCUMBENT, "incumbent")[-1] == ""


def test_only_an_oracle_is_told_run_times():
    quantiles = np.full((JOBS, len(QUANTILES)), 7.0)
    assert (told(WORK, quantiles, TRUTH).limit == WORK.run).all()
    assert np.isinf(told(WORK, quantiles, SITE).limit).all()
    learned = told(WORK, quantiles, "0.9")
    assert (learned.limit == 7.0).all()
    assert (learned.prediction == 7.0).all()


def test_without_traces_it_says_what_it_needs(monkeypatch):
    monkeypatch.delenv("IDLEWATT_TRACES", raising=False)
    result = reproduce("value")
    assert result.exit_code == 2
    assert "--traces names their folder" in result.output
