"""The model that a night's training goes on from: the newest that learned here and knows nothing later."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from ..agents.checkpoint import verify
from ..agents.histories import Split
from ..agents.kinds import TrainingError
from ..replay.site_speeds import FLAT_SPEEDS, moved
from .models import ModelError, ModelStore, speeds_of
from .training import TrainingJob, gone_partitions


def start_of(store: ModelStore, agent: str, parts: Split) -> tuple[Path | None, str]:
    """Return the model to go on from, and why training starts over although there is one.

    What was learned of distances on another network is not gone on from.
    """
    found, speeds = newest(store, agent, parts.until_s), parts.fit.speeds
    gone = [] if found is None else gone_partitions(verify(found), parts)
    if gone:
        return None, f"; trained anew: partition {', '.join(gone)} is not there any more (renamed?)"
    before = FLAT_SPEEDS if found is None else speeds_of(found)
    elsewhere = moved(before.topology, speeds.topology) if before.identity else []
    if not elsewhere:
        return found, ""
    return None, (f"; trained anew: {len(set(elsewhere))} nodes hang together with others than when the last one "
                  f"learned ({', '.join(elsewhere[:3])})")


def newest(store: ModelStore, agent: str, until_s: float) -> Path | None:
    """Return the newest model of this kind that learned here and knows nothing later; None when there is none."""
    for model in store.models():
        card = model.card
        if model.fault or card is None or card.kind != agent or (card.history_until_s or 0.0) > until_s:
            continue
        with suppress(TrainingError, ModelError):
            if TrainingJob.read(model.folder).source == "history":
                store.load(model.name)  # one of an older idlewatt may be whole and not fit
                return model.folder
    return None
