"""Asking agents: only where their word can be taken; and why it cannot where not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...storage.records import JobState, ModelCard, SchedulerSnapshot
from ..agents.kinds import FAILURES, Trained
from ..replay.engine import Policy
from ..replay.state import ClusterState
from .answer import Answer
from .diagnosis import Diagnosis
from .outlook import Change, changes, futures


@dataclass(frozen=True, slots=True)
class Seat:
    """An agent that is to be asked."""

    model: str
    """``kind@version``."""
    in_charge: bool
    agent: Trained | None
    """None when its files cannot be used."""
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Moment:
    """What agents are asked about."""

    state: ClusterState
    snapshot: SchedulerSnapshot
    diagnosis: Diagnosis
    now_s: float
    stale_s: float
    """An agent is not asked about a cluster that was last seen longer ago."""
    incumbent: Policy | None = None
    """What changes in wait are told against."""
    draws: int = 0


@dataclass(frozen=True, slots=True)
class Said:
    """An agent's answer, and what following it is expected to change in waiting, by row of the state."""

    agent: Trained
    answer: Answer
    changes: Mapping[int, Change]


@dataclass(frozen=True, slots=True)
class Heard:
    """What an agent said, or why it did not."""

    seat: Seat
    said: Said | None = None
    drift: float | None = None
    cause: str = ""
    """Why it abstains, one of ``storage.promotions.CAUSES``; empty when it answered."""
    words: str = ""


def hear(seat: Seat, moment: Moment) -> Heard:
    """Ask an agent, unless something speaks against it."""
    if seat.agent is None:
        return Heard(seat, cause="damaged", words=seat.fault)
    age_s = moment.now_s - moment.snapshot.time_s
    if age_s > moment.stale_s:
        return Heard(seat, cause="stale", words=f"the scheduler was last seen {age_s:.0f} s ago")
    strange = _unknown(seat.agent.card, moment.snapshot)
    if strange:
        return Heard(seat, cause="unknown", words=strange)
    try:
        return _asked(seat, seat.agent, moment)
    except FAILURES as error:
        return Heard(seat, cause="failed", words=f"{type(error).__name__}: {error}")


def _asked(seat: Seat, agent: Trained, moment: Moment) -> Heard:
    drift, doubt = agent.drift(moment.state), agent.doubt(moment.state)
    if doubt is not None:
        return Heard(seat, drift=drift, cause="doubt", words=doubt)
    answer = Answer(moment.state, agent, moment.diagnosis)
    return Heard(seat, Said(agent, answer, expected(agent, moment) if seat.in_charge else {}), drift)


def expected(policy: Policy, moment: Moment) -> dict[int, Change]:
    """Return what a policy is expected to change in waiting against the incumbent."""
    if moment.incumbent is None:
        return {}
    return changes(moment.state, policy, moment.incumbent, futures(moment.state, moment.draws))


def reasons(agent: Trained, state: ClusterState, row: int) -> tuple[str, ...]:
    """Return what moved an agent most in a job's case; nothing when it cannot tell."""
    try:
        return agent.reasons(state, row)
    except FAILURES:
        return ()


def _unknown(card: ModelCard, snapshot: SchedulerSnapshot) -> str:
    """Return what there is that was not there in training: partitions where jobs wait, GPU types; '' when nothing."""
    waiting = [job for job in snapshot.jobs if job.state is JobState.PENDING]
    asked = {name for job in waiting for name in job.partition.split(",") if name}
    models = {node.gpu_model for node in snapshot.nodes if node.gpu_model}
    for found, word, known in ((asked, "partition", card.known.get("partition", ())),
                               (models, "GPU type", card.known.get("gpu_model", ()))):
        strange = sorted(found - set(known)) if known else []
        if strange:
            return f"{word} {', '.join(strange[:3])} was not there when it was trained"
    return ""
