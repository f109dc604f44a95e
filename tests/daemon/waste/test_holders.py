from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from idlewatt.daemon.waste.holders import allocations_by_node, holders, parts, slots
from idlewatt.daemon.waste.readings import WatchedGpu
from idlewatt.exporters import dcgm
from idlewatt.exporters.dcgm import METRICS
from idlewatt.exporters.exposition import Exposition
from idlewatt.exporters.targets import Target
from idlewatt.storage.gpu_parts import GpuPart
from idlewatt.storage.records import Job, JobState, Request
from idlewatt.storage.telemetry import GpuInstance


def held(site, node, jobs, gpus):
    places = slots([WatchedGpu(gpu) for gpu in gpus], node)
    return places, holders(places, allocations_by_node(jobs).get(node.name, []), node)


def who(taken):
    return {position: holder.job.job_id if holder.job else None for position, holder in sorted(taken.items())}


def test_gpus_named_by_the_scheduler_are_held_and_not_guessed(site):
    _, taken = held(site, site.node(), [site.running("7", indexes=[2, 5])], [site.gpu(index) for index in range(8)])
    assert who(taken) == {2: "7", 5: "7"}
    assert not any(holder.guessed for holder in taken.values())


def test_the_schedulers_index_is_a_position_where_nvml_has_a_hole(site):
    """DGX Station: the display card is NVML 3, the fourth compute GPU NVML 4 and the scheduler's 3."""
    places, taken = held(site, site.node(gpus=4), [site.running(indexes=[3])],
                         [site.gpu(index) for index in (0, 1, 2, 4)])
    assert [places[position].index for position in taken] == [4]


def test_an_index_that_two_vendors_use_in_one_node_names_none_of_their_gpus(site):
    mixed = [*(site.gpu(index) for index in range(2)),
             *(replace(site.gpu(index, model="Instinct MI300X", jobs=("7",) * index), uuid=f"AMD-{index}")
               for index in range(2))]
    places, taken = held(site, site.node(gpus=4), [site.running("7", indexes=[1])], mixed)
    assert [(places[position].gpu.reading.uuid, holder.guessed) for position, holder in taken.items()] == [
        ("AMD-1", True)]


def test_a_mixed_node_is_counted_whole_and_once(site):
    mixed = [site.gpu(0, watts=60), replace(site.gpu(0, watts=140, model="Instinct MI300X"), uuid="AMD-0")]
    found = site.judge([site.node(gpus=2)], gpus=mixed, walls=[site.wall(500)])
    assert sum(found.totals["gpu"].values()) == 500
    assert {verdict.uuid: verdict.watts for verdict in found.gpu_verdicts} == {"GPU-dgx-0-0": 60, "AMD-0": 140}


def test_a_gpu_that_fell_off_the_bus_keeps_its_place(site):
    places, taken = held(site, site.node(gpus=4), [site.running(indexes=[3])],
                         [site.gpu(index) for index in (0, 1, 3)])
    assert [places[position].index for position in taken] == [3]
    assert places[2].gpu is None


def test_unnamed_gpus_are_chosen_by_the_exporters_hint_then_by_memory(site):
    gpus = [site.gpu(0), site.gpu(1, memory_used_bytes=9e9), site.gpu(2, jobs=("7",)), site.gpu(3)]
    _, taken = held(site, site.node(gpus=4), [site.running("7", indexes=None, gpus=2)], gpus)
    assert who(taken) == {1: "7", 2: "7"}
    assert all(holder.guessed for holder in taken.values())


def members(site, job_id, node="n1", gpus=1, **facts):
    """Return a job of which exporters name the parts, as they do with pods."""
    job = site.running(job_id, indexes=None, gpus=gpus, **facts)
    parts = tuple(replace(part, members=(f"team/{job_id}-0",)) for part in job.allocations)
    return replace(job, allocations=parts)


def test_gpus_on_which_an_exporter_names_a_member_are_held_and_not_guessed(site):
    gpus = [site.gpu(0, memory_used_bytes=9e9), site.gpu(1, jobs=("team/b-0",)),
              site.gpu(2, jobs=("team/a-0",)), site.gpu(3, jobs=("team/a-0",))]
    _, taken = held(site, site.node(gpus=4), [members(site, "a", gpus=2), members(site, "b")], gpus)
    assert who(taken) == {1: "b", 2: "a", 3: "a"}
    assert not any(holder.guessed for holder in taken.values())


def test_a_member_without_a_label_yet_is_guessed_among_what_is_left_and_says_so(site):
    gpus = [site.gpu(0, jobs=("team/b-0",)), site.gpu(1)]
    _, taken = held(site, site.node(gpus=2), [members(site, "a", start_s=50.0), members(site, "b")], gpus)
    assert who(taken) == {0: "b", 1: "a"}
    assert (taken[0].guessed, taken[1].guessed) == (False, True)


