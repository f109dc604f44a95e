"""The kinds of what can stand out of a job, each with its limit, its words and its fix: one table.

Notes on pages and reports, and notices to owners, come from it. A kind returns nothing where what it needs was not
measured: what is unknown makes no finding.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from ...storage.power_classes import PowerClass
from ...storage.records import Job
from ...storage.uses import Use
from ..durations import ago
from ..headline import percent
from .rows import JobRow, Note

MEASURED = 0.9
"""Share of the time that must be measured before a finding is that a job never did something."""
GIB, MIB = 2**30, 2**20
ONE_PROCESS = 1.1
"""CPUs in use up to which a job is taken for one process on one core."""
_GIGABYTES = re.compile(r"(\d+) ?GB")


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What is known of one run of a job; what is not is None or empty."""

    job: Job
    """With what that run held."""
    run: JobRow | None
    now_s: float
    cpus_used: float | None = None
    """At once, on the node where it used most, as is the memory."""
    memory_used_bytes: float | None = None
    idle: Mapping[str, float] = field(default_factory=dict)
    """Since when each of its GPUs has done nothing, of those that do nothing now."""
    hung: Mapping[str, float] = field(default_factory=dict)
    """Likewise of those that look hung."""
    node_gpus: int | None = None
    """GPUs of the largest node of its partition; None where that is not known."""
    node_cpus: int | None = None
    power_class: PowerClass | None = None
    """The power class in question, for kinds that concern one."""

    @property
    def held(self) -> int:
        """Return its GPUs."""
        return sum(part.gpus for part in self.job.allocations)

    @property
    def ran_s(self) -> float:
        """Return how long it has run, or ran."""
        start_s = self.job.start_s if self.run is None else self.run.start_s
        end_s = self.job.end_s if self.run is None else self.run.end_s
        return 0.0 if start_s is None else (end_s if end_s is not None else self.now_s) - start_s

    @property
    def measured(self) -> bool:
        """Tell whether enough of its GPUs' time is known to judge it."""
        return self.run is not None and self.run.measured_share is not None and self.run.measured_share >= MEASURED

    @property
    def seen(self) -> bool:
        """Tell whether it was looked at for enough of its time to tell its owner what it does on the whole."""
        return self.run is not None and self.run.seen_seconds >= MEASURED * self.ran_s

    def using(self, use: Use | None) -> RunFacts:
        """Return the facts with CPUs and memory in use, where enough of the run's time was measured."""
        if use is None or not long_enough(use, self.ran_s):
            return self
        return replace(self, cpus_used=use.cpus_p95, memory_used_bytes=use.memory_peak_bytes)

    @property
    def scope(self) -> str:
        """Return a reservation, for a job that was not looked at all the time."""
        return " while it was looked at" if self.run and not self.seen else ""


def long_enough(use: Use, ran_s: float) -> bool:
    """Tell whether CPUs and memory of a run were measured for enough of its time to judge them."""
    return use.measured_s >= MEASURED * ran_s


@dataclass(frozen=True, slots=True)
class FindingKind:
    """One thing that can stand out of a job."""

    name: str
    help: str
    threshold: float
    """Unless a site says otherwise; what it means stands in the help."""
    window_s: float
    """How long it must be so, or a job must have run, before its owner is notified."""
    find: Callable[[RunFacts, float, float], Note | None]
    """From facts, threshold and window to the words of the finding."""
    of_gpus: bool = False
    """Whether a job whose GPUs work well on the whole is left alone."""
    ended: bool = False
    """Whether it is about jobs that have ended; else about those that run."""


def _still(since: Mapping[str, float], facts: RunFacts, share: float, window_s: float) -> tuple[int, float] | None:
    """Return how many GPUs have been so for a window, and for how long all of them; None where they are too few."""
    moments = [moment for moment in since.values() if facts.now_s - moment >= window_s]
    if not moments or not facts.held or len(moments) < share * facts.held:
        return None
    return min(len(moments), facts.held), facts.now_s - max(moments)


def _of(count: int, held: int, verb: tuple[str, str]) -> str:
    if count >= held:
        return f"Its GPU {verb[0]}" if held == 1 else f"All of its {held} GPUs {verb[1]}"
    return f"{count} of its {held} GPUs {verb[0 if count == 1 else 1]}"


def _idle(facts: RunFacts, threshold: float, window_s: float) -> Note | None:
    still = _still(facts.idle, facts, threshold, window_s)
    if still is None:
        return None
    fix = "End it, or look why the program does not see them." if still[0] >= facts.held \
        else f"Run it again with {facts.held - still[0]}."
    return Note(f"{_of(still[0], facts.held, ('has', 'have'))} done nothing for {ago(still[1])}.", fix, "idle_gpus")


def _hung(facts: RunFacts, threshold: float, window_s: float) -> Note | None:
    still = _still(facts.hung, facts, threshold, window_s)
    if still is None:
        return None
    return Note(f"{_of(still[0], facts.held, ('has been', 'have been'))} busy at the power of an idle one for "
                f"{ago(still[1])}: it may hang.", "Look at its log; end it if it makes no progress.", "hung_gpus")


