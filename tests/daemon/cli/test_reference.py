"""The reference of commands and configuration is what the code has."""

import subprocess
import sys
from xml.etree import ElementTree

import pytest

from idlewatt.daemon.cli import _pictures, _reference
from idlewatt.daemon.cli._scenes import STEPS
from idlewatt.storage.power_classes import PowerClass


def test_the_reference_of_commands_is_current():
    # In a process of its own: click keeps a command's help option as it was first asked for, by whichever test.
    script = "from idlewatt.daemon.cli._reference import commands; print(commands(), end='')"
    done = subprocess.run((sys.executable, "-c", script), capture_output=True, text=True, check=True, timeout=60)
    assert (_reference.DOCS / "commands.md").read_text() == done.stdout, "write it with make docs-reference"


def test_the_reference_of_the_configuration_is_current():
    written = (_reference.DOCS / "configuration.md").read_text()
    assert written == _reference.configuration(), "write it with make docs-reference"


def test_every_class_of_watts_has_a_picture_and_each_is_current():
    assert set(_pictures.SCENES) == set(PowerClass), "give the new class a scene in daemon/cli/_scenes.py"
    drawn = {f"{row.value}.svg": _pictures.picture(row) for row in PowerClass}
    assert {file.name: file.read_text() for file in _pictures.PLACE.iterdir()} == drawn, "make docs-reference"
    assert _pictures.PAGE.read_text() == _pictures.page(), "write it with make docs-reference"


def test_the_formulas_of_the_documentation_are_those_of_the_table_of_classes():
    written = _pictures.FORMULAS.read_text()
    assert _pictures.with_table(written) == written, "write it with make docs-reference"
    assert all(f"| `{row.value}` | {row.label} |" in written for row in PowerClass)


@pytest.mark.parametrize("row", PowerClass)
def test_a_picture_shows_waste_where_the_class_is_waste_and_no_watts_outside_its_frame(row):
    scene = _pictures.SCENES[row]
    assert any(scene.wasted) is row.wasted
    assert len(scene.watts) == len(scene.wasted) == STEPS
    assert all(wasted <= watts for wasted, watts in zip(scene.wasted, scene.watts, strict=True))
    shapes = ElementTree.fromstring(_pictures.picture(row)).iter()
    assert [shape.tag for shape in shapes if float(shape.get("width", 0)) < 0 or float(shape.get("y", 0)) > 262] == []
