"""Servers of today as the daemon's own sources and accounting see them over HTTP: every watt once, racks add up."""

import threading
from contextlib import ExitStack

import pytest

from idlewatt.daemon.cli import _hardware
from idlewatt.daemon.topology import AttachTopology
from idlewatt.daemon.waste import WasteAccountant, WasteSettings
from idlewatt.daemon.waste.domains import domain_states
from idlewatt.exporters.simulated.cluster import ClusterShape, SimulatedCluster
from idlewatt.exporters.simulated.hardware import USUAL_NODES
from idlewatt.exporters.simulated.server import SimulatedSite, SimulationServer
from idlewatt.exporters.source import kinds
from idlewatt.storage.power_classes import PowerClass
from idlewatt.storage.telemetry import Telemetry

NODES = {"gb200-nvl72": 20, "mi300x": 4, "mixed": 8}
"""Of an NVL72 the second rack is two trays only: the tests are quick, and one domain is another's size."""


class Seen:
    """Some minutes of a simulated cluster, as its exporters tell it."""

    def __init__(self, hardware: str) -> None:
        self.cluster = SimulatedCluster(ClusterShape(nodes=NODES[hardware], hardware=hardware))
        now = [self.cluster.now_s]
        with SimulationServer(SimulatedSite(self.cluster, lambda: now[0])) as server, ExitStack() as stack:
            stack.callback(server.shutdown)
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
            entries = [{"kind": _hardware.SOURCES.get(kind, kind), **_hardware.OPTIONS.get(kind, {}),
                        **({"refresh": 1e-9} if kind in ("redfish", "shelves") else {}),
                        "http_sd_configs": [{"url": f"{server.url}/targets/{kind}"}]}
                       for kind in _hardware.exporters(hardware, NODES[hardware])]
            topology = _hardware.links(hardware, NODES[hardware])
            pages, trees = ([kinds()[entry["kind"]].model_validate(entry).build(lambda: now[0]) for entry in given]
                            for given in (entries, topology))
            slurm = kinds()["slurm_rest"].model_validate({"url": server.url}).build(lambda: now[0])
            for source in (*pages, *trees, slurm):
                stack.callback(source.close)
            settings = WasteSettings.model_validate(
                {"enclosures": _hardware.enclosures(hardware, NODES[hardware])})
            accountant, hanging = WasteAccountant(settings, interval_s=300), AttachTopology()
            # No job ends in the last look: joules are means over all of it, a BMC tells of its last half minute.
            for _ in range(5):
                now[0] += 300
                found = [source.read() for source in pages]
                self.telemetry = Telemetry(*(tuple(row for part in found for row in getattr(part, name))
                                             for name in ("gpus", "nodes", "jobs", "enclosures")))
                self.snapshot = hanging.hang(slurm.read(), [tree.read() for tree in trees], self.telemetry.gpus)
                self.assessment = accountant.assess(self.snapshot, self.telemetry, now[0])


@pytest.fixture(scope="module")
def seen():
    """Return what is seen of a kind of hardware; each is lived through once."""
    known: dict[str, Seen] = {}

    def of(hardware: str) -> Seen:
        if hardware not in known:
            known[hardware] = Seen(hardware)
        return known[hardware]

    return of


@pytest.mark.parametrize("hardware", NODES)
def test_every_gpu_and_every_watt_is_told_once(seen, hardware):
    here = seen(hardware)
    told, gpus = here.assessment, here.cluster.gpus
    assert len(here.telemetry.gpus) == len({gpu.uuid for gpu in here.telemetry.gpus}) == len(gpus.watts)
    assert sum(gpu.power_watts for gpu in here.telemetry.gpus) == pytest.approx(gpus.watts.sum(), abs=len(gpus.watts))
    assert told.wall_watts == pytest.approx(gpus.meter_watts.sum(), rel=0.002)
    assert sum(watts for classes in told.totals.values() for watts in classes.values()) == pytest.approx(
        told.wall_watts)
    assert abs(told.unaccounted_watts) < 1e-6
    assert all(node.metered for node in told.nodes)
    assert not any(told.unmeasured_gpus.values())
    assert not any(told.rejected.values())


