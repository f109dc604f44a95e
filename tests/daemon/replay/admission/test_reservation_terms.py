"""Who may use which reservation, as Slurm decides it."""

from dataclasses import replace

import pytest

from idlewatt.daemon.replay.admission.gate import Gate, Hold
from idlewatt.daemon.replay.admission.hold_reason import why_no_nodes
from idlewatt.storage.records import Job, JobState, Node, Request, SchedulerSnapshot
from idlewatt.storage.rules import Association, Reservation, SchedulerRules, SchedulerSettings

NOW = 1_000_000.0
SITE = SchedulerSettings("none", (), enforced=(), memory_counts=True, cores_whole=True, tree=False)
HELD = Reservation("held", ("a",), NOW - 10, NOW + 9e5, accounts=("phys",))
DRAWN = replace(HELD, flags=("MAGNETIC", "SPEC_NODES"))
TREE = (Association("root"), Association("phys", parent="root"), Association("phys-a", parent="phys"),
        Association("phys-a", "alice"), Association("loop", parent="loop"))


def asks(account="phys", reservation="", nodes=1, **facts):
    """Return a waiting job that wants a GPU on each of its nodes."""
    return Job("1", NOW - 60, JobState.PENDING, "p", Request(nodes, nodes, 1, cpus=1, reservation=reservation),
               account=account, **{"limit_s": 3600.0, "user": "alice"} | facts)


def judged(job, *reservations, nodes="ab", used="", associations=TREE, covered=True):
    """Return what becomes of a job where some nodes are in use."""
    covering = {name: one.name for one in reservations if covered and one.start_s <= NOW for name in one.nodes}
    listed = tuple(Node(name, ("p",), 8, cpus=64, memory_bytes=1 << 39, gpus_allocated=8 * (name in used),
                        cpus_allocated=64 * (name in used), reservation=covering.get(name, "")) for name in nodes)
    rules = SchedulerRules(reservations, associations=associations, site=SITE)
    judge = Gate(SchedulerSnapshot(NOW, listed, jobs=(job,), rules=rules), NOW)
    found = judge.bars(job) or judge.find(job)
    if isinstance(found, Hold) and found.cause == "room":
        found = why_no_nodes(judge, job)
    return found.cause if isinstance(found, Hold) else str(found)


@pytest.mark.parametrize(("accounts", "account", "placed"), [
    (("phys",), "phys-a", "a:1"), (("root",), "phys-a", "a:1"), (("phys-a",), "phys", "reservation"),
    (("-phys",), "phys-a", "reservation"), (("-phys",), "bio", "a:1"), (("phys",), "loop", "reservation"),
    (("phys",), "nobody", "reservation")])
def test_a_reservation_is_for_the_accounts_below_those_that_it_names_too(accounts, account, placed):
    assert judged(asks(account, "held"), replace(HELD, accounts=accounts)) == placed


def test_without_associations_only_the_account_itself_is_known():
    assert [judged(asks(account, "held"), HELD, associations=None) for account in ("phys", "phys-a")] == [
        "a:1", "reservation"]


@pytest.mark.parametrize(("reservation", "job", "used", "placed"), [
    (DRAWN, asks(), "b", "a:1"),
    (DRAWN, asks("phys-a"), "b", "a:1"),
    (DRAWN, asks("bio"), "b", "room"),
    (HELD, asks(), "b", "room"),
    (DRAWN, asks(), "a", "b:1"),
    (DRAWN, asks(nodes=2), "", "nodes"),
    (replace(DRAWN, flags=("MAGNETIC", "FLEX")), asks(nodes=2), "", "a:1,b:1"),
    (replace(DRAWN, accounts=()), asks(), "b", "room"),
    (replace(DRAWN, start_s=NOW + 600), asks(), "b", "room"),
])
def test_a_magnetic_reservation_takes_jobs_that_it_admits_and_that_name_none(reservation, job, used, placed):
    """Each of its jobs is in it or outside, not both; of groups nobody knows whom it admits."""
    assert judged(job, reservation, used=used) == placed


OTHER = Reservation("other", ("b",), NOW - 10, NOW + 9e5, accounts=("bio",))


@pytest.mark.parametrize(("named", "reservations", "placed"), [
    ("held,other", (HELD, OTHER), "a:1"),
    ("other,held", (HELD, OTHER), "a:1"),
    ("other,held", (replace(HELD, start_s=NOW + 60), OTHER), "reservation"),
    ("held,other", (HELD, replace(OTHER, end_s=NOW - 1)), "a:1"),
    ("held,gone", (HELD,), "a:1"),
    ("held,other", (HELD, replace(OTHER, accounts=("phys",), start_s=NOW + 60)), "a:1"),
])
def test_of_several_reservations_a_job_uses_those_that_do_not_bar_it(named, reservations, placed):
    assert judged(asks(reservation=named), *reservations) == placed


def test_each_of_several_reservations_is_tried_by_itself():
    both = HELD, replace(OTHER, accounts=("phys",))
    assert judged(asks(reservation="held,other"), *both, used="a") == "b:1"
    assert judged(asks(reservation="held,other", nodes=2), *both) == "nodes"


PART = replace(HELD, cpus=8)


@pytest.mark.parametrize(("reservation", "used", "placed"), [
    (PART, "b", "unknown"), (PART, "", "b:1"), (PART, "ab", "room"), (replace(PART, cpus=64), "b", "room"),
    (replace(PART, whole=False), "b", "unknown"), (replace(PART, start_s=NOW + 60), "b", "unknown"),
    (replace(PART, cpus=0), "b", "room")])
def test_what_a_reservation_of_some_cores_leaves_of_its_nodes_is_not_known_and_held_from_nobody(
        reservation, used, placed):
    assert judged(asks("bio"), reservation, used=used, covered=False) == placed
