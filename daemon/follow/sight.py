"""What one look at the world shows: the queue as Slurm has it, the daemon's advice, and changes as we noted them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...storage.follow import Attribute, FollowChange

PENDING, WINDING_DOWN = "PENDING", ("COMPLETING", "STOPPED", "SIGNALING")
HELD = ("REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD", "REQUEUE_FED", "EXPEDITING")
"""What squeue prints in place of PENDING of jobs that wait until somebody, or something, releases them."""
ACTIVE = ("RUNNING", "SUSPENDED", "CONFIGURING", "STAGE_OUT", "RESIZING", "REQUEUED", *WINDING_DOWN)
"""States of Slurm in which a job has been started and is not over: nothing of it is touched."""
RAN = ("COMPLETED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "OUT_OF_MEMORY", "LAUNCH_FAILED",
       "RECONFIG_FAIL")
"""States in which a job was started and is over; while Slurm lists it, it can be requeued with what was changed."""
CALLED_OFF = ("CANCELLED", "DEADLINE", "REVOKED")
"""States in which a job is over that may never have been started."""


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """One job as squeue tells of it."""

    job_id: str
    state: str
    partition: str
    """Several joined by commas where it may run in any of them."""
    user: str
    nodes: tuple[str, ...]
    """Nodes that it requires, in order of their names."""
    nice: int
    submit_s: float
    plain: bool = True
    """False for parts of heterogeneous jobs."""
    array: str = ""
    """Of which it is a task."""

    @classmethod
    def unread(cls, job_id: str, array: str = "") -> QueuedJob:
        """Return a job that the scheduler knows, and of which nothing else it tells is understood."""
        return cls(job_id, "", "", "", (), 0, 0.0, plain=False, array=array)

    @property
    def understood(self) -> bool:
        """Tell whether more is known of it than that it is there."""
        return bool(self.state)

    @property
    def pending(self) -> bool:
        """Tell whether it waits, be it that it is held."""
        return self.state == PENDING or self.state in HELD

    def value(self, attribute: Attribute) -> str:
        """Return an attribute as changes are noted."""
        return spelled(self.nodes) if attribute == "required_nodes" else str(self.nice)


def spelled(nodes: tuple[str, ...]) -> str:
    """Return nodes as changes are noted, whatever the order they come in."""
    return ",".join(sorted(nodes))


@dataclass(frozen=True, slots=True)
class Advised:
    """Advice to start one job now."""

    job_id: str
    submit_s: float
    partition: str
    nodes: tuple[str, ...]
    policy: str
    issued_s: float
    snapshot_s: float
    plain: bool = True
    """False where naming the nodes takes more than the one change that is made here."""
    task: bool = False
    """It is meant for whichever task of the array is next."""


@dataclass(frozen=True, slots=True)
class BelievedAdvice:
    """All that the active policy advises to start, the most urgent first; or why nothing it says is believed."""

    starts: tuple[Advised, ...] = ()
    silence: str = ""
    passed_over: tuple[str, ...] = ()
    """Why other starts that the active policy advises are left alone: each is one."""


@dataclass(frozen=True, slots=True)
class Sight:
    """Everything that a decision rests on."""

    now_s: float
    jobs: Mapping[str, QueuedJob]
    """By id; those that Slurm no longer knows are missing."""
    advice: BelievedAdvice
    open: tuple[FollowChange, ...] = ()
    """What may still stand, the oldest first."""
    lately: tuple[FollowChange, ...] = ()
    """What was intended within the last day, and of jobs that Slurm lists at any time, these among them."""
    process: str = ""
    stopped: bool = False
    """Whether the kill switch is thrown."""

    def advised(self, change: FollowChange) -> bool:
        """Tell whether what led to a change is still advised."""
        return any(start.job_id in (change.job_id, array_of(change.job_id))
                   and _same_job(start.submit_s, change.submit_s)
                   and (change.attribute == "nice" or spelled(start.nodes) == change.after)
                   for start in self.advice.starts)

    def meant(self, advised: Advised) -> QueuedJob | None:
        """Return the job that advice is about: of an array the next task that waits and is nobody's yet."""
        if (job := self.jobs.get(advised.job_id)) is not None:
            return job
        tasks = [job for job in self.jobs.values()
                 if job.array == advised.job_id and job.state == PENDING and job.plain]
        return min((job for job in tasks if not job.nodes), key=_number, default=min(tasks, key=_number, default=None))

    def followed(self, advised: Advised) -> bool:
        """Tell whether this very advice on an array has led to a change of another of its tasks already."""
        return any(array_of(change.job_id) == advised.job_id and change.snapshot_s >= advised.snapshot_s
                   for change in self.open)


def array_of(job_id: str) -> str:
    """Return the array that a task is of; '' where it is none."""
    array, mark, _ = job_id.partition("_")
    return array if mark else ""


def _number(task: QueuedJob) -> int:
    return int(task.job_id.partition("_")[2])


def _same_job(one_s: float, other_s: float) -> bool:
    return abs(one_s - other_s) < 1.5
