"""Who may share a node with whom, as the gate of advised starts judges it."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from idlewatt.daemon.advice.node_sharing import NodeSharing, lone_users
from idlewatt.daemon.replay.admission.node_resources import NodeResources
from idlewatt.daemon.replay.admission.resource_demand import demand_of
from idlewatt.daemon.waste.stranded import need
from idlewatt.storage.details import Details
from idlewatt.storage.records import Allocation, Job, JobState, Node, Request, SchedulerSnapshot

NOW = 1_800_000_000.0
USERS = st.sampled_from(["ann", "bob", "eve"])
NODES = st.lists(st.one_of(st.lists(st.tuples(USERS, st.just(False)), max_size=3),
                           st.tuples(USERS, st.lists(st.booleans(), max_size=3)).map(
                               lambda pair: [(pair[0], alone) for alone in pair[1]])), min_size=1, max_size=4)
"""The jobs of each node by user, and whether they are to be alone: with jobs of others none is."""


def job(number, user, alone, *nodes):
    return Job(str(number), NOW - 60, JobState.RUNNING if nodes else JobState.PENDING, "p",
               Request(1, details=Details(exclusive_user=alone)), user=user,
               allocations=tuple(Allocation(node, 1) for node in nodes))


def cluster(described):
    """Return a cluster with such jobs on its nodes."""
    held = [(user, alone, f"n{row}") for row, jobs in enumerate(described) for user, alone in jobs]
    nodes = tuple(Node(f"n{row}", partitions=("p",), gpus=8) for row in range(len(described)))
    return SchedulerSnapshot(NOW, nodes, jobs=tuple(job(number, *one) for number, one in enumerate(held)))


def sharing(snapshot, *more):
    known = lone_users((*snapshot.jobs, *more))
    return NodeSharing({node.name: row for row, node in enumerate(snapshot.nodes)}, snapshot.jobs, known), known


@settings(max_examples=100, deadline=None)
@given(NODES, USERS, st.booleans())
def test_a_job_may_share_the_nodes_that_the_gate_lets_it_share(described, user, alone):
    snapshot, asking = cluster(described), job("new", user, alone)
    found, known = sharing(snapshot, asking)
    wanted = need(asking, known)
    by_gate = NodeResources(snapshot).shared(demand_of(asking), user).tolist()
    assert found.open_to(wanted).tolist() == by_gate
    assert [found.opened(row, wanted, ()) for row in range(len(described))] == by_gate


@settings(max_examples=100, deadline=None)
@given(NODES, USERS, st.booleans())
def test_a_job_that_left_a_node_is_there_no_more_for_anybody_but_the_copies_that_were_made_before(
        described, user, alone):
    snapshot, asking = cluster(described), job("new", user, alone)
    found, known = sharing(snapshot, asking)
    wanted, before = need(asking, known), found.copy()
    leaving = {row: [need(one, known) for one in snapshot.jobs if one.allocations[0].node == f"n{row}"][:1]
               for row in range(len(described))}
    expected = [found.opened(row, wanted, left) for row, left in leaving.items()]
    for row, left in leaving.items():
        for one in left:
            found.leave(row, one)
    assert found.open_to(wanted).tolist() == expected
    for row, left in leaving.items():
        for one in left:
            found.join(row, one)
    assert found.open_to(wanted).tolist() == before.open_to(wanted).tolist()


def test_of_a_job_whose_user_nobody_tells_nobody_takes_another_to_be_of_the_same():
    snapshot = cluster([[("", True)], [("", False)], []])
    found, known = sharing(snapshot)
    assert found.open_to(need(job("new", "", True), known)).tolist() == [False, False, True]
    assert found.open_to(need(job("new", "", False), known)).tolist() == [False, True, True]


def test_each_node_of_a_job_counts_and_those_that_are_not_known_do_no_harm():
    running = job("1", "ann", True, "n0", "n1", "elsewhere")
    found = NodeSharing({"n0": 0, "n1": 1, "n2": 2}, [running], ["ann"])
    assert found.open_to(need(job("new", "bob", False))).tolist() == [False, False, True]
    assert Counter(found.open_to(need(job("new", "ann", True))).tolist()) == {True: 3}
