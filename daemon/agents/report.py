"""The report of an experiment, ``idlewatt reproduce gist|scorer|dl2``: claims and figures, as HTML and as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from ..charts import Chart
from .checkpoint import write


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
    charts: Sequence[Chart] = ()
    legend: Sequence[tuple[str, str]] = field(default_factory=list)
    """(CSS class, name) of what the charts draw."""


def write_report(folder: Path, title: str, preface: Sequence[str],
                 sections: Sequence[Section]) -> Mapping[str, Path]:
    """Write ``report.html`` and ``report.md`` into a folder; return their paths."""
    written = {}
    for template, name in (("experiment.html", "report.html"), ("experiment.md", "report.md")):
        pages = Environment(loader=PackageLoader("idlewatt.daemon"), autoescape=template.endswith("html"),  # noqa: S701
                            trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
        pages.globals["lines_of"] = lambda chart: [(shape.kind, shape.name) for shape in chart.shapes]
        text = pages.get_template(template).render(title=title, preface=preface, sections=sections,
                                                   version=version("idlewatt"))
        write(folder / name, text.encode())
        written[name] = folder / name
    return written
