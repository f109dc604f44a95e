"""One command for every paper, with the same options for all."""

import importlib

import pytest
from command import reproduce

from idlewatt.daemon.reproduce import PAPERS
from idlewatt.daemon.reproduce.failures import SettingError
from idlewatt.daemon.reproduce.settings import changed, parsed


def setting_of(name):
    return importlib.import_module(f"idlewatt.daemon.reproduce.{name}.setting")


@pytest.mark.parametrize("name", PAPERS)
def test_every_paper_has_settings_for_a_full_and_a_quick_run(name):
    settings = setting_of(name)
    assert type(settings.FULL) is type(settings.QUICK)
    assert changed(settings.FULL, {}) == settings.FULL
    assert changed(settings.QUICK, {}) == settings.QUICK != settings.FULL


def test_quick_seed_and_changes_reach_the_paper_and_the_last_change_counts(tmp_path, monkeypatch):
    from idlewatt.daemon.reproduce.dl2 import run

    given = []
    monkeypatch.setattr(run, "run", lambda *arguments: given.append(arguments) or {"report.md": tmp_path / "report.md"})
    result = reproduce("dl2", "--quick", "--seed", 7, "--traces", tmp_path, "--set", "plans=3", plans=4, most="8,16")
    assert result.output == f"{tmp_path / 'report.md'}\n"
    (setting, out, traces), = given
    assert (setting.seed, setting.updates, setting.most, setting.plans) == (7, 0, (8, 16), 4)
    assert (str(out), traces) == ("dl2-report", tmp_path)


@pytest.mark.parametrize(("changes", "expected"), [
    (["updates"], "'updates' is no KEY=VALUE"), (["rounds=3"], "there is no 'rounds' here; there are seed=1"),
    (["updates=-1"], "updates: Input should be greater than or equal to 0"), (["updates=many"], "updates: Input"),
    (["most=8,99"], "most.1: Input should be less than or equal to 32")])
def test_a_wrong_setting_is_wrong_usage_and_named(changes, expected):
    with pytest.raises(SettingError, match=r".*") as error:
        changed(setting_of("dl2").FULL, parsed(changes))
    assert expected in str(error.value)
    result = reproduce("dl2", *(part for change in changes for part in ("--set", change)))
    assert result.exit_code == 2
    assert expected.split(":")[0] in result.output


@pytest.mark.parametrize("name", ["maifs", "published"])
def test_a_paper_that_needs_traces_says_so(name, monkeypatch):
    monkeypatch.delenv("IDLEWATT_TRACES", raising=False)
    result = reproduce(name)
    assert result.exit_code == 2
    assert "needs --traces" in result.output


def test_an_unknown_paper_is_refused():
    result = reproduce("pollux")
    assert result.exit_code == 2
    assert "'agents', 'dl2', 'gist', 'maifs', 'published', 'scorer', 'topdrl'" in result.output
