"""GPUs that are swapped, renumbered or split anew, and exporters that make GPUs up."""

from dataclasses import replace
from pathlib import Path

import pytest

from idlewatt.daemon.waste import WasteSettings
from idlewatt.daemon.waste.identities import MOST_SILENT
from idlewatt.daemon.waste.readings import Fleet
from idlewatt.exporters import amd, amd_smi, dcgm, gaudi, nvidia_smi
from idlewatt.exporters.exposition import Exposition
from idlewatt.exporters.targets import Target
from idlewatt.storage.power_classes import PowerClass

LONGEST = 37.5
RECORDED = Path(__file__).parents[2] / "recorded"


def looks(site, *rounds):
    """Return the fleet after one look every fifteen seconds; a round is the uuid at each index, None for none."""
    fleet = Fleet(WasteSettings())
    for number, uuids in enumerate(rounds):
        now = 1000.0 + 15 * number
        gpus = tuple(replace(site.gpu(index, time_s=now), uuid=uuid)
                     for index, uuid in enumerate(uuids) if uuid)
        fleet.absorb(site.telemetry(gpus, ()), now, LONGEST)
    return fleet


def test_a_gpu_that_was_swapped_is_gone_as_soon_as_the_new_one_is_seen_and_the_job_beside_it_stays_named(site):
    """The job was called idle for an hour: two GPUs of one index were taken for those of two vendors."""
    accountant = site.accountant()
    node, job = site.node(gpus=2, gpus_allocated=1, gpu_indexes_allocated=(1,)), site.running("7", indexes=[1])
    for number, first in enumerate(["GPU-old"] * 4 + ["GPU-new"] * 2):
        now = 1000.0 + 15 * number
        gpus = (replace(site.gpu(0, time_s=now, memory_used_bytes=5e9), uuid=first),
                site.gpu(1, time_s=now, watts=390.0, u=0.98))
        found = accountant.assess(site.snapshot([node], [job], time_s=now), site.telemetry(gpus, ()), now)
    assert [(gpu.uuid, gpu.state, gpu.job_id, gpu.guessed) for gpu in found.gpu_verdicts] == [
        ("GPU-new", PowerClass.IDLE_UNALLOCATED, "", False), ("GPU-dgx-0-1", PowerClass.PRODUCTIVE, "7", False)]


def test_new_uuids_at_every_look_are_no_more_gpus_and_no_more_watts(site):
    accountant = site.accountant()
    for number in range(12):
        now = 1000.0 + 15 * number
        gpus = tuple(replace(site.gpu(index, time_s=now, watts=60.0), uuid=f"GPU-{number}-{index}")
                     for index in range(8))
        found = accountant.assess(site.snapshot([site.node()], time_s=now), site.telemetry(gpus, ()), now)
    assert (len(found.gpu_verdicts), sum(found.totals["gpu"].values())) == (8, 480.0)


def test_gpus_that_the_driver_numbers_anew_after_one_was_lost_are_each_there_once(site):
    fleet = looks(site, ("GPU-a", "GPU-b", "GPU-c"), ("GPU-b", "GPU-c"))
    assert {uuid: gpu.reading.index for uuid, gpu in fleet.gpus.items()} == {"GPU-b": 0, "GPU-c": 1}


def test_a_gpu_that_falls_silent_without_another_in_its_place_is_still_known(site):
    assert set(looks(site, ("GPU-a", "GPU-b"), (None, "GPU-b")).gpus) == {"GPU-a", "GPU-b"}


def test_gpus_of_another_vendor_at_the_same_index_are_not_taken_for_their_successors(site):
    fleet = Fleet(WasteSettings())
    for now, found in ((1000.0, ("nvidia", "amd")), (1015.0, ("nvidia",))):
        gpus = tuple(replace(site.gpu(0, time_s=now), uuid=vendor, vendor=vendor) for vendor in found)
        fleet.absorb(site.telemetry(gpus, ()), now, LONGEST)
    assert set(fleet.gpus) == {"nvidia", "amd"}


