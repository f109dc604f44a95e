"""Records jobs: what each snapshot or accounting row adds to a submission, its state changes and its runs.

A submission is known by (job id, submit time), a run of it by its start besides. Whatever order facts arrive in,
and however often, the same rows come out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from sqlalchemy import Connection, bindparam, delete, select, update

from . import releases, requeues, resizes, run_energy, schema
from .database import upsert
from .gpu_parts import packed
from .records import Job, JobState
from .sources import of_one_source
from .values import TableRow, chunks, number, whole, words

Key = tuple[str, float]
_RARE = ("gpus_per_node", "gpu_model", "features", "required_nodes", "excluded_nodes", "reservation", "exclusive")
_KEPT = ("eligible_s", "start_s", "end_s", "limit_s", "priority", "nice", "exit_code", "raw_id",
         "partition", "user", "account", "name", "qos", "dependency", "array", "owner", "flavour",
         "image", "framework", "cuda", "source", "request")
"""Facts that a source without them never erases."""


def recordable(job: Job) -> bool:
    """Tell whether this is a job: not the waiting rest of an array, and with a submit time."""
    return number(job.submit_s) is not None and not (job.tasks > 1 and job.state is JobState.PENDING)


def steady(job: Job) -> Job:
    """Return the job without what moves at every glance: two equal ones need no writing."""
    return replace(job, priority=None, expected_start_s=None, scheduled_nodes=())


def store_seen(connection: Connection, jobs: Sequence[Job], time_s: float, shared_ids: Sequence[str] = ()) -> None:
    """Record jobs as a scheduler showed them at ``time_s``; ``shared_ids`` are ids that several jobs have then."""
    fresh = _store(connection, jobs, lambda job: time_s, _seen_is_stale)
    releases.note(connection, fresh, time_s)
    requeues.end_former(connection, fresh, time_s, shared_ids)
    _forget_array_rests(connection, jobs)


def store_finished(connection: Connection, jobs: Sequence[Job]) -> None:
    """Record runs and jobs as accounting knows them; their own times say when."""
    _store(connection, resizes.with_submission(connection, jobs), _last_time, _finished_is_stale)


def _last_time(job: Job) -> float:
    return max(time for time in (job.end_s, job.start_s, job.submit_s) if time is not None)


def _seen_is_stale(known: TableRow, job: Job, time_s: float) -> bool:
    if time_s < known.changed_s:
        return True
    # What accounting saw end does not run on, however late the scheduler's page comes.
    return bool(not known.open and job.state.active and job.start_s == known.start_s)


def _finished_is_stale(known: TableRow, job: Job, time_s: float) -> bool:
    if job.start_s is None:
        return JobState(known.state).active
    if known.start_s is not None and job.start_s < known.start_s:
        return True
    # The end of a run after which the job was put back into the queue. One that never ran before has no such run,
    # even if the clocks of scheduler and daemon disagree.
    ran_before = known.start_s is not None or known.restarts > 0
    return bool(known.state == JobState.PENDING and ran_before and time_s <= known.changed_s)


def _store(connection: Connection, jobs: Iterable[Job], when: Callable[[Job], float],
           stale: Callable[[TableRow, Job, float], bool]) -> list[Job]:
    """Write facts of jobs and return those that were not stale."""
    stored = []
    for batch in _batches(map(_clean, jobs)):
        known = _known(connection, batch)
        batch = [_with_start(job, known.get(job.key)) for job in batch]
        fresh = [job for job in batch if job.key not in known or not stale(known[job.key], job, when(job))]
        new = [job for job in fresh if job.key not in known]
        upsert(connection, schema.jobs, [_row(job, when(job)) for job in new])
        _update(connection, [_merged(known[job.key], job, when(job)) for job in fresh if job.key in known])
        rows = known | _known(connection, new)
        changes = [{"job": rows[job.key].id, **change}
                   for job in fresh for change in _changes(job, known.get(job.key), when(job))]
        _forget_assumed_ends(connection, fresh, known)
        upsert(connection, schema.job_changes, changes)
        _move_runs(connection, fresh, known)
        _store_runs(connection, batch, rows)
        _close_runs(connection, [rows[job.key].id for job in batch])
        stored += fresh
    return stored


def _batches(jobs: Iterable[Job]) -> Iterator[list[Job]]:
    """Yield jobs such that no batch has two facts of one submission, in the order they came."""
    batch: dict[Key, Job] = {}
    for job in jobs:
        if job.key in batch or len(batch) >= 10_000:
            yield list(batch.values())
            batch = {}
        batch[job.key] = job
    if batch:
        yield list(batch.values())


def _clean(job: Job) -> Job:
    start, end = number(job.start_s), number(job.end_s)
    impossible = end is not None and start is not None and end < start
    return replace(job, job_id=words(job.job_id), start_s=start, end_s=None if impossible else end)


def _with_start(job: Job, known: TableRow | None) -> Job:
    """Return a job with the start of the run that it completes.

    The moment at which a job is put back into the queue is shown as its start while the former run completes. No run
    begins then: if one did since the last look, the job's own end or accounting tells it.
    """
    if job.state is not JobState.COMPLETING or job.restarts <= (known.restarts if known else 0):
        return job
    return replace(job, start_s=known.start_s if known else None)


def _known(connection: Connection, jobs: Sequence[Job]) -> dict[Key, TableRow]:
    keys = {job.key for job in jobs}
    rows: dict[Key, TableRow] = {}
    for ids in chunks({job_id for job_id, _ in keys}):
        stored = connection.execute(select(schema.jobs).where(schema.jobs.c.job_id.in_(ids)))
        rows |= {key: row for row in stored if (key := (row.job_id, row.submit_s)) in keys}
    return rows


def _row(job: Job, time_s: float) -> dict[str, object]:
    request = job.request
    return {
        "job_id": job.job_id, "submit_s": job.submit_s, "state": job.state.value, "partition": words(job.partition),
        "user": words(job.user), "account": words(job.account), "name": words(job.name), "qos": words(job.qos),
        "reason": job.reason.value, "reason_text": words(job.reason_text), "eligible_s": number(job.eligible_s),
        "start_s": job.start_s, "end_s": None if job.state.active else job.end_s, "limit_s": number(job.limit_s),
        "priority": number(job.priority), "nice": None if job.nice is None else whole(job.nice),
        "dependency": words(job.dependency), "restarts": whole(job.restarts),
        "exit_code": None if job.exit_code is None else whole(job.exit_code), "tasks": whole(job.tasks),
        "raw_id": None if job.raw_id is None else whole(job.raw_id), "gpus": whole(request.gpus),
        "nodes": whole(request.nodes), "cpus": whole(request.cpus), "memory_bytes": whole(request.memory_bytes),
        "array": words(job.array), "owner_kind": job.owner_kind.value, "owner": words(job.owner),
        "flavour": None if job.flavour is None else words(job.flavour),
        "image": words(job.image), "framework": words(job.framework), "cuda": words(job.cuda),
        "source": words(job.source) or None, "request": _rare_wishes(job), "changed_s": time_s,
        "open": not job.state.finished,
    }


def _rare_wishes(job: Job) -> dict[str, object]:
    wishes = {name: getattr(job.request, name) for name in _RARE}
    return {name: words(wish) if isinstance(wish, str) else wish for name, wish in wishes.items() if wish}


def _merged(known: TableRow, job: Job, time_s: float) -> dict[str, object]:
    row = _row(job, time_s)
    earlier = {name: getattr(known, name) for name in _KEPT if row[name] in (None, "", {})}
    earlier |= {name: getattr(known, name) for name in ("gpus", "cpus", "memory_bytes") if not row[name]}
    if row["flavour"] == "":
        earlier.pop("flavour")  # of none now: not the one that it was of
    if job.state.active:
        earlier.pop("end_s", None)
    return row | earlier | {"restarts": max(known.restarts, row["restarts"]), "changed_s": max(known.changed_s, time_s),
                                 "known": known.id}


def _update(connection: Connection, rows: Sequence[dict[str, object]]) -> None:
    if rows:
        connection.execute(update(schema.jobs).where(schema.jobs.c.id == bindparam("known")), rows)


def _changes(job: Job, known: TableRow | None, time_s: float) -> Iterator[dict[str, object]]:
    """Yield the state changes that this fact reveals, those between two glances included."""
    before = known.state if known else None
    if known is None:
        before = JobState.PENDING
        waits = job.state is JobState.PENDING
        yield {"time_s": job.submit_s, "state": JobState.PENDING.value,
               "reason": job.reason.value if waits else "",
               "reason_text": words(job.reason_text) if waits else ""}
    if job.start_s is not None and (known is None or known.start_s != job.start_s):
        before = JobState.RUNNING
        yield {"time_s": job.start_s, "state": JobState.RUNNING.value, "reason": "", "reason_text": ""}
    if job.state != before:
        ended = job.state.finished and job.end_s is not None
        yield {"time_s": job.end_s if ended else time_s, "state": job.state.value, "reason": job.reason.value,
               "reason_text": words(job.reason_text)}


def _forget_assumed_ends(connection: Connection, jobs: Iterable[Job], known: dict[Key, TableRow]) -> None:
    """Drop the state change of a run's end where the run turns out to have ended in another way."""
    assumed = [{"known": row.id, "old": row.state, "at": row.end_s} for job in jobs
               if (row := known.get(job.key)) is not None and job.state.finished and JobState(row.state).finished
               and job.state != row.state and job.start_s == row.start_s and row.end_s is not None]
    if assumed:
        table = schema.job_changes
        connection.execute(delete(table).where(table.c.job == bindparam("known"), table.c.state == bindparam("old"),
                                               table.c.time_s == bindparam("at")), assumed)


