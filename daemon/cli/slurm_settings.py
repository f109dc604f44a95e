"""``idlewatt slurm-settings``: the lines that slurmrestd does not tell, for the configuration."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("slurm-settings", short_help="Print Slurm's settings for the configuration.")
@click.option("--slurm-conf", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="SLURM_CONF for scontrol; else Slurm's default.")
def command(slurm_conf: Path | None) -> None:
    """Print Slurm's settings that decide which jobs start and in which order, for the configuration.

    Run it where scontrol works, for instance on the controller; slurmrestd reports none of them.

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
        told = slurm.settings()
    except SourceError as error:
        raise click.ClickException(str(error)) from error
    finally:
        slurm.close()
    try:
        unset = PrioritySettings.of(told).unset
    except ValueError as error:
        raise click.ClickException(f"Slurm tells what cannot be understood: {error}") from error
    click.echo(yaml.safe_dump({"settings": told}, default_flow_style=False, width=110), nl=False)
    if unset:
        click.echo(f"# not told, so not known: {', '.join(unset)}")
