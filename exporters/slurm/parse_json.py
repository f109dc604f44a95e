"""The JSON of Slurm's commands and of slurmrestd, 21.08 (v0.0.37) to data_parser v0.0.44, as records.

A record that cannot be understood is left out and reported; the others stay.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Generic, TypeVar

import msgspec

from ...storage.gpu_parts import GpuPart
from ...storage.records import Allocation, Job, JobState, Request
from ..hostlist import expand
from ..software import SoftwareFields, software
from ..source import FAULTS
from ..text import decode, described, quoted
from .fields import BadRecord, Fields
from .gres import Parts, gpus_of, parse_gres, parse_parts, parse_tres, share, share_gpus
from .parse_details import parse_details, parse_nice, requested_gpus, requested_memory
from .plausible_times import with_plausible_times
from .reasons import DEPENDENCY, reason_text, wait_reason
from .states import job_state

MIB = 2**20
NOTHING_FOUND = 9003
"""ESLURM_REST_EMPTY_RESULT: slurmdbd calls an empty list an error."""
_JOB_ID = re.compile(r"[A-Za-z0-9_+.-]{1,64}")
_ARRAY_SPAN = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?")

_PARTS, _ITEMS = msgspec.json.Decoder(dict[str, msgspec.Raw]), msgspec.json.Decoder(list[msgspec.Raw])

Record = TypeVar("Record")


@dataclass(frozen=True, slots=True)
class Parsed(Generic[Record]):
    """What could be read of a list, and why the rest could not."""

    records: tuple[Record, ...] = ()
    skipped: tuple[str, ...] = ()


def load(text: str | bytes) -> Fields:
    """Return the top object of an answer, whose bytes need not all be UTF-8: users name their jobs.

    Raises:
        BadRecord: not JSON, or cut off.
    """
    try:
        # Left to itself, json takes bytes only where all of them are UTF-8, and lets surrogates pass.
        read = json.loads(decode(text) if isinstance(text, bytes) else text, strict=False)
    except json.JSONDecodeError as error:
        raise BadRecord(f"no JSON: {error!s:.120}") from error
    except (ValueError, RecursionError) as error:
        raise BadRecord("no JSON of Slurm: a number or a nesting beyond reason") from error
    return Fields(read, "answer")


def load_list(body: bytes, name: str) -> Fields:
    """Return an answer as ``load`` does, but leave the items of one list as text, for ``parse_list`` to read in turn.

    All of them as objects would take many times the memory of what is kept of them, and leave holes in it.
    """
    try:
        parts = _PARTS.decode(body)
        items = _ITEMS.decode(parts.pop(name))
        return Fields({name: items, **{key: _object(part) for key, part in parts.items()}}, "answer")
    except (msgspec.MsgspecError, KeyError, ValueError, RecursionError):
        return load(body)  # not wholly UTF-8, or something else that is seldom


def _object(item: object) -> object:
    """Return what an item stands for that is still text."""
    return json.loads(decode(bytes(item)), strict=False) if isinstance(item, msgspec.Raw) else item


def errors(answer: Fields) -> str:
    """Return the errors that Slurm itself reports beside an answer."""
    faults = [": ".join(filter(None, (part.text("description"), part.text("error")))) or "unspecified"
            for part in answer.parts("errors") if part.number("error_number") != NOTHING_FOUND]
    return "; ".join(faults)[:300]


def parse_list(answer: Fields, name: str, parse: Callable[[Fields], Record],
               known: dict[bytes, Record] | None = None) -> Parsed[Record]:
    """Return the records of one list of an answer, each parsed on its own; ``known`` as of ``parse_each``.

    Raises:
        BadRecord: the list is missing, or Slurm reports an error in its stead.
    """
    items, faults = answer.raw_list(name), errors(answer)
    if name not in answer or (faults and not items):
        raise BadRecord(f"no {name} in the answer: {faults or 'is it Slurm that answers?'}")
    return parse_each(items, parse, known)


def parse_each(items: list[object], parse: Callable[[Fields], Record],
               known: dict[bytes, Record] | None = None) -> Parsed[Record]:
    """Return what could be parsed, and a line for each item that could not.

    ``known`` has the records of the last list by a digest of their text, and gets those of this one. Most come in
    the same words again: they are not read again, and two lists of thousands share them.
    """
    known = {} if known is None else known
    records, skipped, seen = [], [], dict[bytes, Record]()
    for number, given in enumerate(items):
        item, key = given, blake2b(given, digest_size=16).digest() if isinstance(given, msgspec.Raw) else b""
        try:
            record = known.get(key)
            if record is None:
                item = _object(given)
                record = parse(Fields(item))
            if key:
                seen[key] = record
            records.append(record)
        except FAULTS as error:
            # Whatever a strange record sets off costs that record alone.
            skipped.append(f"{_name(item, number)}: {_fault(error)}"[:200])
    known.clear()
    known.update(seen)
    return Parsed(tuple(records), tuple(skipped))


def _name(item: object, number: int) -> str:
    known = item if isinstance(item, Mapping) else {}
    named = known.get("job_id") or known.get("name")
    return described(named)[:40] if named else f"item {number}"


def _fault(error: Exception) -> str:
    return str(error) if isinstance(error, ValueError) else "it cannot be understood"


def parse_job(raw: Fields) -> Job:
    """Return a job of ``squeue --json`` or of slurmrestd's ``jobs``."""
    state = job_state(raw.texts("job_state"))
    job_id, raw_id = _identity(raw)
    start = raw.time("start_time")
    end = raw.time("end_time") if state.finished else None
    waiting = state in (JobState.PENDING, JobState.UNKNOWN)
    request, reason = parse_request(raw), _waits_for(raw) if waiting else ""
    # A job that never ran, or that waits again after a requeue, holds nothing, whatever `nodes` still says.
    allocations = () if waiting else parse_allocations(raw, request)
    return with_plausible_times(Job(
        job_id=job_id,
        raw_id=raw_id,
        submit_s=_submitted(raw.time("submit_time")),
        state=state,
        partition=raw.text("partition"),
        request=request,
        user=raw.text("user_name") or str(raw.integer("user_id") or ""),
        account=raw.text("account"),
        name=raw.text("name"),
        qos=raw.text("qos"),
        reason=wait_reason(reason),
        reason_text=reason,
        eligible_s=raw.time("eligible_time"),
        start_s=None if waiting else begun(start, end, allocations),
        end_s=end,
        limit_s=_minutes(raw.number("time_limit")),
        expected_start_s=start if waiting else None,
        scheduled_nodes=expand(raw.text("scheduled_nodes")) if waiting else (),
        priority=raw.number("priority"),
        nice=parse_nice(raw),
        dependency=raw.text("dependency"),
        restarts=raw.integer("restart_cnt") or 0,
        exit_code=_exit_code(raw) if state.finished else None,
        tasks=count_tasks(raw.text("array_task_string")) if waiting else 1,
        allocations=allocations,
        deadline_s=raw.time("deadline"),
        least_limit_s=_minutes(raw.number("time_minimum") or None),
        array=array_of(job_id, raw.integer("array_job_id")),
        array_limit=raw.integer("array_max_tasks") or None,
        group=str(raw.integer("het_job_id") or ""),
        **_software(raw),
    ))


