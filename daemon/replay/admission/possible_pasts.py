"""What starts whatever Slurm does not tell: the queue walked once for each thing that it may have done before.

Which nodes Slurm keeps for a job without GPUs depends on weights in its controller, which the last jobs with GPUs have
left there and nobody can read. The queue is walked several times, with the weights after each of two possible
pasts. What starts in all of them starts; of what starts in some of them nothing is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from ....storage.eligibility import named_reason
from ....storage.recommendations import Placement
from ....storage.records import Job
from .backfill_pass import MOST_EXACT, BackfillPass
from .gate import ROOM, UNKNOWN, Gate, Hold
from .node_resources import HISTORIES, USUAL, Mask
from .queue_entry import QueueEntry
from .resource_demand import counts

PASTS = range(HISTORIES)
"""What may have been before; what is taken to have been goes otherwise once nodes are named."""
WEIGHTS_UNKNOWN = Hold(UNKNOWN, "unknown: which nodes are kept for jobs without GPUs that come first is not known: "
                       "Slurm does not report which nodes its last job with GPUs made it prefer")
FEATURES_UNKNOWN = Hold(UNKNOWN, "unknown: which nodes are kept for jobs that count features is not known: Slurm looks "
                        "for each feature by itself and keeps what it finds, whether the job can start there "
                        "or not")
NOT_NAMED = Hold(UNKNOWN, "unknown: whether it starts once nodes are named for all who are to start is not known")
SEPARATE_FEATURES = Hold(UNKNOWN, "unknown: whether it can start is not known: Slurm looks for each of the features "
                         "that it counts by itself, with all the GPUs that it asks for")
TOO_FEW = Hold(UNKNOWN, "unknown: whether it starts on so few nodes is not known: Slurm's backfill looks for each of "
                        "the features that it counts on nodes of their own")
ITSELF = Hold(UNKNOWN, "unknown: whether it asks for few switches (TopologyPlugin) is not known")
MOST_SUPPOSED = 3
"""Jobs for which it is tried both ways whether they ask for few switches."""


def walk(gate: Gate, planning: bool, line: Sequence[QueueEntry]) -> tuple[dict[int, Placement | Hold], Gate]:
    """Return by row what starts where and why the rest does not, and what is left then; the gate stays as it is."""
    stale = {entry.row: _stale_hold(entry.job) for entry in line if entry.stale}
    line = [replace(entry, later=entry.later and not entry.stale) for entry in line]
    open_entries = [entry for entry in line if _switches_unknown(gate, entry)]
    gate = _supposing(gate, {}) if open_entries else gate
    first = BackfillPass(_after(gate, USUAL), planning)
    outcomes = first.walk(line)
    outcomes |= {row: hold for row, hold in stale.items() if isinstance(outcomes.get(row), Placement)}
    outcomes |= {row: SEPARATE_FEATURES for row in first.separate if isinstance(outcomes.get(row), Placement)}
    outcomes |= {entry.row: ITSELF for entry in open_entries if _spread(gate, outcomes.get(entry.row))}
    open_entries = [entry for entry in open_entries if _in_the_way(outcomes.get(entry.row), planning)]
    supposed = open_entries[:MOST_SUPPOSED] if gate.site.tree and _leaves(gate) and len(line) <= MOST_EXACT else []
    outcomes = _behind(gate, line, _compared(gate, planning, line, outcomes, supposed), open_entries[len(supposed):])
    return outcomes, first.gate


def _compared(gate: Gate, planning: bool, line: Sequence[QueueEntry], outcomes: dict[int, Placement | Hold],
              supposed: Sequence[QueueEntry]) -> dict[int, Placement | Hold]:
    """Return what holds in all walks of a short queue, that some of the jobs ask for few switches included."""
    if len(line) > MOST_EXACT:
        return outcomes
    slurms = [entry.job for entry in line[:-1] if not entry.job.owner]
    pins, weights_matter = _pins(line, outcomes), any(gate.demand(job).gpus == 0 for job in slurms)
    doubt, pasts = (WEIGHTS_UNKNOWN, PASTS) if weights_matter else (NOT_NAMED, (USUAL,))
    doubts = [(doubt, [BackfillPass(_after(gate, past), planning, pins).walk(line) for past in pasts])]
    if any(counts(job.request.features) for job in slurms):
        doubts.append((FEATURES_UNKNOWN, [BackfillPass(_after(gate, USUAL), planning, pins, by_terms=True).walk(line)]))
    if supposed:
        assumptions = [dict(zip((entry.job.key for entry in supposed), few, strict=True))
                       for few in product((0, 1), repeat=len(supposed))]
        doubts.append((_switches_doubt(supposed[0]), [
            BackfillPass(_supposing(_after(gate, USUAL), some), planning, pins).walk(line) for some in assumptions]))
    few = {entry.row for entry in line if _on_few(outcomes.get(entry.row), entry.job)}
    for doubt, others in doubts:
        outcomes = {row: _agreed(found, [other.get(row) for other in others], TOO_FEW if row in few else doubt)
                    for row, found in outcomes.items()}
    return outcomes


def _on_few(found: Placement | Hold | None, job: Job) -> bool:
    """Tell whether a job starts on fewer nodes than it counts features."""
    return isinstance(found, Placement) and len(found.nodes) < sum(count for _, count in counts(job.request.features))


def _switches_unknown(gate: Gate, entry: QueueEntry) -> bool:
    """Tell whether a job may be on several nodes, and it is not known whether it asks for few switches."""
    demand = gate.demand(entry.job)
    divisible = demand.tasks > 1 or (demand.gpus > 1 and not demand.per_node)
    several = demand.least > 1 or (demand.widest != 1 and divisible)
    return several and entry.barred is None and gate.switches(entry.job) is None


def _in_the_way(found: Placement | Hold | None, planning: bool) -> bool:
    """Tell whether a job that does not start may be started by Slurm, or have nodes kept for it."""
    return isinstance(found, Hold) and (found.cause == UNKNOWN or (planning and found.cause == ROOM))


def _supposing(gate: Gate, switches: dict[tuple[str, float], int]) -> Gate:
    """Return a gate that assumes the number of ``switches`` for these jobs, and none for others that report none."""
    other = gate.copy()
    other.assumed_switches, other.assume_no_switches = switches, True
    return other


def _stale_hold(job: Job) -> Hold:
    return Hold(UNKNOWN, f"unknown: whether {job.job_id} still waits for what the scheduler says of it "
                         f"({named_reason(job)}) is not known: other nodes would do")


def _switches_doubt(entry: QueueEntry) -> Hold:
    return Hold(UNKNOWN, f"unknown: which nodes are kept for {entry.job.job_id}, which comes first, is not known: "
                         "whether it asks for few switches (TopologyPlugin) is not known")


def _leaves(gate: Gate) -> bool:
    return any(node.leaf for node in gate.resources.nodes)


def _spread(gate: Gate, found: Placement | Hold | None) -> bool:
    """Tell whether a start is not below one leaf switch, as far as is known."""
    if not isinstance(found, Placement) or len(found.nodes) == 1:
        return False
    return not _leaves(gate) or len({int(gate.resources.leaf[gate.resources.row[name]]) for name in found.nodes}) > 1


def _behind(gate: Gate, line: Sequence[QueueEntry], outcomes: Mapping[int, Placement | Hold],
            open_entries: Sequence[QueueEntry]) -> dict[int, Placement | Hold]:
    """Return the outcomes, unknown for a start on nodes that a job of ``open_entries`` before it may want."""
    found, doubtful, doubt = dict(outcomes), np.zeros(len(gate.resources.nodes), bool), WEIGHTS_UNKNOWN
    rows = {entry.row for entry in open_entries}
    for entry in line:
        start = found.get(entry.row)
        if isinstance(start, Placement) and (doubtful & gate.resources.named(start.nodes)).any():
            found[entry.row] = doubt
        nodes = _within(gate, entry.job)
        if entry.row in rows and not isinstance(start, Placement):
            doubt = doubt if doubtful.any() else _switches_doubt(entry)
            doubtful |= nodes
        elif isinstance(found.get(entry.row), Hold) and (doubtful & nodes).any():
            doubtful |= nodes  # it may have others than it would have otherwise
    return found


def _within(gate: Gate, job: Job) -> Mask:
    """Return the nodes on which a job may be, whatever is free."""
    found = np.zeros(len(gate.resources.nodes), bool)
    for way in gate.ways(job):
        found |= gate.resources.members(way.partition)
    return found


def _pins(line: Sequence[QueueEntry], outcomes: Mapping[int, Placement | Hold]) -> dict[int, tuple[str, ...]]:
    """Return the nodes that are named for jobs that start, by row; of an array only the first task's can be named."""
    rows, arrays = dict[int, tuple[str, ...]](), set[str]()
    for entry in line:
        found, array = outcomes.get(entry.row), entry.job.array
        if isinstance(found, Placement) and entry.row not in rows and array not in arrays:
            rows[entry.row] = found.nodes
            arrays |= {array} - {""}
    return rows


def _after(gate: Gate, past: int) -> Gate:
    """Return a gate whose nodes are preferred as after one of the possible pasts."""
    fresh = gate.copy()
    fresh.resources.weights = fresh.resources.weights.copy()
    fresh.resources.history = past
    return fresh


def _agreed(found: Placement | Hold, others: Iterable[Placement | Hold | None], doubt: Hold) -> Placement | Hold:
    """Return what holds in all walks, else that it is not known, and of several things that are not the first."""
    if isinstance(found, Hold) and found.cause == UNKNOWN:
        return found
    starts = isinstance(found, Placement)
    return found if all(isinstance(other, Placement) == starts for other in others) else doubt
