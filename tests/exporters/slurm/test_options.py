"""Every option of a job that decides about a start, as a real Slurm 22.05 tells it, and in the words of later ones."""

import json
from dataclasses import replace

import pytest

from idlewatt.exporters.slurm.fields import Fields
from idlewatt.exporters.slurm.parse_json import load, parse_job, parse_list
from idlewatt.exporters.slurm.parse_rules import (
    parse_association,
    parse_license,
    parse_partition,
    parse_qos,
    parse_reservation,
)
from idlewatt.exporters.slurm.parse_settings import (
    parse_association_table,
    parse_licenses,
    parse_qos_table,
    parse_settings,
    parse_switches,
    site_of,
)
from idlewatt.exporters.slurm.parse_text import parse_partitions, parse_reservations
from idlewatt.exporters.slurm.states import wakes
from idlewatt.storage.rules import License, SchedulerSettings

GIB, MIB = 1 << 30, 1 << 20


@pytest.fixture
def told(recorded):
    """Return the jobs of the recording by name."""
    parsed = parse_list(load(recorded("slurm/options/squeue.json")), "jobs", parse_job)
    assert not parsed.skipped
    return {f"{job.name}{'+1' if job.job_id.endswith('+1') else ''}": job for job in parsed.records}


@pytest.fixture
def text(recorded):
    """Return the function that reads what a command printed."""
    return lambda name: recorded(f"slurm/options/{name}").decode()


@pytest.mark.parametrize(("name", "facts"), [
    ("cpg", {"cpus_per_gpu": 8, "most_nodes": 0}), ("mpg", {"memory_per_gpu_bytes": 10 * GIB}),
    ("gpt", {"gpus_per_task": 1, "tasks": 4, "cpus_per_node": 4}), ("gps", {"gpus_per_socket": 2}),
    ("range", {"most_nodes": 2}), ("range24", {"most_nodes": 4, "nodes_expected": 3}), ("node1", {"most_nodes": 1}),
    ("contig", {"contiguous": True}), ("lic", {"licenses": "matlab:2"}), ("excluser", {"exclusive_user": True}),
    ("tpn", {"tasks_per_node": 4, "cpus_per_node": 16, "memory_per_cpu_bytes": 2 * GIB, "memory_said": True}),
    ("mem", {"memory_per_node_bytes": 100 * GIB, "whole_memory": False}),
    ("mem0", {"whole_memory": True, "memory_said": True}), ("feat", {"whole_memory": True, "memory_said": False}),
    ("hint", {"one_thread_per_core": True}), ("sw", {"switches": None}),
    ("plain", {"memory_per_cpu_bytes": 1000 * MIB}),
])
def test_what_a_job_asks_for_beyond_its_totals_is_read(told, name, facts):
    details = told[name].request.details
    assert {fact: getattr(details, fact) for fact in facts} == facts


def test_of_a_range_of_nodes_the_least_is_what_a_job_asks_for(told):
    assert [told[name].request.nodes for name in ("range", "range24", "fixed7", "plain")] == [1, 2, 2, 1]


def test_heterogeneous_jobs_arrays_and_deadlines_are_told(told):
    assert [told[name].group for name in ("het", "het+1", "plain")] == ["41", "41", ""]
    assert (told["arr"].array, told["arr"].array_limit, told["arr"].tasks) == ("21", 2, 9)
    assert told["deadline"].deadline_s > told["deadline"].submit_s
    assert told["timemin"].least_limit_s == 600.0


def test_the_names_of_later_versions_mean_the_same(recorded):
    (job,) = parse_list(load(recorded("slurm/options/hand_written_24.05_job.json")), "jobs", parse_job).records
    details = job.request.details
    assert (job.request.nodes, details.most_nodes, details.tasks, details.tasks_per_node) == (2, 4, 8, 4)
    assert details.nodes_expected == 2
    assert (details.cpus_per_gpu, details.memory_per_gpu_bytes, details.memory_per_cpu_bytes) == (8, 10 * GIB, 2 * GIB)
    assert (details.gpus_per_task, details.switches, details.switches_until_s) == (1, 1, job.submit_s + 60)
    assert (details.contiguous, details.exclusive_user, details.licenses) == (True, True, "matlab:2")
    assert (job.group, job.array_limit, job.least_limit_s, job.request.gpus) == ("7", None, 600.0, 6)


