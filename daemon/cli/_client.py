"""Ask the running daemon: what every command that shows its answers shares."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import click

from ._output import plain

DEFAULT_URL = "http://127.0.0.1:9723"


def asks_daemon(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say which daemon is asked and in what form it answers."""
    options = (
        click.option("--url", default=DEFAULT_URL, envvar="IDLEWATT_URL", show_default=True, show_envvar=True,
                     help="Where the daemon listens; user:password@ before the host for basic auth."),
        click.option("--ca-file", envvar="IDLEWATT_CA_FILE", type=click.Path(exists=True),
                     help="Certificate authority of the daemon's certificate."),
        click.option("--format", "style", type=click.Choice(["table", "json", "csv"]), default="table",
                     show_default=True, help="For people, or for programs."),
    )
    return functools.reduce(lambda decorated, option: option(decorated), reversed(options), command)


def ask(url: str, path: str, ca_file: str | None = None, **filters: str | int | None) -> list[dict[str, Any]]:
    """Return the rows of an API path; a daemon that does not answer ends the command with exit code 3."""
    import requests

    from ...exporters.causes import innermost

    parameters = {name: value for name, value in filters.items() if value not in (None, "")}
    shown = re.sub("//[^/]*@", "//…@", url)
    try:
        answer = requests.get(f"{url.rstrip('/')}/api/v1/{path}", params=parameters, timeout=30, verify=ca_file or True)
        document = answer.json()
    except (requests.exceptions.JSONDecodeError, RecursionError) as error:
        raise Stranger(shown, answer.status_code) from error
    except (requests.RequestException, OSError) as error:  # an OSError is about the file of the authority
        raise Unreachable(f"no daemon answers at {shown} ({innermost(error)}). Is `idlewatt serve` running there? "
                          "Name another address with --url or IDLEWATT_URL.") from error
    if isinstance(document, dict) and document.get("status") == "error":
        raise click.ClickException(f"{shown}: {plain(document.get('error', answer.reason))}")
    if not isinstance(document, dict) or not isinstance(document.get("data"), list):
        raise Stranger(shown, answer.status_code)
    for warning in document.get("warnings", []):
        click.echo(f"warning: {plain(warning)}", err=True)
    rows: list[dict[str, Any]] = document["data"]
    return rows


class Unreachable(click.ClickException):
    """The daemon or its database could not be reached."""

    exit_code = 3


class Stranger(Unreachable):
    """Something answers that is no idlewatt."""

    def __init__(self, url: str, status: int) -> None:
        super().__init__(f"{url} answered {status}, but not as idlewatt does")
