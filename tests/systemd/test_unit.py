import configparser
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from idlewatt.daemon.cli import main

SYSTEMD = Path(__file__).parents[2] / "systemd"
UNIT = SYSTEMD / "idlewatt.service"


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The files as `idlewatt install-systemd` leaves them."""
    root = tmp_path_factory.mktemp("root")
    result = CliRunner().invoke(main, ["install-systemd", "--root", str(root), "--program", shutil.which("true")])
    assert result.exit_code == 0, result.output
    return root


def directives(unit=UNIT):
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str
    parser.read(unit)
    return parser["Service"]


def test_the_installed_unit_has_no_unknown_key(installed):
    unit = installed / "etc/systemd/system/idlewatt.service"
    subprocess.run(["systemd-analyze", "verify", "--man=no", "--recursive-errors=yes", unit], check=True, timeout=60)


def test_the_exposure_score_is_at_most_two():
    subprocess.run(["systemd-analyze", "security", "--offline=true", "--threshold=20", UNIT], check=True, timeout=60,
                   capture_output=True)


def test_the_score_gate_can_fail():
    verdict = subprocess.run(["systemd-analyze", "security", "--offline=true", "--threshold=10", UNIT], timeout=60,
                             capture_output=True, check=False)
    assert verdict.returncode != 0


def test_numerical_libraries_survive_the_hardening():
    service = directives()
    assert service["SystemCallErrorNumber"] == "EPERM"
    assert "ProcSubset" not in service
    assert "MemoryDenyWriteExecute" not in service


def test_the_hardening_block_is_in_alphabetical_order():
    lines = UNIT.read_text().split("# Hardening")[1].split("[Install]")[0].splitlines()
    names = [line.partition("=")[0] for line in lines if line[:1].isalpha()]
    assert names == sorted(names)


def test_no_root_runs_the_daemon():
    assert directives()["User"] == "idlewatt"
    assert (SYSTEMD / "sysusers.conf").read_text().splitlines()[-1].startswith("u idlewatt -")


def test_the_operators_files_are_never_overwritten(installed):
    config = installed / "etc/idlewatt/config.yml"
    config.write_text("cluster: mine\n")
    CliRunner().invoke(main, ["install-systemd", "--root", str(installed)])
    assert config.read_text() == "cluster: mine\n"


def test_the_unit_starts_the_program_that_installed_it(installed):
    service = directives(installed / "etc/systemd/system/idlewatt.service")
    assert service["ExecStart"].startswith("/")
    assert "serve --config.file=/etc/idlewatt/config.yml $ARGS" in service["ExecStart"]


def test_a_folder_that_cannot_be_written_is_said_clearly(tmp_path):
    (tmp_path / "etc").write_text("a file, not a folder")
    result = CliRunner().invoke(main, ["install-systemd", "--root", str(tmp_path)])
    assert result.exit_code == 1
    assert "Are you root?" in result.output
