"""Facts on their way into the database: what kinds there are, how each is written, and how it reads as a plain line.

A line is the CRC-32 of the rest in hexadecimal, a space, and one JSON object. Its ``facts`` are JSON as well, packed by
zlib and written in base64, as rows of one kind repeat themselves: a tenth of the size. Nothing in it can be executed,
and writing a batch a second time changes nothing.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from functools import cache
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Connection

from . import (
    advice,
    ahead,
    energy,
    following,
    jobs,
    nodes,
    notices,
    promotions,
    run_energy,
    scheduler_configuration,
    simulated,
    speeds,
    underuse,
    uses,
    waste,
)
from .former import renewed
from .notices import Notice
from .promotions import Abstention, Promotion, ShadowResult
from .recommendations import Recommendation
from .records import GpuRollup, IdleFloor, Job, Node, WasteReading
from .run_energy import EnergyShare
from .scheduler_configuration import SchedulerConfiguration
from .simulated import Simulated
from .speeds import RunSpeed
from .underuse import CauseTally
from .uses import Use
from .values import words
from .windows import GpuKey

GpuNumbers = dict[GpuKey, int]
_LARGEST_BYTES = 1 << 28
"""Of one batch's facts unpacked; what claims to be larger is damaged."""


@dataclass(frozen=True, slots=True)
class SnapshotChanges:
    """What changed from one snapshot of the scheduler to the next."""

    jobs: tuple[Job, ...]
    nodes: tuple[Node, ...]
    time_s: float
    configuration: SchedulerConfiguration | None = None
    """None where it is as it was, or was not reported."""
    now_s: float | None = None
    """The time by the clock, of the first snapshot after a start or a step back: what is recorded as later is wrong."""
    shared_ids: tuple[str, ...] = ()
    """Ids that several jobs of the snapshot have, as in two clusters."""
    whole: bool = True
    """Whether nodes that are not in the snapshot are gone; else their scheduler may be missing."""

    @property
    def facts(self) -> int:
        """Return how many there are."""
        return len(self.jobs) + len(self.nodes) + (self.configuration is not None)


@dataclass(frozen=True, slots=True)
class Batch:
    """Facts that are written in one transaction."""

    kind: str
    facts: Any
    items: int
    after: int | None = None
    """Number of the last recorder that was known when the batch had to wait; None while it never waited."""


class Damaged(ValueError):
    """A line is not what was once written."""


@dataclass(frozen=True, slots=True)
class FactKind:
    """What one kind of facts looks like, and the function that writes it."""

    shape: Any
    write: Callable[[Connection, Any, GpuNumbers], None]


def _seen(connection: Connection, facts: SnapshotChanges, gpus: GpuNumbers) -> None:
    if facts.now_s is not None:
        ahead.set_right(connection, facts.jobs, facts.time_s, facts.now_s)
    nodes.store(connection, facts.nodes, facts.time_s, whole=facts.whole)
    jobs.store_seen(connection, facts.jobs, facts.time_s, facts.shared_ids)
    following.judge(connection, facts.jobs)
    if facts.configuration is not None:
        scheduler_configuration.store(connection, facts.configuration, facts.time_s)


def _finished(connection: Connection, facts: tuple[Job, ...], gpus: GpuNumbers) -> None:
    jobs.store_finished(connection, facts)
    following.judge(connection, facts)


def _decisions(connection: Connection, facts: tuple[Promotion, ...], gpus: GpuNumbers) -> None:
    for decision in facts:
        promotions.store(connection, decision)