def _software(raw: Fields) -> SoftwareFields:
    """Return what a job runs, as its container, comment, features and TRES tell; what is strange tells nothing."""
    texts = [_text(raw, name) for name in ("comment", "features", "constraints", "tres_req_str")]
    if raw.is_object("comment"):
        texts.append(_text(raw.part("comment"), "job"))
    image = software(_text(raw, "container"), *texts)
    return {"image": image.image, "framework": image.framework, "cuda": image.cuda}


def _text(raw: Fields, name: str) -> str:
    try:
        return raw.text(name)
    except BadRecord:
        return ""  # an endless comment is no reason to lose the job


def _submitted(submit_s: float | None) -> float:
    if submit_s is None:
        raise BadRecord("it has no submit time")
    return submit_s


def _identity(raw: Fields) -> tuple[str, int | None]:
    """Return the id as users know it and Slurm's own number; from 26.05 on an id may be a SLUID such as s1A2B3C…."""
    if raw.is_text("job_id"):
        sluid = raw.text("job_id")
        if not _JOB_ID.fullmatch(sluid):
            raise BadRecord(f"job_id is {quoted(sluid)}, not a job id")
        return sluid, int(sluid) if sluid.isdecimal() else None
    number = raw.integer("job_id")
    if not number:
        raise BadRecord("it has no job_id")
    return _known_as(number, raw.integer("array_job_id"), raw.integer("array_task_id"), raw.integer("het_job_id"),
                     raw.integer("het_job_offset")), number