def _move_runs(connection: Connection, jobs: Iterable[Job], known: dict[Key, TableRow]) -> None:
    """Follow a start that the scheduler sets again once the job's nodes have powered up: it is the same run."""
    moved = [(row, job.start_s) for job in jobs
             if (row := known.get(job.key)) is not None and job.state.active and JobState(row.state).active
             and job.restarts == row.restarts and job.start_s is not None and row.start_s is not None
             and job.start_s > row.start_s]
    if moved:
        runs = schema.runs
        connection.execute(update(runs).where(runs.c.job == bindparam("known"), runs.c.start_s == bindparam("old"))
                           .values(start_s=bindparam("start_s")),
                           [{"known": row.id, "old": row.start_s, "start_s": start_s} for row, start_s in moved])
        run_energy.move(connection, {(row.job_id, row.submit_s, row.start_s): start_s for row, start_s in moved})


def _store_runs(connection: Connection, jobs: Sequence[Job], rows: dict[Key, TableRow]) -> None:
    started = [job for job in jobs if job.start_s is not None]
    upsert(connection, schema.runs, [_run(job, rows) for job in started if not job.state.finished])
    upsert(connection, schema.runs, [_run(job, rows) for job in started if job.state.finished],
           update=["state"], keep_known=["end_s"])
    runs = _run_ids(connection, [rows[job.key].id for job in started])
    parts = [({"run": runs[rows[job.key].id, job.start_s], "node": words(part.node), "gpus": whole(part.gpus),
               "gpu_indexes": None if part.gpu_indexes is None else [whole(index) for index in part.gpu_indexes],
               "cpus": whole(part.cpus), "memory_bytes": whole(part.memory_bytes), "parts": packed(part.parts)},
              job.state.active)
             for job in started for part in job.allocations]
    # Only a running job's own page says what it holds; afterwards indexes and amounts vanish.
    upsert(connection, schema.allocations, [part for part, active in parts if active],
           update=["gpus", "cpus", "memory_bytes"], keep_known=["gpu_indexes", "parts"])
    upsert(connection, schema.allocations, [part for part, active in parts if not active])


