"""Variants of a trained scorer with one part removed, to measure the effect of that part."""

from __future__ import annotations

from collections.abc import Iterator

from ...agents.scorer.agent import Scorer
from ...agents.scorer.network import TRAITS, layer


def variants(scorer: Scorer) -> Iterator[tuple[str, Scorer]]:
    """Yield the name of each removed part with the scorer without it; the given scorer is unchanged."""
    without_place = scorer.members.copy()
    layer(without_place, "place.score")[:] = layer(without_place, "place.linear")[:] = 0.0
    layer(without_place, "place.linear")[:, 0] = 1.0
    yield "best fit in place of the place head", Scorer(without_place, scorer.card)
    without_state = scorer.members.copy()
    layer(without_state, "mood.factors")[:] = 0.0
    yield "without the shared state", Scorer(without_state, scorer.card)
    without_wait = without_state.copy()
    layer(without_wait, "mood.base")[:, TRAITS:] = 0.0
    yield "without the shared state and the wait", Scorer(without_wait, scorer.card)
