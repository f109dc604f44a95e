"""Pages of real servers, held against the rules: where they lack one of two kinds of evidence nothing is told."""

from dataclasses import replace
from pathlib import Path

import pytest

from idlewatt.daemon.advice.held_gpus import HeldGpus
from idlewatt.daemon.causes import CauseWatch, reported_causes
from idlewatt.exporters import dcgm, nvidia_smi
from idlewatt.exporters.exposition import Exposition
from idlewatt.exporters.targets import Target
from idlewatt.storage.records import Allocation, Job, JobState, Node, Request, SchedulerSnapshot
from idlewatt.storage.telemetry import NodeReading, Telemetry
from idlewatt.storage.underuse import Cause

RECORDED = Path(__file__).parents[2] / "recorded"
TARGET = Target("http://n0/metrics", "n0", {"node": "n0"})
SMI = RECORDED / "nvidia_smi"


def tallies(page, kind, metrics, *, held=None, **host):
    """Return what is judged of a job that shows the same page for 20 minutes."""
    found = kind.parse(Exposition(metrics).samples(page.read_bytes()), TARGET, 0.0).gpus
    gpus = tuple(replace(gpu, node="n0", index=place) for place, gpu in enumerate(found))
    held = len(gpus) if held is None else held
    job = Job("1", 0.0, JobState.RUNNING, "p", Request(held), name="train", start_s=0.0,
              allocations=(Allocation("n0", held, tuple(range(held)), 16 * held),))
    nodes, watcher = (Node("n0", ("p",), len(gpus), cpus=128),), CauseWatch()
    for now in range(400, 1700, 30):
        server = NodeReading("n0", float(now), cpu_busy_ratio=0.3, **host)
        telemetry = Telemetry(tuple(replace(gpu, time_s=float(now)) for gpu in gpus), (server,))
        watcher.observe(SchedulerSnapshot(float(now), nodes, (), (job,)), telemetry,
                        HeldGpus(telemetry.gpus, nodes).of, float(now))
    ((_, rows, _),) = watcher.running(1700.0)
    return rows, reported_causes(rows, held)


@pytest.mark.parametrize("name", ["l40s_load.prom", "h100_load.prom"])
def test_a_busy_gpu_whose_units_nobody_measures_is_of_unknown_cause(name):
    rows, causes = tallies(SMI / name, nvidia_smi, nvidia_smi.METRICS)
    assert causes == ()
    assert {row.cause for row in rows} == {Cause.UNKNOWN}


def test_idle_gpus_of_a_job_that_uses_none_are_of_unknown_cause():
    rows, causes = tallies(SMI / "h100_idle.prom", nvidia_smi, nvidia_smi.METRICS)
    assert (causes, {row.cause for row in rows}) == ((), {Cause.UNKNOWN})


def test_the_recorded_server_of_eight_gpus_is_blamed_for_nothing_but_gpus_that_do_nothing():
    _, causes = tallies(RECORDED / "dcgm_h100_8gpu_k8s.prom", dcgm, dcgm.METRICS)
    assert {row.cause for row, _ in causes} <= {Cause.ONE_OF_SEVERAL}