def test_a_part_of_a_gpu_is_held_where_the_exporter_names_it_and_nowhere_else(site):
    gpus = [site.gpu(0), site.gpu(1, jobs=("team/a-0", "team/b-0"))]
    jobs = [members(site, "a", gpus=0), members(site, "b", gpus=0, start_s=50.0)]
    _, taken = held(site, site.node(gpus=2), jobs, gpus)
    assert [job.job_id for job in taken[1].jobs] == ["a", "b"]  # the first began first
    assert set(taken) == {1}


def parted(site, job_id, *parts, gpus=0):
    """Return a job that holds parts of GPUs."""
    job = site.running(job_id, indexes=None, gpus=gpus)
    return replace(job, allocations=tuple(replace(part, parts=parts) for part in job.allocations))


def test_parts_of_a_gpu_have_their_holders_and_shares_and_what_the_scheduler_calls_taken_is_not_counted_twice(site):
    jobs = [parted(site, "a", GpuPart("shard", 1, 1, 0.25)), parted(site, "b", GpuPart("shard", 1, 2, 0.5)),
            site.running("7", indexes=[2])]
    _, taken = held(site, site.node(gpus=4, gpus_allocated=2), jobs, [site.gpu(index) for index in range(4)])
    assert {position: ([job.job_id for job in one.jobs], one.shares) for position, one in taken.items()} == {
        1: (["a", "b"], (0.25, 0.5)), 2: (["7"], ())}


def test_parts_by_uuid_are_found_and_two_of_one_job_are_one(site):
    gpus = [site.gpu(0), site.gpu(1)]
    job = parted(site, "a", *(GpuPart("fraction", None, 1, 0.3, gpus[1].uuid),) * 2)
    _, taken = held(site, site.node(gpus=2), [job], gpus)
    assert {position: (one.job.job_id, one.shares) for position, one in taken.items()} == {1: ("a", (0.6,))}


@pytest.mark.parametrize("part", [GpuPart("shard", 99), GpuPart("shard", -1), GpuPart("shard"),
                                  GpuPart("fraction", None, 1, 0.5, "GPU-of-nobody")])
def test_a_part_of_a_gpu_that_is_not_there_holds_nothing(site, part):
    _, taken = held(site, site.node(gpus=2), [parted(site, "a", part)], [site.gpu(0), site.gpu(1)])
    assert taken == {}


@pytest.mark.parametrize("share", [float("nan"), -1.0, 0.0, 2.0, float("inf")])
def test_a_share_that_is_none_is_not_believed(site, share):
    _, taken = held(site, site.node(gpus=1), [parted(site, "a", GpuPart("mps", 0, 1, share))], [site.gpu(0)])
    assert taken[0].shares == (None,)


def test_a_guess_does_not_wander_from_cycle_to_cycle(site):
    gpus = [WatchedGpu(site.gpu(index, memory_used_bytes=float(index))) for index in range(4)]
    job, node = site.running("7", indexes=None, gpus=1), site.node(gpus=4)
    places = slots(gpus, node)
    first = holders(places, allocations_by_node([job])[node.name], node)
    gpus[0].take(site.gpu(0, time_s=1015.0, memory_used_bytes=9e9), None, 37.5)
    again = holders(places, allocations_by_node([job])[node.name], node)
    assert who(first) == who(again) == {3: "7"}


def test_named_gpus_are_never_given_to_a_job_without_names(site):
    jobs = [site.running("1", indexes=None, gpus=1), site.running("2", indexes=[0], start_s=50.0)]
    _, taken = held(site, site.node(gpus=2), jobs, [site.gpu(0, memory_used_bytes=9e9), site.gpu(1)])
    assert who(taken) == {0: "2", 1: "1"}


def test_gpus_the_scheduler_calls_allocated_are_held_even_by_nobody_we_know(site):
    node = site.node(gpus=4, gpus_allocated=2, gpu_indexes_allocated=(1,))
    _, taken = held(site, node, [], [site.gpu(index) for index in range(4)])
    assert who(taken) == {0: None, 1: None}
    assert taken[0].guessed
    assert not taken[1].guessed


@pytest.mark.parametrize("indexes", [[8], [-1], [0, 99]])
def test_indexes_beyond_the_node_are_ignored(site, indexes):
    _, taken = held(site, site.node(), [site.running(indexes=indexes)], [site.gpu(index) for index in range(8)])
    assert set(taken) <= {0}


def test_a_finished_job_holds_nothing(site):
    assert not allocations_by_node([site.running(state=JobState.COMPLETED)])


@given(st.data())
def test_a_job_never_gets_more_gpus_than_it_has_nor_one_of_anothers(site, data):
    counts = data.draw(st.lists(st.integers(1, 4), max_size=4))
    jobs = [site.running(str(number), indexes=None, gpus=count) for number, count in enumerate(counts)]
    _, taken = held(site, site.node(), jobs, [site.gpu(index) for index in range(8)])
    assert len(taken) == min(8, sum(counts))
    for number, count in enumerate(counts):
        assert sum(holder.job.job_id == str(number) for holder in taken.values()) <= count


