"""``idlewatt reproduce gist``, with every knob small, to the end."""

import json
import re
from pathlib import Path

import pytest
import torch
from command import reproduce

from idlewatt.daemon.agents.gist_mdrl.train import device_named
from idlewatt.daemon.reproduce.gist import claims, seeds, trial
from idlewatt.daemon.reproduce.gist import run as _gist
from idlewatt.daemon.reproduce.gist.trial import (
    Trial,
    TrialResult,
    all_trials,
    carry_out,
    done_before,
)

EXACT = {name: {"utilization": 0.6, "utilization_at_end": 0.8, "terminal_start_days": 14.0, "makespan_days": 40.0}
         for name in ("Naive: random server, else wait", "first fit")} | {
    name: {"utilization": 0.78} for name in ("optimum without foresight", "oracle")}
RESULT = TrialResult("", (0.4, 0.7), (0.5, 0.8), dict.fromkeys(claims._COLUMNS, 0.7), 1.0)


@pytest.fixture
def known_values(monkeypatch):
    monkeypatch.setattr(claims, "exact_values", lambda: EXACT)


@pytest.mark.long
@pytest.mark.usefixtures("known_values")
def test_a_small_run_of_the_whole_command_writes_the_report(tmp_path):
    settings = {"seeds": 1, "apart": 0, "episodes": 12, "tests": 5, "workers": 2}
    result = reproduce("gist", "--dir", tmp_path, **settings)
    assert result.exit_code == 0, result.output
    page, text = (tmp_path / "report.html").read_text(), (tmp_path / "report.md").read_text()
    for claim in ("Table 2", "Fig. 3", "Fig. 5", "Fig. 6", "Fig. 7", "Run time", "What reproduces"):
        assert f"<h2>{claim}" in page
        assert f"## {claim}" in text
    assert "3.557 MWh (A100) and 1.915 MWh (V100)" in text
    assert page.count("<svg class=\"plot\"") == 4 + 3 + 2 + 1
    assert not re.search(r"https?://|<script", page)
    trained = json.loads((tmp_path / "runs" / "A100-literal-0" / "card.json").read_text())
    assert trained["metrics"]["utilization"] > 0
    before = (tmp_path / "runs" / "A100-literal-0" / "result.json").stat().st_mtime_ns
    assert reproduce("gist", "--dir", tmp_path, **settings).exit_code == 0
    assert (tmp_path / "runs" / "A100-literal-0" / "result.json").stat().st_mtime_ns == before


@pytest.mark.usefixtures("known_values")
def test_an_interrupted_run_reports_what_is_done(tmp_path, monkeypatch):
    def interrupted(name, tasks, kept, work, pool):
        yield tasks[0], RESULT
        raise KeyboardInterrupt

    monkeypatch.setattr(_gist, "completed", interrupted)
    result = reproduce("gist", "--dir", tmp_path, seeds=1)
    assert result.exit_code != 0
    assert "the 1 of 34 agents that are trained" in result.output
    assert "0.700" in (tmp_path / "report.md").read_text()


@pytest.mark.long
def test_an_interruption_before_the_first_agent_still_reports_the_other_sections():
    titles = [section.title for section in claims.sections({}, EXACT)]
    assert titles[:4] == ["What reproduces", "Table 2: flavours", "Fig. 3: s, m, m, l and f jobs, default and proposed",
                          "All policies, exactly: mean over all 81 job sequences"]
    assert not any(title.startswith("Fig. 5") for title in titles)


def test_a_training_has_converged_when_no_later_block_deviates():
    rising = [min(0.7, 0.5 + episode / 1000) for episode in range(1000)]
    assert seeds.settled([rising, rising]) == 200
    assert seeds.settled([[*rising[:900], *[0.5] * 100]]) == 1000
    assert seeds.settled([rising[:100]]) is None


def test_a_saved_result_counts_only_for_the_code_that_made_it(monkeypatch):
    before = Trial("A100", "literal", 0).key()
    assert Trial("A100", "literal", 0).key() == before
    trial._sources.cache_clear()
    read = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: read(path) + b"#" * (path.name == "train.py"))
    assert Trial("A100", "literal", 0).key() != before
    trial._sources.cache_clear()


def test_a_missing_device_is_refused(tmp_path):
    if torch.cuda.is_available():
        assert device_named("auto") == "cuda"
        return
    result = reproduce("gist", "--dir", tmp_path, device="cuda")
    assert result.exit_code == 2
    assert "no CUDA device here" in result.output
    assert device_named("auto") == "cpu"


def test_no_two_agents_of_the_report_share_partition_kind_and_seed():
    trials = all_trials(range(10), 3, 1000, 100)
    assert len({trial.name for trial in trials}) == len(trials) == 70
    assert not {one.seed for one in trials if one.partition == "A100"} & {
        one.seed for one in trials if one.partition == "V100"}


def test_a_damaged_trial_or_one_with_other_settings_is_repeated(tmp_path):
    small = Trial("A100", "masked", 0, episodes=3, tests=2)
    result = carry_out(small, tmp_path)
    assert done_before(small, tmp_path).utilization == result.utilization
    assert done_before(Trial("A100", "masked", 0, episodes=4, tests=2), tmp_path) is None
    (tmp_path / small.name / trial.RESULT).write_text('{"key": ')
    assert done_before(small, tmp_path) is None


def test_curves_for_tensorboard_are_written_when_asked_for(tmp_path):
    small = Trial("A100", "literal", 0, episodes=2, tests=1)
    carry_out(small, tmp_path, tensorboard=True)
    assert list((tmp_path / small.name).glob("events.out.tfevents.*"))


def test_each_single_option_differs_from_the_paper_in_one_setting():
    assert trial.options_named("steps").steps == 5
    assert not trial.options_named("steps").masked
    assert trial.options_named("double").double


@pytest.mark.parametrize(("utilization", "kilowatts", "mwh"), [(0.62, 13, 3.557), (0.62, 7, 1.915)])
def test_inefficient_energy_equals_the_papers(utilization, kilowatts, mwh):
    assert claims.inefficient_mwh(utilization, kilowatts) == pytest.approx(mwh, abs=5e-4)


def test_the_headline_utilization_reduces_it_by_34_percent():
    before, after = (claims.inefficient_mwh(utilization, 13) for utilization in (0.62, 0.75))
    assert 1 - after / before == pytest.approx(0.342, abs=5e-4)
