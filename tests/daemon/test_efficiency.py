"""What is said of a job: the fix for what stands out, and nothing of what nobody knows."""

from dataclasses import replace

import pytest

from idlewatt.daemon.efficiency.findings import RunFacts, short_of_limit, unused_cpus, unused_memory
from idlewatt.daemon.efficiency.notes import Used, notes
from idlewatt.daemon.efficiency.rows import CauseRow, JobRow
from idlewatt.daemon.efficiency.wasters import remedy, wasters
from idlewatt.daemon.waste import run_of
from idlewatt.daemon.web.view import WasteRow
from idlewatt.storage.power_classes import PowerClass
from idlewatt.storage.records import Allocation, Job, JobState, Request
from idlewatt.storage.underuse import Cause
from idlewatt.storage.uses import Use

NOW = 100_000.0
GIB = 2**30
JOB = Job("1", 0.0, JobState.COMPLETED, "gpu", Request(4), start_s=0.0, end_s=36_000.0, limit_s=40_000.0,
          allocations=(Allocation("a", 4, (0, 1, 2, 3), 64, 256 * GIB),))
RUN = JobRow("1", 0.0, 0.0, 36_000.0, JobState.COMPLETED, "ada", "lab", "gpu", "train", 4.0, "NVIDIA A100-SXM4-40GB",
             1e7, 0.0, {PowerClass.PRODUCTIVE: 1e7}, 144_000.0, 0.9, 1.0, 36_000.0, 0.0, 1000.0, 1200.0, 30.0 * GIB, (),
             None)
USE = Use("1", 0.0, 0.0, "ada", "train", 4, 64, 256 * GIB, 36_000.0, 36_000.0, "cgroup", 4.0, 8.0, 0.0, 20.0 * GIB)


def said(job=JOB, use=None, node_gpus=8, **changes):
    used = Used(use, node_gpus=node_gpus)
    return [f"{note.words} {note.fix}".strip() for note in notes(job, replace(RUN, **changes), used, NOW)]


def test_nothing_is_said_of_a_job_that_does_well():
    assert said() == []


@pytest.mark.parametrize(("changes", "words"), [
    ({"idle_gpus": ("a:2", "a:3")}, "2 of 4 GPUs were never used. Ask for 2."),
    ({"idle_gpus": ("a:3",)}, "1 of 4 GPUs was never used. Ask for 3."),
    ({"idle_gpus": ("a:0", "a:1", "a:2", "a:3")}, "None of its 4 GPUs was ever used."),
    ({"activity": 0.1}, "Its GPUs worked 10 % of the time. 1 would do, or a larger batch"),
    ({"memory_max_bytes": 3.0 * GIB}, "Its fullest GPU held 3.0 of 40 GiB."),
    ({"classes": {PowerClass.ALLOCATED_HUNG: 2e6}}, "for 20 % of its energy: it may have hung."),
    ({"measured_share": 0.5}, "Its GPUs were measured 50 % of the time: of the rest nothing is known."),
    ({"seen_seconds": 9000.0}, "It was looked at 25 % of the time that it ran"),
    ({"shared_share": 0.5}, "idle watts are split by what each holds")])
def test_what_stands_out_is_said_with_its_fix(changes, words):
    assert any(words in one for one in said(**changes)), said(**changes)


def test_nothing_is_said_of_what_was_not_measured():
    told = said(measured_share=None, activity=None, idle_gpus=("a:0", "a:1", "a:2", "a:3"), memory_max_bytes=None)
    assert told == []
    assert not any("never" in one for one in said(measured_share=0.5, idle_gpus=("a:0",)))


def test_what_was_not_looked_at_is_not_claimed():
    assert "1 of 4 GPUs was never used while it was looked at. Ask for 3." in said(idle_gpus=("a:0",),
                                                                                   seen_seconds=9000.0)


