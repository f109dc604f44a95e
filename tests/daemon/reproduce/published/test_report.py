"""The table of published results: what it looks like, where it is written."""

import json

import pytest
from command import reproduce

from idlewatt.daemon.reproduce.published import run
from idlewatt.daemon.reproduce.published.result import Row
from idlewatt.daemon.reproduce.published.run import markdown

ROWS = [Row("Helios FIFO mean jct_s", "Philly", 133_826.0, 133_826.04, "truncated"),
        Row("FGD Random GPU allocation %", "openb", 87.47, 87.747)]


@pytest.fixture
def two_rows(monkeypatch):
    monkeypatch.setattr(run, "rows", lambda traces, artifacts: iter(ROWS if "fgd" in artifacts else ()))


def test_the_table_is_markdown_with_differences():
    assert markdown(ROWS).splitlines()[2:] == [
        "| Helios FIFO mean jct_s | Philly | 133,826 | 133,826.04 | +0.0000% | truncated |",
        "| FGD Random GPU allocation % | openb | 87.47 | 87.747 | +0.3167% |  |"]


@pytest.mark.usefixtures("two_rows")
def test_json_has_every_number(tmp_path):
    assert reproduce("published", "--traces", tmp_path, "--dir", tmp_path / "out").exit_code == 0
    rows = json.loads((tmp_path / "out/rows.json").read_text())
    assert rows[0]["ours"] == 133_826.04
    assert rows[1]["difference"] == pytest.approx(0.0031668)


@pytest.mark.usefixtures("two_rows")
def test_the_table_goes_between_the_marks_of_a_file(tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text("before\n<!-- published -->\nold\n<!-- /published -->\nafter\n")
    for _ in range(2):
        assert reproduce("published", "--traces", tmp_path, "--dir", tmp_path, into=readme).exit_code == 0
    assert readme.read_text() == f"before\n<!-- published -->\n{markdown(ROWS)}\n<!-- /published -->\nafter\n"


@pytest.mark.usefixtures("two_rows")
def test_a_file_without_marks_is_left_alone(tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text("no marks")
    result = reproduce("published", "--traces", tmp_path, "--dir", tmp_path, into=readme)
    assert result.exit_code == 1
    assert "<!-- published -->" in result.output
    assert readme.read_text() == "no marks"


def test_a_missing_trace_is_named(tmp_path):
    result = reproduce("published", "--traces", tmp_path, "--dir", tmp_path)
    assert result.exit_code == 1
    assert "reference_qssf_philly.csv" in result.output


def test_a_file_that_is_not_an_archive_is_an_error(tmp_path):
    archive = tmp_path / "pollux_osdi21/pollux_osdi21_data.tar.gz"
    archive.parent.mkdir()
    archive.write_bytes(b"hello")
    result = reproduce("published", "--traces", tmp_path, "--dir", tmp_path / "out", artifacts="pollux")
    assert result.exit_code == 1
    assert "the archive of Pollux's artifact cannot be read" in result.output
