"""The report of an experiment, ``idlewatt reproduce gist|scorer|dl2``: claims and figures, as HTML and as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from ..agents.checkpoint import write
from .plots import Plot


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under headings."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Section:
    """One claim."""

    title: str
    paragraphs: Sequence[str] = ()
    tables: Sequence[Table] = ()
    plots: Sequence[Plot] = ()


def write_report(folder: Path, title: str, preface: Sequence[str],
                 sections: Sequence[Section]) -> Mapping[str, Path]:
    """Write ``report.html`` and ``report.md`` into a folder; return their paths."""
    written = {}
    for template, name in (("experiment.html", "report.html"), ("experiment.md", "report.md")):
        pages = Environment(loader=PackageLoader("idlewatt.daemon"), autoescape=template.endswith("html"),  # noqa: S701
                            trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
        text = pages.get_template(template).render(title=title, preface=preface, sections=sections,
                                                   version=version("idlewatt"))
        write(folder / name, text.encode())
        written[name] = folder / name
    return written
