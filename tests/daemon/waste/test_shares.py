"""Jobs and what nobody holds add up to the cluster, whoever holds what, and the rules of the split are those told."""

from collections import defaultdict
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idlewatt.storage.gpu_parts import GpuPart
from idlewatt.storage.power_classes import PowerClass
from idlewatt.storage.records import Allocation, JobState, NodeState


@st.composite
def sites(draw, site):
    """Up to 4 nodes of 8 GPUs: jobs that share GPUs, that nobody names, of CPUs only; meters that lie or are away."""
    nodes, jobs, found, walls = [], [], [], []
    for number in range(draw(st.integers(1, 4))):
        name, gpus = f"dgx-{number}", draw(st.sampled_from([8, 8, 8, 0]))
        state = draw(st.sampled_from([NodeState.UP] * 4 + [NodeState.DOWN, NodeState.DRAINING]))
        taken = 0
        for job in range(draw(st.integers(0, 3))):
            held = draw(st.lists(st.integers(0, 7), unique=True, max_size=8)) if gpus else []
            indexes = draw(st.sampled_from([tuple(held), None]))
            part = Allocation(name, len(held), indexes, cpus=draw(st.integers(0, 64)))
            jobs.append(site.running(f"{number}-{job}", name, held, allocations=(part,),
                                     partition=draw(st.sampled_from(["gpu", "debug"]))))
            taken += len(held)
        nodes.append(site.node(name, gpus=gpus, state=state, gpus_allocated=min(gpus, taken + draw(st.integers(0, 2))),
                               cpus_allocated=draw(st.sampled_from([0, 16]))))
        watts = [draw(st.one_of(st.none(), st.floats(0, 500), st.floats(0, 500))) for _ in range(gpus)]
        found += [site.gpu(index, name, watts=value, u=draw(st.one_of(st.none(), st.floats(0, 1))))
                   for index, value in enumerate(watts)]
        if draw(st.booleans()):
            walls.append(site.wall(sum(value or 0.0 for value in watts) + draw(st.floats(-300, 2500)), name))
    return nodes, jobs, found, walls


