from dataclasses import replace

from idlewatt.daemon.held_parts import with_parts
from idlewatt.storage.gpu_parts import GpuPart
from idlewatt.storage.records import Allocation, Job, JobState, Request, SchedulerSnapshot
from idlewatt.storage.telemetry import GpuInstance, GpuReading

NOW_S = 1.8e9


def job(name, *held, state=JobState.RUNNING):
    return Job(name, NOW_S - 60, state, "p", Request(1), start_s=NOW_S - 60, allocations=held)


def pod(name, **others):
    return Allocation("n", 0, members=(f"team/{name}",), **others)


def gpu(uuid, index, *jobs, instances=()):
    return GpuReading(uuid, "n", index, NOW_S, jobs=jobs, instances=instances)


def parts(jobs, *gpus):
    return [[part for held in one.allocations for part in held.parts]
            for one in with_parts(SchedulerSnapshot(NOW_S, (), (), tuple(jobs)), gpus).jobs]


def test_who_is_named_on_a_mig_instance_holds_that_part():
    instances = (GpuInstance("1", 3 / 7, jobs=("team/a",)), GpuInstance("5", 1 / 7, jobs=("team/b",)),
                 GpuInstance("x", 1 / 7, jobs=("team/b",)))
    assert parts([job("a", pod("a")), job("b", pod("b")), job("c", pod("c"))],
                 gpu("GPU-0", 2, "team/a", "team/b", instances=instances)) == [
        [GpuPart("mig", 2, 1.0, 3 / 7, "GPU-0")], [GpuPart("mig", 2, 5.0, 1 / 7, "GPU-0")], []]


def test_a_gpu_that_several_jobs_hold_is_shared_and_one_that_one_holds_is_not():
    assert parts([job("a", pod("a")), job("b", pod("b"))], gpu("GPU-0", 0, "team/a", "team/b")) == [
        [GpuPart("shared", 0, 1.0, None, "GPU-0")], [GpuPart("shared", 0, 1.0, None, "GPU-0")]]
    assert parts([job("a", pod("a")), job("b", pod("b"), state=JobState.COMPLETED)],
                 gpu("GPU-0", 0, "team/a", "team/b")) == [[], []]


def test_a_fraction_gets_the_gpu_on_which_its_pod_is_named():
    fraction = GpuPart("fraction", None, 0.5, 0.5)
    assert parts([job("a", pod("a", parts=(fraction,)))], gpu("GPU-0", 3, "team/a"), gpu("GPU-1", 4)) == [
        [replace(fraction, index=3, uuid="GPU-0")]]
    assert parts([job("a", pod("a", parts=(fraction,)))], gpu("GPU-0", 3, "team/a"), gpu("GPU-1", 4, "team/a")) == [
        [fraction]]


def indexes(held, *gpus):
    [one] = with_parts(SchedulerSnapshot(NOW_S, (), (), (job("a", held),)), gpus).jobs
    return one.allocations[0].gpu_indexes


def test_whole_gpus_that_no_scheduler_names_are_those_on_which_the_pods_are_named():
    held = Allocation("n", 2, members=("team/a-0", "team/a-1"))
    named = gpu("GPU-5", 5, "team/a-0"), gpu("GPU-3", 3, "team/a-1"), gpu("GPU-0", 0, "team/b")
    assert indexes(held, *named) == (3, 5)
    assert indexes(replace(held, gpu_indexes=(0, 1)), *named) == (0, 1), "the scheduler knows better"
    assert indexes(held, named[0], named[2]) is None, "one of the two is not named yet"
    assert indexes(replace(held, gpus=1), *named) is None, "one more than it holds still bears its name"
    assert indexes(held, *named, gpu("amd-3", 3, "team/b")) is None, "another vendor's GPU has the same number"


def test_what_the_scheduler_tells_whole_stays():
    shard = GpuPart("shard", 0, 1.0, 0.25)
    assert parts([job("7", Allocation("n", 0, parts=(shard,)))], gpu("GPU-0", 0, "7", "8")) == [[shard]]
