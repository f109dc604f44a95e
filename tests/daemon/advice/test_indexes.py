"""Free GPUs by index."""

import pytest

from idlewatt.daemon.advice.indexes import FreeIndexes
from idlewatt.storage.records import Allocation, Job, JobState, Node, Placement, Request, SchedulerSnapshot


def handed(node: Node, *asked: int, held: tuple[Allocation, ...] = ()):
    job = Job("1", 0.0, JobState.RUNNING, "all", Request(1), allocations=held)
    free = FreeIndexes(SchedulerSnapshot(0.0, (node,), jobs=(job,)))
    return free.hand_out(Placement((node.name,), (gpus,)) for gpus in asked)


def test_the_node_tells_what_is_taken_and_nothing_is_handed_out_twice():
    node = Node("n1", ("all",), 8, gpus_allocated=3, gpu_indexes_allocated=(0, 2, 7))

    assert handed(node, 2, 2, 2) == [((1, 3),), ((4, 5),), ()]


def test_where_the_node_does_not_tell_its_jobs_do():
    node = Node("n1", ("all",), 4, gpus_allocated=2)

    assert handed(node, 2, held=(Allocation("n1", 2, (1, 2)),)) == [((0, 3),)]


@pytest.mark.parametrize("held", [(), (Allocation("n1", 2),), (Allocation("n1", 1, (0,)), Allocation("n1", 1))])
def test_where_a_gpu_is_held_without_an_index_nothing_is_named(held):
    assert handed(Node("n1", ("all",), 4, gpus_allocated=2), 1, held=held) == [()]


def test_a_node_that_is_not_there_has_none():
    assert FreeIndexes(SchedulerSnapshot(0.0)).hand_out([Placement(("n9",), (1,))]) == [()]
