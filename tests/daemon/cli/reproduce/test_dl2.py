"""``idlewatt reproduce dl2`` from end to end, with hardly any training."""

import re

from click.testing import CliRunner

from idlewatt.daemon.cli.reproduce import command


def test_the_report_has_the_table_and_says_what_is_missing(tmp_path):
    result = CliRunner().invoke(command, [
        "dl2", "--workers", "8", "--rounds", "0", "--plans", "2", "--updates", "0", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    text = (tmp_path / "report.md").read_text()
    assert re.search(r"\| DRF \| 10\.0\d\d \| 10\.03 \| 10\.246 \|", text)
    assert "random-feasible" in text
    assert "| ours, without looking ahead | 5.6" in text
    assert "What does not reproduce" in text
    assert (tmp_path / "report.html").is_file()
    assert (tmp_path / "models/workers-8/card.json").is_file()


def test_a_file_of_other_speeds_is_refused(tmp_path):
    (tmp_path / "speeds.txt").write_text("hello\n")
    result = CliRunner().invoke(command, ["dl2", "--speeds", str(tmp_path / "speeds.txt"), "--out", str(tmp_path)])
    assert result.exit_code == 1
    assert "speeds.txt:1" in result.output
