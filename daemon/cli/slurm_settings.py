"""``idlewatt slurm-settings``: prints Slurm's settings that slurmrestd does not report, for the configuration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ...exporters.slurm.cli import SlurmCli


@click.command("slurm-settings", short_help="Print Slurm's settings for the configuration.")
@click.option("--slurm-conf", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="SLURM_CONF for scontrol; else Slurm's default.")
def command(slurm_conf: Path | None) -> None:
    """Print Slurm's settings that decide which jobs start and in which order, for the configuration.

    Run it where scontrol and sacctmgr work, for instance on the controller, and again when they have changed.
    slurmrestd reports none of the settings, and what all jobs of a QOS may use (GrpTRESMins) only from v0.0.42 on.

    \b
    Example:
      idlewatt slurm-settings >> /etc/idlewatt/config.yml   # then move it below the source slurm_rest
    """
    import yaml

    from ...exporters.slurm.cli import SlurmCli, SlurmCliConfig
    from ...exporters.source import SourceError
    from ..settings.priority import PrioritySettings

    slurm = SlurmCli(SlurmCliConfig(slurm_conf=slurm_conf))
    try:
        settings = slurm.settings()
        limits, unknown = _limits(slurm)
    except SourceError as error:
        raise click.ClickException(str(error)) from error
    finally:
        slurm.close()
    try:
        unknown += PrioritySettings.of(settings).unset
    except ValueError as error:
        raise click.ClickException(f"Slurm's settings cannot be understood: {error}") from error
    click.echo(yaml.safe_dump({"settings": settings, **limits}, default_flow_style=False, width=110), nl=False)
    if unknown:
        click.echo(f"# not reported, so not known: {', '.join(unknown)}")


def _limits(slurm: SlurmCli) -> tuple[dict[str, dict[str, str]], list[str]]:
    """Return the limits of each QOS for the configuration, and a note if they are unknown, as without accounting."""
    from ...exporters.source import SourceError

    try:
        return {"qos_grp_tres_mins": slurm.qos_grp_tres_mins()}, []
    except SourceError as error:
        return {}, [f"GrpTRESMins of QOS ({error})"]