@pytest.mark.parametrize("hardware", NODES)
def test_kinds_of_waste_are_there_to_be_seen_and_jobs_hold_what_they_hold(seen, hardware):
    here = seen(hardware)
    classes = {name for watts in here.assessment.totals.values() for name, value in watts.items() if value > 0}
    assert classes >= {PowerClass.PRODUCTIVE, PowerClass.ALLOCATED_IDLE, PowerClass.IDLE_UNALLOCATED,
                       PowerClass.HOST_ACTIVE}
    held = {(gpu.node, gpu.index) for gpu in here.telemetry.gpus if gpu.jobs}
    if hardware == "mi300x":
        assert held == {(here.cluster.servers[server].name, index) for job in here.cluster.running.values()
                        for server, indexes in job.allocation for index in indexes}


def test_energy_counters_of_every_unit_agree_with_the_watts(seen):
    """Joules of Gaudi come in thousandths, AMD's in millionths, DCGM's in thousandths."""
    here = seen("mixed")
    assert len({gpu.model for gpu in here.telemetry.gpus}) == 4
    counters = sorted(gpu.energy_joules for gpu in here.telemetry.gpus)
    assert counters == pytest.approx(sorted(here.cluster.gpus.joules), abs=1.0)


def test_a_gpu_in_eight_partitions_is_one_gpu(seen):
    nodes = {gpu.node: [] for gpu in seen("mi300x").telemetry.gpus}
    for gpu in seen("mi300x").telemetry.gpus:
        nodes[gpu.node].append((gpu.index, gpu.memory_total_bytes))
    assert nodes["mi300x-02"] == nodes["mi300x-01"] == [(index, 196_592 * 2**20) for index in range(8)]


def test_a_grace_tray_is_metered_by_its_bmc_and_its_modules_are_less(seen):
    here = seen("gb200-nvl72")
    modules = {node.node: node.power_watts for node in here.telemetry.nodes if node.power_source == "modules"}
    walls = {node.node: node.wall_watts for node in here.assessment.nodes}
    gpus = {name: sum(gpu.power_watts for gpu in here.telemetry.gpus if gpu.node == name) for name in walls}
    assert {node.source for node in here.assessment.nodes} == {"redfish"}
    assert modules.keys() == walls.keys()
    assert all(gpus[name] < modules[name] for name in walls)


def test_the_parts_of_racks_add_up_to_their_meters(seen):
    here = seen("gb200-nvl72")
    racks = {verdict.name: verdict for verdict in here.assessment.enclosures}
    assert racks.keys() == {"rack-1", "rack-2"}
    for verdict in racks.values():
        assert sum(verdict.parts.values()) == pytest.approx(verdict.meter_watts)
        assert verdict.parts["switches"] == 3600.0
        assert verdict.parts["loss"] == pytest.approx(0.03 * verdict.meter_watts, rel=0.05)
    assert sum(watts for verdict in racks.values() for watts in verdict.nodes.values()) == pytest.approx(
        sum(verdict.meter_watts for verdict in racks.values()))


def test_dcgm_tells_the_domains_and_the_topology_what_is_above_them(seen):
    nodes = seen("gb200-nvl72").snapshot.nodes
    assert len({node.domain for node in nodes}) == 2
    assert all(node.leaf == node.domain and node.spine.startswith("leaf-") and node.above == ("spine-1",)
               for node in nodes)
    states, lost = domain_states(nodes)
    assert sum(states.values()) == 2
    assert lost["GB200"] > 0


def test_what_a_demo_has_that_is_not_told_is_known_of_each_hardware():
    assert USUAL_NODES.keys() - {"dgx"} == NODES.keys()
