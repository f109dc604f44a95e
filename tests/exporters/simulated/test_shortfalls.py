"""What the pages of a simulated server show of an underused job is what the daemon's own rules tell of it."""

import itertools

import pytest

from idlewatt.daemon.advice.held_gpus import HeldGpus
from idlewatt.daemon.causes import CauseWatch, reported_causes
from idlewatt.exporters import amd, cgroup, dcgm, gaudi
from idlewatt.exporters.exposition import Exposition
from idlewatt.exporters.node import METRICS as NODE_METRICS
from idlewatt.exporters.node import NodePages
from idlewatt.exporters.simulated import accelerators, scene
from idlewatt.exporters.simulated.cluster import ClusterShape, SimulatedCluster
from idlewatt.exporters.simulated.direct import sources
from idlewatt.exporters.simulated.hardware import HARDWARE
from idlewatt.exporters.simulated.jobs import USERS, Behaviour
from idlewatt.exporters.simulated.pages import Pages
from idlewatt.exporters.simulated.shortfalls import Shortfall, of_program, visible
from idlewatt.exporters.targets import Target
from idlewatt.storage.telemetry import Telemetry
from idlewatt.storage.underuse import Cause

CAUSES = {
    Shortfall.LOADERS: Cause.WAITING_FOR_DATA, Shortfall.FILES: Cause.WAITING_FOR_DATA,
    Shortfall.ONE_THREAD: Cause.CPU_BOUND, Shortfall.SMALL_BATCH: Cause.SMALL_BATCH,
    Shortfall.MEMORY: Cause.MEMORY_BOUND, Shortfall.LINKS: Cause.COMMUNICATION, Shortfall.HEAT: Cause.HEAT,
    Shortfall.POWER_BRAKE: Cause.POWER, Shortfall.PRECISION: Cause.PRECISION, Shortfall.ONE_GPU: Cause.ONE_OF_SEVERAL}
ALICE = next(user for user in USERS if user.name == "alice")
MODELS = {server.model.partition: (kind, server.model) for kind in ("dgx", "gb200-nvl72", "mi300x", "mixed")
          for server in HARDWARE[kind](8)}
TOLD = [(partition, shortfall) for partition in ("A100", "GB200", "MI300X", "GAUDI3")
        for shortfall in sorted(visible(MODELS[partition][1]))]
"""One model of each page: what a V100 shows is what an A100 does, and an H100's page is a GB200's."""


def two_jobs(monkeypatch, partition: str, shortfall: Shortfall) -> SimulatedCluster:
    """Return a cluster with a job on a server, and one beside it that uses its GPUs; who waits for files is alone."""
    monkeypatch.setattr("idlewatt.exporters.simulated.cluster.open_scene", lambda cluster: None)
    cluster = SimulatedCluster(ClusterShape(nodes=8, hardware=MODELS[partition][0], load=1e-6))
    number = max(n for n, server in enumerate(cluster.servers) if server.model.partition == partition)
    model, alone = cluster.servers[number].model, shortfall is Shortfall.FILES
    for does in (Behaviour.UNDERUSED, Behaviour.PRODUCTIVE)[:1 if alone else 2]:
        job = cluster.submissions.make(ALICE, partition, (2, 4, 8).index(model.gpus) if alone else 0, does, 0.95,
                                       cluster.now_s)
        # Only the name of a training tells that matrix units should be at work.
        job.name, job.shortfall = "gpt-pretrain", shortfall if does is Behaviour.UNDERUSED else Shortfall.NONE
        cluster.start(job, [number])
    return cluster


def causes(cluster: SimulatedCluster) -> dict[int, list[Cause]]:
    """Return the causes told of each job after twenty minutes, by way of the exporters' pages."""
    number = next(job.allocation[0][0] for job_id, job in cluster.running.items() if job_id < 900_000)
    server, watch = cluster.servers[number], CauseWatch()
    pages, slurm = Pages(cluster), sources(cluster, lambda: cluster.now_s)[-1].build(lambda: cluster.now_s)
    parse, metrics, page = {
        "dcgm": (dcgm.parse, dcgm.METRICS, pages.dcgm),
        "amd": (amd.parse, amd.METRICS, lambda place: accelerators.amd(cluster, place)),
        "gaudi": (gaudi.parse, gaudi.METRICS, lambda place: accelerators.gaudi(cluster, place))}[server.model.exporter]
    readers = [(Exposition(wanted), read, write) for wanted, read, write in (
        (metrics, parse, page), (NODE_METRICS, NodePages().parse, pages.node),
        (cgroup.METRICS, cgroup.parse, pages.cgroup))]
    target = Target(server.name, server.name, {"node": server.name})
    for _ in cluster.run(1260.0, 60.0):
        found = [read(form.samples(write(number).encode()), target, cluster.now_s) for form, read, write in readers]
        telemetry = Telemetry(*(tuple(itertools.chain.from_iterable(getattr(one, name) for one in found))
                                for name in ("gpus", "nodes", "jobs")))
        snapshot = slurm.read()
        watch.observe(snapshot, telemetry, HeldGpus(telemetry.gpus, snapshot.nodes).of, cluster.now_s)
    return {int(job.job_id): [tally.cause for tally, _ in reported_causes(tallies, job.allocations[0].gpus)]
            for job, tallies, _ in watch.running(cluster.now_s)}


@pytest.mark.parametrize(("partition", "shortfall"), TOLD)
def test_a_cause_is_told_wherever_pages_can_tell_it_and_nobody_is_blamed_who_uses_his_gpus(
        monkeypatch, partition, shortfall):
    told_of = causes(two_jobs(monkeypatch, partition, shortfall))
    assert told_of[1] == [CAUSES[shortfall]]
    assert not told_of.get(2)


def test_every_kind_of_server_shows_several_causes_and_those_of_today_all():
    assert all(len(visible(model)) >= 4 for _, model in MODELS.values())
    assert {CAUSES[one] for one in visible(MODELS["GB200"][1])} == set(Cause) - {Cause.NONE, Cause.UNKNOWN}


def test_what_a_page_cannot_tell_is_not_simulated_on_it():
    for _, model in MODELS.values():
        for name in ("resnet50", "vit-large", "detr", "bert-ft", "gpt-pretrain", "notebook", "docking", "slam"):
            assert of_program(name, model, whole=False) in visible(model) - {Shortfall.FILES}
            assert of_program(name, model, whole=True) in visible(model)


def test_each_scene_opens_with_underused_jobs_that_wait_for_different_things():
    for hardware in HARDWARE:
        cluster = SimulatedCluster(ClusterShape(nodes=8, hardware=hardware))
        told_of = {CAUSES[job.shortfall] for job in cluster.running.values() if job.shortfall is not Shortfall.NONE}
        assert len(told_of) >= 2, hardware
    assert scene.ELAPSED_S[scene.SMALL] >= 900
