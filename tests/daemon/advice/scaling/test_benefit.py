from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idlewatt.daemon.advice.scaling.benefit import Case, halved, weigh
from idlewatt.daemon.advice.scaling.curves import learned
from idlewatt.daemon.advice.scaling.what_if_sizes import SpareCapacity, doubled
from idlewatt.daemon.agents.kinds import RESTART_S
from idlewatt.storage.recommendations import Placement, Recommendation
from idlewatt.storage.records import Allocation, Job, JobState, Node, NodeState, Request, SchedulerSnapshot
from idlewatt.storage.waiting import WaitReason

NOW = 1000.0
CURVE = learned((2, 4, 8), [190.0, 340.0, 560.0])
FALLING = learned((2, 4, 8, 16), [100.0, 110.0, 80.0, 45.0])


def node(name, free, gpus=8, **more):
    return Node(name, ("a100",), gpus, "a100", cpus=64, memory_bytes=512, gpus_allocated=gpus - free,
                cpus_allocated=8 * (gpus - free), memory_allocated_bytes=64 * (gpus - free), **more)


def running(job_id="1", gpus=4, nodes=("n1",)):
    parts = tuple(Allocation(name, gpus // len(nodes), None, 8 * gpus // len(nodes), 64 * gpus // len(nodes))
                  for name in nodes)
    request = Request(gpus, len(nodes), gpus // len(nodes), 8 * gpus, 64 * gpus)
    return Job(job_id, 0.0, JobState.RUNNING, "a100", request, user="alice", start_s=10.0, allocations=parts)


def pending(job_id, gpus, nodes=1, cpus=8):
    return Job(job_id, 5.0, JobState.PENDING, "a100",
               Request(gpus, nodes, gpus // nodes, cpus * gpus, 64 * gpus), user="bob", reason=WaitReason.RESOURCES)


def site(nodes, *jobs, advice=()):
    return SpareCapacity(SchedulerSnapshot(NOW, tuple(nodes), jobs=jobs), advice, NOW)


def advised(job, action, node_name, start_s=None):
    return Recommendation(job.job_id, job.submit_s, "a100", NOW, "easy", "wait", action, "",
                          Placement((node_name,), (job.request.gpus,)), expected_start_s=start_s)


def weighed(job, place, curve=CURVE, remaining_s=3600.0):
    gpus = sum(part.gpus for part in job.allocations) or job.request.gpus
    return weigh(Case(job, gpus, curve, "throughput", remaining_s), place, NOW)


def alone(job):
    """Return a job as with ``--exclusive=user``."""
    return replace(job, request=replace(job.request, details=replace(job.request.details, exclusive_user=True)))


def test_a_node_where_jobs_of_others_are_is_no_room_for_one_that_is_to_be_alone_nor_the_other_way_round():
    job, other = running("1", 2), replace(running("2", 2, ("n2",)), user="bob")
    nodes, waiting = [node("n1", 0, 2), node("n2", 6)], pending("new", 1)

    def may_double(one, beside):
        return site(nodes, one, beside).has_room(one, doubled(one.request, 2, 8))

    assert may_double(job, other)
    assert not may_double(alone(job), other)
    assert not may_double(job, alone(other))
    assert may_double(alone(job), alone(replace(other, user="alice")))
    assert site(nodes[:1], job, waiting).helped(job) == ("new",)
    assert site(nodes[:1], alone(job), waiting).helped(alone(job)) == ()


def test_a_row_says_how_much_sooner_and_how_much_later():
    job = running()
    row = weighed(job, site([node("n1", 4)], job))
    assert (row.more.gpus, row.fewer.gpus) == (4, -2)
    assert row.more.speed_ratio == pytest.approx(560 / 340 - 1, abs=0.02)
    assert row.more.time_ratio == pytest.approx(340 / 560 - 1, abs=0.02)
    assert row.more.per_gpu_ratio == pytest.approx(row.more.speed_ratio / 4)
    assert row.more.saved_s == pytest.approx(-3600 * row.more.time_ratio - RESTART_S)
    assert "22 min gained net of the restart" in row.reason
    low, high = row.more.time_interval
    assert low < row.more.time_ratio < high < 0
    assert row.fewer.time_ratio > 0 > row.fewer.saved_s
    assert row.reason.startswith("39 % sooner (")
    assert "79 % later (" in row.reason


def test_a_job_that_is_nearly_done_is_told_that_the_restart_would_eat_up_the_gain():
    job = running()
    row = weighed(job, site([node("n1", 4)], job), remaining_s=240.0)
    assert row.more.saved_s < 0
    assert "which the restart would eat up" in row.reason


def test_a_pending_job_pays_for_no_restart():
    job = pending("2", 4)
    row = weighed(job, site([node("n1", 8)], job))
    assert row.more.saved_s == pytest.approx(-3600 * row.more.time_ratio)
    assert "restart" not in row.reason


def test_what_is_not_predicted_is_not_told_in_seconds():
    job = running()
    assert weighed(job, site([node("n1", 4)], job), remaining_s=None).more.saved_s is None


@pytest.mark.parametrize(("free", "room"), [(4, True), (3, False)])
def test_there_is_room_when_its_own_gpus_and_the_free_ones_are_enough(free, room):
    job = running()
    row = weighed(job, site([node("n1", free)], job))
    assert (row.has_room, row.free_gpus) == (room, free)
    assert ("there is room now" in row.reason) == room


def test_gpus_that_a_start_is_advised_for_are_not_room():
    job, other = running(), pending("2", 2)
    row = weighed(job, site([node("n1", 4)], job, other, advice=[advised(other, "start", "n1")]))
    assert (row.has_room, row.free_gpus) == (False, 2)


@pytest.mark.parametrize(("limit_s", "room"), [(None, False), (7200.0, False), (3600.0, True)])
def test_room_that_somebody_before_it_is_expected_on_is_only_for_who_is_gone_by_then(limit_s, room):
    job, first = replace(running(), limit_s=limit_s), pending("2", 8)
    row = weighed(job, site([node("n1", 4)], job, first, advice=[advised(first, "hold", "n1", NOW + 3600)]))
    assert (row.has_room, row.free_gpus) == (room, 4 * room)


def test_nobody_is_helped_at_the_cost_of_who_comes_before_and_is_expected_there():
    job, first, later, short = running(gpus=8), pending("2", 8), pending("3", 4), pending("4", 2)
    short = replace(short, limit_s=600.0)
    advice = [advised(first, "hold", "n1", NOW + 3600), advised(later, "hold", "n1", NOW + 9000),
              advised(short, "hold", "n1", NOW + 9000)]
    assert site([node("n1", 0)], job, first, later, short, advice=advice).helped(job) == ("4",)
    first_last = [*advice[1:], advice[0]]
    assert site([node("n1", 0)], job, first, later, short, advice=first_last).helped(job) == ("3", "4")


def test_who_would_have_room_is_named():
    job = running(gpus=8)
    waiting = (pending("2", 4), pending("3", 8), pending("4", 1), pending("5", 2))
    row = weighed(job, site([node("n1", 0), node("n2", 1)], job, *waiting))
    assert row.fewer.helps == ("2", "5")  # 3 needs more than that, 4 has room already
    assert "would make room for 2, 5" in row.reason


@pytest.mark.parametrize(("free", "named", "helped"), [
    ((0, 4), "x,y", ()), ((0, 4), "x", ()), ((0, 8), "x,y", ()), ((4, 0), "y", ()), ((4, 0), "y,x", ("2",)),
    ((4, 8), "y,x", ()), ((4, 4), "x,gone", ("2",))])
@pytest.mark.parametrize("splits", [True, False])
def test_a_waiting_job_of_several_partitions_is_helped_where_one_of_them_has_room_by_then(free, named, helped, splits):
    """The running job holds 8 GPUs of n1, on which as many are free as are told, and gives up 4."""
    nodes = [replace(node("n1", free[0], 16), partitions=("x",), cpus=128, memory_bytes=1024),
             replace(node("n2", free[1]), partitions=("y",))]
    job, request = running("1", 8), Request(8, 1, None if splits else 8, 8, 64)
    waiting = replace(pending("2", 8), partition=named, request=request)
    assert site(nodes, job, waiting).helped(job) == helped


def test_a_job_of_two_nodes_is_not_helped_by_nodes_of_two_partitions():
    nodes = [replace(node("n1", 0), partitions=("x",)), replace(node("n2", 4), partitions=("y",))]
    job, waiting = running("1", 8), replace(pending("2", 8, 2), partition="x,y")
    assert site(nodes, job, waiting).helped(job) == ()
    both = [replace(one, partitions=("x", "y")) for one in nodes]
    assert site(both, job, waiting).helped(job) == ("2",)


@pytest.mark.parametrize(("named", "helped"), [
    ((), ("2",)), (("n1",), ("2",)), (("n2",), ("2",)), (("full",), ()), (("gone",), ()), (("n1", "n2"), ("2",))])
def test_a_waiting_job_is_not_helped_where_a_node_that_it_cannot_do_without_has_no_room(named, helped):
    nodes = [node("n1", 0), node("n2", 4), node("full", 0)]
    job, waiting = running("1", 8), pending("2", 8, 2)
    waiting = replace(waiting, request=replace(waiting.request, required_nodes=named))
    assert site(nodes, job, waiting).helped(job) == helped


def test_a_job_that_lacks_room_on_a_node_that_it_cannot_do_without_is_helped_by_that_one():
    nodes = [node("n1", 0), node("n2", 4), node("n3", 4)]
    job, waiting = running("1", 8), pending("2", 8, 2)
    assert site(nodes, job, waiting).helped(job) == ()  # it has room
    waiting = replace(waiting, request=replace(waiting.request, required_nodes=("n1",)))
    assert site(nodes, job, waiting).helped(job) == ("2",)


def test_gpus_without_cpus_beside_them_help_nobody():
    job = running(gpus=8)
    assert weighed(job, site([node("n1", 0)], job, pending("2", 4, cpus=16))).fewer.helps == ()


def test_a_running_job_of_several_nodes_gives_up_whole_ones():
    job = running(gpus=24, nodes=("n1", "n2", "n3"))
    curve = learned((8, 16, 32), [100.0, 190.0, 350.0])
    row = weighed(job, site([node(name, 0) for name in ("n1", "n2", "n3")], job, pending("2", 8)), curve)
    assert row.fewer.gpus == -8
    assert row.fewer.how.startswith("scontrol update JobId=1 NumNodes=2")
    assert row.fewer.helps == ("2",)


def test_a_job_of_uneven_nodes_gives_up_what_its_last_ones_have():
    first = Allocation("n1", 8, None, 64, 512)
    job = replace(running(gpus=10), allocations=(first, Allocation("n2", 2, None, 16, 128)))
    curve = learned((4, 8, 16), [100.0, 190.0, 350.0])
    row = weighed(job, site([node("n1", 0), node("n2", 0)], job, pending("2", 2)), curve)
    assert (row.fewer.gpus, row.fewer.helps) == (-2, ("2",))
    none = replace(job, allocations=(first, Allocation("n2", 0, None, 16, 128)))
    assert weighed(none, site([node("n1", 0), node("n2", 0)], none), curve).fewer is None


def test_a_job_far_from_what_was_measured_is_told_nothing_of_sizes_that_are_near():
    job, curve = running(gpus=2), learned((8, 16), [190.0, 350.0])
    assert curve.reaches(4)
    row = weighed(job, site([node("n1", 6)], job), curve)
    assert (row.more, row.fewer) == (None, None)


def test_amounts_beyond_reason_do_no_harm():
    job = replace(running(), allocations=(Allocation("n1", 4, None, 2**64, 2**64),))
    here = site([node("n1", 0), node("n2", 0)], job, pending("2", 2))
    assert here.helped(job) == ("2",)
    assert here.has_room(job, job.request)


def test_what_slurm_cannot_do_is_said():
    job = running()
    row = weighed(job, site([node("n1", 4)], job))
    assert "no running job grow" in row.more.how
    assert "whole nodes only" in row.fewer.how
    waiting = weighed(pending("9", 4), site([node("n1", 8)]))
    assert waiting.more.how == "submit it again with 8 GPUs"
    assert waiting.fewer.helps == ()


def test_a_curve_that_falls_promises_nothing():
    job = running(gpus=8)
    row = weighed(job, site([node("n1", 0), node("n2", 8)], job), FALLING)
    assert row.more.speed_ratio < 0 < row.more.time_ratio
    assert row.fewer.time_ratio < 0
    assert row.falls_at is not None
    assert f"slower again from {row.falls_at} GPUs" in row.reason


def test_a_single_gpu_cannot_be_halved_and_three_nodes_leave_two():
    assert halved(running(gpus=1), 1) == 0
    assert halved(running(gpus=24, nodes=("a", "b", "c")), 24) == 16


@pytest.mark.parametrize(("request_", "gpus", "twice"), [
    (Request(4, 1, 4, 32, 256), 4, (8, 1, 8)), (Request(8, 1, 8), 8, (16, 2, 8)), (Request(16, 2, 8), 16, (32, 4, 8)),
    (Request(4), 4, (8, 1, None))])
def test_twice_as_many_gpus_stay_on_a_node_while_they_can(request_, gpus, twice):
    found = doubled(request_, gpus, largest=8)
    assert (found.gpus, found.nodes, found.gpus_per_node) == twice
    assert (found.cpus, found.memory_bytes) == (2 * request_.cpus, 2 * request_.memory_bytes)


def test_a_node_that_is_gone_or_lies_about_itself_makes_no_room():
    job = running(nodes=("vanished",))
    row = weighed(job, site([node("n1", 2)], job))
    assert row.has_room is False
    lying = replace(node("n1", 0), gpus_allocated=99)
    assert weighed(running(), site([lying], running())).free_gpus == 0
    assert weighed(running(), site([node("n1", 8, state=NodeState.DOWN)], running())).has_room is False


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 8), min_size=1, max_size=4), st.sampled_from([1, 2, 4, 8]),
       st.lists(st.sampled_from([1, 2, 4, 8, 16]), max_size=4))
def test_what_is_said_holds_for_any_cluster(free, gpus, wishes):
    nodes = [node(f"n{number}", some) for number, some in enumerate(free)]
    nodes.append(node("own", 8 - gpus))
    job = running(gpus=gpus, nodes=("own",))
    waiting = [pending(str(10 + number), wish, max(1, wish // 8)) for number, wish in enumerate(wishes)]
    row = weighed(job, site(nodes, job, *waiting))
    assert 0 <= row.free_gpus <= sum(free) + 8 - gpus
    assert not row.has_room or row.free_gpus >= gpus
    helped = {other.job_id: other.request.gpus for other in waiting}
    for name in row.fewer.helps if row.fewer else ():
        assert helped[name] <= row.free_gpus - row.fewer.gpus
