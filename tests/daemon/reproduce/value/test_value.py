"""``idlewatt reproduce value``: whom the gate lets decide, who does harm, what power-down is worth, which traces."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command import reproduce

from idlewatt.daemon.policies.limits import BY_LIMIT, unfit
from idlewatt.daemon.policies.registry import parse
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.workload import Workload
from idlewatt.daemon.reproduce.value import run
from idlewatt.daemon.reproduce.value.claims import PACKED, TraceOutcomes, _row, verdict
from idlewatt.daemon.reproduce.value.gating import promotions
from idlewatt.daemon.reproduce.value.outcomes import ReplayOutcome
from idlewatt.daemon.reproduce.value.sites import TRACES
from idlewatt.daemon.reproduce.value.task import AT_ONCE, OFF, ON
from idlewatt.daemon.reproduce.value.tried import INCUMBENT, ORACLES, QUANTILES, SITE, TRIED, TRUTH, with_limits

TRACES_HERE = Path(__file__).parents[3] / "traces"
DAY = 86400.0
JOBS = 6000
SUBMIT = np.linspace(0.0, 60 * DAY, JOBS)
CLUSTER = Cluster.from_spec("4x8")
WORK = Workload.of(SUBMIT, np.full(JOBS, 100.0), np.ones(JOBS, int))


def outcome(factor, seed=0, wait=0.0):
    jct = factor * 100.0 * np.random.default_rng(seed).lognormal(0.0, 0.3, JOBS)
    waits, marks = np.broadcast_to(wait, JOBS), np.arange(0.0, 61 * DAY, DAY)
    return ReplayOutcome(SUBMIT, SUBMIT + jct, waits, np.ones(JOBS), marks * 1000.0, marks, 0)


def test_a_better_policy_is_promoted_after_two_fortnights_and_a_worse_one_never():
    found = {INCUMBENT: outcome(1.0), "better": outcome(0.8, 1), "equal": outcome(1.0, 2)}
    [one] = promotions(CLUSTER, WORK, found, INCUMBENT)
    assert one.name == "better"
    assert one.since_s >= 28 * DAY
    assert list(promotions(CLUSTER, WORK, {INCUMBENT: outcome(1.0), "equal": outcome(1.0, 2)}, INCUMBENT)) == []


def test_a_policy_that_makes_some_jobs_wait_longer_is_not_promoted():
    found = {INCUMBENT: outcome(1.0, wait=1000.0), "unfair": outcome(0.8, 1, wait=5000.0)}
    assert list(promotions(CLUSTER, WORK, found, INCUMBENT)) == []


def test_a_policy_that_makes_few_jobs_wait_much_longer_on_many_days_is_not_promoted():
    day = (SUBMIT // DAY).astype(int)
    second = np.r_[False, False, day[2:] != day[:-2]]  # the first two jobs of a day
    waits = np.where(second & (day % 2 == 1) & (day < 54), 20_000.0, 1000.0)
    assert (waits > 1000.0).mean() < 0.01
    found = {INCUMBENT: outcome(1.0, wait=1000.0), "risky": outcome(0.8, 1, wait=waits)}
    assert list(promotions(CLUSTER, WORK, found, INCUMBENT)) == []
    found["risky"] = outcome(0.8, 1, wait=1000.0)
    assert [one.name for one in promotions(CLUSTER, WORK, found, INCUMBENT)] == ["risky"]


def test_a_policy_that_makes_one_partition_wait_longer_is_not_promoted():
    work = replace(WORK, partition=(np.arange(JOBS) % 5 == 0).astype(np.int32), partition_names=("many", "few"))
    unfair = outcome(0.6, 1)
    unfair = replace(unfair, end=np.where(work.partition == 1, SUBMIT + 1.4 * (unfair.end - SUBMIT) / 0.6, unfair.end))
    found = {INCUMBENT: outcome(1.0), "unfair": unfair}
    assert list(promotions(CLUSTER, work, found, INCUMBENT)) == []
    assert [one.name for one in promotions(CLUSTER, WORK, found, INCUMBENT)] == ["unfair"]


def test_an_active_policy_that_becomes_much_worse_is_demoted():
    better = outcome(0.8, 1)
    worse = replace(better, end=np.where(SUBMIT > 40 * DAY, SUBMIT + 2.0 * (better.end - SUBMIT), better.end))
    first, second = promotions(CLUSTER, WORK, {INCUMBENT: outcome(1.0), "worse": worse}, INCUMBENT)
    assert first.name == "worse"
    assert second.name == INCUMBENT
    assert 40 * DAY < second.since_s < 56 * DAY


def test_a_row_names_the_harmed_figure():
    outcomes = TraceOutcomes(TRACES[0], Cluster.from_spec("1x8"), WORK, {
        (INCUMBENT, "all nodes on"): [outcome(1.0)], ("bad", "all nodes on"): [outcome(1.2, wait=1e5)]})
    assert _row(outcomes, "bad", "heuristic")[-1] == "JCT, p99, group"
    assert _row(outcomes, INCUMBENT, "incumbent")[-1] == ""


def test_only_oracles_know_run_times():
    quantiles = np.full((JOBS, len(QUANTILES)), 7.0)
    assert (with_limits(WORK, quantiles, TRUTH).limit == WORK.run).all()
    assert np.isinf(with_limits(WORK, quantiles, SITE).limit).all()
    learned = with_limits(WORK, quantiles, "0.9")
    assert (learned.limit == 7.0).all()
    assert (learned.prediction == 7.0).all()


def test_without_traces_the_error_names_the_required_files(monkeypatch):
    monkeypatch.delenv("IDLEWATT_TRACES", raising=False)
    result = reproduce("value")
    assert result.exit_code == 2
    assert "--traces names their folder" in result.output


def powered(joules_of_all_on, joules, jct=1.0, jobs=WORK):
    """Return the verdict on ours with power-down, where the incumbent's draws 0.88 of all nodes on, day by day."""
    days = np.arange(61)
    uneven = np.random.default_rng(0).lognormal(0.0, 0.1, 61)

    def drawn(share, factor=1.0):
        return replace(outcome(factor), marks=days * DAY, joules=np.cumsum(share * uneven))

    outcomes = TraceOutcomes(TRACES[0], Cluster.from_spec("1x8"), jobs, {
        (INCUMBENT, ON): [drawn(joules_of_all_on)], (INCUMBENT, OFF): [drawn(0.88)], (PACKED.name, OFF): [
            drawn(joules, jct)], (PACKED.name, AT_ONCE): [drawn(0.44)]})
    row = verdict(outcomes, PACKED, OFF)
    assert row[5] == "0.5000", "at best, of the incumbent's with power-down"
    return row[-1]


