"""One night's training on all that the daemon has recorded: train, judge, decide, and leave a note.

``python -m idlewatt.daemon.learning.nightly`` reads a task from its input, works at the lowest priority, writes what
came of it, and ends when the daemon does.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from ...storage.errors import StoreError
from ...storage.history import History
from ...storage.ledger import Ledger
from ..agents.checkpoint import verify, write
from ..agents.histories import DAY_S, Split, TooLittle, recorded, split
from ..agents.kinds import TrainingError
from ..niceness import give_way
from ..recorded_scheduling import told
from ..recorded_speeds import site_speeds
from ..recorded_watts import site_watts
from ..replay.cluster import ClusterError
from ..replay.site_speeds import FLAT_SPEEDS, moved
from ..settings.sections import Sections
from ..simulator_error import check
from .models import ModelError, ModelStore, speeds_of
from .night_decisions import NightDecisions
from .training import ModelLimit, TrainingDirectory, TrainingJob, TrainingRun, gone_partitions, kind_of, make_room
from .training_scheduler import NIGHT, NOTE, TASK, Night, TrainingTask
from .trials import agent_on_trial, trials

NICENESS = 19
NOTES = 3
"""So much is told of what is odd about the site's speeds."""


def by_hand(settings: Sections) -> Night:
    """Train now, as the configuration says; ``TrainingError`` where the daemon does that."""
    if settings.training.enabled:
        raise TrainingError("the daemon trains by itself (training.enabled in its configuration): disable that, or "
                            "idlewatt-train.timer; one of them, never both")
    with suppress(StoreError), History.read_only(settings.storage.url) as reader:  # what is wrong is said as it trains
        settings = told(settings, reader)
    return carry_out(TrainingTask.of(settings, time.time()))


def carry_out(task: TrainingTask) -> Night:
    """Train, judge and decide, and leave a note of what came of it."""
    store = ModelStore(task.models)
    training_directory = TrainingDirectory(store, task.agent)
    try:
        with training_directory.locked():
            night = _night(task, store, training_directory)
            write(task.models / NOTE, NIGHT.dump_json(night))
            return night
    except TrainingError as error:  # somebody else trains
        return Night(task.now_s, "refused", str(error))


def _night(task: TrainingTask, store: ModelStore, training_directory: TrainingDirectory) -> Night:
    try:
        return _trained(task, store, training_directory)
    except TooLittle as error:
        return Night(task.now_s, "refused", str(error))
    except (TrainingError, ModelError, StoreError, ClusterError, OSError) as error:
        return Night(task.now_s, "failed", str(error))


def _trained(task: TrainingTask, store: ModelStore, training_directory: TrainingDirectory) -> Night:
    """Go on from the newest model that learned here, with what has been recorded since, and decide on what comes of it.

    It is judged on weeks that neither it nor the one before has seen.
    """
    since_s, until_s = task.now_s - task.history_s, task.now_s
    order = TrainingJob(task.agent, "history", task.budget_s, since_s=since_s, until_s=until_s,
                        incumbent=task.incumbent, seed=int(task.now_s // DAY_S), flavours=task.flavours,
                        objective=task.objective if task.aims else kind_of(task.agent).objective)
    with History.read_only(task.url) as reader:
        speeds = site_speeds(reader, until_s, task.applications)
        material = recorded(reader, since_s, until_s, "the history", speeds, site_watts(reader, until_s))
        parts = split(material, seed=order.seed)
        fidelity = check(reader, parts.until_s, until_s, task.incumbent, speeds)
    training_directory.begin(order)
    start, anew = _start(store, task.agent, parts)
    lesson = TrainingRun(order, parts, training_directory, start=start)
    for _ in lesson:
        pass
    model = lesson.keep(store, task.now_s)
    with Ledger.open(task.url) as ledger:
        decision = NightDecisions(ledger, store, task, material, fidelity).decide_all(model, parts)
        tried = agent_on_trial(trials(ledger.decisions(), task.now_s), task.agent)
        make_room(ledger, store, ModelLimit(task.agent, task.keep, tried.name if tried else ""), "nightly", task.now_s)
    training_directory.clear()
    return Night(task.now_s, "done", f"{model.name}: {decision.decision}: {decision.reason}"
                 f"{anew}; {'; '.join((speeds.summary, *speeds.notes[:NOTES]))}", model.name)


def _start(store: ModelStore, agent: str, parts: Split) -> tuple[Path | None, str]:
    """Return the model to go on from, and why it begins anew although there is one.

    What was learned of distances on another network is not gone on from.
    """
    newest, speeds = _newest(store, agent, parts.until_s), parts.fit.speeds
    gone = [] if newest is None else gone_partitions(verify(newest), parts)
    if gone:
        return None, f"; trained anew: partition {', '.join(gone)} is not there any more (renamed?)"
    before = FLAT_SPEEDS if newest is None else speeds_of(newest)
    elsewhere = moved(before.topology, speeds.topology) if before.told else []
    if not elsewhere:
        return newest, ""
    return None, (f"; trained anew: {len(set(elsewhere))} nodes hang together with others than when the last one "
                  f"learned ({', '.join(elsewhere[:3])})")


def _newest(store: ModelStore, agent: str, until_s: float) -> Path | None:
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


def main() -> None:
    """Serve one task: JSON in, JSON out."""
    give_way(NICENESS)
    task = TASK.validate_json(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    print(NIGHT.dump_json(carry_out(task)).decode())


def _end_with_parent() -> None:
    """End this process and its own when the daemon has gone, however it went: its end of our input closes."""
    os.read(0, 1)  # not by sys.stdin, whose lock would be held when this process ends by itself
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
