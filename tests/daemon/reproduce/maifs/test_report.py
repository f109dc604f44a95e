"""``idlewatt reproduce maifs`` from end to end, on made-up traces and with hardly any training."""

import numpy as np
from command import reproduce
from rounds import write_traces

from idlewatt.daemon.reproduce.maifs import claims, trial, windows
from idlewatt.daemon.reproduce.maifs import run as _maifs
from idlewatt.daemon.reproduce.maifs.windows import PHILLY


def test_the_report_sets_the_abstract_beside_each_baseline(tmp_path, monkeypatch):
    few = (trial.WindowSetting(PHILLY, 16, bounded=True),
           trial.WindowSetting(PHILLY, 16, at_once=True, disturbing=True))
    monkeypatch.setattr(trial, "SETTINGS", few)
    monkeypatch.setattr(windows, "COMPLETE", (windows.HeldOutCluster(windows.HELIOS, "vcvGl", 17, 20),))
    monkeypatch.setattr(_maifs, "JUDGES", 1)
    result = reproduce("maifs", "--traces", write_traces(tmp_path), "--dir", tmp_path / "out", rounds=0, windows=1,
                       ablations="true")
    assert result.exit_code == 0, result.output
    text = (tmp_path / "out/report.md").read_text()
    for name in ("Synergy proportional, FIFO", "Tiresias", "Optimus", "random-feasible",
                 "LP for the jobs seated", "ours, two-stage", "ours, untrained",
                 "independent agents, no graph, trained so",
                 "Philly, 16 nodes, all at once, neighbours disturb", "Helios vcvGl, days 0 to 16"):
        assert f"| {name}" in text or f"## {name}" in text, name
    assert "Only the abstract of MAIFS is public" in text
    assert "The seed of training is 1" in text
    assert "too few" in text
    assert "Synergy tune, LAS" not in text.split("## Against Synergy-tune")[1].split("| Setting")[0]  # one window only
    claimed = text.split("## The abstract's numbers")[1].split("##")[0]
    assert "| independent agents, no graph |" in claimed  # a baseline, not an ablation
    assert "| ours, two-stage |" not in claimed
    assert "| ours, untrained | +0.0% |" in text.split("## Effects of training and of each part")[1]
    assert "44% in makespan and 46%" in text
    assert (tmp_path / "out/report.html").is_file()
    assert (tmp_path / "out/models/ours/card.json").is_file()


def test_a_folder_without_the_traces_is_an_error(tmp_path):
    result = reproduce("maifs", "--traces", tmp_path, "--dir", tmp_path / "out", rounds=0)
    assert result.exit_code == 1
    assert "philly_jobs.csv.gz: No such file" in result.output


def test_each_order_of_tune_is_counted_by_itself_over_the_settings_with_enough_windows():
    def contest(history, ratio, windows=12):
        wobble = np.linspace(0.99, 1.01, windows)
        theirs = {"JCT": np.full(windows, 100.0), "makespan": np.full(windows, 200.0)}
        ours = {"JCT": ratio * 100.0 * wobble, "makespan": 200.0 * wobble}
        return trial.Contest(trial.WindowSetting(history, 16), {"Synergy tune, LAS": theirs, claims.TEACHER: theirs,
                                                          trial.OURS: ours})

    found = claims.Findings([contest(PHILLY, 0.9), contest(PHILLY, 1.1), contest(PHILLY, 0.8, 3),
                             contest(windows.HELIOS, 0.9, 9)], (), np.zeros((1, 2)), {}, (), 1)
    section = claims.verdict(found)
    assert section.tables[0].rows == [("Philly", name, "1", "1", "0", "0", "0", "2")
                                      for name in ("Synergy tune, LAS", claims.TEACHER)]
    assert [row[5] for row in section.tables[1].rows].count("too few") == 4
    plot, = section.plots  # as submitted only; settings with too few windows are not drawn
    assert [tick.get_text() for tick in plot.axes.get_yticklabels()] == ["Philly 16", "Philly 16"]
    assert [name.get_text() for name in plot.axes.get_legend().get_texts()] == ["JCT", "makespan", "no difference"]
    marks = [tick.get_text() for tick in plot.axes.get_xticklabels()]
    assert marks == ["-15%", "-10%", "-5%", "0%", "5%", "10%", "15%"]


def test_both_traces_are_joined_with_equal_weight_if_each_has_enough_windows():
    def contest(history, ratio, windows):
        theirs = {"JCT": np.full(windows, 100.0), "makespan": np.full(windows, 200.0)}
        ours = {"JCT": ratio * 100.0 * np.linspace(0.99, 1.01, windows), "makespan": np.linspace(190.0, 210.0, windows)}
        return trial.Contest(trial.WindowSetting(history, 16), {claims.TEACHER: theirs, trial.OURS: ours})

    def headline(*contests):
        found = claims.Findings(contests, (), np.zeros((1, 2)), {}, (), 1)
        return [row for section in claims.alike(found) for row in section.tables[0].rows]

    both = headline(contest(PHILLY, 0.8, 40), contest(windows.HELIOS, 0.9, 10))
    assert [(row[1], row[2], row[4]) for row in both] == [
        ("40 Philly + 10 Helios", "makespan", "indistinguishable"), ("40 Philly + 10 Helios", "JCT", "better")]
    assert both[1][3].startswith("+15.1%")  # 1 - sqrt(0.8 * 0.9)
    assert not headline(contest(PHILLY, 0.8, 40), contest(windows.HELIOS, 0.9, 9))
