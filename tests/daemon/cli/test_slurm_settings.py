"""What ``idlewatt slurm-settings`` prints can be put into the configuration as it is."""

import yaml
from click.testing import CliRunner

from idlewatt.daemon.cli import main
from idlewatt.daemon.settings.priority import PrioritySettings
from idlewatt.exporters.slurm.rest import SlurmRestConfig

CONFIG = """Configuration data as of 2026-11-20T21:00:00
AccountingStorageEnforce = associations,limits,qos
PriorityWeightAge       = 1000
PriorityMaxAge          = 7-00:00:00
SchedulerParameters     = bf_window=2880,bf_interval=60
SlurmctldLogFile        = /var/log/slurmctld.log
"""


LIMITS = "normal|\nday|cpu=5000,gres/gpu=600\n"


def told(folder, monkeypatch, text, limits=LIMITS):
    for name, answer in (("scontrol", text), ("sacctmgr", limits)):
        script = folder / name
        script.write_text("#!/bin/sh\necho no accounts >&2; exit 1\n" if answer is None
                          else f"#!/bin/sh\ncat <<'EOF'\n{answer}EOF\n")
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
    assert "# not reported, so not known: PriorityWeightAssoc" in done.stdout


def test_the_lines_are_those_of_a_source_limits_of_each_qos_with_them(tmp_path, monkeypatch):
    lines = yaml.safe_load(told(tmp_path, monkeypatch, CONFIG).stdout)

    source = SlurmRestConfig(url="http://slurmctl:6820", **lines)
    assert source.qos_grp_tres_mins == {"normal": "", "day": "cpu=5000,gres/gpu=600"}


def test_limits_that_sacctmgr_does_not_tell_are_named(tmp_path, monkeypatch):
    done = told(tmp_path, monkeypatch, CONFIG, limits=None)

    assert done.exit_code == 0
    assert "qos_grp_tres_mins" not in yaml.safe_load(done.stdout)
    assert "# not reported, so not known: GrpTRESMins of QOS (sacctmgr fails with status 1: " in done.stdout


def test_a_setting_that_cannot_be_understood_is_named(tmp_path, monkeypatch):
    done = told(tmp_path, monkeypatch, CONFIG.replace("= 1000", "= a lot"))

    assert done.exit_code == 1
    assert "PriorityWeightAge='a lot' is no number" in done.stderr
