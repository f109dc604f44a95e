"""Whether what a policy holds are numbers, wherever it holds them."""

from collections import deque
from dataclasses import dataclass
from types import MappingProxyType, SimpleNamespace

import numpy as np
import pytest
from null_sites import site

from idlewatt.daemon.learning.finite import not_finite
from idlewatt.daemon.policies import named

NAN = np.array([1.0, np.nan], np.float32)


@dataclass(slots=True)
class Slotted:
    weights: object


class Keyed(dict):
    pass


@pytest.mark.parametrize("held", [
    NAN, [NAN], (NAN,), {"q": NAN}, MappingProxyType({"q": NAN}), deque([NAN]), Keyed(q=NAN), {"deep": [({"q": NAN},)]},
    SimpleNamespace(weights=NAN), Slotted(NAN), [SimpleNamespace(nets={"q": Slotted([NAN])})], np.array([NAN], object),
    np.array([(1.0, np.nan)], [("mean", "f8"), ("spread", "f8")]), [0.0, float("nan")], np.float32("nan"),
    np.array([np.inf]), np.array([complex(0, np.nan)])])
def test_numbers_that_are_none_are_found_wherever_they_lie(held):
    assert not_finite(SimpleNamespace(_agents=held)) == "its agents holds numbers that are none"


@pytest.mark.parametrize("held", [
    np.ones(3), [np.ones(3, int)], {"limit_s": float("inf")}, "nan", b"nan", None, len, np, SimpleNamespace,
    np.array(["nan"]), site(1.0, daily=20)[0]])
def test_what_holds_numbers_or_none_at_all_is_let_be(held):
    assert not_finite(SimpleNamespace(held=held)) == ""


def test_what_holds_itself_ends():
    held: list[object] = []
    held.append(held)
    assert not_finite(SimpleNamespace(held=held)) == ""


def test_a_policy_of_more_parts_than_can_be_looked_through_is_not_believed():
    held = [[number + 0.5] for number in range(100)]
    assert not_finite(SimpleNamespace(held=held), most=50) == (
        "its held holds too many parts to be looked through; 50 are the most")
    assert not_finite(SimpleNamespace(held=held)) == ""
    assert not_finite(SimpleNamespace(held=np.full(10**6, 0.5)), most=50) == "", "an array is one part"


def test_heuristics_hold_numbers():
    assert not_finite(named("sjf-prediction+best-fit+easy")) == ""
