"""Requests to the running daemon, for all commands that show its answers."""

from __future__ import annotations

import functools
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from ._output import Row, plain
from ._progress import waiting

if TYPE_CHECKING:
    from requests import Response

DEFAULT_URL = "http://127.0.0.1:9723"
BAD_REQUEST = 400
BESIDE_S = 2.0
"""Time for which a command that reads the database itself waits for the daemon's status, s."""


class Address(click.ParamType):  # type: ignore[type-arg]
    """The address of a daemon, as an option."""

    name = "url"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the address; refuse an invalid address before any request."""
        if not _is_address(value):
            self.fail(f"{plain(shown(value))!r} is no address such as {DEFAULT_URL}", param, ctx)
        return value


def _is_address(value: str) -> bool:
    try:
        parts = urlsplit(value)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets that do not close, a port that is none
        return False


class Since(click.ParamType):  # type: ignore[type-arg]
    """An age, a day or seconds since the epoch, as an option."""

    name = "time"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text; refuse a text that the daemon would not accept, before any request."""
        from ..moments import moment_of

        try:
            moment_of(value, time.time())
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return value


def asks_daemon(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options for the daemon's address and for the output as table, JSON or CSV."""
    return asks_in("table", "json", "csv")(command)


def asks_in(*styles: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds the options for the daemon's address and for some output formats."""
    return functools.partial(_with_options, styles)


def _with_options(styles: tuple[str, ...], command: Callable[..., None]) -> Callable[..., None]:
    options = (
        click.option("--url", type=Address(), default=DEFAULT_URL, envvar="IDLEWATT_URL", show_default=True,
                     show_envvar=True, help="Address of the daemon; user:password@ before the host for basic auth."),
        click.option("--ca-file", envvar="IDLEWATT_CA_FILE", type=click.Path(exists=True),
                     help="Certificate authority of the daemon's certificate."),
        click.option("--format", "style", type=click.Choice(styles), default=styles[0],
                     show_default=True, help="Output format."),
    )
    return functools.reduce(lambda decorated, option: option(decorated), reversed(options), _warned(command))


def _warned(command: Callable[..., None]) -> Callable[..., None]:
    """Make a command warn, beside its output, of everything that is degraded in the daemon."""
    @functools.wraps(command)
    def warned(url: str, ca_file: str | None, **options: object) -> None:
        with understood(url):
            _answered(command, url, ca_file, options)

    return warned


@contextmanager
def understood(url: str) -> Iterator[None]:
    """End a command with status 3 if an answer does not have the fields of this version."""
    try:
        yield
    except (KeyError, TypeError, AttributeError) as error:
        lacks = f" (no {plain(error.args[0])})" if isinstance(error, KeyError) else ""
        raise DaemonUnreachable(f"{shown(url)} answered, but not as idlewatt {version('idlewatt')} does{lacks}. Is "
                                "the daemon of the same version?") from error


def _answered(command: Callable[..., None], url: str, ca_file: str | None, options: dict[str, object]) -> None:
    """Run a command that asks the daemon, and print its warnings beside the output."""
    try:
        command(url=url, ca_file=ca_file, **options)
    except DaemonUnreachable:
        raise  # who does not answer says nothing of itself either
    except click.ClickException:
        # That the daemon knows no such job may come of what it could not read.
        warn(status(url, ca_file))
        raise
    if click.get_current_context().invoked_subcommand is None:
        warn(status(url, ca_file))


def warn(standing: Row) -> None:
    """Print everything that is degraded in the daemon on standard error, one line each."""
    for cause in standing.get("degraded", ()):
        click.echo(f"degraded: {plain(cause['words'])}", err=True)


def status(url: str, ca_file: str | None = None) -> Row:
    """Return the daemon's status row; empty for a daemon that is too old to report one."""
    try:
        rows = ask(url, "status", ca_file)
    except click.ClickException:
        return {}
    return rows[0] if rows else {}


def warn_beside(database: str) -> None:
    """Warn of everything that is degraded in the daemon that writes a database, if that daemon answers.

    The request goes to ``IDLEWATT_URL`` with a short timeout, because these commands also work without a daemon.
    """
    from ...storage.database import fingerprint

    context = click.get_current_context(silent=True)
    warned: set[str] = context.meta.setdefault(f"{__name__}.told", set()) if context else set()
    if database in warned:
        return
    warned.add(database)
    try:
        (standing,) = ask(os.environ.get("IDLEWATT_URL", DEFAULT_URL), "status",
                          os.environ.get("IDLEWATT_CA_FILE"), timeout_s=BESIDE_S)
    except (click.ClickException, ValueError):
        return
    if standing.get("database") == fingerprint(database):
        warn(standing)


def ask(url: str, path: str, ca_file: str | None = None, timeout_s: float = 30.0,
        **filters: str | int | tuple[str, ...] | None) -> list[Row]:
    """Return the rows of an API path; end the command with 3 without an answer, and with 2 after a refusal."""
    parameters = {name: value for name, value in filters.items() if value not in (None, "", ())}
    named = shown(url)
    answer = _answer(url, path, parameters, ca_file, timeout_s)
    try:
        document = answer.json()
    except (ValueError, RecursionError) as error:
        raise Stranger(named, answer.status_code) from error
    if isinstance(document, dict) and document.get("status") == "error":
        failure = click.UsageError if answer.status_code == BAD_REQUEST else click.ClickException
        raise failure(f"{named}: {plain(document.get('error', answer.reason))}")
    if not isinstance(document, dict) or not isinstance(document.get("data"), list):
        raise Stranger(named, answer.status_code)
    rows: list[Row] = document["data"]
    warnings = document.get("warnings", [])
    if not (isinstance(warnings, list) and all(isinstance(row, dict) for row in rows)):
        raise Stranger(named, answer.status_code)
    for warning in warnings:
        click.echo(f"warning: {plain(warning)}", err=True)
    return rows


def _answer(url: str, path: str, parameters: Mapping[str, str | int | tuple[str, ...] | None], ca_file: str | None,
            timeout_s: float) -> Response:
    import requests
    from urllib3.exceptions import HTTPError

    from ...exporters.causes import of_request

    try:
        with waiting("waiting for the daemon", timeout_s, "at most"):
            return requests.get(f"{url.rstrip('/')}/api/v1/{path}", params=parameters, timeout=timeout_s,
                                verify=ca_file or True)
    # An OSError is about the file of the authority; requests lets other errors of hosts and logins through as they are.
    except (requests.RequestException, HTTPError, OSError, ValueError) as error:
        raise DaemonUnreachable(f"no daemon answers at {shown(url)} ({of_request(error)}). Is `idlewatt serve` running "
                                "there? Name another address with --url or IDLEWATT_URL.") from error


def shown(url: str) -> str:
    """Return an address without its login, whatever character stands in a password that is not escaped."""
    return re.sub("^([a-z]*://)?.*@", r"\1…@", url, flags=re.IGNORECASE | re.DOTALL)


class DaemonUnreachable(click.ClickException):
    """The daemon or its database could not be reached."""

    exit_code = 3


class Stranger(DaemonUnreachable):
    """The server at the address is not idlewatt."""

    def __init__(self, url: str, status: int) -> None:
        super().__init__(f"{url} answered {status}, but not as idlewatt does")
