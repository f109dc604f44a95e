"""The reference of commands and configuration is what the code has."""

import subprocess
import sys

from idlewatt.daemon.cli import _pictures, _reference
from idlewatt.storage.power_classes import PowerClass


def test_the_reference_of_commands_is_current():
    # In a process of its own: click keeps a command's help option as it was first asked for, by whichever test.
    script = "from idlewatt.daemon.cli._reference import commands; print(commands(), end='')"
    done = subprocess.run((sys.executable, "-c", script), capture_output=True, text=True, check=True, timeout=60)
    assert (_reference.DOCS / "commands.md").read_text() == done.stdout, "write it with make docs-reference"


def test_the_reference_of_the_configuration_is_current():
    written = (_reference.DOCS / "configuration.md").read_text()
    assert written == _reference.configuration(), "write it with make docs-reference"


def test_the_picture_of_the_classes_is_current_and_shows_each():
    assert _pictures.PLACE.read_text() == _pictures.drawn(), "draw it with make docs-reference"
    assert [row.label for row in PowerClass if row.label not in _pictures.drawn()] == []
