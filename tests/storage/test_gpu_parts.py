from dataclasses import replace

import pytest

from idlewatt.storage.gpu_parts import GpuPart, packed, unpacked
from idlewatt.storage.records import Allocation, SchedulerSnapshot

PARTS = (GpuPart("mig", 2, 5.0, 1 / 7, "GPU-8dcd427f"), GpuPart("shard", 7, 2.0, 0.5), GpuPart("shared", None))


def held(detail):
    return [part.parts for run in detail.runs for part in run.allocations]


def test_parts_of_gpus_are_recorded_and_stay_when_the_job_has_ended(history, make):
    running = make.running(125.0, Allocation("dgx-0", 0, None, 4, parts=PARTS))
    history.record_snapshot(SchedulerSnapshot(130.0, jobs=(running,)))
    assert held(history.job(running.job_id)) == [PARTS]
    later = replace(running, allocations=(Allocation("dgx-0", 0, None, 4),))
    history.record_snapshot(SchedulerSnapshot(135.0, jobs=(later,)))
    assert held(history.job(running.job_id)) == [PARTS]


def test_what_no_database_takes_is_bent():
    hostile = GpuPart("sh\0ard", 1 << 80, float("nan"), float("inf"), "\ud800")
    assert unpacked(packed([hostile])) == (GpuPart("shard", (1 << 63) - 1, 0.0, None, "?"),)
    assert packed([]) is None
    assert unpacked(None) == ()
    assert len(packed([PARTS[0]] * 10_000)) == 256


@pytest.mark.parametrize(("part", "words"), [
    (PARTS[0], "14.3 % of GPU 2 (MIG instance 5)"), (PARTS[1], "50 % of GPU 7 (2 shards)"),
    (PARTS[2], "part of a GPU (shared in turns)"), (GpuPart("mps", 0, 30.0, 0.3), "30 % of GPU 0 (MPS 30)"),
    (GpuPart("fraction", 1, 0.25, 0.25), "25 % of GPU 1 (a fraction)"),
    (GpuPart("shard", 0, 1.0), "part of GPU 0 (1 shard)"),
    (GpuPart("hami", None, 8000.0, None, "GPU-1"), "part of GPU GPU-1 (HAMi, 8000 MiB)")])
def test_a_part_in_words(part, words):
    assert part.words == words


def test_the_whole_place_of_a_node_is_kept(history, make):
    node = make.node(leaf="clique-1", spine="leaf-1", above=("spine-1", "hall-a"), domain="clique-1")
    history.record_snapshot(SchedulerSnapshot(130.0, nodes=(node,)))
    history.record_snapshot(SchedulerSnapshot(140.0, nodes=(replace(node, above=("spine-1", "hall-b")),)))
    assert [(change.node.above, change.node.domain) for change in history.node_changes(0, 200)] == [
        (("spine-1", "hall-a"), "clique-1"), (("spine-1", "hall-b"), "clique-1")]
