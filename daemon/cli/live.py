"""``idlewatt live``: shows the watts, the queue and the sources continuously."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import click

from ._client import DEFAULT_URL, Address, ask, shown, status, understood, warn

if TYPE_CHECKING:
    from rich.console import Console

    from ._screen import Picture

PLAIN_EVERY_S = 5.0
"""Pause between summaries without a terminal, s, because a log line every second is too much."""

Look = Callable[[], "Picture"]
Pause = Callable[[float], object]


@click.command("live", short_help="Watch watts, pending jobs and sources in the terminal.")
@click.option("--url", type=Address(), default=DEFAULT_URL, envvar="IDLEWATT_URL", show_default=True, show_envvar=True,
              help="Address of the daemon; user:password@ before the host for basic auth.")
@click.option("--ca-file", envvar="IDLEWATT_CA_FILE", type=click.Path(exists=True),
              help="Certificate authority of the daemon's certificate.")
@click.option("--every", type=click.FloatRange(min=0.1), default=1.0, show_default=True, help="Seconds between "
                                                                                              "refreshes.")
@click.option("--once", is_flag=True, help="Show one summary and exit.")
def command(url: str, ca_file: str | None, every: float, once: bool) -> None:
    """Watch the watts by class, the pending jobs with their advice, and the sources. Ctrl-C ends it.

    \b
    Examples:
      idlewatt live
      idlewatt live --once | head -1
    """
    try:
        with understood(url):
            watch(url, ca_file, every, once=once)
    except KeyboardInterrupt:
        click.echo()


def watch(url: str, ca_file: str | None = None, every_s: float = 1.0, *, once: bool = False,
          footer: Sequence[str] = (), pause: Pause | None = None) -> None:
    """Show the daemon at ``url`` until interrupted; ``Unreachable`` only if it never answered.

    ``pause`` waits between two requests; an exception in it ends the view.
    """
    from rich.console import Console

    from ._screen import Picture

    def look() -> Picture:
        return Picture.take(lambda path: ask(url, path, ca_file), lambda: status(url, ca_file))

    console, pause = Console(), pause or threading.Event().wait
    if console.is_terminal and not once:
        _draw(console, look, every_s, footer or (shown(url),), pause)
    else:
        _tell(console, look, max(every_s, PLAIN_EVERY_S), once, pause)


def _looks(look: Look) -> Iterator[tuple[Picture, str]]:
    """Yield the last successful answers and the present error, if any; the first request must succeed."""
    picture, trouble = look(), ""
    while True:
        yield picture, trouble
        try:
            picture, trouble = look(), ""
        except click.ClickException as error:
            trouble = error.message


def _draw(console: Console, look: Look, every_s: float, footer: Sequence[str], pause: Pause) -> None:
    from rich.live import Live

    from ._screen import screen

    with Live(console=console, screen=True, auto_refresh=False) as live:
        for picture, trouble in _looks(look):
            width, height = console.size
            live.update(screen(picture, width, height, (*footer, trouble) if trouble else footer), refresh=True)
            pause(every_s)


def _tell(console: Console, look: Look, every_s: float, once: bool, pause: Pause) -> None:
    from ._screen import summary

    for picture, trouble in _looks(look):
        # Not through rich: a pipe wants whole lines, however long.
        console.file.write(f"{trouble or chr(10).join(summary(picture))}\n")
        console.file.flush()
        if not trouble:
            warn(picture.status)
        if once:
            return
        pause(every_s)
