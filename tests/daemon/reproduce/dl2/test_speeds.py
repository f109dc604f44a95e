"""Speeds of DL2's models: our fit, and the authors' file where somebody has it."""

import numpy as np
import pytest

from idlewatt.daemon.replay.speed import SpeedError
from idlewatt.daemon.reproduce.dl2 import speeds


def written(path, models=speeds.MODELS):
    rows = [(model, "dist_sync", 32, servers, workers, [10.0 + servers] * workers, [], [])
            for model in models for servers in (1, 2, 4) for workers in (1, 2, 4)]
    path.write_text("\n".join(map(repr, rows)) + "\n")
    return path


def test_more_workers_are_faster_wherever_the_fit_was_made():
    assert (np.diff(speeds.fitted(9)[:, 1:, 1:], axis=2) > 0).all()


def test_neither_workers_nor_servers_alone_move_a_job():
    fitted = speeds.fitted(8)
    assert fitted.shape == (8, 10, 10)
    assert (fitted[:, 0] == 0).all()
    assert (fitted[:, :, 0] == 0).all()


def test_measured_speeds_equal_the_file_at_its_points(tmp_path):
    rates = speeds.measured(written(tmp_path / "speeds.txt"), 4)
    assert rates[0, 2, 4] == pytest.approx(4 * 12.0 * speeds.SLOT_S / speeds.EPOCH_SIZE[0])


def test_an_invalid_line_of_measurements_is_named(tmp_path):
    path = written(tmp_path / "speeds.txt")
    path.write_text(path.read_text() + "__import__('os')\n")
    with pytest.raises(SpeedError, match=r"speeds.txt:73: not \(model"):
        speeds.measured(path, 4)


def test_a_file_without_one_of_the_models_is_refused(tmp_path):
    with pytest.raises(SpeedError, match="too few measurements of wlm"):
        speeds.measured(written(tmp_path / "speeds.txt", speeds.MODELS[:-1]), 4)
