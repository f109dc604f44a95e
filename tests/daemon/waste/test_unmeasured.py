"""Watts of which nobody can say what they do: never the host's, never waste, and never gone without a word."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idlewatt.daemon.waste.wall_meters import LastWalls
from idlewatt.storage.power_classes import PowerClass
from idlewatt.storage.records import NodeState

HOUR = 3600.0


def watts(found, power_class):
    return sum(classes[power_class] for classes in found.totals.values())


def test_watts_of_a_node_whose_gpus_are_not_measured_are_unmeasured(site):
    nodes = [site.node("dgx-0", gpus_allocated=8), site.node("dgx-1")]
    found = site.judge(nodes, [site.running(node="dgx-0", indexes=range(8))],
                       walls=[site.wall(4000.0, "dgx-0"), site.wall(900.0, "dgx-1")])
    assert watts(found, PowerClass.UNMEASURED) == 4900.0
    assert found.wasted_watts == watts(found, PowerClass.HOST_ACTIVE) == 0.0


def test_one_gpu_without_watts_makes_the_rest_of_its_node_unmeasured(site):
    gpus = [site.gpu(0), replace(site.gpu(1), power_watts=None)]
    found = site.judge([site.node(gpus=2)], gpus=gpus, walls=[site.wall(551.0)])
    assert watts(found, PowerClass.IDLE_UNALLOCATED) == 51.0
    assert watts(found, PowerClass.UNMEASURED) == 500.0
    assert [node.unmeasured_gpus for node in found.nodes] == [1]


def test_a_node_out_of_service_stays_out_of_service_whatever_is_measured_of_it(site):
    found = site.judge([site.node(state=NodeState.DOWN)], walls=[site.wall(300.0)])
    assert watts(found, PowerClass.UNAVAILABLE) == 300.0


class Site:
    """One node of two GPUs and its meter, cycle after cycle; what is None is not read."""

    def __init__(self, site, **more):
        self._site, self.accountant = site, site.accountant(**more)
        self.node = site.node(gpus=2)

    def at(self, time_s, wall=None, gpus=(51.0, 51.0), nodes=None, modules=None):
        found = tuple(self._site.gpu(index, watts=power, time_s=time_s)
                      for index, power in enumerate(gpus) if power is not None)
        meters = tuple(self._site.wall(power, time_s=time_s, source=source)
                       for source, power in (("ipmi", wall), ("modules", modules)) if power is not None)
        snapshot = self._site.snapshot([self.node] if nodes is None else nodes, time_s=time_s)
        return self.accountant.assess(snapshot, self._site.telemetry(found, meters), time_s)


def test_a_meter_that_falls_silent_keeps_the_last_watts_of_its_host_as_unmeasured(site):
    one = Site(site)
    assert one.at(1000.0, wall=1102.0).wall_watts == 1102.0
    found = one.at(1200.0)
    assert found.wall_watts == 1102.0
    assert [(node.source, node.host_class, node.host_watts) for node in found.nodes] == [
        ("estimated", PowerClass.UNMEASURED, 1000.0)]
    assert found.wasted_watts == 102.0


def test_the_estimate_follows_the_gpus_that_are_measured(site):
    one = Site(site)
    one.at(1000.0, wall=1102.0)
    assert one.at(1200.0, gpus=(300.0, 300.0)).wall_watts == 1600.0


def test_a_node_that_falls_silent_altogether_keeps_all_its_watts(site):
    one = Site(site)
    one.at(1000.0, wall=1102.0)
    found = one.at(1200.0, gpus=())
    assert watts(found, PowerClass.UNMEASURED) == found.wall_watts == 1102.0


def test_a_node_that_only_its_meter_knew_is_not_forgotten_either(site):
    one = Site(site)
    one.at(1000.0, wall=500.0, gpus=(), nodes=[])
    assert one.at(1200.0, gpus=(), nodes=[]).wall_watts == 500.0


def test_the_estimate_ends_after_the_stated_time(site):
    one = Site(site, wall_estimate_max_age=600.0)
    one.at(1000.0, wall=1102.0)
    assert one.at(1600.0).wall_watts == 1102.0
    found = one.at(1601.0)
    assert found.wall_watts == 102.0
    assert [(node.source, node.host_known) for node in found.nodes] == [("gpus", False)]


def test_a_meter_that_answers_again_is_believed_at_once(site):
    one = Site(site)
    one.at(1000.0, wall=1102.0)
    one.at(1200.0)
    found = one.at(1215.0, wall=702.0)
    assert [(node.source, node.metered, node.host_class) for node in found.nodes] == [
        ("ipmi", True, PowerClass.NODE_OVERHEAD_EMPTY)]
    assert found.wall_watts == 702.0


def test_modules_that_go_on_do_not_take_the_place_of_a_wall_that_fell_silent(site):
    one = Site(site)
    one.at(1000.0, wall=2000.0, modules=900.0)
    for time_s in (1200.0, 1215.0, 1230.0):
        found = one.at(time_s, modules=900.0)
        assert [(node.wall_watts, node.source, node.host_class) for node in found.nodes] == [
            (2000.0, "estimated", PowerClass.UNMEASURED)]
    assert one.at(1245.0, wall=1800.0, modules=900.0).wall_watts == 1800.0


def test_modules_count_where_no_wall_was_ever_known_or_it_is_too_long_ago(site):
    one = Site(site, wall_estimate_max_age=600.0)
    for time_s in (1000.0, 1015.0):
        assert one.at(time_s, modules=900.0).nodes[0].source == "modules"
    assert one.at(1200.0).wall_watts == 900.0, "modules that fall silent are estimated as well"
    one.at(1215.0, wall=2000.0, modules=900.0)
    assert one.at(1815.0, modules=900.0).wall_watts == 2000.0
    found = one.at(1816.0, modules=800.0)
    assert [(node.wall_watts, node.source) for node in found.nodes] == [(800.0, "modules")]


def test_a_wall_first_read_later_than_the_modules_is_remembered_though_its_reading_is_older(site):
    walls, modules = LastWalls(HOUR), site.wall(900.0, time_s=1000.0, source="modules")
    walls.note(modules, 900.0, {})
    assert not walls.has_wall("dgx-0")
    walls.note(site.wall(2000.0, time_s=950.0), 2000.0, {})
    walls.note(replace(modules, time_s=1015.0), 900.0, {})
    assert (walls.has_wall("dgx-0"), walls.beside("dgx-0", {})) == (True, 2000.0)


def test_a_meter_that_says_nothing_but_zero_is_silent(site):
    one = Site(site)
    one.at(1000.0, wall=1102.0)
    assert one.at(1015.0, wall=0.0).wall_watts == 1102.0


def test_a_node_that_is_switched_off_draws_nothing_by_memory(site):
    one = Site(site)
    one.at(1000.0, wall=1102.0)
    off = replace(one.node, state=NodeState.POWERED_DOWN)
    assert one.at(1200.0, gpus=(), nodes=[off]).wall_watts == 0.0


def test_what_was_measured_last_outweighs_what_was_configured(site):
    one = Site(site, host_overhead_watts={"dgx-*": 300.0})
    assert one.at(1000.0).wall_watts == 402.0
    one.at(1015.0, wall=1102.0)
    assert one.at(1200.0).wall_watts == 1102.0
    assert one.at(1015.0 + HOUR + 1.0).wall_watts == 402.0


readings = st.one_of(st.none(), st.floats(0, 500))


@given(st.lists(st.tuples(st.floats(0, 400), st.one_of(st.none(), st.none(), st.floats(0, 3000)), readings, readings),
                min_size=1, max_size=12))
@settings(max_examples=80, deadline=None)
def test_whatever_falls_silent_when_the_classes_add_up_and_nothing_unknown_is_wasted(site, cycles):
    one, now = Site(site), 1000.0
    for step, wall, *gpus in cycles:
        now += step
        found = one.at(now, wall, gpus)
        total = sum(sum(classes.values()) for classes in found.totals.values())
        assert total == pytest.approx(found.wall_watts, abs=1e-6)
        assert found.unaccounted_watts == pytest.approx(0.0, abs=1e-6)
        assert all(value >= 0.0 for classes in found.totals.values() for value in classes.values())
        if any(verdict.watts is None for verdict in found.gpu_verdicts):
            assert watts(found, PowerClass.NODE_OVERHEAD_EMPTY) == watts(found, PowerClass.HOST_ACTIVE) == 0.0


def test_a_node_that_is_called_otherwise_now_is_not_counted_under_its_old_name(site):
    accountant = site.accountant()
    snapshot = site.snapshot([site.node(gpus=0)], time_s=1000.0)

    def total(time_s, *walls, left=()):
        told = tuple(site.wall(500.0, name, time_s) for name in walls)
        return accountant.assess(snapshot, replace(site.telemetry((), told), left=left), time_s).wall_watts

    assert total(1000.0, "old", "other") == 1000.0
    assert total(1015.0, "new", "other", left=("old",)) == 1000.0
    assert total(1300.0, "new", left=("old", "new")) == 1000.0  # the other is silent; one that is told of is there
