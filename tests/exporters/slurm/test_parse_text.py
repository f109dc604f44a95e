import time

import pytest
from cost import slowness

from idlewatt.exporters.slurm.fields import BadRecord, Fields
from idlewatt.exporters.slurm.parse_rules import parse_partition, parse_reservation
from idlewatt.exporters.slurm.parse_text import (
    SACCT_FIELDS,
    SOFTWARE_FIELDS,
    parse_duration,
    parse_partitions,
    parse_reservations,
    parse_sacct,
    parse_time,
    print_time,
)
from idlewatt.exporters.slurm.source import cover
from idlewatt.storage.records import JobState, Node

HEADING = "|".join(SACCT_FIELDS)
ROW = ("7|7|train|alice|nlp|A100|normal|COMPLETED|0:0|2026-11-20T10:00:00|2026-11-20T10:00:00|2026-11-20T10:01:00|"
       "2026-11-20T11:01:00|90|1|cpu=8,mem=8G,node=1,gres/gpu=2|cpu=8,mem=8G,node=1,gres/gpu:a100=2,gres/gpu=2|a1|5|")


def test_what_a_job_runs_is_told_by_its_container_comment_and_tres():
    names = (*SACCT_FIELDS, *SOFTWARE_FIELDS)
    rows = (f"{ROW}|nvcr.io/nvidia/pytorch:24.01-py3-cuda12.3|", f"{ROW}||framework=jax cuda=12.1",
            f"{ROW}|docker://bob:secret@hub/vllm:1|a|b", ROW)
    parsed = [parse_sacct(f"{'|'.join(names)}\n{row}\n") for row in rows]
    told = [(run.image, run.framework, run.cuda) for one in parsed for run in one.records]
    assert told[:2] == [("nvcr.io/nvidia/pytorch:24.01-py3-cuda12.3", "pytorch", "12.3"), ("", "jax", "12.1")]
    assert "secret" not in repr(parsed)
    assert (len(parsed[3].records), len(parsed[3].skipped)) == (0, 1)
    assert parse_sacct(f"{HEADING}\n{ROW}\n").records[0].image == ""


def test_real_sacct_rows_become_runs(recorded):
    parsed = parse_sacct(recorded("slurm/sacct.txt").decode())
    runs = {(run.name, run.job_id, run.state): run for run in parsed.records}

    assert not parsed.skipped
    assert runs["broken", "15", JobState.FAILED].exit_code == 3
    assert runs["short", "14", JobState.COMPLETED].limit_s == 300
    never_ran = runs["llama-big", "6", JobState.CANCELLED]
    assert (never_ran.start_s, never_ran.allocations, never_ran.request.gpus) == (None, (), 16)
    wide = runs["gpt-pretrain", "2", JobState.CANCELLED]
    assert [(held.node, held.gpus, held.gpu_indexes) for held in wide.allocations] == [
        ("dgx-a100-01", 4, None), ("dgx-a100-02", 4, None)]


def test_t41_a_requeued_job_has_a_row_per_run(recorded):
    runs = [run for run in parse_sacct(recorded("slurm/sacct.txt").decode()).records if run.name == "bert-ft"]

    assert [(run.job_id, run.state) for run in runs] == [("1", JobState.PREEMPTED), ("1", JobState.CANCELLED)]
    assert runs[0].end_s <= runs[1].start_s


def test_t41_array_tasks_and_het_components_keep_the_names_users_know(recorded):
    ids = {(run.job_id, run.raw_id) for run in parse_sacct(recorded("slurm/sacct.txt").decode()).records}

    assert {("3_0", 4), ("3_1", 5), ("12+0", 12), ("12+1", 13)} <= ids


def test_a_delimiter_in_a_job_name_does_not_shift_the_fields():
    (run,) = parse_sacct(f"{HEADING}\n{ROW.replace('train', 'a|b|c')}\n").records

    assert (run.name, run.user, run.request.gpus) == ("a|b|c", "alice", 2)


@pytest.mark.parametrize("row", [ROW.replace("2026-11-20T10:00:00", "soon"), ROW.replace("a1", "a[1"),
                                 ROW.replace("cpu=8", "cpu=x"), ROW.replace("2026-11-20T10:00:00", "Unknown")])
def test_a_bad_row_is_told_of_with_its_line_and_the_rest_stays(row):
    parsed = parse_sacct(f"{HEADING}\n{row}\n{ROW}\n")

    assert len(parsed.records) == 1
    assert [line.partition(":")[0] for line in parsed.skipped] == ["line 2"]


@pytest.mark.parametrize("mark", ["<5f1c>", "|"])
@pytest.mark.parametrize("end", [True, False])
def test_the_same_rows_are_read_with_any_mark(mark, end):
    text = "".join(line.replace("|", mark) + mark * end + "\n" for line in (HEADING, ROW, ROW))

    parsed = parse_sacct(text, mark)
    assert [run.job_id for run in parsed.records] == ["7", "7"]
    assert not parsed.skipped


@pytest.mark.parametrize("end", [True, False])
@pytest.mark.parametrize("name", [
    "two\nlines", f"x\n{ROW.replace('alice', 'mallory')}\ny", f"x\n{ROW}", "\n", "a|b", "\r\u2028\x85", "|" * 40])
