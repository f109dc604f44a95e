import os
from threading import Event

import pytest

from idlewatt.daemon.advice import warm_up as compiling
from idlewatt.daemon.advice.warm_up import NICENESS, WarmUp
from idlewatt.daemon.replay import compiled
from idlewatt.daemon.replay.compiled import compiled_mark

POLICIES = ("fifo+first-fit",)


@pytest.fixture
def never_before(monkeypatch, tmp_path):
    """Let it seem that nothing has been compiled on this machine."""
    monkeypatch.setattr(compiling, "compiled_mark", lambda policies: tmp_path / "no mark")


@pytest.mark.usefixtures("never_before")
def test_the_process_that_compiles_gives_way_to_the_daemon():
    warm_up = WarmUp(POLICIES)
    try:
        while os.getpriority(os.PRIO_PROCESS, warm_up._child.pid) < NICENESS:
            assert not warm_up.over()
            Event().wait(0.01)
    finally:
        warm_up.end()


def test_what_has_been_compiled_before_needs_no_process_and_waits_for_none():
    compiling.warm_up(POLICIES)
    again = WarmUp(POLICIES)
    assert again._child is None
    assert again.over()
    again.end()


def test_a_mark_is_of_these_policies_of_this_processor_and_of_sources_as_they_are(monkeypatch, tmp_path):
    mark = compiled_mark(("a", "b"))
    assert mark not in (compiled_mark(("b", "a")), compiled_mark(("a",)))
    assert compiled_mark(["a", "b"]) == mark
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(compiled.llvm, "get_host_cpu_name", lambda: "another")
        assert compiled_mark(("a", "b")) != mark
    (source := tmp_path / "policy.py").touch()
    monkeypatch.setattr(compiled, "_HERE", tmp_path / "replay")
    mark = compiled_mark(("a", "b"))
    os.utime(source, (1.0, 1.0))
    assert compiled_mark(("a", "b")) != mark


@pytest.mark.usefixtures("never_before")
def test_where_no_mark_can_be_left_a_process_is_started_again():
    warm_up = WarmUp(POLICIES)
    assert warm_up._child is not None
    warm_up.end()
    assert warm_up.over()
