"""How many examples a property is tried with: a share at each ``make test``, all of them in ``make test-long``."""

from collections.abc import Callable
from typing import Any

import hypothesis

SHARE, LEAST = 0.15, 8


def is_property(test: Callable[..., Any]) -> bool:
    """Tell whether hypothesis makes the examples of a test."""
    return hypothesis.is_hypothesis_test(test)


def with_fewer_examples(test: Callable[..., Any]) -> None:
    """Let a property be tried with its share of examples; whoever has few keeps them.

    ``settings`` can be given to a test only once, so what it was given is replaced: an attribute of hypothesis' own,
    whose change tests/test_third_parts.py would notice.
    """
    given = test._hypothesis_internal_use_settings or hypothesis.settings.default  # type: ignore[attr-defined]
    count = min(given.max_examples, max(LEAST, round(SHARE * given.max_examples)))
    test._hypothesis_internal_use_settings = hypothesis.settings(given, max_examples=count)  # type: ignore[attr-defined]
