"""The packages that are built hold all that the program needs, and an index would take them."""

import configparser
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

REPOSITORY = Path(__file__).parents[1]
ROOMS = ("daemon", "exporters", "grafana", "storage", "systemd")
LEFT_OUT = ("grafana/README.md", "grafana/rules/tests/", "systemd/packages/")
"""For readers of the repository alone: tests of rules, and what builds packages."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    return built(tmp_path_factory.mktemp("wheel"))


def tracked() -> list[str]:
    """Return the files of the repository, those that are not committed yet too."""
    command = ("git", "ls-files", "--cached", "--others", "--exclude-standard")
    names = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout.splitlines()
    return [name for name in names if (REPOSITORY / name).is_file()]


def built(folder: Path) -> Path:
    """Return a wheel that is built of a copy of the repository's files."""
    source = folder / "source"
    for name in tracked():
        if not name.startswith("tests/"):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(REPOSITORY / name, source / name)
    command = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation",
               f"--wheel-dir={folder}", str(source))
    subprocess.run(command, check=True, timeout=120, env=os.environ | {"SOURCE_DATE_EPOCH": "1700000000"})
    return next(folder.glob("*.whl"))


def test_a_wheel_holds_every_file_of_every_room(wheel):
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    wanted = {name for name in tracked() if name.split("/")[0] in ROOMS and not name.startswith(LEFT_OUT)}
    assert {name for name in wanted if f"idlewatt/{name}" not in held} == set()


@pytest.mark.long
def test_the_same_sources_make_the_same_wheel(wheel, tmp_path):
    assert built(tmp_path).read_bytes() == wheel.read_bytes()


def test_an_index_would_take_the_wheel(wheel):
    done = subprocess.run((sys.executable, "-m", "twine", "check", "--strict", wheel), capture_output=True, text=True,
                          check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_changelog_begins_with_the_version_that_is_built():
    version = setting("version")
    headings = re.findall(r"^## (.*)$", (REPOSITORY / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert [heading for heading in headings if heading != "Unreleased"][0] == version


def test_a_bill_of_materials_names_every_dependency_with_its_version_and_licence():
    bill = json.loads(printed())
    parts = {part["name"].lower(): part for part in bill["components"]}
    wanted = {re.split("[><=]", line)[0] for line in setting("install_requires").splitlines()
              if line and not line.startswith("#")}
    assert {re.sub("[-_.]+", "-", name) for name in wanted} <= {re.sub("[-_.]+", "-", name) for name in parts}
    assert {name for name, part in parts.items() if part["licenses"][0]["license"]["name"] == "unknown"} == set()
    assert bill["metadata"]["component"]["name"] == "idlewatt"
    assert printed() == printed()


def test_every_licence_is_listed_in_the_documentation():
    listed = (REPOSITORY / "docs/licences.md").read_text()
    names = [line.split("|")[1].strip() for line in printed("--licences").splitlines()[2:]]
    assert [name for name in names if f"| {name} |" not in listed] == []


def printed(*arguments: str) -> str:
    command = (sys.executable, REPOSITORY / "systemd/packages/sbom.py", *arguments)
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def setting(name: str) -> str:
    parser = configparser.ConfigParser()
    parser.read(REPOSITORY / "setup.cfg")
    return next(parser[section][name].strip() for section in ("metadata", "options") if name in parser[section])


@pytest.mark.parametrize("script", sorted((REPOSITORY / "systemd/packages").glob("**/*.sh"))
                         + [REPOSITORY / f"systemd/packages/debian/{name}" for name in ("postinst", "prerm", "postrm")],
                         ids=lambda path: path.name)
def test_a_script_of_the_packages_is_right_shell(script):
    assert os.access(script, os.X_OK) or script.parent.name == "debian"
    interpreter = script.read_text().splitlines()[0].removeprefix("#!")
    subprocess.run((interpreter, "-n", script), check=True, timeout=60)


def test_packages_hold_the_units_that_the_wheel_installs():
    layout = (REPOSITORY / "systemd/packages/files.sh").read_text()
    for name in ("sysusers.conf", "tmpfiles.conf", "systemd/default", "systemd/*.service", "systemd/*.timer"):
        assert name in layout
    for unit in (REPOSITORY / "systemd").glob("*.service"):
        assert "ExecStart=/usr/bin/idlewatt " in unit.read_text(), "packages put the program there"


def test_the_rpm_stops_on_removal_what_the_debian_package_stops():
    packages = REPOSITORY / "systemd/packages"
    spec = (packages / "rpm/idlewatt.spec").read_text()
    (before,) = re.findall(r"^%preun$(.*?)^%", spec, re.MULTILINE | re.DOTALL)
    rpm, debian = (re.findall(r"^ *(systemctl .*)$", script, re.MULTILINE)
                   for script in (before, (packages / "debian/prerm").read_text()))
    assert rpm == debian
    stopped = {unit for line in rpm for unit in re.findall(r"idlewatt\S*", line)}
    assert {unit.name for unit in (REPOSITORY / "systemd").glob("*.timer")} <= stopped
    assert "idlewatt-train.service" in stopped


def test_nobody_but_root_reads_the_file_for_secrets_that_packages_and_the_role_lay_down():
    packages = REPOSITORY / "systemd/packages"
    (mode,) = re.findall(r"^install -m (\d+) systemd/default ", (packages / "files.sh").read_text(), re.MULTILINE)
    spec = (packages / "rpm/idlewatt.spec").read_text()
    (rpm,) = re.findall(r"%attr\((\d+), root, root\) /etc/default/idlewatt", spec)
    tasks = yaml.safe_load((packages / "ansible/roles/idlewatt/tasks/main.yml").read_text())
    (written,) = (arguments for task in tasks for arguments in task.values() if isinstance(arguments, dict)
                  and "/etc/default/idlewatt" in (arguments.get("dest"), arguments.get("path")))
    assert [int(each, 8) & 0o007 for each in (mode, rpm, written["mode"])] == [0, 0, 0]
    assert (written["owner"], written["group"]) == ("root", "root")


def test_the_role_writes_the_options_of_the_service_and_leaves_a_password_beside_them():
    tasks = yaml.safe_load((REPOSITORY / "systemd/packages/ansible/roles/idlewatt/tasks/main.yml").read_text())
    (line,) = (task["ansible.builtin.lineinfile"] for task in tasks if "ansible.builtin.lineinfile" in task)
    assert line["path"] == "/etc/default/idlewatt"
    lines = ["# Options", 'ARGS="--old"', "PGPASSWORD=secret", "SLURM_JWT=ARGS="]
    assert [bool(re.search(line["regexp"], each)) for each in lines] == [False, True, False, False]
    assert line["line"] == 'ARGS="{{ idlewatt_arguments }}"'
