"""What ``idlewatt slurm-settings`` prints can be put into the configuration as it is."""

import yaml
from click.testing import CliRunner

from idlewatt.daemon.cli import main
from idlewatt.daemon.settings.priority import PrioritySettings

CONFIG = """Configuration data as of 2026-11-20T21:00:00
AccountingStorageEnforce = associations,limits,qos
PriorityWeightAge       = 1000
PriorityMaxAge          = 7-00:00:00
SchedulerParameters     = bf_window=2880,bf_interval=60
SlurmctldLogFile        = /var/log/slurmctld.log
"""


def told(folder, monkeypatch, text):
    script = folder / "scontrol"
    script.write_text(f"#!/bin/sh\ncat <<'EOF'\n{text}EOF\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    return CliRunner().invoke(main, ["slurm-settings"])


def test_the_lines_are_yaml_and_what_is_not_told_is_said(tmp_path, monkeypatch):
    done = told(tmp_path, monkeypatch, CONFIG)

    assert done.exit_code == 0
    settings = yaml.safe_load(done.stdout)["settings"]
    assert PrioritySettings.of(settings).age == 1000
    assert settings["SchedulerParameters"] == "bf_window=2880,bf_interval=60"
    assert "SlurmctldLogFile" not in settings
    assert "# not told, so not known: PriorityWeightAssoc" in done.stdout


def test_a_setting_that_cannot_be_understood_is_named(tmp_path, monkeypatch):
    done = told(tmp_path, monkeypatch, CONFIG.replace("= 1000", "= a lot"))

    assert done.exit_code == 1
    assert "PriorityWeightAge='a lot' is no number" in done.stderr
