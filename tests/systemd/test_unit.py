import configparser
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from idlewatt.daemon.cli import install_systemd, main

PROGRAM = "/usr/bin/idlewatt"
SYSTEMD = Path(__file__).parents[2] / "systemd"
UNIT, TRAIN, TIMER = (SYSTEMD / name for name in ("idlewatt.service", "idlewatt-train.service", "idlewatt-train.timer"))
FOLLOW, GUARD, GUARD_TIMER = (SYSTEMD / f"idlewatt-follow{name}" for name in (
    ".service", "-guard.service", "-guard.timer"))
each_service = pytest.mark.parametrize("unit", [UNIT, TRAIN], ids=lambda unit: unit.stem)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The files as `idlewatt install-systemd` leaves them."""
    root = tmp_path_factory.mktemp("root")
    result = CliRunner().invoke(main, ["install-systemd", "--dir", str(root), "--program", shutil.which("true")])
    assert result.exit_code == 0, result.output
    return root


def directives(unit=UNIT):
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str
    parser.read(unit)
    return parser["Service"]


@pytest.mark.parametrize("unit", [UNIT, TRAIN, TIMER, FOLLOW, GUARD, GUARD_TIMER], ids=lambda unit: unit.name)
def test_an_installed_unit_has_no_unknown_key(installed, unit):
    placed = installed / "etc/systemd/system" / unit.name
    subprocess.run(["systemd-analyze", "verify", "--man=no", "--recursive-errors=yes", placed], check=True, timeout=900)


@each_service
def test_the_exposure_score_is_at_most_two(unit):
    subprocess.run(["systemd-analyze", "security", "--offline=true", "--threshold=20", unit], check=True, timeout=900,
                   capture_output=True)


def test_the_score_gate_can_fail():
    verdict = subprocess.run(["systemd-analyze", "security", "--offline=true", "--threshold=10", UNIT], timeout=900,
                             capture_output=True, check=False)
    assert verdict.returncode != 0


@each_service
def test_numerical_libraries_survive_the_hardening(unit):
    service = directives(unit)
    assert service["SystemCallErrorNumber"] == "EPERM"
    assert "ProcSubset" not in service
    assert "MemoryDenyWriteExecute" not in service


def hardening(unit):
    lines = unit.read_text().split("# Hardening")[1].split("[Install]")[0].splitlines()
    return [line for line in lines if line[:1].isalpha()]


@each_service
def test_the_hardening_block_is_in_alphabetical_order(unit):
    names = [line.partition("=")[0] for line in hardening(unit)]
    assert names == sorted(names)


def test_training_is_hardened_as_the_daemon_is():
    assert hardening(TRAIN) == hardening(UNIT)


def test_there_are_descriptors_for_a_connection_to_each_page_of_thousands_of_nodes():
    assert int(directives()["LimitNOFILE"]) >= 8 * 3 * 1000, "a quarter of them is kept open between scrapes"


@each_service
def test_no_root_runs_the_daemon(unit):
    assert directives(unit)["User"] == "idlewatt"
    assert (SYSTEMD / "sysusers.conf").read_text().splitlines()[-1].startswith("u idlewatt -")


def test_training_gives_way_to_everybody():
    service = directives(TRAIN)
    assert (service["Nice"], service["CPUWeight"], service["IOSchedulingClass"]) == ("19", "idle", "idle")


def test_nobody_trains_until_somebody_is_told_to_and_the_installer_says_who(tmp_path):
    done = CliRunner().invoke(main, ["install-systemd", "--dir", str(tmp_path), "--program", PROGRAM])
    assert "training: by nobody yet" in done.output
    assert "WantedBy=timers.target" in TIMER.read_text()
    (tmp_path / "etc/idlewatt/config.yml").write_text("training: {enabled: true}\n")
    done = CliRunner().invoke(main, ["install-systemd", "--dir", str(tmp_path), "--program", PROGRAM])
    assert "training: by the daemon (training.enabled); leave idlewatt-train.timer disabled" in done.output


def test_the_operators_files_are_never_overwritten(installed):
    config = installed / "etc/idlewatt/config.yml"
    config.write_text("cluster: mine\n")
    CliRunner().invoke(main, ["install-systemd", "--dir", str(installed), "--program", PROGRAM])
    assert config.read_text() == "cluster: mine\n"


def test_only_root_reads_the_file_for_secrets_and_everybody_the_units(installed):
    file = installed / "etc/default/idlewatt"
    assert file.stat().st_mode & 0o777 & ~0o640 == 0
    assert f"z /{file.relative_to(installed)} 0640 root root -" in (SYSTEMD / "tmpfiles.conf").read_text().splitlines()
    assert (installed / "etc/systemd/system/idlewatt.service").stat().st_mode & 0o004


def test_a_unit_starts_the_program_that_installed_it(tmp_path):
    CliRunner().invoke(main, ["install-systemd", "--dir", str(tmp_path), "--program", "/opt/idlewatt/bin/idlewatt"])
    for name in ("idlewatt.service", "idlewatt-train.service"):
        service = directives(tmp_path / "etc/systemd/system" / name)
        assert service["ExecStart"].startswith("/opt/idlewatt/bin/idlewatt ")
    service = directives(tmp_path / "etc/systemd/system/idlewatt.service")
    assert "serve --config.file=/etc/idlewatt/config.yml $ARGS" in service["ExecStart"]


def test_a_folder_that_cannot_be_written_is_said_clearly(tmp_path):
    (tmp_path / "etc").write_text("a file, not a folder")
    result = CliRunner().invoke(main, ["install-systemd", "--dir", str(tmp_path), "--program", PROGRAM])
    assert result.exit_code == 1
    assert "Are you root?" in result.output


@pytest.mark.parametrize("folder", ["/root/venv/bin", "/home/eva/.local/bin", "/tmp/idlewatt"])
def test_a_program_that_the_unit_cannot_see_is_refused_with_the_remedy(tmp_path, folder):
    done = CliRunner().invoke(main, ["install-systemd", "--dir", str(tmp_path), "--program", f"{folder}/idlewatt"])
    assert done.exit_code == 2
    assert "the hardened unit cannot see" in done.stderr
    assert "python3 -m venv /opt/idlewatt" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_script_whose_interpreter_the_unit_cannot_see_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(install_systemd, "_HIDDEN", (Path("/root"),))
    script = tmp_path / "idlewatt"
    script.write_text("#!/root/.pyenv/bin/python3\n")
    done = CliRunner().invoke(main, ["install-systemd", "--dir", str(tmp_path / "root"), "--program", str(script)])
    assert done.exit_code == 2
    assert "runs /root/.pyenv/bin/python3" in done.stderr


@pytest.mark.parametrize("unit", [FOLLOW, GUARD], ids=lambda unit: unit.stem)
def test_what_acts_has_an_account_of_its_own_and_is_hardened_no_less_than_the_daemon(unit):
    service, own = directives(unit), [line for line in hardening(UNIT) if line != "SystemCallFilter=setpriority"]
    assert service["User"] == service["Group"] == "idlewatt-follow"
    assert set(own) | {"MemoryDenyWriteExecute=true"} == set(hardening(unit))
    assert [line.partition("=")[0] for line in hardening(unit)] == sorted(
        line.partition("=")[0] for line in hardening(unit))
    subprocess.run(["systemd-analyze", "security", "--offline=true", "--threshold=20", unit], check=True, timeout=900,
                   capture_output=True)
    assert "u idlewatt-follow -" in (SYSTEMD / "sysusers.conf").read_text()


def test_whatever_ends_what_acts_its_changes_are_taken_back():
    service = directives(FOLLOW)
    assert "follow --release " in service["ExecStopPost"]
    assert service["WatchdogSec"]
    assert "idlewatt-follow-guard.timer" in FOLLOW.read_text().split("[Service]")[0]
    assert "Also=idlewatt-follow-guard.timer" in FOLLOW.read_text()
    assert "follow --release-stale " in directives(GUARD)["ExecStart"]


def test_what_acts_is_off_and_dry_until_somebody_says_otherwise(installed):
    assert "\ndry_run: true\n" in (installed / "etc/idlewatt-follow/config.yml").read_text()
    assert not list(installed.rglob("*.wants"))
    for text in ("postinst", "../rpm/idlewatt.spec"):
        assert "enable " not in (SYSTEMD / "packages/debian" / text).read_text().replace("disable ", "")
