"""The packages that are built hold all that the program needs, and an index would take them."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
ROOMS = ("daemon", "exporters", "grafana", "storage", "systemd")
LEFT_OUT = {"grafana/README.md"}
"""For readers of the repository alone, as are tests of rules."""


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
    wanted = {name for name in tracked() if name.split("/")[0] in ROOMS and not name.startswith("grafana/rules/tests/")}
    assert {name for name in wanted - LEFT_OUT if f"idlewatt/{name}" not in held} == set()


def test_the_same_sources_make_the_same_wheel(wheel, tmp_path):
    assert built(tmp_path).read_bytes() == wheel.read_bytes()


def test_an_index_would_take_the_wheel(wheel):
    done = subprocess.run((sys.executable, "-m", "twine", "check", "--strict", wheel), capture_output=True, text=True,
                          check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