def test_cpus_and_memory_are_not_judged_by_minutes_of_hours():
    assert said(use=replace(USE, measured_s=360.0)) == [
        "Its CPUs and memory were measured 1.0 % of the time: not long enough to judge them."]
    assert said(use=replace(USE, measured_s=360.0), end_s=300.0, seen_seconds=300.0) == [
        "It ran for less than ten minutes: too short to judge."]


def test_the_memory_of_its_gpus_is_not_judged_by_minutes_of_hours_and_their_activity_is_of_that_time():
    told = said(memory_max_bytes=3.0 * GIB, activity=0.1, seen_seconds=360.0)
    assert not any("fullest GPU" in one for one in told)
    assert any("worked 10 % of the time while it was looked at." in one for one in told)


def test_a_young_job_is_not_judged():
    assert said(end_s=300.0, seen_seconds=300.0, idle_gpus=("a:0",)) == [
        "It ran for less than ten minutes: too short to judge."]


def test_cpus_memory_limit_and_scattered_gpus():
    told = said(use=USE)
    assert "8.0 of its 64 CPUs worked at once. Ask for 10." in told
    assert "It used 20.0 of 256.0 GiB of memory. Ask for 24 GiB." in told
    short = said(job=replace(JOB, limit_s=1e6))
    assert short == ["It took 3.6 % of its time limit. Ask for 15 h: short jobs start sooner."]
    parts = tuple(Allocation(node, 2, (0, 1)) for node in "ab")
    assert said(job=replace(JOB, allocations=parts)) == [
        "4 GPUs lie over 2 nodes. Ask for one node: GPUs then talk by NVLink."]


@pytest.mark.parametrize(("ran_min", "limit_min", "fix"), [
    (11, 45, "Ask for 17 min: short jobs start sooner."), (39.9, 180, "Ask for 1 h: short jobs start sooner."),
    (41, 180, "Ask for 2 h: short jobs start sooner.")])
def test_a_shorter_limit_is_told_in_minutes_below_an_hour(ran_min, limit_min, fix):
    job, run = replace(JOB, limit_s=limit_min * 60.0), replace(RUN, end_s=ran_min * 60.0)
    note = short_of_limit(RunFacts(job, run, NOW), 0.25)
    assert note is not None
    assert note.fix == fix


@pytest.mark.parametrize(("used_gib", "held_gib", "fix"), [
    (0.05, 0.5, "Ask for 62 MiB."), (0.0, 0.5, "Ask for 1 MiB."), (0.85, 4, "Ask for 2 GiB."),
    (1.0, 8, "Ask for 2 GiB.")])
def test_less_memory_is_told_in_mebibytes_below_a_gibibyte(used_gib, held_gib, fix):
    job = replace(JOB, allocations=(Allocation("a", 1, None, 1, int(held_gib * GIB)),))
    note = unused_memory(RunFacts(job, RUN, NOW, memory_used_bytes=used_gib * GIB), 0.25)
    assert note is not None
    assert note.fix == fix


def test_nobody_is_told_to_ask_for_as_much_as_the_job_has_whatever_limits_a_site_sets():
    job = replace(JOB, limit_s=40_000.0, allocations=(Allocation("a", 1, None, 4, 4 * GIB),))
    facts = RunFacts(job, RUN, NOW, cpus_used=3.5, memory_used_bytes=3.5 * GIB)
    found = [kind(facts, 0.95) for kind in (short_of_limit, unused_memory, unused_cpus)]
    assert [note is not None and note.fix for note in found] == ["", "", ""]


@pytest.mark.parametrize("node_gpus", [4, None])
def test_trays_of_four_gpus_are_no_more_nodes_than_a_job_needs_and_nodes_of_unknown_size_are_not_judged(node_gpus):
    trays = tuple(Allocation(f"tray{number}", 4, (0, 1, 2, 3)) for number in range(16))
    assert said(job=replace(JOB, allocations=trays), node_gpus=node_gpus) == []


