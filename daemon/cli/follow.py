"""``idlewatt follow``: act on advice, within an allow-list."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ._client import Since
from ._output import Row, show
from ._renamed import Renamed

if TYPE_CHECKING:
    from ...storage.follow import FollowChange

_COLUMNS = {"when": "when", "job_id": "job", "user": "user", "change": "change", "state": "state", "why": "why"}
_PLAIN = ("intended_s", "done_s", "confirmed_s", "started_s", "taking_back_s", "ended_s", "deadline_s", "job_id",
          "submit_s", "user", "partition", "attribute", "before", "after", "found", "policy", "issued_s", "snapshot_s",
          "state", "why", "dry_run", "process")


@click.command("follow", short_help="Make Slurm follow the advice.")
@click.option("--config.file", "config_file", type=click.Path(path_type=Path),
              default="/etc/idlewatt-follow/config.yml", show_default=True,
              help="Configuration of the allowed changes; --sample prints a documented one.")
@click.option("--dry-run", is_flag=True, help="Change nothing, even if the configuration allows it; keep the ledger.")
@click.option("--web.listen-address", "address", cls=Renamed, former=("--listen-address",),
              default="127.0.0.1:9724", show_default=True, help="host:port to listen on for metrics; '' for none.")
@click.option("--ledger", "mode", flag_value="ledger", help="Show what was changed, before and after.")
@click.option("--release", "mode", flag_value="release", help="Undo every change that is still in force, and exit.")
@click.option("--release-stale", "mode", flag_value="stale",
              help="Undo changes that a dead process left or a live one is late to undo, and exit; for a timer.")
@click.option("--check", "mode", flag_value="check", help="Check the configuration against Slurm, and exit.")
@click.option("--sample", "mode", flag_value="sample", help="Print a documented configuration, and exit.")
@click.option("--since", cls=Renamed, former=("--last",), type=Since(), default="7d", show_default=True,
              help="From this time on: 7d, 2026-10-01; with --ledger.")
@click.option("--format", "style", type=click.Choice(["table", "json", "csv"]), default="table", show_default=True,
              help="Output format; with --ledger.")
@click.option("--log.level", "level", type=click.Choice(["debug", "info", "warning", "error"]), default="info",
              show_default=True, help="Lowest severity to log.")
@click.option("--log.format", "log_style", type=click.Choice(["logfmt", "json"]), default="logfmt", show_default=True,
              help="Format of log lines.")
def command(config_file: Path, dry_run: bool, address: str, mode: str | None, since: str,
            **options: str) -> None:
    """Make Slurm start pending jobs on the nodes that the daemon advises, within an allow-list; a dry run by default.

    Only fresh advice of the active policy is followed, and only while nothing is degraded. A
    change is undone when its job has not started in time, when the advice changes or ends, and when this process ends.
    Running jobs are left alone, and no nodes are required for a job whose owner named nodes.

    \b
    Examples:
      idlewatt follow --sample > /etc/idlewatt-follow/config.yml
      idlewatt follow --check
      idlewatt follow --dry-run
      idlewatt follow --ledger --since 1d
      idlewatt follow --release
    """
    if mode == "sample":
        from ..follow import config

        click.echo(config.sample(), nl=False)
        return
    from ..logs import configure

    configure(options["level"], "json" if options["log_style"] == "json" else "logfmt")
    if mode == "ledger":
        _show(config_file, since, options["style"])
    else:
        _act(config_file, dry_run, address, mode)


def _act(config_file: Path, dry_run: bool, address: str, mode: str | None) -> None:
    from ..follow import main
    from ..strict_yaml import ConfigError

    chosen = main.FollowOptions(config_file, dry_run, address)
    try:
        if mode == "check":
            _check(config_file)
        elif mode is None:
            _leave(main.follow(chosen), "")
        else:
            _leave(*main.release(main.settings(chosen), stale_only=mode == "stale"))
    except ConfigError as error:
        click.echo(str(error), err=True)
        raise click.exceptions.Exit(2) from error
    except main.CannotFollow as error:
        raise click.ClickException(str(error)) from error


def _leave(left: int, words: str) -> None:
    if words:
        click.echo(words)
    if left:
        raise click.exceptions.Exit(1)


def _check(config_file: Path) -> None:
    from ..follow import config
    from ..follow.slurm import Slurm, SlurmError

    try:
        partitions = Slurm(config.load(config_file).slurm).partitions()
    except SlurmError as error:
        raise click.ClickException(f"the allow-list cannot be checked: {error}") from error
    rules = config.load(config_file, partitions)
    click.echo(f"{config_file}: right. {'Dry run' if rules.dry_run else 'Acts'} on {', '.join(rules.allow.actions)} in "
               f"{', '.join(rules.allow.partitions)} for {', '.join(rules.allow.users)}.")


def _show(config_file: Path, since: str, style: str) -> None:
    from ...storage.errors import StoreError
    from ...storage.follow_ledger import FollowLedger
    from ..follow import config
    from ..moments import moment_of
    from ..strict_yaml import ConfigError
    from ._client import DaemonUnreachable

    try:
        with FollowLedger.reader(config.load(config_file).ledger) as ledger:
            changes = ledger.changes(moment_of(since, time.time()))
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
    except StoreError as error:
        raise DaemonUnreachable(str(error)) from error
    show([_row(change) for change in changes], _COLUMNS if style == "table" else {name: name for name in _PLAIN}, style,
         empty="nothing was changed")


def _row(change: FollowChange) -> Row:
    from ._units import day

    row = {name: getattr(change, name) for name in _PLAIN}
    what = f"{change.attribute} {change.before or '-'} -> {change.after}"
    return row | {"when": day(change.intended_s), "change": what, "state": _state(change)}


def _state(change: FollowChange) -> str:
    return f"{change.state} (dry run)" if change.dry_run else change.state
