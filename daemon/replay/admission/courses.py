"""What starts whatever Slurm does not tell: the queue walked once for each thing that it may have done before.

Which nodes Slurm keeps for a job without GPUs depends on weights in its controller, which the last jobs with GPUs have
left there and nobody can read. The queue is walked in several courses, with the weights after each of three possible
pasts. What starts in all of them starts; of what starts in some of them nothing is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ....storage.recommendations import Placement
from .gate import UNKNOWN, Gate, Hold
from .ground import HISTORIES, MAIN_ROUND, Mask
from .turns import MOST_EXACT, Turn, Turns
from .wish import counts

PASTS = tuple(past for past in range(HISTORIES) if past != MAIN_ROUND)
"""What may have been before, but for what is taken to have been."""
NOT_TOLD = Hold(UNKNOWN, "unknown: which nodes are kept for jobs without GPUs that come first is not known: Slurm does "
                         "not tell which nodes its last job with GPUs made it prefer")
NOT_SURE = Hold(UNKNOWN, "unknown: which nodes are kept for jobs that count features is not known: Slurm looks for "
                         "each feature by itself and keeps what it finds, whether the job can start there or not")


def walk(gate: Gate, planning: bool, line: Sequence[Turn]) -> tuple[dict[int, Placement | Hold], Gate]:
    """Return by row what starts where and why the rest does not, and what is left then; the gate stays as it is."""
    first = Turns(_after(gate, MAIN_ROUND), planning)
    told = first.walk(line)
    if len(line) > MOST_EXACT:
        return told, first.gate
    slurms = [turn.job for turn in line[:-1] if not turn.job.owner]
    pins, doubts = _pins(gate, line, told), list[tuple[Hold, Iterable[dict[int, Placement | Hold]]]]()
    if any(gate.wish(job).gpus == 0 for job in slurms):
        doubts.append((NOT_TOLD, [Turns(_after(gate, past), planning, pins).walk(line) for past in PASTS]))
    if planning and any(counts(job.request.features) for job in slurms):
        doubts.append((NOT_SURE, [Turns(_after(gate, MAIN_ROUND), planning, pins, by_terms=True).walk(line)]))
    for doubt, others in doubts:
        told = {row: _agreed(found, [other.get(row) for other in others], doubt) for row, found in told.items()}
    return told, first.gate


def _pins(gate: Gate, line: Sequence[Turn], told: Mapping[int, Placement | Hold]) -> dict[int, Mask]:
    """Return the nodes that are named for those who start, by row; of an array only the first task's can be named."""
    rows, arrays = dict[int, Mask](), set[str]()
    for turn in line:
        found, array = told.get(turn.row), turn.job.array
        if isinstance(found, Placement) and turn.row not in rows and array not in arrays:
            rows[turn.row] = gate.ground.named(found.nodes)
            arrays |= {array} - {""}
    return rows


def _after(gate: Gate, past: int) -> Gate:
    """Return a gate whose nodes are preferred as after one of the possible pasts."""
    fresh = gate.copy()
    fresh.ground.weights = fresh.ground.weights.copy()
    fresh.ground.history = past
    return fresh


def _agreed(found: Placement | Hold, others: Iterable[Placement | Hold | None], doubt: Hold) -> Placement | Hold:
    """Return what holds in all courses, else that it is not known."""
    starts = isinstance(found, Placement)
    return found if all(isinstance(other, Placement) == starts for other in others) else doubt