def test_what_a_target_told_long_ago_does_not_bring_a_swapped_gpu_back(site):
    """A target that is down is given on for ten minutes with its last readings."""
    fleet = Fleet(WasteSettings())
    last = replace(site.gpu(0, time_s=1000.0), uuid="GPU-old")
    for now in (1000.0, 1015.0, 1200.0):
        new = replace(site.gpu(0, time_s=now), uuid="GPU-new")
        fleet.absorb(site.telemetry((last,) if now == 1000.0 else (last, new), ()), now, LONGEST)
    assert set(fleet.gpus) == {"GPU-new"}


@pytest.mark.parametrize("step", [1, 9])
def test_made_up_gpus_of_a_node_are_bounded(site, step):
    fleet = Fleet(WasteSettings())
    for number in range(MOST_SILENT + 50):
        now = 1000.0 + number
        made_up = replace(site.gpu(number * step, time_s=now), uuid=f"GPU-{number}")
        fleet.absorb(site.telemetry((made_up,), ()), now, LONGEST)
    assert len(fleet.gpus) == MOST_SILENT + 1
    assert f"GPU-{number}" in fleet.gpus


@pytest.mark.parametrize("order", [1, -1])
def test_a_gpu_stays_with_the_node_that_shows_it_whatever_another_claims_of_it(site, order):
    """Another source's page repeated the uuids of a busy node: its GPUs were idle there, and unmeasured where they are.
    """
    fleet = Fleet(WasteSettings())
    for number in range(6):
        now = 1000.0 + 15 * number
        own = site.gpu(0, "a", time_s=now, watts=390.0)
        claimed = replace(own, node="b", time_s=now + 0.5, power_watts=60.0)
        fleet.absorb(site.telemetry((own, claimed)[::order] if number else (own,), ()), now + 1, LONGEST)
    assert [(gpu.reading.node, gpu.watts) for gpu in fleet.gpus.values()] == [("a", 390.0)]
    assert fleet.rejected["other_node"] == 5


def test_a_gpu_that_was_moved_begins_anew_on_its_new_node(site):
    fleet = Fleet(WasteSettings())
    seen = []
    for now, nodes in ((1000.0, "a"), (1015.0, "ba"), (1030.0, "b"), (1045.0, "b")):
        gpus = tuple(replace(site.gpu(0, "a", time_s=now), node=node) for node in nodes)
        fleet.absorb(site.telemetry(gpus, ()), now, LONGEST)
        seen.append(fleet.gpus["GPU-a-0"])
    assert [gpu.reading.node for gpu in seen] == ["a", "a", "b", "b"]
    assert [gpu.reading.node for gpu in seen] == ["a", "a", "b", "b"]
    assert [gpu is seen[0] for gpu in seen] == [True, True, False, False]


def test_the_last_readings_of_a_node_that_is_down_do_not_hold_its_gpu_back(site):
    fleet = Fleet(WasteSettings())
    for now in (1000.0, 1100.0):
        gpus = site.gpu(0, "a", time_s=1000.0), replace(site.gpu(0, "a", time_s=now), node="b")
        fleet.absorb(site.telemetry(gpus, ()), now, LONGEST)
    assert fleet.gpus["GPU-a-0"].reading.node == "b"


@pytest.mark.parametrize(("exporter", "page", "vendor"), [
    (amd, "amd_mi300x_spx_hand_written.prom", "amd"), (amd_smi, "amd_smi_mi250x_hand_written.prom", "amd"),
    (gaudi, "gaudi2_hand_written.prom", "intel"), (nvidia_smi, "nvidia_smi/h100_idle.prom", "nvidia"),
    (dcgm, "dcgm_h100_8gpu_k8s.prom", "nvidia")])
def test_every_exporter_of_gpus_tells_of_which_vendor_they_are(exporter, page, vendor):
    samples = Exposition(exporter.METRICS).samples((RECORDED / page).read_bytes())
    found = exporter.parse(samples, Target("http://n1/metrics", "n1:1", {"node": "n1"}), 1000.0)
    assert {gpu.vendor for gpu in found.gpus} == {vendor}
