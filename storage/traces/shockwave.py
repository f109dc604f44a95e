"""Traces of Shockwave (Zheng et al., NSDI'23): tab separated, no header; ours is the duration that they state.

Type, command, directory, flag, needs data, steps, GPUs, adaptation mode, weight, SLO, duration s, arrival s.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

from .formats import register
from .rows import Row, lines, parsed
from .trace import Chunk

FIELDS = 12


class Shockwave:
    """Reads lines of 12 fields; the number of the line is the id."""

    name = "shockwave"
    ids_recur = False

    def recognises(self, head: str) -> int:
        """Recognise a first line of 12 fields that ends with an arrival in seconds."""
        fields = head.partition("\n")[0].split("\t")
        return FIELDS if len(fields) == FIELDS and fields[-1].strip().replace(".", "", 1).isdigit() else 0

    def chunks(self, stream: IO[bytes]) -> Iterator[Chunk]:
        """Read the jobs."""
        return parsed(((number, (number, line)) for number, line in lines(stream)), _job)


def _job(numbered: tuple[int, str]) -> Row:
    number, line = numbered
    fields = line.split("\t")
    if len(fields) != FIELDS:
        raise ValueError(f"does not have {FIELDS} fields")
    try:
        gpus, run_s, submit_s = (float(fields[column]) for column in (6, 10, 11))
    except ValueError as error:
        raise ValueError("has a field that is no number") from error
    return {"id": str(number - 1), "name": fields[0], "gpus": gpus, "run_s": run_s, "submit_s": submit_s}


register(Shockwave())