def unused_gpus(facts: RunFacts, threshold: float, window_s: float = 0.0) -> Note | None:
    """Return that GPUs of a job were never used: more than a share of those it holds."""
    run = facts.run
    if run is None or not facts.measured or not run.idle_gpus or facts.ran_s < window_s:
        return None
    held, idle = round(run.gpus), len(run.idle_gpus)
    if not held or idle < threshold * held:
        return None
    if idle >= held:
        return Note(f"Its GPU was never used{facts.scope}." if held == 1
                    else f"None of its {held} GPUs was ever used{facts.scope}.",
                    "Ask for no GPU, or look why the program does not see it.", "unused_gpus")
    return Note(f"{idle} of {held} GPUs {'was' if idle == 1 else 'were'} never used{facts.scope}.",
                f"Ask for {held - idle}.", "unused_gpus")


def low_activity(facts: RunFacts, threshold: float, window_s: float = 0.0) -> Note | None:
    """Return that the GPUs of a job worked for less than a share of the time."""
    run = facts.run
    if run is None or not facts.measured or run.activity is None or run.activity >= threshold \
            or facts.ran_s < window_s or not run.gpus:
        return None
    held = round(run.gpus)
    few = max(1, math.ceil(held * run.activity / 0.5)) if held > 1 else 0
    fix = f"{few} would do, " if few and few < held else ""
    return Note(f"Its GPUs worked {percent(run.activity)} of the time{facts.scope}.",
                f"{fix[:1].upper()}{fix[1:]}{'or' if fix else 'Try'} a larger batch, more data loaders, a share of "
                "a GPU (MIG).", "low_activity")


def unused_gpu_memory(facts: RunFacts, threshold: float, window_s: float = 0.0) -> Note | None:
    """Return that the fullest GPU of a job held less than a share of its memory: a smaller one may do."""
    run = facts.run
    capacity = _GIGABYTES.search(run.gpu_model) if run is not None else None
    known = facts.measured and facts.seen
    if run is None or not known or capacity is None or run.memory_max_bytes is None or facts.ran_s < window_s \
            or run.memory_max_bytes / (int(capacity[1]) * GIB) >= threshold:
        return None
    return Note(f"Its fullest GPU held {run.memory_max_bytes / GIB:.1f} of {capacity[1]} GiB.",
                "A smaller GPU or a MIG instance may do.", "unused_gpu_memory")


def suspicious(facts: RunFacts, threshold: float, window_s: float = 0.0) -> Note | None:
    """Return that a job spent more than a share of its energy in GPUs that look hung."""
    run = facts.run
    joules = 0.0 if run is None else run.classes.get(PowerClass.ALLOCATED_HUNG, 0.0)
    if run is None or not run.energy_joules or joules / run.energy_joules <= threshold:
        return None
    return Note(f"GPUs were busy at the power of idle ones for {percent(joules / run.energy_joules)} of its energy: "
                "it may have hung.", "Look at its log; end it if it makes no progress.", "hung_gpus")


def _wasted(facts: RunFacts, threshold: float, window_s: float) -> Note | None:
    run, power_class = facts.run, facts.power_class
    if run is None or power_class is None or not facts.measured or not run.energy_joules or facts.ran_s < window_s:
        return None
    share = run.classes.get(power_class, 0.0) / run.energy_joules
    if share < threshold:
        return None
    return Note(f"{percent(share)} of its energy went into \"{power_class.label}\".", power_class.remedy, "wasted")


def scattered(facts: RunFacts, threshold: float, window_s: float = 0.0) -> Note | None:
    """Return that the GPUs of a job lie over more nodes than they need, by at least so many."""
    sizes = [part.gpus for part in facts.job.allocations if part.gpus]
    if len(sizes) < 2 or not facts.node_gpus or facts.ran_s < window_s:
        return None
    needed = math.ceil(sum(sizes) / facts.node_gpus)
    if len(sizes) - needed < threshold:
        return None
    fix = "Ask for one node: GPUs then talk by NVLink." if needed == 1 else f"Ask for {needed} nodes."
    return Note(f"{sum(sizes)} GPUs lie over {len(sizes)} nodes.", fix, "scattered")


def held_of_a_node(job: Job) -> tuple[int, int]:
    """Return CPUs and memory that a job holds of each of its nodes: uses are known by node."""
    parts = job.allocations
    return max((part.cpus for part in parts), default=0), max((part.memory_bytes for part in parts), default=0)


def unused_cpus(facts: RunFacts, threshold: float, window_s: float = 0.0) -> Note | None:
    """Return that less than a share of the CPUs of a job worked at once."""
    cpus, used = held_of_a_node(facts.job)[0], facts.cpus_used
    if cpus <= 1 or used is None or used / cpus >= threshold or facts.ran_s < window_s:
        return None
    wanted = max(1, math.ceil(used * 1.2))
    return Note(f"{used:.1f} of its {cpus} CPUs worked at once.", f"Ask for {wanted}." if wanted < cpus else "",
                "unused_cpus")


