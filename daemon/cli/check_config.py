"""``idlewatt check-config``: validates a configuration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ..config import Settings


@click.command("check-config", short_help="Check a configuration file, or print a sample.")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--sample", is_flag=True, help="Print a documented sample configuration instead.")
@click.option("--probe", is_flag=True,
              help="Also read every source once and show the results; exit with 3 if one gave nothing.")
@click.option("--meters", is_flag=True, help="Ask the servers once and show how each power meter is interpreted.")
def command(file: Path | None, sample: bool, probe: bool, meters: bool) -> None:
    """Check a configuration FILE and list every error with its line; exit with 2 if there is one.

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
    settings = _checked(file)
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
        from ._meters import show_meters

        show_meters(settings)


def _checked(file: Path) -> Settings:
    """Return the settings, or end with every error."""
    from ...storage.database import parse
    from ...storage.errors import StoreError
    from .. import config

    try:
        settings = config.load(file)
        parse(settings.storage.url)
    except config.ConfigError as error:
        click.echo(str(error), err=True)
        raise click.exceptions.Exit(2) from error
    except StoreError as error:
        click.echo(f"{file}: storage.url: {error}", err=True)
        raise click.exceptions.Exit(2) from error
    return settings


def _untouched(file: Path) -> bool:
    """Return whether a configuration equals the sample, apart from comments and layout."""
    from .. import config
    from ..strict_yaml import document_of, text_of

    return document_of(text_of(file), str(file)) == document_of(config.sample(), "sample")


def _training(settings: Settings) -> str:
    wanted = settings.training
    if wanted.enabled and settings.forgets:
        return f"The daemon trains nobody: {settings.forgets}."
    if wanted.enabled:
        return (f"The daemon trains {wanted.agent} at {wanted.at:%H:%M} for {wanted.budget:.0f} s; "
                "leave idlewatt-train.timer disabled.")
    return "The daemon trains no agents; idlewatt-train.timer may."
