"""Smaller parts of GPUs: said of what was measured for a whole window, of what nodes hand out, and of nothing else."""

from dataclasses import replace

import pytest

from idlewatt.daemon.advice.recommender import RecommenderContext
from idlewatt.daemon.advice.recommenders import subjects
from idlewatt.daemon.advice.recommenders.gpu_slices import GpuSliceRecommender
from idlewatt.daemon.settings.recommenders import GpuSlicesSettings
from idlewatt.daemon.waste import Assessment, GpuVerdict, run_of
from idlewatt.storage.details import Details
from idlewatt.storage.owners import OwnerKind
from idlewatt.storage.power_classes import PowerClass
from idlewatt.storage.records import Allocation, Job, JobState, Node, Request, SchedulerSnapshot
from idlewatt.storage.steering import Steering
from idlewatt.storage.telemetry import GpuInstance, GpuReading, Telemetry

NOW = 1_800_000_000.0
GB = 1e9
SMALL, MIDDLE, SHARED = "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb", "nvidia.com/gpu.shared"


def service(pods=1, node="n0", kind=OwnerKind.SERVICE, **more):
    names = tuple(f"team/llm-{number}" for number in range(pods))
    return Job("team/llm", NOW - 9000, JobState.RUNNING, "p", Request(pods), user="team", owner="Deployment/llm",
               owner_kind=kind, start_s=NOW - 9000, allocations=(Allocation(node, pods, None, members=names),),
               steering=Steering("team", "deployment.apps/llm", pods=names, container="server"), **more)


def nodes(*slices):
    return (Node("n0", ("p",), 8, gpu_model="h100"), Node("n1", ("p",), 2, slices=slices or ((SMALL, 14, 4),)))


def gpu(index, activity, memory, node="n0", **more):
    return GpuReading(f"GPU-{node}-{index}", node, index, NOW, activity=activity, memory_used_bytes=memory,
                      memory_total_bytes=80 * GB, **more)


def verdict(reading, job, *, guessed=False):
    return GpuVerdict(reading.node, reading.index, reading.uuid, "h100", "p", PowerClass.ALLOCATED_UNDERUSED, 90.0,
                      job_id=job.job_id, allocated=True, guessed=guessed, run=run_of(job))


def watched(job, *uses, ground=None, every=60.0, minutes=61, guessed=False, instances=(), recommender=None,
            others=()):
    """Return what is said after so long; ``uses`` are activity and memory of each GPU."""
    recommender = recommender or GpuSliceRecommender(GpuSlicesSettings())
    for moment in range(minutes):
        now = NOW + every * moment
        gpus = tuple(replace(gpu(index, activity, memory, instances=instances), time_s=now)
                     for index, (activity, memory) in enumerate(uses))
        found = Assessment(now, tuple(verdict(one, job, guessed=guessed) for one in gpus), (), {})
        told = recommender.recommend(RecommenderContext(
            now, SchedulerSnapshot(now, ground or nodes(), (), (job,)),
            Telemetry((*gpus, *(replace(other, time_s=now) for other in others))), assessment=found))
    return told.rows


def test_a_pod_that_never_used_more_than_an_instance_has_is_told_to_ask_for_one():
    (row,) = watched(service(), (0.08, 6 * GB))
    assert (row.job_id, row.held, row.advised, row.pods, row.offered, row.free) == (
        "team/llm", "nvidia.com/gpu", SMALL, 1, 14, 10)
    assert row.reason == ("in 60 min it never used more than 8 % of a GPU and 6.0 GB; "
                          "nvidia.com/mig-1g.10gb has 14 % and 9.0 GB")
    assert row.command.startswith("kubectl --namespace=team patch deployment.apps/llm --type=strategic '--patch={")
    assert '"nvidia.com/gpu":null,"nvidia.com/mig-1g.10gb":"1"' in row.command


@pytest.mark.parametrize(("activity", "memory", "advised"), [
    (0.114, 7.1 * GB, SMALL), (0.12, 6 * GB, MIDDLE), (0.08, 7.3 * GB, MIDDLE), (0.3, 6 * GB, MIDDLE),
    (0.35, 6 * GB, None), (0.08, 29 * GB, None)])
def test_the_smallest_part_is_advised_that_has_a_quarter_more_than_was_used(activity, memory, advised):
    rows = watched(service(), (activity, memory), ground=nodes((MIDDLE, 4, 0), (SMALL, 14, 4)))
    assert [row.advised for row in rows] == ([advised] if advised else [])


def test_one_peak_within_the_window_keeps_the_whole_gpu():
    recommender = GpuSliceRecommender(GpuSlicesSettings())
    assert watched(service(), (0.9, 6 * GB), minutes=1, recommender=recommender) == ()
    assert watched(service(), (0.08, 6 * GB), recommender=recommender) == ()


