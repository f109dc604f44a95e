"""The reference of commands and configuration is what the code has."""

from idlewatt.daemon.cli import _reference


def test_the_reference_of_commands_is_current():
    assert (_reference.DOCS / "commands.md").read_text() == _reference.commands(), "write it with make docs-reference"


def test_the_reference_of_the_configuration_is_current():
    written = (_reference.DOCS / "configuration.md").read_text()
    assert written == _reference.configuration(), "write it with make docs-reference"
