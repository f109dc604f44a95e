"""``idlewatt digest``: a summary of used and wasted energy, its changes, and the best and worst cases."""

from __future__ import annotations

import click

from ._client import Since, ask, asks_in
from ._output import as_json


@click.command("digest", short_help="Report on a week, as the e-mail digest does.")
@asks_in("text", "html", "json")
@click.option("--since", type=Since(), default="7d", show_default=True, help="From this time on: 7d, 30d, 2026-10-01.")
@click.option("--account", help="Only this account; the whole cluster without it.")
def command(url: str, ca_file: str | None, style: str, since: str, account: str | None) -> None:
    """Report the energy used and wasted since a day (UTC), what changed, and the best and worst cases.

    \b
    Examples:
      idlewatt digest --since 7d
      idlewatt digest --account physics --format html > physics.html
    """
    from ..efficiency import digest_pages

    (row,) = ask(url, "digest", ca_file, since=since, account=account)
    if style == "json":
        click.echo(as_json(row))
    else:
        click.echo(digest_pages.html(row) if style == "html" else digest_pages.text(row), nl=False)