def _known_as(number: int, array: int | None, task: int | None, het: int | None, offset: int | None) -> str:
    if array and task is not None:
        return f"{array}_{task}"
    if het and offset is not None:
        return f"{het}+{offset}"
    # The pending rest of an array goes by the array's id, as in scontrol: its list of tasks shrinks all the time.
    return str(array or number)


def array_of(job_id: str, number: int | None = None) -> str:
    """Return the array that a job is of, '' for none; a task's own id tells it too."""
    array, mark, _ = job_id.partition("_")
    return str(number) if number else array if mark else ""


def count_tasks(tasks: str) -> int:
    """Return how many array tasks ``2-7%2,9,11-15:2`` names; at least 1, as Slurm may cut the list short."""
    spans = filter(None, map(_ARRAY_SPAN.fullmatch, tasks.partition("%")[0].split(",")))
    numbers = [(int(span[1]), int(span[2] or span[1]), int(span[3] or 1)) for span in spans]
    return max(1, sum((last - first) // max(1, step) + 1 for first, last, step in numbers))


def _minutes(value: float | None) -> float | None:
    return None if value is None or value < 0 else value * 60.0


def _waits_for(raw: Fields) -> str:
    """Return Slurm's word for why a job waits, '' for none; it may name an old one beside a dependency that is open."""
    reason = reason_text(raw.text("state_reason"))
    return DEPENDENCY if "unfulfilled" in raw.text("dependency") and not wait_reason(reason).bars else reason


def _exit_code(raw: Fields) -> int | None:
    """Return the exit code, negative for a signal: older versions give the raw wait status."""
    exit_code = raw.part("exit_code") if raw.is_object("exit_code") else None
    if exit_code is not None and "return_code" in exit_code:
        killed = exit_code.part("signal")
        signal = killed.integer("id") or killed.integer("signal_id")  # up to v0.0.39
        return -signal if signal and exit_code.integer("return_code") is None else exit_code.integer("return_code")
    status = raw.integer("exit_code")
    return None if status is None else os.waitstatus_to_exitcode(status & 0xFFFF)


def parse_request(raw: Fields) -> Request:
    """Return what a job asks for, over all its nodes."""
    tres = parse_tres(raw.text("tres_req_str"))
    # Of -N 2-4 ``node_count`` is what is expected in 22.05, and what is accounted for the least.
    nodes = max(1, tres.nodes or raw.integer("node_count") or 1)
    per_node = parse_gres(raw.text("tres_per_node"))
    gpus = requested_gpus(raw, tres.gpus, per_node, nodes)
    cpus = tres.cpus or raw.integer("cpus") or 0
    return Request(
        gpus=gpus.count, nodes=nodes, gpus_per_node=per_node.count or None, cpus=cpus,
        memory_bytes=tres.memory_bytes or requested_memory(raw, nodes, cpus), gpu_model=gpus.model,
        features=raw.text("features"), required_nodes=expand(",".join(raw.texts("required_nodes"))),
        excluded_nodes=expand(",".join(raw.texts("excluded_nodes"))), reservation=raw.text("resv_name"),
        exclusive=bool({"none", "NO", "exclusive"} & set(raw.texts("shared"))),
        details=parse_details(raw, raw.time("submit_time")))


def parse_allocations(raw: Fields, request: Request) -> tuple[Allocation, ...]:
    """Return what a job holds on each node: GPU indexes from ``gres_detail``, CPU and memory in equal shares."""
    nodes = expand(raw.text("nodes"))
    tres = parse_tres(raw.text("tres_alloc_str"))
    details = [parse_gres(detail) for detail in raw.texts("gres_detail")]
    parts = [_parts(parse_parts(detail)) for detail in raw.texts("gres_detail")]
    if len(details) != len(nodes):
        # Slurm lists the details in node order, and none once the job has ended.
        details = share_gpus(tres.gpus.count if tres.gpus else request.gpus, len(nodes))
        parts = [()] * len(nodes)
    cpus = share(tres.cpus or raw.integer("cpus") or 0, len(nodes))
    memory = share(tres.memory_bytes or request.memory_bytes, len(nodes))
    return tuple(Allocation(node, detail.count, detail.indexes, cpus[place], memory[place], parts=parts[place])
                 for place, (node, detail) in enumerate(zip(nodes, details, strict=True)))


def _parts(parts: tuple[Parts, ...]) -> tuple[GpuPart, ...]:
    """Return a part for each GPU; over several GPUs Slurm does not say how they are spread."""
    return tuple(GpuPart(part.kind, index, part.count / len(part.indexes)) for part in parts for index in part.indexes)


def begun(start_s: float | None, end_s: float | None, allocations: tuple[Allocation, ...]) -> float | None:
    """Return the start of a run; None of a job that ended while it waited: Slurm gives the end as its start."""
    return None if start_s == end_s and not allocations else start_s


def parse_accounted(raw: Fields) -> Job:
    """Return a job of slurmdbd's ``jobs``; its GPUs have no indexes, which Slurm does not keep."""
    times, state = raw.part("time"), accounted_state(raw.part("state").texts("current"))
    requested, given = _counted(raw.part("tres"), "requested"), _counted(raw.part("tres"), "allocated")
    nodes = expand(raw.text("nodes"))
    array, het = raw.part("array"), raw.part("het")
    number = raw.integer("job_id")
    if not number:
        raise BadRecord("it has no job_id")
    model = next((name.partition(":")[2] for name in requested if name.startswith("gres/gpu:")), "")
    shares = zip(nodes, share(gpus_of(given), len(nodes)), share(given.get("cpu", 0), len(nodes)),
                 share(given.get("mem", 0) * MIB, len(nodes)), strict=True)
    allocations = tuple(Allocation(node, gpus, None, cpus, memory) for node, gpus, cpus, memory in shares)
    end = times.time("end")
    job_id = _known_as(number, array.integer("job_id"), array.integer("task_id"), het.integer("job_id"),
                       het.integer("job_offset"))
    return with_plausible_times(Job(
        job_id=job_id, array=array_of(job_id, array.integer("job_id")), raw_id=number,
        submit_s=_submitted(times.time("submission")), state=state, partition=raw.text("partition"),
        request=Request(gpus_of(requested), requested.get("node", 1), cpus=requested.get("cpu", 0),
                        memory_bytes=requested.get("mem", 0) * MIB, gpu_model=model, features=raw.text("constraints")),
        user=raw.text("user"), account=raw.text("account"), name=raw.text("name"), qos=raw.text("qos"),
        eligible_s=times.time("eligible"), start_s=begun(times.time("start"), end, allocations), end_s=end,
        limit_s=_minutes(times.number("limit")), priority=raw.number("priority"),
        restarts=raw.integer("restart_cnt") or 0,
        # 22.05 tells 0 of every job here, even of one that failed with 3.
        exit_code=None if state is JobState.FAILED and _exit_code(raw) == 0 else _exit_code(raw),
        allocations=allocations, cpu_seconds=_cpu_seconds(raw), **_software(raw)))


def _cpu_seconds(raw: Fields) -> float | None:
    """Return the CPU time of a job's steps; of the job itself 22.05 tells 0. None where nobody gathers it."""
    try:
        spent = [step.part("time").part("total") for step in raw.parts("steps")]
        total = sum((time.number("seconds") or 0.0) + (time.number("microseconds") or 0.0) / 1e6 for time in spent)
    except BadRecord:
        return None  # a strange step is no reason to lose the job
    return total if total > 0 else None


def accounted_state(words: tuple[str, ...]) -> JobState:
    """Return the state of a run in the accounts, where REQUEUED is an end: the next run has its own row."""
    return JobState.PREEMPTED if "REQUEUED" in words else job_state(words)


def _counted(tres: Fields, name: str) -> dict[str, int]:
    """Return counts by TRES name, ``gres/gpu:a100`` for type ``gres`` and name ``gpu:a100``."""
    return {"/".join(filter(None, (part.text("type"), part.text("name")))): part.integer("count") or 0
            for part in tres.parts(name)}
