"""``python -m idlewatt.daemon.cli._manuals FOLDER``: write a manual page for every command, for packages."""

from __future__ import annotations

import datetime
import os
import re
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import click

from . import main

_FILES = """.SH FILES
.TP
.I /etc/idlewatt/config.yml
The configuration of the daemon; \\fBidlewatt check\\-config \\-\\-sample\\fR prints one with every key.
.TP
.I /etc/default/idlewatt
Options of the service.
.TP
.I /var/lib/idlewatt
What was recorded, and trained models.
"""
_EXITS = """.SH EXIT STATUS
0 done, 1 the command failed, 2 wrong usage or configuration, 3 the daemon or the database could not be reached,
130 interrupted.
"""


def pages() -> Iterator[tuple[str, str]]:
    """Yield the name and the groff source of each page: idlewatt.1, and one for each command."""
    yield from _pages(main, ("idlewatt",))


def _pages(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    yield "-".join(path), _page(command, path)
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None:
                yield from _pages(inner, (*path, name))


def _page(command: click.Command, path: tuple[str, ...]) -> str:
    name = "-".join(path)
    context = click.Context(command, info_name=" ".join(path), help_option_names=["-h", "--help"])
    summary, _, rest = (command.help or "").partition("\n")
    usage = " ".join(command.collect_usage_pieces(context))
    parts = [f'.TH "{name.upper()}" 1 "{_day()}" "idlewatt {version("idlewatt")}" "idlewatt"\n',
             f".SH NAME\n{_safe(name)} \\- {_safe(summary.strip().rstrip('.'))}\n",
             f".SH SYNOPSIS\n.B {_safe(' '.join(path))}\n{_safe(usage)}\n",
             f".SH DESCRIPTION\n{_described(summary, rest)}", _options(command, context),
             _commands(command, context, name), _EXITS, _FILES if len(path) == 1 else "", _see_also(path)]
    return "".join(parts)


def _described(summary: str, rest: str) -> str:
    """Return the help as paragraphs; paragraphs with click's mark keep their line breaks."""
    text = []
    for paragraph in re.split(r"\n\s*\n", f"{summary}\n{rest}".strip()):
        lines = [line for line in paragraph.splitlines() if line.strip() != "\b"]
        literal = len(lines) < len(paragraph.splitlines())
        body = "\n".join(_safe(line.strip() if not literal else line) for line in lines)
        text.append(f".PP\n.nf\n{body}\n.fi\n" if literal else f".PP\n{body}\n")
    return "".join(text)


def _options(command: click.Command, context: click.Context) -> str:
    records = [record for option in command.get_params(context) if (record := option.get_help_record(context))]
    if not records:
        return ""
    return ".SH OPTIONS\n" + "".join(f".TP\n.B {_safe(names)}\n{_safe(text)}\n" for names, text in records)


def _commands(command: click.Command, context: click.Context, name: str) -> str:
    if not isinstance(command, click.Group):
        return ""
    text = ".SH COMMANDS\n"
    for inner in command.list_commands(context):
        inner_command = command.get_command(context, inner)
        if inner_command is not None:
            text += f".TP\n.BR {_safe(name)}\\-{_safe(inner)} (1)\n{_safe(inner_command.get_short_help_str(200))}\n"
    return text


def _see_also(path: tuple[str, ...]) -> str:
    above = "-".join(path[:-1])
    return f".SH SEE ALSO\n.BR {_safe(above)} (1)\n" if above else ""


def _day() -> str:
    """Return the date of the build, which the environment may set for reproducible pages."""
    built = int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))
    return datetime.datetime.fromtimestamp(built, datetime.UTC).date().isoformat()


def _safe(text: str) -> str:
    """Return text escaped for groff."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("…", "...").replace("·", "\\(bu")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


def write(folder: Path) -> None:
    """Write every page into a folder, which is created."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages():
        (folder / f"{name}.1").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
