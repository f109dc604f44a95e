"""``idlewatt check-config``: is this configuration right?"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...exporters.power_meters import Meter, total

if TYPE_CHECKING:
    from ..config import Settings


@click.command("check-config", short_help="Check a configuration file, or print a sample.")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--sample", is_flag=True, help="Print the documented sample configuration instead.")
@click.option("--probe", is_flag=True,
              help="Also read every source once and show what came; exit 3 when one gave nothing.")
@click.option("--meters", is_flag=True, help="Ask the servers once, and tell which power meter is taken for what.")
def command(file: Path | None, sample: bool, probe: bool, meters: bool) -> None:
    """Check a configuration FILE and list every fault with its line; exit 2 when there is one.

    \b
    Examples:
      idlewatt check-config /etc/idlewatt/config.yml
      idlewatt check-config --probe /etc/idlewatt/config.yml
      idlewatt check-config --sample > config.yml
      idlewatt check-config --meters /etc/idlewatt/config.yml
    """
    from .. import config

    if sample:
        click.echo(config.sample(), nl=False)
        return
    if file is None:
        raise click.UsageError("name a FILE, or ask for --sample")
    try:
        settings = config.load(file)
    except config.ConfigError as error:
        click.echo(str(error), err=True)
        raise click.exceptions.Exit(2) from error
    if _untouched(file):
        click.echo(f"{file}: this is the sample as it came. Its sources are examples: put in your own, or let "
                   "`idlewatt setup` find them.", err=True)
        raise click.exceptions.Exit(2)
    click.echo(f"{file}: right. Cluster {settings.cluster or '(unnamed)'}, "
               f"{len(settings.sources)} sources, database {settings.storage.url.split('://')[0]}.")
    click.echo(_training(settings))
    if probe:
        from ._probe import show_probe

        show_probe(settings)
    if meters:
        _tell_meters(settings)


def _untouched(file: Path) -> bool:
    """Tell whether a configuration is the sample, but for comments and layout."""
    import yaml

    from .. import config

    return bool(yaml.safe_load(file.read_text("utf-8")) == yaml.safe_load(config.sample()))


def _training(settings: Settings) -> str:
    wanted = settings.training
    if wanted.enabled:
        return (f"The daemon trains {wanted.agent} at {wanted.at:%H:%M} for {wanted.budget:.0f} s; "
                "leave idlewatt-train.timer disabled.")
    return "The daemon trains no agents; idlewatt-train.timer may."


def _tell_meters(settings: Settings) -> None:
    """Print what the power meters of each server are taken for, and why; what cannot be read is told."""
    from ...exporters.node import METRICS, NodeConfig, NodePages
    from ...exporters.scrape import PageSource
    from ...exporters.source import SourceError

    configs = [config for config in settings.sources if isinstance(config, NodeConfig)]
    if not configs:
        click.echo("No source of kind node: there are no power meters to tell apart.")
    for config in configs:
        pages = NodePages(config.power_meters)
        source = PageSource(config, METRICS, pages.parse, time.time)
        try:
            source.read()
        except SourceError as error:
            click.echo(f"{source.name}: {error}", err=True)
        source.close()
        for fault in (health for health in source.health() if not health.up):
            click.echo(f"{fault.target}: {fault.error}", err=True)
        for server, found in sorted(pages.meters.servers.items()):
            _tell_server(server, found)


def _tell_server(server: str, meters: Sequence[Meter]) -> None:
    watts, source = total(meters)
    meaning = {"hwmon": "at the wall", "modules": "of its modules, which is not the wall"}
    told = f"{watts:.0f} W {meaning[source]}" if watts is not None else "no power by its own meters"
    click.echo(f"{server}: {told}")
    for meter in meters:
        click.echo(f"  {meter.name}: {meter.watts:.0f} W, {meter.role} ({meter.why})")
