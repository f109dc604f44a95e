"""``idlewatt install-systemd``: put the unit and its files where systemd looks for them."""

from __future__ import annotations

import shutil
import sys
from importlib import resources
from pathlib import Path

import click

_FILES = {
    "idlewatt.service": "etc/systemd/system/idlewatt.service",
    "sysusers.conf": "etc/sysusers.d/idlewatt.conf",
    "tmpfiles.conf": "etc/tmpfiles.d/idlewatt.conf",
    "default": "etc/default/idlewatt",
}
_KEPT = {"etc/default/idlewatt", "etc/idlewatt/config.yml"}
"""The operator's files: written once, never overwritten."""


@click.command("install-systemd")
@click.option("--root", type=click.Path(path_type=Path), default=Path("/"), show_default=True,
              help="Write below this folder instead (for packages).")
@click.option("--program", help="The idlewatt program that the unit starts; by default the one you are running.")
def command(root: Path, program: str | None) -> None:
    """Install the systemd unit, its account, its folders and a sample configuration.

    \b
    Example:
      sudo idlewatt install-systemd
      sudo systemd-sysusers && sudo systemd-tmpfiles --create
      sudo editor /etc/idlewatt/config.yml
      sudo systemctl daemon-reload && sudo systemctl enable --now idlewatt
    """
    from .. import config  # loads every source; --help must not

    program = program or shutil.which("idlewatt") or str(Path(sys.argv[0]).resolve())
    texts = {place: (resources.files("idlewatt.systemd") / name).read_text("utf-8") for name, place in _FILES.items()}
    unit = _FILES["idlewatt.service"]
    texts[unit] = texts[unit].replace("/usr/bin/idlewatt ", f"{program} ")
    texts["etc/idlewatt/config.yml"] = config.sample()
    for place, text in texts.items():
        target = root / place
        if place in _KEPT and target.exists():
            click.echo(f"kept     {target}")
            continue
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, "utf-8")
        except OSError as error:
            raise click.ClickException(f"{target} cannot be written: {error.strerror}. Are you root?") from error
        click.echo(f"written  {target}")
