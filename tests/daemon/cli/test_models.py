"""`idlewatt models` where somebody else wrote the folders and the cards."""

import json
import os

import numpy as np
import pytest
from click.testing import CliRunner

from idlewatt.daemon.agents.checkpoint import save
from idlewatt.daemon.cli import main
from idlewatt.storage.history import History
from idlewatt.storage.records import ModelCard


@pytest.fixture
def listed(tmp_path):
    """Return a function that shows a folder with one model of these figures."""
    url = f"sqlite:///{tmp_path}/idlewatt.db"
    History.open(url).close()
    (tmp_path / "site.yml").write_text(f"storage: {{url: '{url}', models: '{tmp_path}/models'}}\n")

    def show(style, **metrics):
        card = ModelCard("site", "1", 1_795_219_200.0, 7, "0.1.0", "", "", kind="scorer", metrics=metrics)
        save(tmp_path / "models/scorer/1", card, {"weights": np.ones(3, np.float32)}, {})
        return CliRunner().invoke(main, ["models", "--config.file", str(tmp_path / "site.yml"), "--format", style],
                                  env={"COLUMNS": "250"}, color=True)

    return show


def test_figures_that_are_no_numbers_leave_the_json_one_that_any_reader_takes(listed):
    shown = listed("json", utilization=float("nan"), jct_mean_s=float("inf")).stdout
    told = json.loads(shown, parse_constant=pytest.fail)
    row = next(row for row in told if row["model"] == "scorer@1")
    assert (row["utilization"], row["jct_mean_s"], row["card"]["metrics"]["utilization"]) == (None, None, None)


@pytest.mark.parametrize("metrics", [{"jobs": 3.0}, {"jct_over_incumbent": 0.9, "jct_over_incumbent_low": 0.8}])
def test_a_card_that_tells_half_of_its_figures_is_listed_with_the_others(listed, metrics):
    done = listed("table", **metrics)
    assert (done.exit_code, "scorer@1" in done.stdout) == (0, True)


@pytest.mark.parametrize("name", [b"\xff\xfe", b"\x1b[31mred\n"])
def test_a_folder_of_any_name_is_listed_without_control_characters(listed, tmp_path, name):
    os.makedirs(os.fsencode(tmp_path) + b"/models/scorer/" + name)
    done = listed("table")
    assert done.exit_code == 0, done.output
    assert "\N{REPLACEMENT CHARACTER}" in done.stdout
    assert "\x1b" not in done.stdout