def test_limits_read_the_same_of_sacctmgr_and_of_slurmrestd(recorded, text):
    by_text = parse_qos_table(text("sacctmgr_qos.txt")).records
    by_rest = parse_list(load(recorded("slurm/options/rest_qos.json")), "QOS", parse_qos).records
    assert {one.ceilings.unreported for one in by_rest} == {("GrpTRESMins",)}
    told = {one.name: replace(one, ceilings=replace(one.ceilings, unreported=())) for one in by_rest}
    assert {one.name: one for one in by_text} == told
    high = next(one for one in by_text if one.name == "high")
    assert (high.ceilings.group, high.ceilings.user) == ((("gpu", 4.0),), (("gpu", 3.0), ("jobs", 2.0)))
    assert (high.preempts, high.priority) == (("normal",), 1000.0)
    accounts = parse_association_table(text("sacctmgr_assoc.txt")).records
    by_rest = parse_list(load(recorded("slurm/options/rest_associations.json")), "associations",
                         parse_association).records
    proj = next(one for one in accounts if one.account == "proj" and not one.user)
    by_rest = next(one for one in by_rest if one.account == "proj" and not one.user)
    assert (proj.priority, by_rest.priority) == (0.0, None)
    assert replace(by_rest, priority=0.0) == proj
    assert dict(proj.ceilings.group) == {"cpu": 100, "gpu": 30, "jobs": 7}
    assert (proj.parent, proj.ceilings.user, proj.ceilings.wall_s) == ("root", (("jobs", 3.0),), 86400.0)


def test_limits_over_time_read_the_same_of_sacctmgr_and_of_slurmrestd(recorded, text):
    (two,) = parse_qos_table(text("sacctmgr_qos_over_time.txt")).records
    (by_rest,) = parse_list(load(recorded("slurm/options/rest_qos_over_time.json")), "QOS", parse_qos).records
    used = {"cpu seconds used", "gpu seconds used"}  # slurmrestd does not tell of a QOS what may be used in all
    assert {name: most for name, most in two.ceilings.group if name not in used} == dict(by_rest.ceilings.group)
    assert dict(two.ceilings.group) == {
        "billing": 50, "cpu seconds": 120_000, "gpu seconds": 6000, "cpu seconds used": 60_000,
        "gpu seconds used": 30_000, "seconds used": 5400}
    assert two.ceilings.user == by_rest.ceilings.user == (("jobs", 2.0), ("cpu seconds", 333 * 60.0))
    assert two.ceilings.account == by_rest.ceilings.account == (("cpu seconds", 444 * 60.0),)
    assert dict(two.ceilings.job) == dict(by_rest.ceilings.job) == {"cpu seconds": 54_000, "gpu seconds": 3600}
    (few,) = parse_association_table(text("sacctmgr_assoc_over_time.txt")).records
    (by_rest,) = parse_list(load(recorded("slurm/options/rest_associations_over_time.json")), "associations",
                            parse_association).records
    assert few.ceilings == by_rest.ceilings
    assert dict(few.ceilings.group) == {"jobs": 3, "gpu seconds": 12_000, "cpu seconds used": 60_000,
                                        "seconds used": 4800}
    assert few.ceilings.job == (("gpu seconds", 4200.0),)


