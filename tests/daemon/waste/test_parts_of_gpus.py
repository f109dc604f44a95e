"""Whatever divides a GPU, from the words of whoever tells it to joules: parts and what nobody holds make the GPU."""

import pytest

from idlewatt.daemon.held_parts import with_parts
from idlewatt.daemon.waste import WasteAccountant, WasteSettings
from idlewatt.exporters import dcgm
from idlewatt.exporters.dcgm import METRICS
from idlewatt.exporters.exposition import Exposition
from idlewatt.exporters.kubernetes.fields import Annotations
from idlewatt.exporters.kubernetes.gpu_parts import parts_of_gpus
from idlewatt.exporters.slurm.gpu_parts import with_shares
from idlewatt.exporters.slurm.gres import parse_parts
from idlewatt.exporters.targets import Target
from idlewatt.storage.gpu_parts import GpuPart
from idlewatt.storage.records import Allocation, Job, JobState, Node, Request, SchedulerSnapshot
from idlewatt.storage.telemetry import NodeReading, Telemetry

WATTS, STEPS, STEP_S = 300.0, 25, 15.0
UUID = "GPU-8dcd427f-483b-b48f-d7e5-75fb19a52b76"
LABELS = f'gpu="0",UUID="{UUID}",modelName="NVIDIA A100-SXM4-80GB"'


def pod(name):
    return f',namespace="team",pod="{name}",container="c"'


def page(rows):
    """Return what dcgm-exporter shows of one GPU at 300 W: a row for each holder, or for each instance."""
    return "".join(f"DCGM_FI_DEV_POWER_USAGE{{{LABELS}{row}}} {WATTS}\n"
                   f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{LABELS}{row}}} {active}\n" for row, active in rows)


def by_slurm(text, slices):
    """Return a job of Slurm's with parts as its gres_detail words them."""
    def held(number, detail):
        parts = tuple(GpuPart(part.kind, part.indexes[0], float(part.count)) for part in parse_parts(detail))
        return Job(str(number), 1.0, JobState.RUNNING, "p", Request(0), user="ann", start_s=1.0,
                   allocations=(Allocation("n0", 0, cpus=4, parts=parts),))
    node = Node("n0", ("p",), 1, cpus=64, slices=(slices,))
    return node, with_shares([held(number, detail) for number, detail in enumerate(text)], [node])


def by_pods(*notes):
    """Return jobs of one pod each, with these annotations."""
    return Node("n0", ("p",), 1, cpus=64), [
        Job(name, 1.0, JobState.RUNNING, "p", Request(0), user="ann", start_s=1.0, allocations=(
            Allocation("n0", 0, cpus=4, members=(f"team/{name}",), parts=parts_of_gpus(note)),))
        for name, note in zip("ab", notes, strict=True)]


HAMI = [Annotations(hami=f"{UUID},NVIDIA,8000,{cores}:;") for cores in (30, 20)]
MIG = [(f',GPU_I_ID="{number}",GPU_I_PROFILE="{profile}"{holder}', active) for number, profile, holder, active in (
    (1, "3g.40gb", pod("a"), 0.9), (2, "1g.10gb", pod("b"), 0.3), (3, "2g.20gb", "", 0.0))]
TURNS = [(pod("a"), 0.5), (pod("b"), 0.5)]
FREE = [("", 0.5)]
KINDS = {
    "MIG": (by_pods(None, None), MIG, "idle"),
    "time slicing": (by_pods(None, None), TURNS, "all"),
    "MPS": (by_slurm(["mps:50(IDX:0)", "mps:25(IDX:0)"], ("mps", 100, 75)), FREE, "idle"),
    "shards": (by_slurm(["shard:2(IDX:0)", "shard:1(IDX:0)"], ("shard", 4, 3)), FREE, "idle"),
    "HAMi": (by_pods(*HAMI), TURNS, "idle"),
    "KAI": (by_pods(Annotations(fraction="0.5"), Annotations(fraction="0.25")), TURNS, "idle"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_parts_and_what_nobody_holds_make_the_gpu(kind):
    (node, jobs), rows, left = KINDS[kind]
    accountant = WasteAccountant(WasteSettings(window=0, grace_batch=0), STEP_S)
    for step in range(STEPS + 1):
        now = 1000.0 + STEP_S * step
        gpus = dcgm.parse(Exposition(METRICS).samples(page(rows).encode()), Target("http://n0:9400", "n0:9400", {
            "node": "n0"}), now).gpus
        wall = NodeReading("n0", now, power_watts=WATTS, power_source="ipmi")
        snapshot = with_parts(SchedulerSnapshot(now, (node,), (), tuple(jobs)), gpus)
        accountant.assess(snapshot, Telemetry(gpus, (wall,)), now)
    shares = accountant.drain_all().shares
    joules = {job.job_id: sum(sum(one.joules.values()) for one in shares if one.job_id == job.job_id) for job in jobs}
    nobody = sum(sum(one.joules.values()) for one in shares if not one.job_id)
    assert sum(joules.values()) + nobody == pytest.approx(WATTS * STEPS * STEP_S, rel=1e-6)
    first, second = joules.values()
    assert first > 0 < second
    if left == "idle":
        assert first > second
        assert 0 < nobody < 0.2 * WATTS * STEPS * STEP_S
    else:
        assert (first, nobody) == (pytest.approx(second), pytest.approx(0.0, abs=1e-6))
