"""The role of each power meter of each server."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ...exporters.node import METRICS, Meter, NodeConfig, NodePages, watts_of
from ...exporters.scrape import PageSource
from ...exporters.source import SourceError
from ._progress import waiting

if TYPE_CHECKING:
    from ..config import Settings

WITHIN_S = 15.0
"""Time to wait for all servers in parallel, if some do not answer, s."""


def show_meters(settings: Settings) -> None:
    """Print the role of each power meter with its reason, and the sources that cannot be read."""
    configs = [config for config in settings.sources if isinstance(config, NodeConfig)]
    if not configs:
        click.echo("No source of kind node: there are no power meters to tell apart.")
    for config in configs:
        pages = NodePages(config.power_meters)
        source = PageSource(config, METRICS, pages.parse, time.time)
        try:
            with waiting(f"asking {source.name}", WITHIN_S):
                source.read()
        except SourceError as error:
            click.echo(f"{source.name}: {error}", err=True)
        source.close()
        for fault in (health for health in source.health() if not health.up):
            click.echo(f"{fault.target}: {fault.error}", err=True)
        for server, meters in sorted(pages.meters.servers.items()):
            _tell_server(server, meters)


def _tell_server(server: str, meters: Sequence[Meter]) -> None:
    watts, source = watts_of(meters)
    meaning = {"hwmon": "at the wall", "modules": "of its modules, which is not the wall"}
    reading = f"{watts:.0f} W {meaning[source]}" if watts is not None else "no power by its own meters"
    click.echo(f"{server}: {reading}")
    for meter in meters:
        click.echo(f"  {meter.name}: {meter.watts:.0f} W, {meter.role} ({meter.why})")
