"""``idlewatt reproduce scorer``, with every knob small, to the end."""

from pathlib import Path

import numpy as np
import pytest
from command import reproduce

from idlewatt.daemon.agents.kinds import Figures
from idlewatt.daemon.reproduce.scorer import claims, sites, trial
from idlewatt.daemon.reproduce.scorer import run as _scorer
from idlewatt.daemon.reproduce.scorer.contest import BOUNDS, HEURISTICS, Cell
from idlewatt.daemon.reproduce.scorer.regimes import LIMITS, Regime, drawn, enough, window


def figures(jct_mean_s, wait_p99_s=3600.0):
    return Figures(jct_mean_s, 2.0, wait_p99_s, 100.0, None)


def cell(ours, theirs, name="a site", wait_p99_s=3600.0):
    """Return a cell of two traces whose best heuristic is QSSF."""
    known = {policy: (figures(2 * theirs), figures(2 * theirs)) for policy in (*HEURISTICS, *BOUNDS)}
    known["qssf+best-fit+easy"] = (figures(theirs), figures(theirs))
    return Cell(name, known, ((figures(ours, wait_p99_s), figures(ours, wait_p99_s)),))


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(_scorer, "REGIMES", (Regime(4, "lazy", 0.9),))
    monkeypatch.setattr(trial, "SELECT", 1)


@pytest.mark.usefixtures("few")
def test_a_small_run_of_the_whole_command_writes_the_report(tmp_path, monkeypatch):
    monkeypatch.delenv("IDLEWATT_TRACES", raising=False)
    result = reproduce("scorer", "--dir", tmp_path, seeds=1, budget_s=1, drawn=2, workers=1)
    assert result.exit_code == 0, result.output
    page, text = (tmp_path / "report.html").read_text(), (tmp_path / "report.md").read_text()
    for part in ("Verdict", "The worst site of every policy", "Mean completion time", "99 % wait", "Training"):
        assert f"<h2>{part}" in page
        assert f"## {part}" in text
    assert "4 nodes, lazy limits, load 0.9" in text
    assert "Real traces" not in text
    assert (tmp_path / "models" / "seed-0" / "best" / "card.json").exists()


@pytest.mark.usefixtures("few")
def test_a_missing_trace_is_named(tmp_path):
    result = reproduce("scorer", "--dir", tmp_path, "--traces", tmp_path, seeds=1, budget_s=1, drawn=1)
    assert result.exit_code == 1
    assert "philly_jobs.csv.gz" in result.output


def test_the_report_compares_a_real_trace_with_its_best_heuristic():
    real = claims.RealSiteResult(sites.SITES[2], cell(102.0, 100.0, wait_p99_s=7200.0), {}, 0.5)
    text = " ".join(claims.sites([real]).paragraphs)
    assert "Venus vcvGl, 20 nodes: the scorers are +2.0% to +2.0% from the best heuristic, qssf" in text
    assert "50% of the jobs are unlike" in text


def test_small_sites_get_more_test_traces():
    assert [enough(regime, 4) for regime in (Regime(128, "lazy", 0.9), Regime(4, "lazy", 0.9))] == [4, 128]


def test_regret_is_against_the_best_heuristic_of_the_site():
    regret = cell(110.0, 100.0).regret()
    assert regret.estimate == pytest.approx(0.1)
    assert regret.low == pytest.approx(0.1)
    assert cell(110.0, 100.0).best == "qssf+best-fit+easy"


@pytest.mark.parametrize(("ours", "expected"), [
    (101.0, "Reached: at most 2%"), (105.0, "Not reached: more than 2% on 1")])
def test_the_verdict_says_whether_the_aim_is_reached(ours, expected):
    found = claims.Findings([cell(90.0, 100.0), cell(ours, 100.0, "a hard site")], {}, [], [])
    text = " ".join(claims.verdict(found).paragraphs)
    assert expected in text
    assert "No site has a 99 % wait that is worse" in text


def test_the_report_names_a_worse_tail_unless_the_waits_are_short():
    long, short = (claims.Findings([cell(90.0, 100.0, wait_p99_s=wait)], {}, [], []) for wait in (7200.0, 800.0))
    assert "x 1.98" in " ".join(claims.verdict(long).paragraphs)
    assert "No site has a 99 % wait that is worse" in " ".join(claims.verdict(short).paragraphs)


def test_a_generated_trace_is_reproducible_by_number_and_has_the_requested_load():
    for limits in LIMITS:
        whole, again = (window(Regime(8, limits, 0.9), 3) for _ in range(2))
        work = whole.workload
        assert (work.submit == again.workload.submit).all()
        assert (work.run <= work.limit).all()
        offered = (work.run * work.gpus).sum() / (64 * np.ptp(work.submit))
        assert offered == pytest.approx(0.9, rel=0.1)
    assert (drawn(8, 1).workload.run == drawn(8, 1).workload.run).all()


def test_lazy_users_request_a_day_and_without_limits_neither_limits_nor_users_are_known():
    assert np.mean(window(Regime(8, "lazy", 0.9), 0).workload.limit == 86400.0) > 0.7
    assert np.mean(window(Regime(8, "informative", 0.9), 0).workload.limit == 86400.0) < 0.1
    unknown = window(Regime(8, "no", 0.9), 0).workload
    assert np.isinf(unknown.limit).all()
    assert (unknown.user == -1).all()


def test_training_uses_no_philly_cluster_with_published_results():
    assert not {site.partition for site in sites.SITES} & set(sites.OTHERS)


def test_test_traces_are_not_training_traces():
    config = trial.made_up(0, 1.0, Path("unused"))
    fit = config.fit(0).workload.run
    assert not np.array_equal(fit, config.select[0].workload.run)
    assert len(config.select) == trial.SELECT


def test_the_row_of_the_oracle_names_its_heuristic():
    assert BOUNDS == ("random-feasible", "sjf-oracle+best-fit+easy")
    found = claims.Findings([cell(110.0, 100.0)], {}, [], [])
    assert "sjf-oracle" in claims.regimes(found.regimes).tables[0].headings
    assert "sjf-oracle, which is shortest job first with the true run times" in claims.preface(found)[0]
