"""``idlewatt notices``: the ledger of notices, and the users who opted out."""

from __future__ import annotations

from pathlib import Path

import click

from ._client import Since, ask, asks_in
from ._history import DEFAULT_CONFIG
from ._output import Row, as_json, plain, show
from ._units import day

_COLUMNS = {"when": "when", "rule": "rule", "stage": "stage", "user": "user", "job_id": "job", "state": "state",
            "channel": "by"}
_WIDE = _COLUMNS | {"account": "account", "partition": "partition", "address": "to", "words": "what", "why": "why"}
_PLAIN = ("updated_s", "found_s", "sent_s", "rule", "kind", "stage", "channel", "state", "why", "job_id", "user",
          "account", "partition", "address", "words", "fix", "tries")
_CONFIG = click.option("--config.file", "config_file", type=click.Path(path_type=Path), default=DEFAULT_CONFIG,
                       show_default=True, help="Configuration of the daemon, which names the database.")


@click.group("notices", short_help="Show the notices to users.", invoke_without_command=True)
@asks_in("table", "json", "csv")
@click.option("--since", type=Since(), default="7d", show_default=True, help="From this time on: 7d, 12h, 2026-10-01.")
@click.option("--user", help="Only this user.")
@click.option("--state", help="Only this state: dry_run, waiting, sent, left_out, lapsed or failed.")
@click.option("--wide", is_flag=True, help="More than fits 80 columns: to whom, what, and why not.")
def command(url: str, ca_file: str | None, style: str, since: str, user: str | None, state: str | None,
            wide: bool) -> None:
    """Show the ledger of notices: what was sent (or would have been), to whom, and about which job.

    \b
    Examples:
      idlewatt notices --since 1d
      idlewatt notices --user ada --wide
      idlewatt notices opt-out ada
    """
    if click.get_current_context().invoked_subcommand is not None:
        return
    rows = ask(url, "notices", ca_file, since=since, user=user, state=state, limit=10_000)
    if style == "json":
        click.echo(as_json(rows))
    elif style == "csv":
        show(rows, {name: name for name in _PLAIN}, style)
    else:
        show([_row(row) for row in rows], _WIDE if wide else _COLUMNS, style, empty="nothing was said to anybody")


def _row(row: Row) -> Row:
    return {**row, "when": day(row["sent_s"] or row["updated_s"])}


@command.command("opt-out", short_help="Stop notices to a user.")
@click.argument("user")
@click.option("--undo", is_flag=True, help="Resume notices to the user.")
@_CONFIG
def opt_out(user: str, undo: bool, config_file: Path) -> None:
    """Stop notices to USER, from the daemon's next check on; administrators still hear of the user's jobs.

    \b
    Examples:
      idlewatt notices opt-out ada
      idlewatt notices opt-out ada --undo
    """
    from ._store import ledger

    with ledger(config_file) as (opened, now_s):
        if not undo:
            opened.opt_out(user, now_s)
            click.echo(f"{plain(user)} gets no more notices")
        elif opened.opt_in(user):
            click.echo(f"{plain(user)} gets notices again")
        else:
            raise click.ClickException(f"{plain(user)} had not opted out")


@command.command("opted-out", short_help="List users who opted out.")
@click.option("--format", "style", type=click.Choice(["table", "json", "csv"]), default="table", show_default=True,
              help="Output format.")
@_CONFIG
def opted_out(style: str, config_file: Path) -> None:
    """List the users who opted out of notices, one per line.

    \b
    Examples:
      idlewatt notices opted-out
      idlewatt notices opted-out --format json
    """
    from ._store import ledger

    with ledger(config_file) as (opened, _):
        users = sorted(opened.opted_out())
    if style == "table":
        click.echo("".join(f"{plain(user)}\n" for user in users), nl=False)
    else:
        show([{"user": user} for user in users], {"user": "user"}, style)