RUNNING = replace(JOB, state=JobState.RUNNING, end_s=None)


def row(gpu, power_class, watts=100.0, job_id="1", since_s=None, held_by=RUNNING):
    run = run_of(replace(held_by, job_id=job_id)) if job_id else None
    return WasteRow("gpu", "a", power_class, watts, power_class.wasted, gpu, job_id=job_id, since_s=since_s, run=run)


def test_who_wastes_is_told_with_how_much_since_when_and_what_to_do():
    rows = [row(0, PowerClass.PRODUCTIVE), row(0, PowerClass.ALLOCATED_UNDERUSED, 10.0),
            *(row(gpu, PowerClass.ALLOCATED_IDLE, since_s=500.0 + gpu) for gpu in (1, 2, 3))]
    (found,) = wasters(rows, [RUNNING])
    assert (found.power_class, found.gpus, found.gpus_held, found.wasted_watts, found.power_watts, found.since_s) == (
        PowerClass.ALLOCATED_IDLE, 3, 4, 310.0, 410.0, 501.0)
    assert (found.action, found.command) == ("Run it again with 1 GPU: 3 of 4 do nothing.", "idlewatt job 1")


def test_nobody_is_blamed_for_another_clusters_job_of_the_same_number():
    other = replace(RUNNING, submit_s=5.0, user="bob", allocations=(Allocation("z", 4, (0, 1, 2, 3), 64),))
    for jobs in ([RUNNING, other], [other, RUNNING]):
        (found,) = wasters([row(0, PowerClass.ALLOCATED_IDLE, since_s=500.0)], jobs)
        assert found.user == RUNNING.user
    assert wasters([row(0, PowerClass.ALLOCATED_IDLE, since_s=500.0)], [other]) == []


def test_nobody_is_blamed_for_a_job_that_had_the_same_number_on_the_same_node():
    former = replace(RUNNING, submit_s=RUNNING.submit_s - 86400.0, user="bob", state=JobState.COMPLETING)
    for jobs in ([RUNNING, former], [former, RUNNING]):
        (found,) = wasters([row(0, PowerClass.ALLOCATED_IDLE, since_s=500.0)], jobs)
        assert (found.user, found.run) == (RUNNING.user, run_of(RUNNING))
        (found,) = wasters([row(0, PowerClass.ALLOCATED_IDLE, since_s=500.0, held_by=former)], jobs)
        assert found.user == "bob"


def test_nobody_is_blamed_for_what_is_not_measured_or_not_held():
    rows = [row(0, PowerClass.UNMEASURED, None), row(1, PowerClass.IDLE_UNALLOCATED, job_id=""),
            row(2, PowerClass.ALLOCATED_IDLE, job_id="gone")]
    assert wasters(rows, [RUNNING]) == []


@pytest.mark.parametrize(("job_id", "command"), [
    ("1", "scancel 1"), ("team/train-0", "kubectl --namespace=team delete pod/train-0"), ("1; rm -rf /", None)])
def test_a_command_is_the_schedulers_own_and_harms_nobody(job_id, command):
    _, told = remedy(replace(RUNNING, job_id=job_id), PowerClass.ALLOCATED_IDLE, 4, 4)
    assert told == command if command else "'" in told


def test_a_told_cause_is_said_with_its_evidence_and_takes_the_place_of_guesses():
    cause = CauseRow(Cause.WAITING_FOR_DATA, "waits for data", 0.62, 0.9, ("kernels ran 20 % of the time",),
                     "Prefetch.")
    found = notes(replace(JOB, allocations=()), replace(RUN, activity=0.2), Used(causes=(cause,)), NOW)
    assert [(note.words, note.fix) for note in found if "data" in note.words or "worked" in note.words] == [
        ("Waits for data, 62 % of the judged time (confidence 90 %): kernels ran 20 % of the time.", "Prefetch."),
        ("Its GPUs worked 20 % of the time.", "")]
