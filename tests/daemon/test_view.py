"""Rows for the web side, from what the daemon knows."""

from dataclasses import replace

import pytest

from idlewatt.daemon.config import ConfigError
from idlewatt.daemon.view import DaemonView
from idlewatt.daemon.web.view import ReloadError
from idlewatt.storage.power_classes import WASTED, PowerClass
from idlewatt.storage.records import JobState, NodeState


@pytest.fixture
def service(rig):
    made = rig.service()
    for cycle in (made.jobs, made.scrape, made.assess):
        cycle()
    made.advise()
    return made


@pytest.fixture
def view(service) -> DaemonView:
    return DaemonView(service, lambda: service.settings)


def test_the_rows_add_up_to_the_wall_of_every_node(view, service):
    watts = {}
    for row in view.waste():
        watts[row.node] = watts.get(row.node, 0.0) + (row.power_watts or 0.0)
    walls = {verdict.node: verdict.wall_watts for verdict in service.known.assessment.nodes}
    assert watts == pytest.approx(walls)
    assert len(watts) == 4


def test_a_row_is_wasted_exactly_when_its_class_is(view):
    assert {row.wasted == (row.power_class in WASTED) for row in view.waste()} == {True}
    assert any(row.wasted for row in view.waste())


def test_the_gpus_of_a_job_name_it_and_its_user(view, service):
    holders = {job.job_id: job.user for job in service.known.snapshot.jobs if job.state is JobState.RUNNING}
    held = [row for row in view.waste() if row.job_id]
    assert held
    assert all(holders[row.job_id] == row.user for row in held)


def test_every_node_has_a_row_and_what_it_wastes_is_what_its_rows_say(view):
    wasted = {}
    for row in view.waste():
        wasted[row.node] = wasted.get(row.node, 0.0) + (row.power_watts or 0.0) * row.wasted
    assert {row.node.name: row.wasted_power_watts or 0.0 for row in view.nodes()} == pytest.approx(wasted)
    assert {sum(row.gpus.values()) for row in view.nodes()} == {8}


def test_a_node_that_nothing_has_measured_yet_is_unmeasured_not_zero(rig):
    service = rig.service()
    service.jobs()
    rows = DaemonView(service, lambda: service.settings).nodes()
    assert len(rows) == 4
    assert {(row.power_watts, row.wasted_power_watts) for row in rows} == {(None, None)}


def test_before_anything_is_known_every_list_is_empty(rig):
    view = DaemonView(rig.service(), lambda: None)
    assert [list(rows()) for rows in (view.waste, view.nodes, view.jobs, view.recommendations)] == [[], [], [], []]
    assert [row.up for row in view.sources()] == [False] * 4


def test_what_is_worth_powering_down_says_why(view, service, rig):
    known = service.known
    nodes = tuple(replace(node, state=NodeState.UP, gpus_allocated=0, cpus_allocated=0, reservation="")
                  for node in known.snapshot.nodes)
    service.known = replace(known, snapshot=replace(known.snapshot, nodes=nodes, jobs=()))
    service.advise()
    advised = service.known.advice.power_down
    empty = {node.node for node in service.known.assessment.nodes
             if node.host_class is PowerClass.NODE_OVERHEAD_EMPTY}
    listed = {row.node.name: row.power_down for row in view.nodes() if row.power_down}
    assert listed == {name: reason for name, reason in advised.items() if name in empty} != {}
    assert {row.node.name for row in view.nodes() if row.unknown_use} == set(advised) - empty


def test_a_node_that_is_not_measured_is_never_worth_powering_down(view, service):
    """It may be busy, for all that anybody knows."""
    found = service.known.assessment
    dark = tuple(replace(node, wall_watts=None, source="", host_class=PowerClass.UNMEASURED) for node in found.nodes)
    advice = replace(service.known.advice, power_down={node.node: "no known job needs it" for node in dark})
    service.known = replace(service.known, assessment=replace(found, nodes=dark), advice=advice)
    assert {row.power_down for row in view.nodes()} == {""}
    assert {row.unknown_use for row in view.nodes()} == {"nothing of it is measured"}
    assert view.published().power_down_info == {}


def test_a_source_that_failed_shows_its_error_and_when_it_last_worked(view, service, rig):
    worked = rig.now_s
    rig.server.site._slurm.clear()
    rig.now_s += 15
    service.jobs()
    (row,) = [row for row in view.sources() if row.role == "scheduler"]
    assert (row.up, row.last_success_s) == (False, worked)
    assert row.error


def test_exporters_are_found_in_a_stable_order(view):
    groups = view.targets()
    assert [group.labels["__meta_idlewatt_kind"] for group in groups] == ["dcgm"] * 4 + ["node"] * 4 + ["ipmi"] * 4
    assert groups == view.targets()


def test_a_reload_that_is_refused_carries_every_fault(service):
    def broken():
        raise ConfigError("a: unknown key\nb: unknown key")

    with pytest.raises(ReloadError, match="(?s)a: unknown key.*b: unknown key"):
        DaemonView(service, broken).reload()
