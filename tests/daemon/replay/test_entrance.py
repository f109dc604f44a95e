"""The way into the compiled loop: by the look at all types, or past it where nothing has changed."""

from types import SimpleNamespace

import pytest

from idlewatt.daemon.replay.entrance import Entrance


class Loop:
    """A compiled loop with machine code for so many kinds of states; it notes by which way it was entered."""

    def __init__(self, versions=1):
        self.ways = []
        self.overloads = {number: SimpleNamespace(entry_point=lambda *given: self.ways.append(("past", given)))
                          for number in range(versions)}

    def __call__(self, *given):
        self.ways.append(("looked", given))


STATE, AGENDA, CALLS = object(), object(), (True, 1)


def test_what_goes_on_is_looked_at_once():
    loop, entrance = Loop(), Entrance()
    for until in (1.0, 2.0, 3.0):
        entrance.enter(loop, STATE, AGENDA, (True, 1), until)
    assert loop.ways == [("looked", (STATE, AGENDA, CALLS, 1.0)), ("past", (STATE, AGENDA, CALLS, 2.0)),
                         ("past", (STATE, AGENDA, CALLS, 3.0))]


@pytest.mark.parametrize("other", [(object(), AGENDA, CALLS), (STATE, object(), CALLS), (STATE, AGENDA, (True, 2))])
def test_whatever_is_another_is_looked_at(other):
    loop, entrance = Loop(), Entrance()
    for given in ((STATE, AGENDA, CALLS), other, (STATE, AGENDA, CALLS)):
        entrance.enter(loop, *given, 1.0)
    assert [way for way, _ in loop.ways] == ["looked"] * 3


def test_another_loop_is_looked_at_and_so_is_one_with_code_for_several_kinds():
    entrance, loop, several = Entrance(), Loop(), Loop(versions=2)
    for entered in (loop, several, several):
        entrance.enter(entered, STATE, AGENDA, CALLS, 1.0)
    assert [way for way, _ in loop.ways + several.ways] == ["looked"] * 3