@pytest.mark.parametrize(("told", "listed"), [("", "NVIDIA-A30"), ("NVIDIA A30", "a30-mig")])
def test_an_instance_of_a_gpu_of_four_slices_is_a_quarter_of_it(told, listed):
    quarter, half = "nvidia.com/mig-1g.6gb", "nvidia.com/mig-2g.12gb"
    ground = (Node("n0", ("p",), 8, gpu_model="a30"),
              Node("n1", ("p",), 2, gpu_model=listed, slices=((quarter, 8, 0), (half, 4, 0))))
    others = (gpu(0, 0.0, 0.0, "n1", model=told),)
    (row,) = watched(service(), (0.19, 4 * GB), ground=ground, others=others)
    assert (row.advised, "has 25 % and 5.4 GB" in row.reason) == (quarter, True)
    job = replace(service(node="n1"), request=Request(0, details=Details(slices=((half, 1),))),
                  allocations=(Allocation("n1", 0, None, members=("team/llm-0",)),))
    used = (GpuInstance("1", 0.5, 0.38, ("team/llm-0",), 4 * GB),)
    assert [row.advised for row in watched(job, (0.1, 4 * GB), ground=ground, others=others, instances=used)] == [
        quarter]


@pytest.mark.parametrize(("activity", "memory"), [(None, 6 * GB), (0.08, None)])
def test_nothing_is_said_of_what_is_not_measured(activity, memory):
    assert watched(service(), (activity, memory)) == ()
    assert watched(service(2), (0.08, 6 * GB), (activity, memory)) == ()


def test_nothing_is_said_before_a_window_is_over_nor_across_a_gap_nor_of_gpus_that_were_guessed():
    assert watched(service(), (0.08, 6 * GB), minutes=60) == ()
    assert watched(service(), (0.08, 6 * GB), every=900.0, minutes=9) == ()
    assert watched(service(), (0.08, 6 * GB), guessed=True) == ()


def test_replicas_of_a_service_are_advised_together_and_gpus_of_one_batch_job_are_left():
    (row,) = watched(service(2), (0.08, 6 * GB), (0.02, 7 * GB))
    assert (row.pods, row.activity, row.memory_bytes) == (2, 0.08, 7 * GB)
    assert watched(service(2, kind=OwnerKind.BATCH), (0.08, 6 * GB), (0.02, 7 * GB)) == ()


def test_an_instance_of_which_a_seventh_would_do_is_advised_smaller_and_one_without_its_memory_is_not():
    job = replace(service(), request=Request(0, details=Details(slices=((MIDDLE, 1),))),
                  allocations=(Allocation("n0", 0, None, members=("team/llm-0",)),))
    used = (GpuInstance("1", 3 / 7, 0.2, ("team/llm-0",), 5 * GB),)
    (row,) = watched(job, (0.1, 30 * GB), instances=used)
    assert (row.held, row.advised, round(row.activity, 3)) == (MIDDLE, SMALL, round(0.2 * 3 / 7, 3))
    assert watched(job, (0.1, 30 * GB), instances=(replace(used[0], memory_used_bytes=None),)) == ()


def test_nodes_that_it_may_not_use_and_parts_that_nobody_hands_out_are_not_advised():
    assert watched(service(), (0.08, 6 * GB), ground=nodes()[:1]) == ()
    elsewhere = (nodes()[0], replace(nodes()[1], partitions=("q",)))
    assert watched(service(), (0.08, 6 * GB), ground=elsewhere) == ()
    assert watched(replace(service(), request=Request(1, excluded_nodes=("n1",))), (0.08, 6 * GB)) == ()
    bound = replace(service(), request=Request(1, features="zone=a"))
    assert watched(bound, (0.08, 6 * GB)) == ()
    there = (nodes()[0], replace(nodes()[1], features=("zone", "zone=a")))
    assert len(watched(bound, (0.08, 6 * GB), ground=there)) == 1


def test_turns_on_a_shared_gpu_are_advised_where_memory_of_the_gpu_is_known():
    ground = (Node("n0", ("p",), 8, slices=((SHARED, 32, 1),)),)
    (row,) = watched(service(), (0.08, 6 * GB), ground=ground)
    assert (row.advised, row.free) == (SHARED, 31)
    assert watched(service(), (0.3, 6 * GB), ground=ground) == ()
    assert watched(service(), (0.08, 6 * GB), ground=nodes((SHARED, 8, 0))) == ()


def test_of_turns_that_differ_from_node_to_node_each_size_is_the_least():
    ground = (Node("n0", ("p",), 8, slices=((SHARED, 32, 1),)), Node("n1", ("p",), 8, slices=((SHARED, 16, 1),)))
    small = replace(gpu(0, 0.0, 0.0, "n1"), memory_total_bytes=16 * GB)
    assert len(watched(service(), (0.08, 6 * GB), ground=ground, others=(small,))) == 1
    assert watched(service(), (0.08, 10 * GB), ground=ground[:1])
    assert watched(service(), (0.08, 10 * GB), ground=ground, others=(small,)) == ()


def test_a_job_of_a_scheduler_without_such_commands_is_left():
    assert watched(replace(service(), steering=None), (0.08, 6 * GB)) == ()


def test_the_table_has_a_cell_for_every_column():
    kind = subjects()["gpu_slices"]
    (row,) = watched(service(), (0.08, 6 * GB))
    cells = kind.cells({name: getattr(row, name) for name in row.__slots__})
    assert [cells[name] for name in kind.columns][:6] == [
        "team/llm", "p", 1, "nvidia.com/gpu", "8 %, 6.0 GB", SMALL]
