"""Rows for the web side, from what the daemon knows."""

import re
from dataclasses import replace

import pytest

from idlewatt.daemon.advice.advisor import Advisor
from idlewatt.daemon.config import ConfigError
from idlewatt.daemon.settings.advice import AdviceSettings
from idlewatt.daemon.view import DaemonView
from idlewatt.daemon.web.view import ReloadError
from idlewatt.exporters.publish import page, registry
from idlewatt.storage.power_classes import WASTED, PowerClass
from idlewatt.storage.records import Allocation, Job, JobState, Node, NodeState, Request, SchedulerSnapshot
from idlewatt.storage.rules import Association, Ceilings, Qos, Reservation, SchedulerRules, SchedulerSettings


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


def test_of_a_node_of_which_nothing_but_the_wall_is_measured_nobody_says_that_it_wastes_nothing(view, service):
    found = service.known.assessment
    dark = tuple(replace(gpu, state=PowerClass.UNMEASURED, watts=None, wasted_watts=0.0) for gpu in found.gpu_verdicts)
    hosts = tuple(replace(node, host_class=PowerClass.UNMEASURED, host_watts=node.wall_watts) for node in found.nodes)
    service.known = replace(service.known, assessment=replace(found, gpu_verdicts=dark, nodes=hosts))
    assert {row.wasted_power_watts for row in view.nodes()} == {None}
    assert {*view.published().node_wasted_power_watts.values()} == {None}


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


USER_LIMIT, PREEMPTION, RESERVED = "on user alice", "preempting 9 of bob", "is reserved (carol_3, now)"


def naming_snapshot(now_s):
    """Return a cluster on which reasons name alice for her limit, bob to preempt, and carol for reserved nodes."""
    site = SchedulerSettings("qos", ("REQUEUE",), enforced=("limits",), memory_counts=True, cores_whole=True,
                             tree=False)
    rules = SchedulerRules(
        (Reservation("carol_3", ("r",), now_s - 60, now_s + 7200, users=("carol",)),),
        qos=(Qos("normal"), Qos("urgent", preempts=("normal",), priority=100.0)), site=site,
        associations=(Association("lab"), Association("lab", "alice", ceilings=Ceilings(group=(("gpu", 1.0),)))))
    usual = {"partition": "p", "limit_s": 3600.0, "account": "lab"}
    waiting = [Job(job_id, now_s - 60, JobState.PENDING, request=Request(gpus, 1, gpus, 1), user=user, qos=qos, **usual)
               for job_id, gpus, user, qos in (("1", 2, "dave", "urgent"), ("2", 2, "alice", "normal"),
                                               ("3", 4, "dave", "normal"))]
    held = Job("9", now_s - 900, JobState.RUNNING, request=Request(2), start_s=now_s - 600, user="bob", qos="normal",
               allocations=(Allocation("a", 2, None, 2, 1 << 30),), **usual)
    nodes = (Node("a", ("p",), gpus=2, cpus=64, memory_bytes=1 << 40, gpus_allocated=2, cpus_allocated=2),
             Node("r", ("p",), gpus=4, cpus=64, memory_bytes=1 << 40, reservation="carol_3"))
    return SchedulerSnapshot(now_s, nodes, (), (*waiting, held), rules)


def test_with_a_key_no_metric_names_a_user_not_even_in_the_reason_of_advice(rig):
    key = rig.folder / "pseudonyms.key"
    key.write_text("0123456789abcdef")
    service = rig.service(privacy=f"{{pseudonym_key_file: {key}}}")
    snapshot = naming_snapshot(rig.now_s)
    settings = AdviceSettings(policy="limit-aged+best-fit+easy", shadow=(), draws=0)
    advice = Advisor(settings).advise(snapshot, rig.now_s)
    service.known = replace(service.known, snapshot=replace(snapshot, jobs=()), advice=advice)
    view = DaemonView(service, lambda: service.settings)
    shown = " ".join(row.reason for row in view.recommendations())
    assert all(words in shown for words in (USER_LIMIT, PREEMPTION, RESERVED)), shown
    metrics = page(registry(view.published))[0].decode()
    assert re.search(r"preempting 9 of u-[0-9a-f]{12} \(2 GPUs\)", metrics)
    assert re.search("is reserved .u-[0-9a-f]{12}_3, now", metrics)
    assert not re.search("alice|bob|carol|dave", metrics)
    key.unlink()
    metrics = page(registry(view.published))[0].decode()
    assert not re.search("alice|bob|carol|dave", metrics)
    assert 'idlewatt_advice_timestamp_seconds{policy="' in metrics


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