KINDS: Mapping[str, FactKind] = {
    "seen": FactKind(SnapshotChanges, _seen),
    "finished": FactKind(tuple[Job, ...], _finished),
    "rollups": FactKind(tuple[GpuRollup, ...], energy.store_rollups),
    "waste": FactKind(tuple[WasteReading, ...], lambda connection, facts, _: waste.store(connection, facts)),
    "shares": FactKind(tuple[EnergyShare, ...], lambda connection, facts, _: run_energy.store(connection, facts)),
    "floors": FactKind(tuple[tuple[tuple[str, str], IdleFloor], ...],
                       lambda connection, facts, _: energy.store_floors(connection, dict(facts))),
    "recommendations": FactKind(tuple[Recommendation, ...], lambda connection, facts, _: advice.store(connection,
                                                                                                      facts)),
    "decisions": FactKind(tuple[Promotion, ...], _decisions),
    "abstentions": FactKind(tuple[Abstention, ...],
                            lambda connection, facts, _: promotions.store_abstentions(connection, facts)),
    "standings": FactKind(tuple[ShadowResult, ...],
                          lambda connection, facts, _: promotions.store_standings(connection, facts)),
    "simulated": FactKind(tuple[Simulated, ...], lambda connection, facts, _: simulated.store(connection, facts)),
    "speeds": FactKind(tuple[RunSpeed, ...], lambda connection, facts, _: speeds.store(connection, facts)),
    "uses": FactKind(tuple[Use, ...], lambda connection, facts, _: uses.store(connection, facts)),
    "causes": FactKind(tuple[CauseTally, ...], lambda connection, facts, _: underuse.store(connection, facts)),
    "notices": FactKind(tuple[Notice, ...], lambda connection, facts, _: notices.store(connection, facts)),
}
"""Every kind of facts, by the name under which it waits on disk."""
_WINDOWS = ("rollups", "waste", "shares")
_DIGITS = 6
"""Of what windows hold: as fine as exporters tell, and a third shorter."""


def write(connection: Connection, batch: Batch, gpus: GpuNumbers) -> None:
    """Write the facts of a batch; ``gpus`` remembers the numbers of GPUs that are known already."""
    KINDS[batch.kind].write(connection, batch.facts, gpus)


def ended_by(batch: Batch, time_s: float) -> Batch:
    """Return the batch without windows that end after a time: somebody else recorded from then on."""
    if batch.kind not in _WINDOWS:
        return batch
    return replace(batch, facts=tuple(window for window in batch.facts if window.start_s + window.seconds <= time_s))


def encode(batch: Batch) -> bytes:
    """Return the batch as a line."""
    plain = _plain(batch.facts, _DIGITS if batch.kind in _WINDOWS else None)
    facts = zlib.compress(json.dumps(plain, separators=(",", ":")).encode("ascii"), 1)
    body = json.dumps({"kind": batch.kind, "items": batch.items, "after": batch.after,
                       "facts": base64.b64encode(facts).decode("ascii")}).encode("ascii")
    return b"%08x %s\n" % (zlib.crc32(body), body)


def items(line: bytes) -> int:
    """Return how many facts a line holds, or raise ``Damaged``."""
    return int(_body(line)["items"])


def decode(line: bytes) -> Batch:
    """Return the batch of a line, or raise ``Damaged``."""
    body = _body(line)
    if body["kind"] not in KINDS:
        raise Damaged(f"facts of an unknown kind {str(body['kind'])[:40]!r}")
    try:
        facts = _shape(body["kind"]).validate_python(
            renewed(body["kind"], json.loads(_unpacked(base64.b64decode(body["facts"])))))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, zlib.error) as error:
        raise Damaged(f"facts that cannot be read: {str(error).partition(chr(10))[0]}") from error
    return Batch(body["kind"], facts, body["items"], body["after"])


def _body(line: bytes) -> dict[str, Any]:
    checksum, _, body = line.rstrip(b"\n").partition(b" ")
    if not line.endswith(b"\n") or checksum != b"%08x" % zlib.crc32(body):
        raise Damaged("a torn or damaged line")
    try:
        fields: dict[str, object] = {"kind": "", "items": 0, "after": None, "facts": ""} | json.loads(body)
    except (ValueError, TypeError, RecursionError) as error:
        raise Damaged("a line that is no JSON object") from error
    return fields


def _unpacked(packed: bytes) -> bytes:
    unpacking = zlib.decompressobj()
    text = unpacking.decompress(packed, _LARGEST_BYTES)
    if not unpacking.eof:
        raise Damaged("facts that are torn or too large")
    return text


@cache
def _shape(kind: str) -> TypeAdapter[object]:
    return TypeAdapter(KINDS[kind].shape)


def _plain(value: object, digits: int | None = None) -> object:
    """Return what JSON can hold of a fact, numbers with that many digits behind the point."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float) and digits is not None:
        return round(value, digits)
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return words(value)
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name), digits) for field in fields(value)}
    if isinstance(value, Mapping):
        return {words(str(key)): _plain(item, digits) for key, item in value.items()}
    if isinstance(value, tuple | list | set | frozenset):
        return [_plain(item, digits) for item in value]
    raise TypeError(f"{type(value).__name__} is nothing that waits on disk")
