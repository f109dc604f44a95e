"""Slurm's host lists: ``dgx-a100-[01-02,07],login1`` to names, in the order given.

ClusterShell knows the syntax too, but it sorts (GPU indexes come in Slurm's order), asks external commands about
``@group`` and expands without a bound; a scheduler's answer is input from outside.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby, islice, product

MAX_HOSTS = 65_536
"""Slurm's own limit of nodes in a cluster."""

_ENTRY = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")
_PIECE = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")
_SPAN = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_NOTHING = ("", "(null)", "None assigned", "None", "N/A")


def expand(hostlist: str) -> tuple[str, ...]:
    """Return the names that a host list stands for.

    Raises:
        ValueError: not a host list, or more than ``MAX_HOSTS`` names.
    """
    hostlist = hostlist.strip()
    if hostlist in _NOTHING:
        return ()
    names = tuple(islice(_names(hostlist), MAX_HOSTS + 1))
    if len(names) > MAX_HOSTS:
        raise ValueError(f"host list {hostlist[:80]!r} stands for more than {MAX_HOSTS} hosts")
    return names


def ranges(numbers: Iterable[int], width: int = 1) -> str:
    """Return ascending numbers as Slurm writes them: ``0-3,5``."""
    return ",".join(f"{first:0{width}}-{last:0{width}}" if last > first else f"{first:0{width}}"
                    for first, last in _runs(numbers))


def _runs(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield first and last of each run of consecutive numbers."""
    for _, group in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        run = [number for _, number in group]
        yield run[0], run[-1]


def _names(hostlist: str) -> Iterator[str]:
    entries = _ENTRY.findall(hostlist)
    if ",".join(entries) != hostlist:
        raise ValueError(f"not a host list: {hostlist[:80]!r}")
    for entry in entries:
        yield from map("".join, product(*_pieces(entry)))


def _pieces(entry: str) -> list[list[str]]:
    """Return the choices for each piece of ``rack[1-2]node[01-08]``, bounded before `product` multiplies them."""
    pieces, size = [], 1
    for spans, literal in _PIECE.findall(entry):
        pieces.append([literal] if literal else list(islice(_spans(spans), MAX_HOSTS + 1)))
        size *= len(pieces[-1])
        if size > MAX_HOSTS:
            raise ValueError(f"host list {entry[:80]!r} stands for more than {MAX_HOSTS} hosts")
    return pieces


def _spans(spans: str) -> Iterator[str]:
    """Yield the zero-padded numbers of ``01-03,07``."""
    for span in spans.split(","):
        match = _SPAN.fullmatch(span)
        if not match:
            raise ValueError(f"not a range of hosts: {span[:40]!r}")
        first, last = match[1], match[2] or match[1]
        if int(last) < int(first):
            raise ValueError(f"a range that runs backwards: {span[:40]!r}")
        for number in range(int(first), int(last) + 1):
            yield f"{number:0{len(first)}d}"
