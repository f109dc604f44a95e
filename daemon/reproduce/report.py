"""The report of a paper: a template gives Markdown, from which an HTML page with plots is made."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup

from ...storage.whole_files import write
from ..replay.outcome import Interval
from .plots import Plot

_DRAWN = re.compile(r'<p>Drawn in <a href="report\.html">report\.html</a>: .*?</p>')
"""Pattern of the Markdown line that stands for plots."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under headings."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Section:
    """One claim, for a report without a template of its own."""

    title: str
    paragraphs: Sequence[str] = ()
    tables: Sequence[Table] = ()
    plots: Sequence[Plot] = ()


def write_report(folder: Path, template: str, facts: Mapping[str, object]) -> Mapping[str, Path]:
    """Write ``report.html`` and ``report.md`` from a template into a folder; return their paths."""
    text, drawn = rendered(template, facts)
    written = {"report.html": _page(text, drawn), "report.md": text}
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in written.items():
        write(folder / name, content.encode())
    return {name: folder / name for name in written}


def rendered(template: str, facts: Mapping[str, object]) -> tuple[str, list[list[Plot]]]:
    """Return a report as Markdown, and the plots for each placeholder in it."""
    drawn: list[list[Plot]] = []

    def note(*plots: Plot) -> str:
        drawn.append(list(plots))
        return f"Drawn in [report.html](report.html): {'; '.join(plot.title for plot in plots)}."

    # Markdown is no HTML: what becomes a page is escaped when Markdown is translated.
    pages = Environment(loader=PackageLoader("idlewatt.daemon.reproduce", "."), autoescape=False,  # noqa: S701
                        trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    pages.filters |= {"as": format, "interval": interval}
    pages.globals |= {"drawn": note, "rows": table_rows}
    return flowed(pages.get_template(template).render(facts)), drawn


def interval(ratio: Interval) -> str:
    """Return an estimate in per cent with its interval, if it has one: ``+1.0% (-0.5% to +2.5%)``."""
    if ratio.low != ratio.low:
        return f"{ratio.estimate:+.1%}"
    return f"{ratio.estimate:+.1%} ({ratio.low:+.1%} to {ratio.high:+.1%})"


def table_rows(cells: Iterable[Iterable[str]]) -> str:
    """Return the cells of a table, row by row; the first row has the headings."""
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def flowed(text: str) -> str:
    """Return Markdown with every paragraph on one line, as many viewers require; tables and headings stay."""
    return "\n\n".join(_blocks(text)) + "\n"


def _blocks(text: str) -> Iterable[str]:
    for block in re.split(r"\n\s*\n", text):
        lines = [line.strip() for line in block.splitlines() if line.strip()]
        if lines:
            yield ("\n" if lines[0].startswith(("|", "#")) else " ").join(lines)


def _page(text: str, drawn: Iterable[Iterable[Plot]]) -> str:
    """Return the HTML page of a report in Markdown."""
    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    places = iter(drawn)
    body = _DRAWN.sub(lambda _: "\n".join(f"<h3>{Markup.escape(plot.title)}</h3>\n{plot.svg}" for plot in next(places)),
                      body)
    body = body.replace("<table>", '<div class="scroll"><table>').replace("</table>", "</table></div>")
    sections = re.split(r"(?=<h2>)", body)
    page = Environment(loader=PackageLoader("idlewatt.daemon"), autoescape=True, undefined=StrictUndefined)
    return page.get_template("experiment.html").render(
        title=text.splitlines()[0].lstrip("# "), sections=[Markup(section) for section in sections],  # noqa: S704
        version=version("idlewatt"))