def test_power_down_pays_below_nine_tenths_of_the_energy_significantly_below_the_timer_and_without_delay():
    assert powered(1.0, 0.86 + 0.01 * np.random.default_rng(1).random(61)) == "met"
    assert powered(1.0, 0.92 + 0.01 * np.random.default_rng(1).random(61)) == "not met: all nodes on, power-down"
    assert powered(1.0, 0.86 + 0.04 * np.random.default_rng(1).random(61)) == "not met: power-down"
    assert powered(1.0, 0.86 + 0.01 * np.random.default_rng(1).random(61), jct=1.02) == "not met: JCT"
    crowded = Workload.of(SUBMIT, np.full(JOBS, 1000.0), np.full(JOBS, 8))
    assert powered(1.0, 0.86 + 0.01 * np.random.default_rng(1).random(61), jobs=crowded) == "busy"


@pytest.mark.long
def test_each_trace_is_reported_as_soon_as_it_is_done_and_nothing_is_replayed_twice(tmp_path, monkeypatch):
    seen = []
    keep = run.write_report
    monkeypatch.setattr(run, "write_report", lambda *given: seen.append(sorted(
        one.title for one in given[2]["sections"] if one.title.startswith("Venus"))) or keep(*given))
    options = {"policies": "fifo+best-fit+easy,qssf+best-fit+easy", "seeds": 1, "budget_s": 0, "workers": 1}
    assert reproduce("value", "--traces", TRACES_HERE, "--dir", tmp_path, only="4,3", **options).exit_code == 0
    assert seen == [["Venus vcvlY, 2 nodes"], ["Venus vcvGl, 20 nodes", "Venus vcvlY, 2 nodes"]]
    text = (tmp_path / "report.md").read_text()
    assert text.index("## Venus vcvGl, 20 nodes") < text.index("## Venus vcvlY, 2 nodes")
    assert "| qssf+best-fit+easy, true run times | oracle |" in text
    assert "sjf-prediction" not in text
    assert "the policies that the gate promotes" not in text
    cells = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith(f"| {INCUMBENT} | powered")]
    woken = {row[1]: int(row[-1]) for row in cells[3:]}
    assert woken["powered down at break-even"] > woken["powered down when empty"] > 0
    replayed = {path: path.stat().st_mtime_ns for path in (tmp_path / "replayed").iterdir()}
    assert reproduce("value", "--traces", TRACES_HERE, "--dir", tmp_path, only="4", **options).exit_code == 0
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "replayed").iterdir()} == replayed
    assert "## Venus vcvGl, 20 nodes" not in (tmp_path / "report.md").read_text()


@pytest.mark.parametrize(("policies", "expected"), [
    ("sjf", "policies: 'sjf' is none of fifo+best-fit+easy"),
    ("fifo+best-fit+easy", "policies: none of them is told true run times")])
def test_a_selection_of_policies_without_a_table_is_refused(policies, expected):
    result = reproduce("value", "--traces", TRACES_HERE, policies=policies)
    assert result.exit_code == 2
    assert expected in result.output


def test_an_order_by_limits_that_are_multiples_of_run_times_counts_as_an_oracle():
    """The table declares limits of three times the run time, so that the backfill has some."""
    ran_s = np.random.default_rng(0).lognormal(8.0, 1.0, 500)
    declared = Workload.of(np.arange(500.0), ran_s, np.ones(500), limit=3.0 * ran_s)
    assert "sjf-limit is an oracle here" in unfit("sjf-limit+best-fit+easy", declared)
    by_limit = [one for one in (*TRIED, *ORACLES) if parse(one.policy).order.name in BY_LIMIT]
    assert {one.family for one in by_limit} == {"oracle"}
    assert unfit(INCUMBENT, declared) == ""