def _run(job: Job, rows: dict[Key, TableRow]) -> dict[str, object]:
    running = not job.state.finished and job.end_s is None
    return {"job": rows[job.key].id, "start_s": job.start_s, "end_s": None if job.state.active else job.end_s,
            "state": JobState.RUNNING.value if job.state.active or running else
                     job.state.value if job.state.finished else JobState.UNKNOWN.value}


def _run_ids(connection: Connection, jobs: Sequence[int]) -> dict[tuple[int, float | None], int]:
    runs = schema.runs
    return {(row.job, row.start_s): row.id for some in chunks(jobs)
            for row in connection.execute(select(runs.c.job, runs.c.start_s, runs.c.id).where(runs.c.job.in_(some)))}


def _close_runs(connection: Connection, jobs: Sequence[int]) -> None:
    """End runs that nobody saw end, at the latest moment they can have ended; accounting may say better later."""
    table, runs = schema.jobs, schema.runs
    for some in chunks(jobs):
        open_runs = connection.execute(
            select(runs.c.id, runs.c.start_s, runs.c.state.label("ended_as"), table.c.start_s.label("last"),
                   table.c.state, table.c.changed_s)
            .join(table, table.c.id == runs.c.job).where(runs.c.job.in_(some), runs.c.end_s.is_(None))).all()
        ends = [{"run": run.id, "end": max(run.start_s, end), "as": run.ended_as if JobState(run.ended_as).finished else
                 JobState.UNKNOWN.value} for run in open_runs if (end := _bound(run)) is not None]
        if ends:
            connection.execute(update(runs).where(runs.c.id == bindparam("run"))
                               .values(end_s=bindparam("end"), state=bindparam("as")), ends)


def _bound(run: TableRow) -> float | None:
    if run.last is not None and run.start_s < run.last:
        return float(run.last)
    # One that is over without an end that can be believed has ended all the same.
    return float(run.changed_s) if run.state == JobState.PENDING or JobState(run.ended_as).finished else None


def _forget_array_rests(connection: Connection, jobs: Sequence[Job]) -> None:
    """Drop the last waiting task of an array, kept under the array's own id, once it goes by a task's id."""
    table = schema.jobs
    seen = {job.key for job in jobs}
    rests: dict[tuple[str, int], dict[str, Job]] = {}
    """A task by source, by id and second of its array: of several schedulers one of the two may be moved within it."""
    for job in jobs:
        if job.array and job.array != job.job_id and number(job.submit_s) is not None:
            rests.setdefault((words(job.array), math.floor(job.submit_s)), {})[job.source] = job
    for some in chunks({array for array, _ in rests}):
        waiting = connection.execute(select(table.c.id, table.c.job_id, table.c.submit_s, table.c.source).where(
            table.c.job_id.in_(some), table.c.open, table.c.start_s.is_(None))).all()
        gone = [row.id for row in waiting if (row.job_id, row.submit_s) not in seen
                and any(of_one_source(row, job)
                        for job in rests.get((row.job_id, math.floor(row.submit_s)), {}).values())]
        connection.execute(delete(table).where(table.c.id.in_(gone)))