def test_licences_partitions_and_reservations_read_the_same_both_ways(recorded, text):
    def rest(name, key, parse):
        return parse_list(load(recorded(f"slurm/options/rest_{name}.json")), key, parse).records

    licenses = parse_licenses(text("scontrol_licenses.txt")).records
    assert licenses == rest("licenses", "licenses", parse_license) == (License("ansys", 2), License("matlab", 4))
    by_text = {one.name: one for one in parse_partitions(text("scontrol_partition.txt")).records}
    by_rest = {one.name: one for one in rest("partitions", "partitions", parse_partition)}
    for fact in ("least_nodes", "most_nodes", "most_cpus_per_node", "accounts", "qos_allowed", "qos", "max_time_s"):
        assert {name: getattr(one, fact) for name, one in by_text.items()} == \
            {name: getattr(one, fact) for name, one in by_rest.items()}
    assert (by_text["low"].qos, by_text["excl"].most_nodes) == ("partq", 2)
    assert [name for name, one in by_text.items() if one.exclusive] == ["excl"]  # v0.0.38 does not tell
    (later,) = parse_reservations(text("scontrol_reservation.txt")).records
    (same,) = rest("reservations", "reservations", parse_reservation)
    assert (later.nodes, later.users, later.flags) == (same.nodes, same.users, same.flags)
    assert later.admits("root", "proj")
    assert not later.admits("alice", "proj")


def test_settings_that_decide_about_starts_are_read_and_what_is_not_told_is_not_known(text):
    site = site_of(parse_settings(text("scontrol_show_config.txt")))
    assert (site.preempt_type, site.preempt_mode, site.tree) == ("qos", ("REQUEUE",), True)
    assert (site.enforced, site.memory_counts, site.cores_whole) == (("associations", "limits", "qos"), True, True)
    assert site_of({}) == SchedulerSettings()


@pytest.mark.parametrize(("auth", "seconds"), [("socket=/run/munge", 121), ("socket=/x,cred_expire=15", 16),
                                               ("cred_expire=3", 121), (None, 121)])
def test_a_requeued_job_begins_again_when_its_credential_is_over(auth, seconds):
    assert site_of({} if auth is None else {"AuthInfo": auth}).returns_s == seconds


@pytest.mark.parametrize(("told", "seconds"), [
    ({}, 40), ({"KillWait": "3 sec"}, 13), ({"KillWait": "3 sec", "MessageTimeout": "20 sec"}, 23)])
def test_a_job_makes_room_again_when_those_it_had_killed_are_gone_at_the_latest(told, seconds):
    assert site_of(told).room_again_s == seconds


@pytest.mark.parametrize(("time", "program", "seconds"), [
    ("600 sec", "/usr/sbin/off", 600.0), ("600 sec", None, 600.0), ("INFINITE", "/usr/sbin/off", None),
    ("NONE", "/usr/sbin/off", None), ("-1", "/usr/sbin/off", None), ("-1 sec", None, None), ("", None, None),
    ("٣", None, None), (None, "/usr/sbin/off", None), ("600 sec", "(null)", None)])
def test_empty_nodes_are_powered_down_after_so_long_where_slurm_has_a_time_and_a_program(time, program, seconds):
    told = {"SuspendTime": time, "SuspendProgram": program}
    text = "\n".join(f"{name:24}= {value}" for name, value in told.items() if value is not None)
    assert site_of(parse_settings(text)).power_down_s == seconds


def test_switches_come_by_raw_job_id(text):
    found = parse_switches(text("squeue_switches.txt"))
    assert found[17] == (1, 300.0)
    assert found[1] == (0, 0.0)
    assert parse_switches("x 1 2\n7 y 1\n8 2 9:9:9:9\n9\n") == {8: (2, None)}


@pytest.mark.parametrize(("state", "able"), [
    ("idle~", True), ("idle#", True), ("idle%", False), ("idle", False), ("drained~", False), ("down~", False),
    ("mixed#", True), ("IDLE+POWERED_DOWN", True), ("IDLE+POWERED_DOWN+MAINTENANCE", False)])
def test_nodes_that_are_off_take_jobs_where_nothing_else_is_wrong(state, able):
    assert wakes((state,)) is able


def test_strange_fields_of_options_cost_one_record(recorded):
    raw = json.loads(recorded("slurm/options/squeue.json"))
    raw["jobs"][0]["contiguous"] = "perhaps"
    raw["jobs"][1]["cpus_per_tres"] = "gres:gpu:" + "9" * 400
    parsed = parse_list(Fields(raw), "jobs", parse_job)
    assert len(parsed.records) >= len(raw["jobs"]) - 2
