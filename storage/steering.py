"""The objects of a job, where commands on objects steer it instead of commands on jobs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Budget:
    """A rule on how many pods may be taken away at once (PodDisruptionBudget)."""

    name: str
    allowed: int
    """So many may be taken away now."""
    pods: int
    """So many of the job's pods are under it."""


@dataclass(frozen=True, slots=True)
class Steering:
    """The objects by which commands set where and when a job runs; '' and () for what it has not.

    Every name was made harmless, and may still hold anything that a shell would act upon.
    """

    namespace: str
    owner: str = ""
    """As commands name it: ``job.batch/train``."""
    suspended: bool = False
    """Its owner is a Job that has made no pods yet: its template may still be changed."""
    gated: tuple[str, ...] = ()
    """Pods that wait behind the gate alone."""
    gate: str = ""
    """What waits for advice: a gate of pods, or of the owner's admission."""
    admission_gated: bool = False
    bound: bool = False
    """It names nodes by affinity already, which may not be loosened."""
    hosts: tuple[tuple[str, str], ...] = ()
    """Nodes whose host name as a label is not their name, each with it; '' where no label tells it from all others."""
    workload: str = ""
    pod_sets: tuple[str, ...] = ()
    boost: int = 0
    """What its priority has to be raised by to be the first in its queue; 0 where it is."""
    check: int | None = None
    """Place of the admission check in its workload's status that waits for advice."""
    check_name: str = ""
    reserved: bool = False
    """Its queue has given it its quota already."""
    pods: tuple[str, ...] = ()
    """Those that run."""
    batches: tuple[str, ...] = ()
    """The batch jobs that make its pods, where its owner stands above these: a pod holds no other name of its job."""
    container: str = ""
    """Of each of its pods, where they have one."""
    limited: bool = False
    """The container has limits of CPU and memory beside its requests."""
    movable: bool = False
    """Its pods are made again when they are taken away, and nothing binds them to others."""
    budgets: tuple[Budget, ...] = ()
