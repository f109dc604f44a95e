"""What a job asks for beyond its totals, where that decides on which nodes it may start."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Details:
    """What a job asks for beyond its totals; 0 and '' where it says nothing."""

    most_nodes: int = 0
    """0 where it may use any number; ``Request.nodes`` is the least."""
    cpus_per_gpu: int = 0
    memory_per_gpu_bytes: int = 0
    cpus_per_node: int = 0
    """On each node at least."""
    memory_per_node_bytes: int = 0
    memory_per_cpu_bytes: int = 0
    whole_memory: bool = False
    """All memory of its nodes, unless its partition gives so much for each GPU."""
    memory_said: bool = False
    """It asks for memory itself: no default counts."""
    gpus_per_task: int = 0
    gpus_per_socket: int = 0
    tasks: int = 1
    tasks_per_node: int = 0
    one_thread_per_core: bool = False
    contiguous: bool = False
    """Nodes that follow each other in the scheduler's list."""
    switches: int | None = 0
    """Most leaf switches it should spread over; None where the source cannot tell."""
    switches_until_s: float | None = None
    """When it gives up waiting for so few; None when never."""
    licenses: str = ""
    """As given: ``matlab:2,ansys`` (all), or ``a|b`` (any)."""
    exclusive_user: bool = False
    """It shares nodes with jobs of its user only."""
    disk_bytes: int = 0
    slices: tuple[tuple[str, int], ...] = ()
    """Parts of GPUs, by the scheduler's name of the resource, that one node has to give."""
    unknown: tuple[str, ...] = ()
    """Rules that it is bound by and that nobody here can judge, in words."""
    queue: str = ""
    """The queue whose quota it uses, where the scheduler has such."""
    nodes_expected: int = 0
    """On how many nodes the scheduler expects it to start, as it says; 0 where it does not."""