def booked(site, nodes, jobs, gpus, walls, until_s=400.0):
    """Return the windows of an accountant that looked at the same every 15 s."""
    accountant = site.accountant()
    for step in range(int(until_s // 15)):
        now = 1000.0 + 15 * step
        accountant.assess(site.snapshot(nodes, jobs, time_s=now), site.telemetry(
            tuple(moved(gpu, now) for gpu in gpus), tuple(moved(wall, now) for wall in walls)), now)
    closed = accountant.drain_all()
    return closed.rollups, closed.readings, closed.shares


def moved(reading, now):
    return replace(reading, time_s=now)


def by_class(parts):
    sums = defaultdict(float)
    for power_class, joules in parts:
        sums[power_class] += joules
    return sums


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_jobs_and_what_nobody_holds_add_up_to_the_cluster_class_by_class(site, data):
    _, readings, shares = booked(site, *data.draw(sites(site)))
    cluster = by_class((row.power_class, row.energy_joules) for row in readings if not row.node)
    told = by_class(item for share in shares for item in share.joules.items())
    for power_class in PowerClass:
        assert told[power_class] == pytest.approx(cluster[power_class], rel=1e-9, abs=1e-6)


@given(st.data())
@settings(max_examples=15, deadline=None)
def test_nodes_add_up_too_and_no_gpu_is_held_more_than_once(site, data):
    cluster = data.draw(sites(site))
    _, readings, shares = booked(site, *cluster)
    nodes = {row.node for row in readings if row.node}
    for name in nodes:
        wanted = sum(row.energy_joules for row in readings if row.node == name)
        assert sum(sum(share.joules.values()) for share in shares if share.node == name) == pytest.approx(wanted)
        assert sum(share.gpu_seconds for share in shares if share.node == name) <= 8 * 400 + 1e-6


def one_node(site, jobs, walls=(1500.0,), gpus=8, watts=100.0, u=0.5):
    found = [site.gpu(index, watts=watts, u=u) for index in range(gpus)]
    nodes = [site.node(gpus=gpus, gpus_allocated=0)]
    return booked(site, nodes, jobs, found, [site.wall(value) for value in walls])[2]


def of(shares, job_id):
    found = [share for share in shares if share.job_id == job_id]
    return sum(sum(share.joules.values()) for share in found), found[-1]


def test_a_host_is_divided_by_the_gpus_that_jobs_hold(site):
    shares = one_node(site, [site.running("1", indexes=(0, 1, 2)), site.running("2", indexes=(3,))])
    hosts = {job: sum(one.joules[PowerClass.HOST_ACTIVE] for one in shares if one.job_id == job) for job in ("1", "2")}
    assert hosts["1"] == pytest.approx(3 * hosts["2"])
    assert sum(hosts.values()) == pytest.approx(700.0 * 375, rel=1e-6)


def test_a_gpu_that_two_jobs_hold_is_split_in_equal_parts_and_that_is_told(site):
    shares = one_node(site, [site.running("1", indexes=(0,)), site.running("2", indexes=(0,))])
    (one, first), (two, _) = of(shares, "1"), of(shares, "2")
    assert one == pytest.approx(two)
    assert first.shared_seconds == first.gpu_seconds > 0
    assert first.gpus == 0.5


def test_what_a_run_takes_whose_start_nobody_knows_is_its_users_and_no_runs(site):
    known, ending = site.running("1"), site.running("2", indexes=(3,), start_s=None, state=JobState.COMPLETING)
    shares = one_node(site, [known, ending])
    assert {share.job_id for share in shares} == {"1", ""}
    of_user = [share for share in shares if share.user == "ada" and not share.job_id]
    assert sum(sum(share.joules.values()) for share in of_user) == pytest.approx(of(shares, "1")[0])


def test_a_server_without_gpus_is_divided_by_cpus(site):
    parts = [Allocation("dgx-0", 0, (), cpus=cpus) for cpus in (48, 16)]
    jobs = [site.running(str(number), gpus=0, allocations=(part,)) for number, part in enumerate(parts)]
    nodes = [site.node(gpus=0, cpus_allocated=64)]
    shares = booked(site, nodes, jobs, [], [site.wall(800.0)])[2]
    assert of(shares, "0")[0] == pytest.approx(3 * of(shares, "1")[0])
    assert not [share for share in shares if not share.job_id]


def test_gpus_that_were_never_used_are_named_until_they_are(site):
    node, job = site.node(gpus_allocated=3), site.running("1", indexes=(0, 1, 2))
    accountant = site.accountant()
    for step in range(50):
        now = 1200.0 + 15 * step
        used = {0: 0.9, 1: 0.9 if step == 30 else 0.0}
        accountant.assess(site.snapshot([node], [job], time_s=now), site.telemetry(tuple(
            site.gpu(index, time_s=now, u=used.get(index, 0.0)) for index in range(8)), ()), now)
    idle = [share.idle for share in accountant.drain_all().shares if share.job_id]
    assert idle[0] == ("dgx-0:1", "dgx-0:2")
    assert idle[-1] == ("dgx-0:2",)


def test_the_peak_is_of_the_whole_run_and_not_the_sum_of_its_nodes(site):
    """One node at its peak while the other rests, then the other way round."""
    nodes = [site.node(name, gpus_allocated=1) for name in ("dgx-0", "dgx-1")]
    parts = tuple(Allocation(name, 1, (0,)) for name in ("dgx-0", "dgx-1"))
    job, accountant = site.running("1", gpus=2, allocations=parts), site.accountant()
    for step in range(10):
        now = 1200.0 + 15 * step
        watts = (300.0, 100.0) if step % 2 else (100.0, 300.0)
        accountant.assess(site.snapshot(nodes, [job], time_s=now), site.telemetry(tuple(
            site.gpu(0, node.name, now, watts=value, u=0.9) for node, value in zip(nodes, watts, strict=True)), ()),
            now)
    assert {share.power_max_watts for share in accountant.drain_all().shares if share.job_id} == {400.0}


def test_what_is_not_measured_stays_unmeasured_in_the_hands_of_its_job(site):
    shares = one_node(site, [site.running("1", indexes=(0, 1))], u=None)
    joules = by_class(item for share in shares if share.job_id for item in share.joules.items())
    assert set(joules) == {PowerClass.UNMEASURED, PowerClass.HOST_ACTIVE}
    assert all(share.measured_seconds == 0.0 for share in shares if share.job_id)


def test_a_job_that_completes_holds_its_gpus_until_it_is_gone(site):
    shares = one_node(site, [site.running("1", indexes=(0,), state=JobState.COMPLETING)])
    assert of(shares, "1")[1].gpu_seconds > 0


def shard(site, job_id, share):
    """Return a job that holds a part of GPU 0."""
    part = Allocation("dgx-0", 0, cpus=4, parts=(GpuPart("shard", 0, 1.0, share),))
    return site.running(job_id, "dgx-0", [], allocations=(part,))


def test_shards_and_what_nobody_holds_make_the_gpu(site):
    """One GPU at 300 W: idle watts are divided by what is held, the rest among those who hold it."""
    shares = one_node(site, [shard(site, "1", 0.25), shard(site, "2", 0.5)], walls=(300.0,), gpus=1, watts=300.0)
    (first, one), (second, other) = of(shares, "1"), of(shares, "2")
    nobody = sum(sum(share.joules.values()) for share in shares if not share.job_id)
    assert second == pytest.approx(2 * first)
    assert first + second + nobody == pytest.approx(300.0 * 375, rel=1e-6)
    assert 40 * 375 / 4 < nobody < 150 * 375 / 4  # a quarter of an idle GPU's
    assert (one.gpus, other.gpus) == (0.25, 0.5)


def test_shards_of_which_nobody_tells_the_size_are_equal_parts_and_leave_nothing_over(site):
    shares = one_node(site, [shard(site, "1", None), shard(site, "2", 0.5)], walls=(300.0,), gpus=1, watts=300.0)
    assert of(shares, "1")[0] == pytest.approx(of(shares, "2")[0], rel=0.4)
    assert not [share for share in shares if not share.job_id and sum(share.joules.values()) > 1e-6]