def job(name):
    return Job(name, 0.0, JobState.RUNNING, "p", Request(1), start_s=0.0)


HALVES = (GpuInstance("1", 3 / 7, 0.9, ("7",)), GpuInstance("2", 3 / 7, 0.1, ("8",)))


def test_idle_watts_go_by_slices_and_the_rest_by_activity():
    first, second = parts((job("7"), job("8")), HALVES, 300.0, 100.0)
    assert first == pytest.approx((50 + 200 * 0.9) / 300)
    assert second == pytest.approx((50 + 200 * 0.1) / 300)


def test_what_belongs_to_instances_that_nobody_holds_is_nobodys():
    (first,) = parts((job("7"),), HALVES, 300.0, 100.0)
    assert first == pytest.approx(230 / 300)


def test_where_nobody_works_slices_count():
    resting = tuple(GpuInstance(str(number), share, 0.0, (str(number),)) for number, share in ((1, 1 / 7), (2, 3 / 7)))
    assert parts((job("1"), job("2")), resting, 100.0, 90.0) == pytest.approx([0.25, 0.75])


@pytest.mark.parametrize(("jobs", "instances", "watts", "idle"), [
    ("78", (), 300.0, 100.0), ("79", HALVES, 300.0, 100.0), ("78", HALVES, 300.0, None), ("78", HALVES, None, 100.0),
    ("78", (GpuInstance("1", 1.0, 0.5, ("7", "8")),), 300.0, 100.0)])
def test_where_instances_do_not_tell_the_jobs_have_equal_parts(jobs, instances, watts, idle):
    assert parts(tuple(map(job, jobs)), instances, watts, idle) == [0.5, 0.5]


def test_what_shards_hold_divides_idle_watts_and_what_nobody_holds_is_nobodys():
    """A quarter and a half of a GPU that draws 300 W, 100 W of them idle: a quarter of those is nobody's."""
    first, second = parts((job("7"), job("8")), (), 300.0, 100.0, (0.25, 0.5))
    assert first == pytest.approx((25 + 200 / 3) / 300)
    assert second == pytest.approx((50 + 400 / 3) / 300)
    assert 1 - first - second == pytest.approx(25 / 300)


def test_a_job_alone_on_a_part_of_a_gpu_leaves_nobody_the_idle_watts_of_the_rest():
    assert parts((job("7"),), (), 100.0, 100.0, (0.25,)) == pytest.approx([0.25])
    assert parts((job("7"),), (), 300.0, 100.0, (0.25,)) == pytest.approx([225 / 300])


def test_where_one_share_is_not_told_all_parts_are_equal():
    assert parts((job("7"), job("8")), (), 300.0, 100.0, (0.25, None)) == [0.5, 0.5]


def test_more_than_a_gpu_is_handed_out_where_jobs_take_turns():
    assert parts((job("7"), job("8")), (), 300.0, 100.0, (1.0, 0.5)) == pytest.approx([2 / 3, 1 / 3])


@given(st.lists(st.floats(1e-6, 1), min_size=1, max_size=8), st.none() | st.floats(0, 1000),
       st.none() | st.floats(0, 900))
def test_parts_by_shares_and_what_is_nobodys_make_the_gpu(shares, watts, idle):
    found = parts(tuple(job(str(place)) for place in range(len(shares))), (), watts, idle, shares)
    assert all(part >= 0 for part in found)
    assert sum(found) <= 1 + 1e-9
    if sum(shares) >= 1:
        assert sum(found) == pytest.approx(1.0)


@given(st.lists(st.tuples(st.floats(0.01, 1), st.none() | st.floats(0, 1)), min_size=1, max_size=7),
       st.floats(1, 1000), st.floats(0, 1000))
def test_parts_and_idle_make_the_gpu(told, watts, idle):
    instances = tuple(GpuInstance(str(place), share, activity, (str(place),))
                      for place, (share, activity) in enumerate(told))
    found = parts(tuple(job(one.number) for one in instances), instances, watts, idle)
    assert sum(found) == pytest.approx(1.0)
    assert min(found) >= 0


def test_dcgms_rows_tell_instances_with_slices_activity_and_holders():
    page = "".join(
        f'DCGM_FI_PROF_GR_ENGINE_ACTIVE{{gpu="0",UUID="GPU-a",GPU_I_ID="{number}",GPU_I_PROFILE="{profile}",'
        f'hpc_job="{holder}"}} {activity}\n' for number, profile, holder, activity in (
            (1, "3g.40gb", "7", 0.8), (2, "1g.10gb", "8", 0.4)))
    samples = Exposition(METRICS).samples(page.encode())
    (gpu,) = dcgm.parse(samples, Target("http://n0:9400/metrics", "n0:9400"), 1.0).gpus
    assert [(one.number, one.slices, one.jobs) for one in gpu.instances] == [
        ("1", 3 / 7, ("7",)), ("2", 1 / 7, ("8",))]
    assert [one.activity for one in gpu.instances] == pytest.approx([0.8, 0.4])
