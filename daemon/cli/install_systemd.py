"""``idlewatt install-systemd``: writes the units and their files to the places of systemd."""

from __future__ import annotations

import os
import shutil
import sys
from importlib import resources
from pathlib import Path

import click

from ._renamed import Renamed
from ._written_files import write_files

_FILES = {
    "idlewatt.service": "etc/systemd/system/idlewatt.service",
    "idlewatt-train.service": "etc/systemd/system/idlewatt-train.service",
    "idlewatt-train.timer": "etc/systemd/system/idlewatt-train.timer",
    "idlewatt-follow.service": "etc/systemd/system/idlewatt-follow.service",
    "idlewatt-follow-guard.service": "etc/systemd/system/idlewatt-follow-guard.service",
    "idlewatt-follow-guard.timer": "etc/systemd/system/idlewatt-follow-guard.timer",
    "sysusers.conf": "etc/sysusers.d/idlewatt.conf",
    "tmpfiles.conf": "etc/tmpfiles.d/idlewatt.conf",
    "default": "etc/default/idlewatt",
}
_KEPT = {"etc/default/idlewatt", "etc/idlewatt/config.yml", "etc/idlewatt-follow/config.yml"}
"""The operator's files: written once, never overwritten."""
_SECRET = {"etc/default/idlewatt"}
"""The place for PGPASSWORD and SLURM_JWT, which only root needs to read."""
_HIDDEN = (Path("/root"), Path("/home"), Path("/run/user"), Path("/tmp"), Path("/var/tmp"))  # noqa: S108 - none is made
"""Folders that the unit cannot see, because of ProtectHome and PrivateTmp."""


@click.command("install-systemd", short_help="Install the systemd units.")
@click.option("--dir", "root", cls=Renamed, former=("--root",), type=click.Path(file_okay=False, path_type=Path),
              default=Path("/"), show_default=True, help="Folder to write below instead, for packages.")
@click.option("--program", help="The idlewatt program that the unit starts; by default the one you are running.")
def command(root: Path, program: str | None) -> None:
    """Install the systemd units, their account, its folders and a sample configuration.

    Agents can be trained at night either by the daemon (training.enabled in the configuration) or by
    idlewatt-train.timer, but never by both; neither is on by default. Only idlewatt-follow.service changes anything in
    Slurm: it is off by default, and once it is on, it makes dry runs until you say otherwise.

    \b
    Example:
      sudo /opt/idlewatt/bin/idlewatt install-systemd
      sudo systemd-sysusers && sudo systemd-tmpfiles --create
      sudo editor /etc/idlewatt/config.yml
      sudo systemctl daemon-reload && sudo systemctl enable --now idlewatt
      sudo systemctl enable --now idlewatt-train.timer
    """
    from .. import config  # loads every source; --help must not
    from ..follow import config as follow

    program = program or shutil.which("idlewatt") or str(Path(sys.argv[0]).resolve())
    if root == Path("/") and not Path(program).is_file():
        raise click.UsageError(f"there is no program {program}")
    _refuse_hidden(Path(program))
    texts = {place: (resources.files("idlewatt.systemd") / name).read_text("utf-8") for name, place in _FILES.items()}
    texts = {place: text.replace("/usr/bin/idlewatt ", f"{program} ") for place, text in texts.items()}
    texts |= {"etc/idlewatt/config.yml": config.sample(), "etc/idlewatt-follow/config.yml": follow.sample()}
    write_files(root, texts, _KEPT, _SECRET)
    click.echo(_who_trains(root / "etc/idlewatt/config.yml"))


def _refuse_hidden(program: Path) -> None:
    """Raise UsageError if the unit could not start the program (systemd would only report 203/EXEC)."""
    for path in (program, program.resolve(), *_interpreter(program)):
        hidden = next((folder for folder in _HIDDEN if path.is_relative_to(folder)), None)
        if hidden is not None:
            raise click.UsageError(
                f"{program} runs {path}, and the hardened unit cannot see {hidden}. Install idlewatt where it can: "
                "python3 -m venv /opt/idlewatt && /opt/idlewatt/bin/pip install idlewatt && "
                "/opt/idlewatt/bin/idlewatt install-systemd (with a Python that is not below "
                f"{hidden}, such as /usr/bin/python3)")


def _interpreter(program: Path) -> tuple[Path, ...]:
    """Return the interpreter in a script's first line, as named and with links resolved; nothing for other files."""
    try:
        with program.open("rb") as file:
            line = file.readline(256)
    except OSError:
        return ()
    if not line.startswith(b"#!/"):
        return ()
    interpreter = Path(os.fsdecode(line[2:].split()[0]))
    return interpreter, interpreter.resolve()


def _who_trains(path: Path) -> str:
    """Return which part trains at night, according to the installed configuration."""
    from .. import config

    try:
        enabled = config.load(path).training.enabled
    except config.ConfigError:
        return f"{path} is faulty: see `idlewatt check-config`"
    if enabled:
        return "training: by the daemon (training.enabled); leave idlewatt-train.timer disabled"
    return "training: by nobody yet; enable idlewatt-train.timer, or training.enabled in the configuration, never both"
