"""A wait estimate as lines: the start of a pending job, the jobs before it, and smaller requests that fit now."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from ..durations import ago
from ._output import Row, plain
from ._units import WIDTH, gpus

MOST_AHEAD = 8
VERDICTS = {"starts": "would start now", "waits": "would wait", "unknown": "not known"}


def wait_lines(estimate: Row | None) -> Iterator[str]:
    """Yield the lines of a wait estimate, at most 80 columns wide unless names are longer."""
    if estimate is None:
        return
    yield from _folded("starts", _when(estimate))
    if estimate["position"] is not None and estimate["verdict"] != "starts":
        jobs = f"{estimate['position'] or 'no'} waiting job{'s' * (estimate['position'] != 1)}"
        yield from _folded("comes first", f"{jobs} of its partition")
    for job in estimate["ahead"][:MOST_AHEAD]:
        yield from _folded("stands before it", _before(job, estimate["issued_s"]))
    if len(estimate["ahead"]) > MOST_AHEAD:
        yield from _folded("", f"and {len(estimate['ahead']) - MOST_AHEAD} more")
    for job in estimate["shapes"]:
        why = f": {job['reason']}" if job["reason"] else ""
        where = f" on {','.join(job['placement']['nodes'])}" if job["placement"] else ""
        yield from _folded("smaller", f"{job['change']} ({job['options']}) {VERDICTS[job['verdict']]}{where}{why}")


def _folded(heading: str, text: str) -> Iterator[str]:
    yield from textwrap.wrap(plain(text), WIDTH, initial_indent=f"{heading:18} ", subsequent_indent=" " * 19,
                             break_on_hyphens=False)


def _when(estimate: Row) -> str:
    now_s = estimate["issued_s"]
    if estimate["verdict"] == "starts":
        return "now"
    if estimate["verdict"] == "unknown" or (estimate["interval_s"] is None and estimate["latest_s"] is None):
        return "not known when"
    latest = (None if estimate["latest_s"] is None else
              f"in {ago(estimate['latest_s'] - now_s)} if all use their whole limits")
    if estimate["interval_s"] is None:
        return latest or "not known when"
    low, high = ("more than 30d" if end_s is None else ago(end_s - now_s) for end_s in estimate["interval_s"])
    if low == high:
        return f"in about {low}{f'; {latest}' if latest else ''}"
    return f"in {low} to {high} (95 % of {estimate['futures']} futures){f'; {latest}' if latest else ''}"


def _before(row: Row, now_s: float) -> str:
    job, free_s = f"{row['job_id']} {row['state']}, {gpus(row['gpus'])}", row["free_s"]
    if free_s is None:
        return f"{job}, {'starts' if row['state'] == 'pending' else 'ends'} nobody knows when"
    return f"{job}, starts in {ago(free_s - now_s)}" if row["state"] == "pending" else \
        f"{job}, ends in {ago(free_s - now_s)} at the latest"
