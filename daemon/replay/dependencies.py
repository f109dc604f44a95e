"""Which job another one waits for, of all that its dependency names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ...storage.records import Job

_CONDITION = re.compile(r"(after\w*):([^,?]+)")
_SAID_OF_IT = re.compile(r"\(.*?\)")
_ANY = "?"
"""Between conditions of which one is enough."""


class _NamedRows:
    """The rows of the jobs looked at so far, by id; of an array or heterogeneous job that which ends last."""

    def __init__(self, ends: Sequence[float]) -> None:
        self._ends, self._alone, self._whole = ends, dict[str, int](), dict[str, int]()

    def note(self, row: int, job: Job) -> None:
        """Take note of a job; a later submission takes the place of an earlier one of its id."""
        self._alone[job.job_id] = row
        for whole in {job.array, job.group} - {""}:
            last = self._whole.get(whole)
            if last is None or self._ends[row] >= self._ends[last]:
                self._whole[whole] = row

    def row(self, job_id: str) -> int:
        """Return the row of a job, or of what ends last of a whole array; -1 where it is not known."""
        return self._alone.get(job_id, self._whole.get(job_id, -1))


def parents(jobs: Sequence[Job], ends: Sequence[float]) -> list[int]:
    """Return the row that each job waits for, -1 for none: of several that which is expected to end last.

    Where one of several is enough it is that which ends first. Of an id it is the last submission before the job's own.
    """
    found, any_time, earlier = [], _NamedRows(ends), _NamedRows(ends)
    for row, job in enumerate(jobs):
        any_time.note(row, job)
    for row, job in enumerate(jobs):
        rows = [next((at for at in (earlier.row(name), any_time.row(name)) if at not in (-1, row)), -1)
                for name in _names(job)]
        choose = min if _ANY in job.dependency else max
        found.append(choose((at for at in rows if at >= 0), key=lambda at: ends[at], default=-1))
        earlier.note(row, job)
    return found


def _names(job: Job) -> Iterator[str]:
    """Yield the ids that a job's dependency names; those of whole arrays without their ``_*``."""
    for kind, named in _CONDITION.findall(job.dependency):
        for text in _SAID_OF_IT.sub("", named).split(":"):
            job_id = text.strip()
            if kind == "after":
                job_id = re.sub(r"\+\d+$", "", job_id)  # minutes
            if kind == "aftercorr" and job.array:
                yield job_id.removesuffix("_*") + job.job_id.removeprefix(job.array)
            else:
                yield job_id.removesuffix("_*")
