"""A reload of other settings: what was seen goes on, and only what a changed setting judged is seen anew."""

import pytest

from idlewatt.daemon.settings.waste import EnclosureSettings
from idlewatt.storage.power_classes import PowerClass
from idlewatt.storage.telemetry import EnclosureReading, NodeReading, Telemetry

RACKS = {"r": EnclosureSettings(nodes=("dgx-*",))}


def renewed(site, accountant, interval_s=15.0, **settings):
    return accountant.renewed(site.accountant(**settings)._settings, interval_s)


def cycle(site, accountant, now_s, *walls, jobs=None, u=0.0, racks=(), gpus=True):
    jobs = [site.running()] if jobs is None else jobs
    read = (site.gpu(time_s=now_s, u=u),) if gpus else ()
    return accountant.assess(site.snapshot([site.node(gpus=1)], jobs, time_s=now_s),
                             Telemetry(read, tuple(walls), enclosures=tuple(racks)), now_s)


def supplies(now_s, watts, count):
    return NodeReading("dgx-0", now_s, power_watts=watts, power_source="redfish", meters=count, meter="PowerSupplies")


@pytest.mark.parametrize(("interval_s", "settings"), [(15.0, {"pue": 1.2}), (20.0, {}), (15.0, {"grace_batch": 5})])
@pytest.mark.parametrize("later_s", [15.0, 100.0])
def test_no_second_around_a_reload_is_left_out_and_an_idle_gpu_stays_idle(site, interval_s, settings, later_s):
    accountant = site.accountant(window=60)
    for now in range(1000, 1150, 15):
        cycle(site, accountant, float(now))
    accountant = renewed(site, accountant, interval_s, window=60, **settings)
    found = cycle(site, accountant, 1135.0 + later_s)
    assert found.gpu_verdicts[0].state is PowerClass.ALLOCATED_IDLE
    measured_s = min(later_s, 2.5 * interval_s)
    assert sum(accountant.counters.energy_joules.values()) == pytest.approx(51.0 * (135.0 + measured_s))
    assert accountant.counters.unmeasured_seconds.get("gpu", 0.0) == pytest.approx(later_s - measured_s)


@pytest.mark.parametrize(("settings", "idle", "hung"), [
    ({}, True, True), ({"epsilon": 0.05}, False, False), ({"hung_margin": 0.2}, True, False),
    ({"models": {"A100": {"bare_watts": 51, "context_watts": 95}}}, True, False)])
def test_samples_that_another_setting_would_have_judged_otherwise_are_forgotten(site, settings, idle, hung):
    for u, state, stays in ((0.0, PowerClass.ALLOCATED_IDLE, idle), (1.0, PowerClass.ALLOCATED_HUNG, hung)):
        accountant = site.accountant(window=60)
        for now in range(1000, 1150, 15):
            found = cycle(site, accountant, float(now), u=u)
        assert found.gpu_verdicts[0].state is state
        found = cycle(site, renewed(site, accountant, window=60, **settings), 1150.0, u=u)
        assert (found.gpu_verdicts[0].state is state) is stays


def test_a_part_of_a_servers_supplies_does_not_become_its_wall(site):
    accountant = site.accountant()
    cycle(site, accountant, 1000.0, supplies(1000.0, 3000.0, 4))
    assert cycle(site, accountant, 1015.0, supplies(1015.0, 1500.0, 2)).rejected["part_of_wall"] == 1
    found = cycle(site, renewed(site, accountant, pue=1.2), 1030.0, supplies(1030.0, 1500.0, 2))
    assert (found.nodes[0].wall_watts, found.rejected["part_of_wall"]) == (3000.0, 2)


@pytest.mark.parametrize(("settings", "watts"), [({}, 3000.0), ({"wall_estimate_max_age": 60}, None)])
def test_a_wall_that_fell_silent_is_estimated_for_as_long_as_is_set_now(site, settings, watts):
    accountant = site.accountant()
    cycle(site, accountant, 1000.0, supplies(1000.0, 3000.0, 4))
    accountant = renewed(site, accountant, pue=1.2, **settings)
    wall = cycle(site, accountant, 1300.0).nodes[0]
    assert (wall.wall_watts, wall.source) == ((watts, "estimated") if watts else (51.0, "gpus"))


@pytest.mark.parametrize(("racks", "told"), [(RACKS, [9000.0]), ({}, [])])
def test_the_meter_of_a_rack_that_is_configured_still_is_known(site, racks, told):
    accountant = site.accountant(enclosures=RACKS)
    cycle(site, accountant, 1000.0, racks=[EnclosureReading("r", 1000.0, 9000.0, "redfish", 8, "m")])
    accountant = renewed(site, accountant, enclosures=racks, pue=1.2)
    found = cycle(site, accountant, 1015.0, racks=[EnclosureReading("r", 1015.0, 5000.0, "redfish", 4, "m")])
    assert [rack.meter_watts for rack in found.enclosures] == told
    assert found.rejected["part_of_rack"] == len(told)


@pytest.mark.parametrize(("settings", "expected"), [({"pue": 1.2}, 0.5), ({"utilization_window": 7200}, 0.0)])
def test_utilisation_and_demand_go_on_over_their_windows(site, settings, expected):
    accountant = site.accountant()
    wanted = site.pending(gpus=2, submit_s=1000.0)
    for now in (1000.0, 1500.0, 2000.0):
        cycle(site, accountant, now, jobs=[site.running(start_s=1000.0), wanted])
    accountant = renewed(site, accountant, **settings)
    for now in (2000.0, 3000.0):
        found = cycle(site, accountant, now, jobs=[])
    assert found.utilization["gpu"].actual == pytest.approx(expected)
    assert found.fragmentation["gpu"] == 0.5, "of two jobs, that of two GPUs fits nowhere"
