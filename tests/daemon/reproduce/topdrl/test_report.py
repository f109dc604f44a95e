"""``idlewatt reproduce topdrl`` from end to end, with hardly any training."""

import re
from functools import partial

import pytest
from command import reproduce

from idlewatt.daemon.reproduce.topdrl import arena, predecessor
from idlewatt.daemon.reproduce.topdrl import run as _topdrl
from idlewatt.daemon.reproduce.topdrl.literal.train import CanvasTrainingConfig

QUICK = {"seeds": 1, "rounds": 0, "literal_rounds": 0, "episodes": 1}


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Shrink what no option shrinks."""
    monkeypatch.setattr(_topdrl, "SIZES", (64, 128))
    monkeypatch.setattr(_topdrl.by_gradient, "CanvasTrainingConfig",
                        partial(CanvasTrainingConfig, lessons=1, epochs=1, chosen_by=1))
    monkeypatch.setattr(_topdrl.predecessor, "carry_out", partial(predecessor.carry_out, 4))


def test_the_report_shows_both_environments_and_every_baseline(tmp_path, monkeypatch):
    monkeypatch.delenv("IDLEWATT_TRACES", raising=False)
    result = reproduce("topdrl", "--dir", tmp_path, **QUICK)
    assert result.exit_code == 0, result.output
    text = (tmp_path / "report.md").read_text()
    for order in ("FCFS", "SJF", "smallest", "random"):
        for placement in ("first-available", "load-balance", "nearest"):
            assert f"| {order} + {placement} |" in text
    assert re.search(r"\| random-feasible \| \d+\.\d\d \| 0\.\d+ \|", text)
    assert "bound (no policy can be better)" in text
    assert "| released PPO (as printed) | 22.99 |" in text
    assert re.search(r"\| literal \| \d+\.\d\d \|", text)
    assert "off by a factor of 2" in text
    assert "Jobs as submitted" not in text
    assert (tmp_path / "report.html").is_file()
    assert (tmp_path / "models/seed-1/card.json").is_file()
    assert len(list(tmp_path.glob("models/literal-*/card.json"))) == 1


def test_a_finished_training_is_not_repeated(tmp_path, monkeypatch):
    monkeypatch.delenv("IDLEWATT_TRACES", raising=False)
    assert reproduce("topdrl", "--dir", tmp_path, **QUICK).exit_code == 0
    (tmp_path / "report.md").unlink()
    monkeypatch.setattr(_topdrl.by_gradient, "train", None)
    assert reproduce("topdrl", "--dir", tmp_path, **QUICK).exit_code == 0
    assert (tmp_path / "report.md").is_file()
    other = reproduce("topdrl", "--dir", tmp_path, **{**QUICK, "literal_rounds": 1, "episodes": 5})
    assert isinstance(other.exception, TypeError)  # another config is trained anew, and here nothing can be


def test_missing_traces_are_an_error_before_training(tmp_path):
    result = reproduce("topdrl", "--traces", tmp_path, "--dir", tmp_path / "out", **QUICK)
    assert result.exit_code == 1
    assert arena.REAL[0].file in result.output
    assert "--traces names the folder" in result.output
    assert not (tmp_path / "out").exists()


def test_a_loss_that_is_not_finite_is_a_one_line_error(tmp_path, monkeypatch):
    def diverged(*_):
        raise FloatingPointError("the loss is no number")

    monkeypatch.delenv("IDLEWATT_TRACES", raising=False)
    monkeypatch.setattr(_topdrl.by_gradient, "train", diverged)
    result = reproduce("topdrl", "--dir", tmp_path, **QUICK)
    assert result.exit_code == 1
    assert result.output.strip().splitlines()[-1] == f"Error: {_topdrl.LITERAL}: the loss is no number"


def test_ctrl_c_prints_how_to_resume(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(_topdrl, "_evolved", interrupted)
    result = reproduce("topdrl", "--dir", tmp_path, **QUICK)
    assert result.exit_code == 130
    assert "the same command continues the training" in result.output
