"""Microsoft Philly (Jeon et al., ATC'19): the official ``cluster_job_log``, and the compact CSV joined from copies."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator, Mapping
from typing import IO

from .formats import register
from .rows import Row, SetAside, parsed
from .table import TableFormat, number, seconds_of, text
from .trace import Chunk, TraceError

BLOCK_BYTES = 1 << 20
LONGEST_JOB = 1 << 24
"""Characters; a job of some hundred attempts has 10^5."""


class PhillyLog:
    """Reads one JSON array of jobs, which is a gigabyte long, job by job."""

    name = "philly"
    ids_recur = False

    def recognises(self, head: str) -> int:
        """Recognise an array of objects with ``jobid`` and ``attempts``."""
        return 3 if head.lstrip().startswith("[") and '"jobid"' in head and '"attempts"' in head else 0

    def chunks(self, stream: IO[bytes]) -> Iterator[Chunk]:
        """Read the jobs; they run from the first attempt's start to the last one's end, as in the authors' scripts."""
        return parsed(_elements(stream), _job)


def _elements(stream: IO[bytes]) -> Iterator[tuple[int, object]]:
    """Yield the elements of a JSON array with the line where each begins."""
    decoder, decode = json.JSONDecoder(), codecs.getincrementaldecoder("utf-8-sig")("replace").decode
    text, line, more = "", 1, True
    while True:
        skipped = len(text) - len(text.lstrip(" \t\r\n,["))
        line += text.count("\n", 0, skipped)
        text = text[skipped:]
        if text.startswith("]"):
            return
        try:
            element, end = decoder.raw_decode(text)
        except RecursionError as error:
            raise TraceError(f"is nested too deeply near line {line}") from error
        except ValueError as error:
            if not more or len(text) > LONGEST_JOB:
                raise TraceError(f"breaks off or is no JSON near line {line}: {error}") from error
            block = stream.read(max(BLOCK_BYTES, len(text)))  # doubling, so that a long job is not parsed over and over
            text, more = text + decode(block, final=not block), bool(block)
            continue
        yield line, element
        line += text.count("\n", 0, end)
        text = text[end:]


def _job(job: object) -> Row:
    if not isinstance(job, Mapping) or not isinstance(job.get("attempts"), list):
        raise ValueError("is no job with attempts")
    attempts = [attempt for attempt in job["attempts"] if isinstance(attempt, Mapping)]
    starts = [start for attempt in attempts if (start := _seconds(attempt.get("start_time"))) is not None]
    ends = [end for attempt in attempts if (end := _seconds(attempt.get("end_time"))) is not None]
    if not starts:
        raise SetAside("never started")
    if not ends or _seconds(attempts[-1].get("end_time")) is None:
        raise SetAside("never ended")
    if max(ends) == min(starts):
        raise SetAside("ended within its first second")
    servers = _servers(attempts)
    return {"id": _word(job.get("jobid")) or "", "submit_s": _seconds(job.get("submitted_time")),
            "start_s": min(starts), "run_s": max(ends) - min(starts),
            "gpus": sum(servers) if servers else None, "nodes": len(servers) or None,
            "user": _word(job.get("user")), "partition": _word(job.get("vc")), "state": _word(job.get("status"))}


def _servers(attempts: list[Mapping[str, object]]) -> list[int]:
    """Return the GPUs on each server of the first attempt that tells."""
    for attempt in attempts:
        detail = attempt.get("detail")
        if isinstance(detail, list) and detail:
            try:
                return [len(server["gpus"]) for server in detail]
            except (KeyError, TypeError) as error:
                raise ValueError("has a placement without GPUs") from error
    return []


def _seconds(value: str | None) -> float | None:
    """Return the seconds of a date; the log writes an unknown one as null or 'None'."""
    if value in (None, "None", ""):
        return None
    try:
        # Some copies keep the zone's name behind the date: '2017-10-09 07:01:38 PDT'.
        return seconds_of(" ".join(value.split()[:2]))
    except (AttributeError, ValueError) as error:
        raise ValueError("has a time that is no date") from error


def _word(value: object) -> str | None:
    """Return a word that Arrow takes: JSON may hold half a surrogate."""
    return str(value).encode("utf-8", "replace").decode() if value else None


register(PhillyLog())

# The seconds are from the trace's first job; run2_s is the duration of the copy that labelled the virtual cluster.
register(TableFormat("philly-compact", {
    "id": text("job"), "submit_s": number("submit_s"), "gpus": number("gpus"), "run_s": number("run_s"),
    "partition": text("vc"), "_source": text("vc_src"),
}))
