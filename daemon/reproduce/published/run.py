"""``idlewatt reproduce published``: replays the results of the publications' own code to their digits."""

from __future__ import annotations

import dataclasses
import importlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ....storage.whole_files import write
from ..failures import ReproductionError, SettingError
from ..progress import progress
from .result import Row
from .setting import Setting


def run(setting: Setting, out: Path, traces: Path | None) -> Mapping[str, Path]:
    """Replay the artifacts and write the table as Markdown and as JSON."""
    if traces is None:
        raise SettingError("published needs --traces, the folder of the packaged traces (or IDLEWATT_TRACES)")
    results = list(_watched(traces, setting.artifacts))
    if setting.into is not None:
        _replace(setting.into, "published", markdown(results))
    records = [{**dataclasses.asdict(row), "difference": row.difference} for row in results]
    written = {"report.md": markdown(results) + "\n", "rows.json": json.dumps(records, indent=2)}
    out.mkdir(parents=True, exist_ok=True)
    for name, text in written.items():
        write(out / name, text.encode())
    return {name: out / name for name in written}


def rows(traces: Path, artifacts: Iterable[str]) -> Iterator[Row]:
    """Yield every published number beside ours; FileNotFoundError when a trace is missing."""
    for artifact in artifacts:
        yield from importlib.import_module(f"..{artifact}", __name__).rows(traces)


def markdown(rows: Iterable[Row]) -> str:
    """Return the rows as a Markdown table."""
    lines = ["| result | setting | published | ours | difference | note |", "|---|---|---:|---:|---:|---|"]
    lines += [f"| {row.name} | {row.setting} | {_exact(row.published)} | {_exact(row.ours)} "
              f"| {round(row.difference, 6) + 0.0:+.4%} | {row.note} |" for row in rows]
    return "\n".join(lines)


def _exact(value: float) -> str:
    """Return a number with the digits of such tables."""
    return f"{value:,.3f}".rstrip("0").rstrip(".")


def _watched(traces: Path, artifacts: Sequence[str]) -> Iterator[Row]:
    """Show the present replay and the remaining time on the terminal, because the whole run takes a minute."""
    with progress() as bar:
        task = bar.add_task("replaying", total=len(artifacts))
        for artifact in artifacts:
            for row in rows(traces, (artifact,)):
                bar.update(task, description=f"{row.name}, {row.setting}")
                yield row
            bar.advance(task)


def _replace(path: Path, mark: str, text: str) -> None:
    """Put the text between the marks of a file."""
    between = re.compile(rf"(<!-- {mark} -->\n).*?(<!-- /{mark} -->)", re.DOTALL)
    before = path.read_text(encoding="utf-8")
    if not between.search(before):
        raise ReproductionError(f"{path} has no lines <!-- {mark} --> and <!-- /{mark} --> to write between")
    path.write_text(between.sub(lambda match: f"{match[1]}{text}\n{match[2]}", before), encoding="utf-8")
