"""Records what the scheduler is configured to decide by: one row whenever some of it changes.

Weights of priorities, backfill, preemption, qualities of service and shares decide what the scheduler itself would have
done; a replay of the past goes by those of then. A row is JSON under zlib: a site may have thousands of associations.
"""

from __future__ import annotations

import logging
import zlib
from dataclasses import dataclass, replace
from functools import cache

from pydantic import TypeAdapter
from sqlalchemy import Connection, Select, select

from . import schema
from .database import upsert
from .records import Partition, SchedulerSnapshot
from .rules import Association, Ceilings, Qos, SchedulerRules

log = logging.getLogger(__name__)

_TABLE = schema.scheduler_configurations
_LARGEST_BYTES = 1 << 28
"""Of one row unpacked; what claims to be larger is damaged."""


@dataclass(frozen=True, slots=True)
class SchedulerConfiguration:
    """What a scheduler goes by when it orders, backfills and preempts; without limits, reservations and licences."""

    rules: SchedulerRules
    partitions: tuple[Partition, ...] = ()
    """Without their nodes, which the inventory tells."""


def configuration_of(snapshot: SchedulerSnapshot) -> SchedulerConfiguration | None:
    """Return what of a snapshot is configuration; None where its source tells no settings."""
    rules = snapshot.rules
    if not rules.site.priority and not rules.site.parameters and rules.site.power_down_s is None:
        return None
    qos = None if rules.qos is None else tuple(map(_qos, rules.qos))
    shares = None if rules.associations is None else tuple(map(_shares, rules.associations))
    return SchedulerConfiguration(SchedulerRules(qos=qos, associations=shares, site=rules.site),
                                  tuple(map(_partition, snapshot.partitions)))


def _qos(qos: Qos) -> Qos:
    return replace(qos, ceilings=Ceilings())


def _shares(association: Association) -> Association:
    return replace(association, ceilings=Ceilings())


def _partition(partition: Partition) -> Partition:
    return Partition(partition.name, (), priority_tier=partition.priority_tier,
                     priority_factor=partition.priority_factor, preempt_mode=partition.preempt_mode,
                     billing_weights=partition.billing_weights)


def store(connection: Connection, configuration: SchedulerConfiguration, time_s: float) -> None:
    """Record a configuration that differs from the newest that is known; an older one changes nothing."""
    newest, packed = connection.execute(_newest()).one_or_none(), _packed(configuration)
    if newest is None or (newest.time_s < time_s and newest.packed != packed):
        upsert(connection, _TABLE, [{"time_s": time_s, "packed": packed}])


def load(connection: Connection, at_s: float | None) -> SchedulerConfiguration | None:
    """Return the configuration as of a moment, else the first reported after it; None where none can be read."""
    newest = _newest()
    row = connection.execute(newest if at_s is None else newest.where(_TABLE.c.time_s <= at_s)).one_or_none()
    if row is None:
        row = connection.execute(_rows().order_by(_TABLE.c.time_s).limit(1)).one_or_none()
    return None if row is None else _unpacked(*row)


def changes(connection: Connection, since_s: float, until_s: float) -> list[tuple[float, SchedulerConfiguration]]:
    """Return the configurations that came in [since, until), each with when, without those that cannot be read."""
    rows = connection.execute(_rows().where(_TABLE.c.time_s >= since_s, _TABLE.c.time_s < until_s).order_by(
        _TABLE.c.time_s)).all()
    read = [(time_s, _unpacked(time_s, packed)) for time_s, packed in rows]
    return [(time_s, configuration) for time_s, configuration in read if configuration is not None]


def _rows() -> Select[float, bytes]:
    return select(_TABLE.c.time_s, _TABLE.c.packed)


def _newest() -> Select[float, bytes]:
    return _rows().order_by(_TABLE.c.time_s.desc()).limit(1)


@cache
def _shape() -> TypeAdapter[SchedulerConfiguration]:
    return TypeAdapter(SchedulerConfiguration)


def _packed(configuration: SchedulerConfiguration) -> bytes:
    return zlib.compress(_shape().dump_json(configuration, exclude_defaults=True))


def _unpacked(time_s: float, packed: bytes) -> SchedulerConfiguration | None:
    unpacking = zlib.decompressobj()
    try:
        text = unpacking.decompress(packed, _LARGEST_BYTES)
        if not unpacking.eof:
            raise ValueError("it is torn or too large")
        return _shape().validate_json(text)
    except (ValueError, zlib.error) as error:
        log.warning("a recorded configuration of the scheduler is damaged, and not used",
                    extra={"time_s": time_s, "error": str(error).partition("\n")[0]})
        return None
