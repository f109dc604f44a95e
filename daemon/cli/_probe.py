"""One read of every configured source, with its result or its error."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from ...exporters.source import Facts, Watched
from ...storage.energy_prices import GridReading
from ...storage.records import SchedulerSnapshot
from ...storage.speeds import Throughput
from ...storage.telemetry import Telemetry
from ...storage.topology import Fabric, NodeLinks
from .. import config, opening
from ..cycles import Collection
from ..flavours import impossible
from ._client import DaemonUnreachable
from ._output import plain, told_once
from ._progress import progress

if TYPE_CHECKING:
    from ..config import Settings

_WITHIN_S = 30.0
"""Time to wait for all sources, which are read in parallel, s."""
_SHOWN_TARGETS = 5


def show_probe(settings: Settings) -> None:
    """Read every source once and print a line for each; Unreachable if one gave nothing."""
    try:
        sources = opening.sources(settings, time.time, {})
    except config.ConfigError as error:
        raise DaemonUnreachable(str(error)) from error
    collection = Collection(sources)
    try:
        with told_once(), progress("reading sources") as report:
            read = 0
            for some in collection.read(*{source.role for source in sources}, within_s=_WITHIN_S):
                report(read := read + len(some), len(sources))
        for source in sources:
            click.echo(_line(source))
            for line in _targets(source):
                click.echo(line)
        wrong = _impossible(settings, collection)
    finally:
        collection.leave()
    silent = [source.name for source in sources if not source.snapshot.fresh]
    if silent:
        raise DaemonUnreachable(f"nothing came from {', '.join(silent)}")
    if wrong:
        raise click.exceptions.Exit(2)


def _impossible(settings: Settings, collection: Collection) -> list[str]:
    """Print the flavours that no partition can hold, and return their names."""
    nodes = [node for facts in collection.facts("scheduler") if isinstance(facts, SchedulerSnapshot)
             for node in facts.nodes]
    wrong, names = impossible(settings.flavours, nodes), [flavour.name for flavour in settings.flavours]
    for name, why in wrong.items():
        click.echo(f"  WRONG   flavours[{names.index(name)}] ({plain(name)}): {plain(why)}")
    return list(wrong)


def _line(source: Watched) -> str:
    if source.snapshot.fresh:
        return f"  ok      {source.name}: {_told(source.facts())} in {source.status.duration_s:.1f} s"
    why = source.status.error or f"no answer within {_WITHIN_S:g} s"
    return f"  FAILED  {source.name}: {plain(why)}"


def _targets(source: Watched) -> list[str]:
    """Return a line for each of the first targets that failed, and one that counts the others."""
    down = [health for health in source.health() if not health.up]
    lines = [f"          {plain(health.target)}: {plain(health.error)}" for health in down[:_SHOWN_TARGETS]]
    left = len(down) - _SHOWN_TARGETS
    return [*lines, f"          … and {left} more targets"] if left > 0 else lines


def _told(facts: Facts | None) -> str:
    """Return the result of a read in words."""
    if facts is None:
        return "nothing"
    words: dict[type, Callable[[Any], str]] = {
        Telemetry: _telemetry, SchedulerSnapshot: _scheduler, Fabric: lambda _: "a topology of switches",
        NodeLinks: lambda _: "links between GPUs", Throughput: lambda given: _count(len(given.rates), "rate"),
        GridReading: _grid}
    return words.get(type(facts), lambda _: "an answer")(facts)


def _telemetry(facts: Telemetry) -> str:
    parts = [_count(len(facts.gpus), "GPU"), _count(len({gpu.node for gpu in facts.gpus}), "GPU server"),
             _count(len(facts.nodes), "server"), _count(len(facts.jobs), "job")]
    return ", ".join(part for part in parts if not part.startswith("0 ")) or "nothing that could be used"


def _scheduler(facts: SchedulerSnapshot) -> str:
    return (f"{_count(len(facts.nodes), 'node')} with {_count(sum(node.gpus for node in facts.nodes), 'GPU')}, "
            f"{_count(len(facts.jobs), 'job')}")


def _grid(facts: GridReading) -> str:
    carbon = _count(len(facts.carbon), "carbon intensity", "carbon intensities")
    return f"{_count(len(facts.prices), 'price')}, {carbon}"


def _count(number: int, what: str, many: str = "") -> str:
    return f"{number} {what if number == 1 else many or f'{what}s'}"
