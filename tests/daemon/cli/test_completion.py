"""Shells complete commands and options by the script that is printed; manual pages are right groff."""

import shutil
import subprocess

import pytest
from click.testing import CliRunner

from idlewatt.daemon.cli import _manuals, main


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_reads_its_script(shell):
    if not shutil.which(shell):
        pytest.skip(f"no {shell}")
    done = CliRunner().invoke(main, ["completion", shell])
    assert done.exit_code == 0
    subprocess.run((shell, "-n"), input=done.stdout, text=True, check=True, timeout=60)


def test_an_unknown_shell_is_wrong_usage():
    assert CliRunner().invoke(main, ["completion", "csh"]).exit_code == 2


def test_there_is_a_manual_page_for_every_command():
    pages = dict(_manuals.pages())
    assert {"idlewatt", "idlewatt-replay", "idlewatt-db", "idlewatt-db-upgrade"} <= set(pages)
    for option in ("\\-\\-cluster", "\\-\\-policy", "\\-\\-check"):
        assert option in pages["idlewatt-replay"]


def test_manual_pages_are_groff_without_a_warning():
    if not shutil.which("groff"):
        pytest.skip("no groff")
    text = "".join(page for _, page in _manuals.pages())
    done = subprocess.run(("groff", "-man", "-Tutf8", "-ww", "-z"), input=text.encode(), capture_output=True,
                          check=False, timeout=60)
    assert done.stderr.decode() == ""


def test_the_same_sources_make_the_same_pages(monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert '"2023-11-14"' in dict(_manuals.pages())["idlewatt"]
