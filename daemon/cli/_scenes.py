"""Two hours of one GPU or host for each class of watts, as in docs/pictures and docs/waste-classes.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...storage.power_classes import PowerClass

STEPS = 24
"""Number of steps of five minutes."""
IDLE_W, CONTEXT_W, LIMIT_W = 55.0, 90.0, 400.0
"""Power of a GPU: free, idle with a context (c in the formulas), and its power limit (L), W."""


@dataclass(frozen=True, slots=True)
class DrawnClass:
    """The picture of a class: two hours in steps of five minutes."""

    when: str
    """Condition of the class for a GPU or host, in the letters of docs/waste.md."""
    formula: str
    """The watts of the class, and whether they are wasted or shown apart."""
    story: str
    """Caption of the picture, in a sentence."""
    holders: tuple[tuple[int, str], ...]
    """(step, holder): the holder from each step on, a job or nobody."""
    watts: tuple[float, ...]
    wasted: tuple[float, ...]
    activity: tuple[float, ...] = ()
    """Activity of a GPU's multiprocessors, 0..1, by step; empty for hosts and for unmeasured GPUs."""
    of_class: tuple[int, int] = (0, STEPS)
    """First step of the class, and the step after its last."""
    floor: bool = False
    """Whether a line shows the power of an idle GPU with a context."""


def _then(*parts: tuple[int, float]) -> tuple[float, ...]:
    """Return values that each hold for a number of steps, with small variations above idle power."""
    flat = [value for looks, value in parts for _ in range(looks)]
    return tuple(value + (0.02 * value * ((7 * look) % 5 - 2) if value > CONTEXT_W + 20 else 0.0)
                 for look, value in enumerate(flat))


def _shares(*parts: tuple[int, float]) -> tuple[float, ...]:
    return tuple(value for looks, value in parts for _ in range(looks))


def _all_after(watts: Sequence[float], look: int) -> tuple[float, ...]:
    return tuple(value if place >= look else 0.0 for place, value in enumerate(watts))


_NOTHING = (0.0,) * STEPS
_FREE = ((0, "free"),)
_IDLE = _then((8, 340.0), (16, 88.0))
_HUNG = _then((10, 350.0), (14, 101.0))
_UNDERUSED = _then((STEPS, 210.0))
_FREE_WATTS = _then((STEPS, IDLE_W))
_EMPTY = _then((9, 520.0), (15, 410.0))
SCENES = {
    PowerClass.ALLOCATED_IDLE: DrawnClass(
        "held, and after the grace period neither `u` nor the share of time with any kernel was above `waste.epsilon` "
        "in the last `waste.window`",
        "`p`",
        "The training has ended and the job still holds the GPU: after ten minutes all of its 88 W are wasted.",
        ((0, "job 4711"),), _IDLE, _all_after(_IDLE, 10), _shares((8, 0.9), (16, 0.0)), (10, STEPS)),
    PowerClass.ALLOCATED_HUNG: DrawnClass(
        "held, and for the whole `waste.window` kernels ran at least `waste.hung_activity` of the time, "
        "`p <= c + waste.hung_margin (L - c)`, and no measured unit computed or moved bytes",
        "`p`, *suspected*",
        "A kernel waits for a message that never comes: the GPU is busy all the time at little more than idle power.",
        ((0, "job 4711"),), _HUNG, _all_after(_HUNG, 12), _shares((10, 0.9), (14, 1.0)), (12, STEPS), floor=True),
    PowerClass.ALLOCATED_UNDERUSED: DrawnClass(
        "the idle share of any other held GPU", "`min(p, c) (1 - u)`",
        "The GPU is active for a fifth of the time: of its 210 W, 90 x (1 - 0.2) = 72 W do no work.",
        ((0, "job 4711"),), _UNDERUSED, (CONTEXT_W * 0.8,) * STEPS, (0.2,) * STEPS, floor=True),
    PowerClass.STRANDED: DrawnClass(
        "free, jobs wait, and none of them fits on the node", "`p`",
        "The GPU is free and jobs wait, but all CPUs of the node are taken, so no waiting job can use this GPU.",
        ((0, "free; a job waits that does not fit"),), _FREE_WATTS, _FREE_WATTS, (0.0,) * STEPS),
    PowerClass.IDLE_UNALLOCATED: DrawnClass(
        "any other free GPU", "`p`", "A job ends and no other job waits: the GPU draws 55 W without any use.",
        ((0, "job 4711"), (7, "free")), _then((7, 350.0), (17, IDLE_W)), _all_after(_FREE_WATTS, 7),
        _shares((7, 0.9), (17, 0.0)), (7, STEPS)),
    PowerClass.NODE_OVERHEAD_EMPTY: DrawnClass(
        "the host of a node that is up and runs no job", "`host`",
        "The last job of the node ends: CPUs, fans and losses still draw 410 W.",
        ((0, "jobs on the node"), (9, "empty")), _EMPTY, _all_after(_EMPTY, 9), (), (9, STEPS)),
    PowerClass.PRODUCTIVE: DrawnClass(
        "the rest of `p` of a held GPU", "0",
        "The GPU is active for 95 % of the time: 4.5 of 380 W are the idle share of another class; the rest does work.",
        ((0, "job 4711"),), _then((STEPS, 380.0)), _NOTHING, (0.95,) * STEPS, floor=True),
    PowerClass.HOST_ACTIVE: DrawnClass(
        "the host of a node with a job, or with GPUs in use outside the scheduler",
        "0; a part of it is shown as [unused](waste.md#the-unused-part-of-busy-nodes)",
        "CPUs, fans and losses of a node draw power while jobs hold its GPUs.",
        ((0, "jobs on the node"),), _then((STEPS, 530.0)), _NOTHING),
    PowerClass.PLANNED: DrawnClass(
        "free, and the scheduler reserves it, or it has been at work for less than `waste.outside_after`: a job is "
        "just starting or ending there", "0, shown apart",
        "The scheduler keeps the GPU free for a large job, which starts when other jobs have ended.",
        ((0, "free, kept for job 4712"), (16, "job 4712")), _then((16, IDLE_W), (8, 350.0)), _NOTHING,
        _shares((16, 0.0), (8, 0.9)), (0, 16)),
    PowerClass.OUTSIDE_SCHEDULER: DrawnClass(
        "no job holds it, and it has worked for `waste.outside_after`", "0, shown apart",
        "A user has logged in and computes; the scheduler has no job there.",
        _FREE, _then((6, IDLE_W), (18, 290.0)), _NOTHING, _shares((6, 0.0), (18, 0.8)), (8, STEPS)),
    PowerClass.UNAVAILABLE: DrawnClass(
        "the node is down, drained, in maintenance or powered down, or it is draining and no job holds the GPU",
        "0, shown apart",
        "The node is drained for repair: neither jobs nor the queue cause its watts.",
        ((0, "job 4711"), (8, "node drained")), _then((8, 350.0), (16, IDLE_W)), _NOTHING, _shares((8, 0.9), (16, 0.0)),
        (8, STEPS)),
    PowerClass.UNMEASURED: DrawnClass(
        "no fresh `p`, no `u` of a held GPU, or a node that the scheduler does not know", "0, shown apart",
        "The exporter does not answer: the node still draws 430 W at the wall, and their use is unknown.",
        ((0, "job 4711"),), _then((STEPS, 430.0)), _NOTHING, _shares((10, 0.9)), (10, STEPS)),
}
