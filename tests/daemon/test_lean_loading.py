"""Loading policies takes no more memory than they keep: the compiler's code goes while they are loaded."""

import pytest
from numba.core import event

from idlewatt.daemon import lean_loading as module
from idlewatt.daemon.lean_loading import EVERY, lean_loading


@pytest.fixture
def given_back(monkeypatch):
    """What was given back, in this order."""
    found = []
    monkeypatch.setattr(module, "give_back_compiler", lambda: found.append("compiler"))
    monkeypatch.setattr(module, "give_back", lambda: found.append("all"))
    return found


def load(times):
    for _ in range(times):
        with event.trigger_event("numba:compiler_lock"):
            pass


def test_the_compilers_code_goes_now_and_then_while_code_is_loaded_and_all_else_at_the_end(given_back):
    load(3 * EVERY)
    with lean_loading():
        load(2 * EVERY + 1)
    load(3 * EVERY)
    assert given_back == ["compiler", "compiler", "all"]


def test_what_fails_while_code_is_loaded_leaves_nothing_behind(given_back):
    with pytest.raises(RuntimeError, match="no such policy"), lean_loading():
        raise RuntimeError("no such policy")
    load(EVERY)
    assert given_back == ["all"]
