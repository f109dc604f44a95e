"""Asserts are written out once, and pytest takes them as they lie there."""

import sys

import pytest
from rewritten import rewrite_once

pytest_plugins = "pytester"


@pytest.fixture
def written(pytester, request, monkeypatch):
    """A test module whose asserts were written out in advance, and the file they are in."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    pytester.makepyfile(test_some="def test_two():\n    assert 1 + 1 == two()\n\n\ndef two():\n    return 3")
    rewrite_once(request.config, pytester.path)
    (code,) = pytester.path.rglob("*.pyc")
    return code


def test_pytest_takes_what_was_written_out_before(pytester, written):
    before = written.stat().st_ino
    pytester.runpytest().stdout.fnmatch_lines("*assert (1 + 1) == 3*")
    assert written.stat().st_ino == before, "rewritten by pytest itself"


def test_a_module_that_was_edited_is_written_out_again(pytester, written, request):
    before = written.read_bytes()
    pytester.makepyfile(test_some="def test_four():\n    assert 2 + 2 == 4")
    rewrite_once(request.config, pytester.path)
    assert written.read_bytes() != before
    pytester.runpytest().assert_outcomes(passed=1)
