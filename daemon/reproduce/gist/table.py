"""Another Table 2: a YAML file of flavours by partition, and how many servers each partition has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ....storage.flavor import Flavor
from ...agents.gist_mdrl.environment import HOUR_S, PARTITIONS, GpuPartition
from ...strict_yaml import ConfigError, document_of, text_of
from ..failures import SettingError


class _FlavorRow(BaseModel):
    """A row of the paper's Table 2: one flavour."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(min_length=1)]
    partition: Annotated[str, Field(min_length=1)]
    gpus: Annotated[int, Field(ge=1)]
    cpus: Annotated[int, Field(ge=0)] = 0
    memory_gb: Annotated[int, Field(ge=0)] = 0
    hours: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    rate: Annotated[float, Field(gt=0, le=1)] | None = None


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    flavours: tuple[_FlavorRow, ...]
    servers: Annotated[int, Field(ge=1, le=8)] | dict[str, Annotated[int, Field(ge=1, le=8)]] = 2
    """Number of servers of every partition, or numbers by partition."""
    kilowatts: Annotated[float, Field(ge=0)] = 0.0


def partitions_of(table: str) -> Mapping[str, GpuPartition]:
    """Return the partitions of a file, or the paper's for ''; ``SettingError`` names the fault and its place."""
    if not table:
        return PARTITIONS
    try:
        description = _Table.model_validate(document_of(text_of(Path(table)), table))
    except ConfigError as error:
        raise SettingError(f"table {error}") from error
    except ValidationError as error:
        raise SettingError("; ".join(f"table {table}: {'.'.join(map(str, fault['loc']))}: {fault['msg']}"
                                     for fault in error.errors())) from error
    names = [row.name for row in description.flavours]
    for number, name in enumerate(names):
        if name in names[:number]:
            raise SettingError(f"table {table}: flavours.{number}: flavours.{names.index(name)} is called {name!r} "
                               "already: give each its own name")
    by_partition: dict[str, list[_FlavorRow]] = {}
    for row in description.flavours:
        by_partition.setdefault(row.partition, []).append(row)
    return {name: _partition(table, name, rows, description) for name, rows in by_partition.items()}


def _partition(table: str, name: str, rows: Sequence[_FlavorRow], description: _Table) -> GpuPartition:
    servers = description.servers if isinstance(description.servers, int) else description.servers.get(name, 2)
    *single, last = sorted(rows, key=lambda row: (row.gpus, row.hours))
    size = last.gpus // servers
    if last.gpus % servers:
        raise SettingError(f"table {table}: {last.name}: the largest flavour of {name} takes all its {servers} "
                           f"servers, and {last.gpus} GPUs cannot be shared equally by them: correct gpus, or "
                           "servers")
    if not single:
        raise SettingError(f"table {table}: partition {name} has one flavour: in addition to the one that takes all "
                           "servers it needs at least one for a single server")
    for row in single:
        if row.gpus > size or row.cpus > last.cpus // servers or row.memory_gb > last.memory_gb // servers:
            raise SettingError(f"table {table}: {row.name}: no server of {name} can hold it: each has {size} GPUs, "
                               f"{last.cpus // servers} CPU cores and {last.memory_gb // servers} GB: make it smaller")
    flavors = [Flavor(row.name, row.gpus, row.cpus, row.memory_gb * 10**9, row.hours * HOUR_S,
                      row.gpus / last.gpus if row.rate is None else row.rate) for row in (*single, last)]
    return GpuPartition(name, tuple(flavors[:-1]), flavors[-1], servers, description.kilowatts)
