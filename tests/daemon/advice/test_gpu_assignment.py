"""Free GPUs by index."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idlewatt.daemon.advice.topology_cost import FreeIndexes, close_together
from idlewatt.daemon.replay.slots import occupy_close
from idlewatt.storage.recommendations import Placement
from idlewatt.storage.records import Allocation, Job, JobState, Node, Request, SchedulerSnapshot


def handed(node: Node, *requested: int, held: tuple[Allocation, ...] = ()):
    job = Job("1", 0.0, JobState.RUNNING, "all", Request(1), allocations=held)
    free = FreeIndexes(SchedulerSnapshot(0.0, (node,), jobs=(job,)))
    return free.hand_out(Placement((node.name,), (gpus,)) for gpus in requested)


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


HALVES = ((0, 1, 2, 3), (4, 5, 6, 7))


@pytest.mark.parametrize(("taken", "gpus", "best"), [
    ((0,), 3, (1, 2, 3)), ((0,), 4, (4, 5, 6, 7)), ((0, 4, 5), 2, (6, 7)), ((0, 4, 5), 3, (1, 2, 3)),
    ((0, 4, 5), 4, (1, 2, 3, 6)), ((0, 1), 5, (2, 4, 5, 6, 7))])
def test_gpus_of_one_island_go_first_the_tightest_that_suffices(taken, gpus, best):
    node = Node("n1", ("all",), 8, gpus_allocated=len(taken), gpu_indexes_allocated=taken, islands=HALVES)

    assert handed(node, gpus) == [(best,)]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=8), st.data())
def test_the_daemon_names_the_gpus_that_the_replay_would_hand_out(islands, data):
    size = len(islands)
    divided = tuple(tuple(gpu for gpu in range(size) if islands[gpu] == one) for one in sorted(set(islands)))
    free = sorted(data.draw(st.sets(st.integers(0, size - 1), min_size=1)))
    gpus = data.draw(st.integers(1, len(free)))
    occupant, rows = np.full((1, size), 7, np.int32), np.zeros((1, size), np.int32)
    occupant[0, free] = -1
    for number, island in enumerate(divided):
        rows[0, list(island)] = number

    occupy_close(occupant, rows, 0, gpus, 9)

    assert close_together(free, gpus, divided) == tuple(np.flatnonzero(occupant[0] == 9).tolist())
