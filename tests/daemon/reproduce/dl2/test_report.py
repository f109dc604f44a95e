"""``idlewatt reproduce dl2`` from end to end, without training."""

import re

from command import reproduce


def test_the_report_has_the_table_and_says_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.delenv("IDLEWATT_TRACES", raising=False)
    result = reproduce("dl2", "--dir", tmp_path, most=8, plans=2, updates=0)
    assert result.exit_code == 0, result.output
    text = (tmp_path / "report.md").read_text()
    assert re.search(r"\| DRF \| 10\.0\d\d \| 10\.03 \| 10\.246 \|", text)
    assert "random-feasible" in text
    assert "| ours, without looking ahead | 5.6" in text
    assert "What does not reproduce" in text
    assert "Effect of looking ahead (2 plans a slot): Against ours, without looking ahead" in text
    assert (tmp_path / "report.html").is_file()


def test_a_file_of_other_speeds_is_refused(tmp_path, monkeypatch):
    monkeypatch.delenv("IDLEWATT_TRACES", raising=False)
    (tmp_path / "speeds.txt").write_text("hello\n")
    result = reproduce("dl2", "--dir", tmp_path, speeds=tmp_path / "speeds.txt")
    assert result.exit_code == 1
    assert "speeds.txt:1" in result.output
