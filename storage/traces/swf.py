"""The Standard Workload Format of the Parallel Workloads Archive (Feitelson): 18 fields a line, -1 where unknown.

Its processors are taken as GPUs, as in GPU workloads that are written in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

from .formats import register
from .rows import Row, SetAside, lines, parsed
from .trace import Chunk

FIELDS = 18
KIBIBYTE = 1 << 10


class StandardWorkloadFormat:
    """Reads lines of 18 numbers."""

    name = "swf"
    ids_recur = False

    def recognises(self, head: str) -> int:
        """Recognise the header comments or a first line of 18 numbers."""
        for line in head.splitlines():
            if line.strip() and not line.startswith(";"):
                return FIELDS if _numbers(line) is not None else 0
        return int(head.startswith(";"))

    def chunks(self, stream: IO[bytes]) -> Iterator[Chunk]:
        """Read the jobs; comments begin with a semicolon."""
        return parsed(((number, line) for number, line in lines(stream) if not line.startswith(";")), _job)


def _numbers(line: str) -> list[float] | None:
    fields = line.split()
    try:
        return [float(field) for field in fields] if len(fields) == FIELDS else None
    except ValueError:
        return None


def _job(line: str) -> Row:
    fields = _numbers(line)
    if fields is None:
        raise ValueError(f"is not {FIELDS} numbers")
    known = [None if value == -1 else value for value in fields]
    wait_s, run_s = fields[2], fields[3]
    if run_s in (-1, 0):
        raise SetAside("never ran" if run_s == -1 else "ended within its first second")
    processors = known[7] if known[7] is not None else known[4]
    per_processor = known[9]
    return {
        "id": line.split(maxsplit=1)[0], "submit_s": fields[1], "run_s": run_s, "gpus": processors,
        "start_s": fields[1] + wait_s if wait_s >= 0 else None, "limit_s": known[8],
        "mem_bytes": per_processor * processors * KIBIBYTE if per_processor and processors else None,
        "state": _word(known[10]), "user": _word(known[11]), "name": _word(known[13]), "partition": _word(known[14]),
    }


def _word(value: float | None) -> str | None:
    return None if value is None else f"{value:g}"


register(StandardWorkloadFormat())