def unused_memory(facts: RunFacts, threshold: float, window_s: float = 0.0) -> Note | None:
    """Return that a job used less than a share of its memory."""
    memory, used = held_of_a_node(facts.job)[1], facts.memory_used_bytes
    if not memory or used is None or used / memory >= threshold or facts.ran_s < window_s:
        return None
    return Note(f"It used {used / GIB:.1f} of {memory / GIB:.1f} GiB of memory.",
                _less(used * 1.2, memory, (MIB, "MiB"), (GIB, "GiB"), "."), "unused_memory")


def _cores_per_gpu(facts: RunFacts, threshold: float, window_s: float) -> Note | None:
    """Return that a job holds more CPUs for each GPU than the node has, by a factor, and does not use them."""
    cpus, used = held_of_a_node(facts.job)[0], facts.cpus_used
    gpus = max((part.gpus for part in facts.job.allocations), default=0)
    if not gpus or not facts.node_gpus or not facts.node_cpus or used is None or facts.ran_s < window_s:
        return None
    fair = facts.node_cpus / facts.node_gpus
    if cpus / gpus <= threshold * fair or used > fair * gpus:
        return None
    return Note(f"It holds {cpus / gpus:.0f} CPUs for each GPU, where the node has {fair:.0f}, and {used:.1f} of "
                f"{cpus} worked at once: GPUs beside it lie idle for want of CPUs.",
                f"Ask for {max(1, math.floor(fair))} CPUs for each GPU.", "cores_per_gpu")


def _serial(facts: RunFacts, threshold: float, window_s: float) -> Note | None:
    cpus, used = held_of_a_node(facts.job)[0], facts.cpus_used
    if cpus < threshold or used is None or used > ONE_PROCESS or facts.ran_s < window_s:
        return None
    return Note(f"It works on one core of {cpus}.", "Ask for one core, or let the program use more than one.", "serial")


def short_of_limit(facts: RunFacts, threshold: float, window_s: float = 0.0) -> Note | None:
    """Return that a job was complete in less than a share of its time limit."""
    job, run = facts.job, facts.run
    if run is None or run.end_s is None or job.limit_s is None or job.state.value != "completed" \
            or facts.ran_s < window_s or facts.ran_s >= threshold * job.limit_s:
        return None
    return Note(f"It took {percent(facts.ran_s / job.limit_s)} of its time limit.",
                _less(facts.ran_s * 1.5, job.limit_s, (60, "min"), (3600, "h"), ": short jobs start sooner."),
                "time_limit")


def _less(wanted: float, held: float, small: tuple[int, str], large: tuple[int, str], end: str) -> str:
    """Return the fix to ask for an amount, rounded up to a unit, in place of a larger one; '' where it is no less."""
    amount, unit = small if math.ceil(wanted / small[0]) * small[0] < large[0] else large
    count = max(1, math.ceil(wanted / amount))
    return f"Ask for {count} {unit}{end}" if count * amount < held else ""


KINDS: Mapping[str, FindingKind] = {kind.name: kind for kind in (
    FindingKind("idle_gpus", "GPUs that do nothing now; threshold is the share of the job's GPUs.", 1.0, 7200.0, _idle),
    FindingKind("hung_gpus",
                "GPUs that are busy at the power of idle ones; threshold is the share of the job's GPUs.", 0.5,
                3600.0, _hung),
    FindingKind("low_activity", "GPUs that work too little; threshold is their mean activity.", 0.25, 14400.0,
                low_activity,
                of_gpus=True),
    FindingKind("unused_gpus", "GPUs that were never used; threshold is the share of the job's GPUs.", 0.25, 7200.0,
                unused_gpus, of_gpus=True),
    FindingKind("unused_gpu_memory", "A GPU that is too large; threshold is the share of its memory in use.", 0.1,
                14400.0,
                unused_gpu_memory, of_gpus=True),
    FindingKind("wasted", "Energy in one class (`class`); threshold is its share of the job's energy.", 0.5, 14400.0,
                _wasted,
                of_gpus=True),
    FindingKind("scattered", "GPUs on more nodes than they need; threshold is how many more.", 1.0, 3600.0, scattered),
    FindingKind("unused_memory", "Too much memory; threshold is the share in use.", 0.25, 14400.0, unused_memory),
    FindingKind("unused_cpus", "Too many CPUs; threshold is the share that works at once.", 0.25, 14400.0, unused_cpus),
    FindingKind("cores_per_gpu", "Too many CPUs for each GPU; threshold is how many times the node's own share.",
                1.5, 3600.0, _cores_per_gpu),
    FindingKind("serial", "One process on many cores; threshold is the cores held.", 2.0, 3600.0, _serial),
    FindingKind("time_limit",
                "A time limit far beyond the run time, of jobs that are complete; threshold is the share used.",
                0.25, 600.0, short_of_limit, ended=True),
)}
"""Every kind, by the name that rules call it."""