def test_a_job_name_forges_no_row_where_the_mark_is_secret(name, end):
    mark = "<5f1c>"
    heading, row = HEADING.replace("|", mark), ROW.replace("|", mark).replace("train", name)
    parsed = parse_sacct("".join(line + mark * end + "\n" for line in (heading, row, row)), mark)

    assert [(run.job_id, run.user, run.request.gpus) for run in parsed.records] == [("7", "alice", 2)] * 2
    assert not parsed.skipped
    assert {len(run.name) for run in parsed.records} == {len(name)}
    assert not set("\n\r\u2028\x85") & set(parsed.records[0].name)


def test_a_job_name_of_a_hundred_thousand_lines_is_not_read_over_and_over():
    row = ROW.replace("train", "x\n" * 100_000)
    began = time.process_time()
    parsed = parse_sacct(f"{HEADING}\n{row}\n".replace("|", "<5f1c>"), "<5f1c>")
    assert time.process_time() - began < 3.0 * slowness(), "each line would cost as much as all before it"
    assert ([job.user for job in parsed.records], parsed.skipped) == (["alice"], ())


def test_an_output_that_is_cut_off_costs_its_last_row():
    parsed = parse_sacct(f"{HEADING}\n{ROW}\n7|7|tr")

    assert (len(parsed.records), len(parsed.skipped)) == (1, 1)


@pytest.mark.parametrize("text", ["", "sacct: error", "JobID|State\n1|COMPLETED\n"])
def test_another_heading_is_refused(text):
    with pytest.raises(BadRecord, match="heading"):
        parse_sacct(text)


@pytest.fixture
def in_new_york(monkeypatch):
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    assert time.localtime(1793496600).tm_hour == 21  # the C library has taken note
    yield
    monkeypatch.undo()
    time.tzset()


def test_times_are_utc_whatever_the_zone_of_the_machine(in_new_york):
    assert parse_time("2026-11-01T01:30:00") == 1793496600.0  # an hour that New York has twice
    assert print_time(1793496600.0) == "2026-11-01T01:30:00"


@pytest.mark.parametrize(("text", "seconds"), [("2-00:00:00", 172800), ("1-12", 129600), ("30", 1800), ("30:15", 1815),
                                               ("01:02:03", 3723), ("UNLIMITED", None)])
def test_durations_are_read_as_slurm_prints_them(text, seconds):
    assert parse_duration(text) == seconds


def test_real_partitions_and_reservations_are_read(recorded):
    partitions = parse_partitions(recorded("slurm/scontrol_show_partition_o.txt").decode()).records
    (maint,) = parse_reservations(recorded("slurm/scontrol_show_reservation_o.txt").decode()).records

    assert [(part.name, part.nodes, part.max_time_s, part.default, part.up) for part in partitions] == [
        ("A100", ("dgx-a100-01", "dgx-a100-02"), 172800, True, True),
        ("V100", ("dgx-v100-01", "dgx-v100-02"), 172800, False, True)]
    assert (maint.name, maint.nodes, maint.maintenance) == ("maint", ("dgx-a100-02",), True)
    assert maint.end_s - maint.start_s == 3600


@pytest.mark.parametrize(("state", "up", "draining"), [
    ("UP", True, False), ("DRAIN", True, True), ("DOWN", False, False), ("INACTIVE", False, False)])
def test_jobs_that_wait_in_a_draining_partition_may_start_though_it_takes_no_new_ones(state, up, draining):
    (text,) = parse_partitions(f"PartitionName=p Nodes=a State={state}").records
    flat = parse_partition(Fields({"name": "p", "nodes": "a", "state": state}))
    nested = parse_partition(Fields({"name": "p", "nodes": {"configured": "a"}, "partition": {"state": [state]}}))
    assert {(part.up, part.draining) for part in (text, flat, nested)} == {(up, draining)}


def test_a_comment_cannot_overwrite_a_field():
    line = "ReservationName=r StartTime=2026-11-20T10:00:00 EndTime=Unknown Nodes=a1 Comment=Nodes=a[1-9] Flags="
    (reservation,) = parse_reservations(line).records

    assert (reservation.nodes, reservation.end_s) == (("a1",), float("inf"))


@pytest.mark.parametrize(("tres", "covered"), [
    ("cpu=8", ("", "")), ("cpu=128", ("r", "r")), ("cpu=8,gres/gpu=2", ("", "")), ("cpu=128,gres/gpu=2", ("", "")),
    ("(null)", ("r", "r")), ("cpu=x", ("r", "r"))])
def test_a_reservation_of_a_part_of_its_nodes_covers_none_of_them(tres, covered):
    nodes = tuple(Node(name, ("p",), 8, cpus=64) for name in ("a1", "a2"))
    (text,) = parse_reservations(f"ReservationName=r Nodes=a[1-2] EndTime=Unknown TRES={tres} Users=u").records
    json = parse_reservation(Fields({"name": "r", "node_list": "a[1-2]", "tres": tres}))
    for one in (text, json):
        assert tuple(node.reservation for node in cover(nodes, (one,), 1e9)) == covered


def test_no_reservations_in_the_system_is_none():
    assert parse_reservations("No reservations in the system\n").records == ()
