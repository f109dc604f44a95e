"""Loads where runs ran as columns: which GPUs, CPUs and memory of which nodes each held, and from when to when."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Engine, or_, select

from . import releases, schema
from .columns import Codes, streamed

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PlacementColumns:
    """A row for each node that a run held, as a structure of arrays.

    Times are seconds and memory bytes; an end that nobody knows yet is NaN. ``node``, ``user`` and ``name`` are int32
    codes into ``vocabularies`` under the same name.
    """

    job_id: NDArray[np.object_]
    submit_s: Floats
    start_s: Floats
    end_s: Floats
    gpus: Floats
    cpus: Floats
    memory_bytes: Floats
    node: NDArray[np.int32]
    user: NDArray[np.int32]
    name: NDArray[np.int32]
    vocabularies: dict[str, tuple[str, ...]]

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.submit_s)


_NUMBERS = ("submit_s", "start_s", "end_s", "gpus", "cpus", "memory_bytes")
_WORDS = ("node", "user", "name")


def load(engine: Engine, since_s: float, until_s: float) -> PlacementColumns:
    """Return what runs held that ran at some time within [since, until)."""
    jobs, runs, parts = schema.jobs.c, schema.runs.c, schema.allocations.c
    query = select(jobs.job_id, jobs.submit_s, runs.start_s, releases.UNTIL_S, parts.gpus, parts.cpus,
                   parts.memory_bytes, parts.node, jobs.user, jobs.name).select_from(schema.allocations.join(
                       schema.runs, runs.id == parts.run).join(schema.jobs, jobs.id == runs.job)).where(
        runs.start_s < until_s, or_(since_s < releases.UNTIL_S, releases.UNTIL_S.is_(None)))
    ids: list[str] = []
    numbers, codes = [np.empty((len(_NUMBERS), 0))], [np.empty((len(_WORDS), 0), np.int32)]
    known = [Codes() for _ in _WORDS]
    for rows in streamed(engine, query):
        columns = list(zip(*rows, strict=True))
        ids.extend(columns[0])
        # NULL becomes NaN.
        numbers.append(np.array(columns[1:1 + len(_NUMBERS)], dtype=np.float64))
        codes.append(np.stack([vocabulary.of(column)
                               for column, vocabulary in zip(columns[1 + len(_NUMBERS):], known, strict=True)]))
    figures, words = np.concatenate(numbers, axis=1), np.concatenate(codes, axis=1)
    return PlacementColumns(job_id=np.array(ids, dtype=object), **dict(zip(_NUMBERS, figures, strict=True)),
                            **dict(zip(_WORDS, words, strict=True)),
                            vocabularies={name: tuple(words_of) for name, words_of in zip(_WORDS, known, strict=True)})
