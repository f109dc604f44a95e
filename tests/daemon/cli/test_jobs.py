import json

import pytest
import requests

from idlewatt.exporters.slurm.parse_json import load, parse_job, parse_list
from idlewatt.storage.records import Job, JobState, Request

HOSTILE = "=cmd|'/c calc'!A1 [bold red]x[/] \x1b[31m\nnext"


def hostile(name: str = HOSTILE) -> Job:
    return Job("666", 0.0, JobState.PENDING, "A100", Request(1), user="mallory", name=name)


def test_every_job_is_listed_with_its_gpus_and_nodes(shell):
    known = shell.service.known.snapshot.jobs
    listed = {row["job_id"]: row for row in shell.csv("jobs")}
    assert listed.keys() == {job.job_id for job in known}
    for job in known:
        assert int(listed[job.job_id]["gpus"]) == job.request.gpus * job.tasks
        for part in job.allocations:
            assert part.node in listed[job.job_id]["nodes"]


def test_the_table_has_a_line_for_each_job_and_says_its_state(shell):
    lines = shell.text("jobs").splitlines()
    assert lines[0].split()[:3] == ["job", "user", "name"]
    assert len(lines) == 1 + len(shell.service.known.snapshot.jobs)
    assert any("running" in line for line in lines)


def test_json_is_what_the_daemon_knows(shell):
    assert {row["job_id"] for row in shell.json("jobs")} == {job.job_id for job in shell.service.known.snapshot.jobs}


@pytest.mark.parametrize(("option", "value", "key"), [
    ("--partition", "V100", "partition"), ("--state", "pending", "state"), ("--user", "bob", "user")])
def test_a_filter_leaves_only_what_it_names(shell, option, value, key):
    everybody = shell.json("jobs")
    left = shell.json("jobs", option, value)
    assert left == [row for row in everybody if row[key] == value] != everybody


def test_only_jobs_on_a_node(shell):
    (name,) = {part.node for job in shell.service.known.snapshot.jobs[:1] for part in job.allocations}
    assert all(name in row["nodes"] for row in shell.csv("jobs", "--node", name))


def test_the_limit_bounds_the_number_of_rows(shell):
    assert len(shell.json("jobs", "--limit", "2")) == 2


def test_a_name_from_outside_is_neither_markup_nor_control_in_a_table(shell):
    shell.submit(hostile())
    table = shell.text("jobs", "--user", "mallory")
    assert "[bold red]x[/]" in table
    assert "\x1b" not in table
    assert len(table.splitlines()) == 2


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_a_name_from_outside_is_no_formula_in_a_spreadsheet(shell, name):
    shell.submit(hostile(name))
    (row,) = shell.csv("jobs", "--user", "mallory")
    assert row["name"].startswith("'")
    assert row["name"][1:] == name.replace("\r", "\N{REPLACEMENT CHARACTER}").replace("\t", "\N{REPLACEMENT CHARACTER}")


def test_a_carriage_return_in_a_name_ends_no_row_of_a_spreadsheet(shell):
    shell.submit(hostile("innocent\r=1+1"))
    assert [row["name"] for row in shell.csv("jobs", "--user", "mallory")] == ["innocent\N{REPLACEMENT CHARACTER}=1+1"]


@pytest.mark.parametrize("name", ["\ud83d\ude00", "a\x1b[2Jb\x07", "a\nb", "\x9b31m", "a\u2028b"])
def test_a_name_from_outside_carries_no_control_character_to_a_terminal(shell, name):
    shell.submit(hostile(name))
    for style in ("csv", "table"):
        text = shell.text("jobs", "--user", "mallory", "--format", style)
        assert len(text.splitlines()) == 2
        assert all(line.isprintable() for line in text.splitlines())


def test_a_name_from_outside_stays_itself_in_json(shell):
    shell.submit(hostile())
    assert shell.json("jobs", "--user", "mallory")[0]["name"] == HOSTILE


def test_nothing_found_is_said_so_in_each_form(shell):
    assert shell.text("jobs", "--user", "nobody") == "no jobs\n"
    assert json.loads(shell.text("jobs", "--user", "nobody", "--format", "json")) == []
    assert shell.text("jobs", "--user", "nobody", "--format", "csv").splitlines() == [
        "job_id,user,name,partition,state,reason,gpus,nodes"]


def test_a_state_that_does_not_exist_is_wrong_usage_and_says_why(shell):
    done = shell.run("jobs", "--state", "SLEEPING")
    assert done.exit_code == 2
    assert "sleeping" in done.stderr


@pytest.mark.parametrize("arguments", [("--limit", "0"), ("--limit", "many"), ("--format", "xml"), ("--colour",)])
def test_wrong_usage_ends_with_2(shell, arguments):
    assert shell.run("jobs", *arguments).exit_code == 2


def test_surrogates_in_a_name_of_slurm_break_neither_the_page_nor_a_command(shell):
    answer = b'{"jobs": [{"job_id": 667, "submit_time": 1000000000, "job_state": "PENDING", "partition": "A100", ' \
             b'"user_name": "mallory", "name": "a\xed\xa0\xbd\xed\xb8\x80 \\ud83d \xff"}]}'
    (job,) = parse_list(load(answer), "jobs", parse_job).records
    shell.submit(job)
    assert requests.get(shell.url, timeout=60).status_code == 200
    assert requests.get(f"{shell.url}/metrics", timeout=60).status_code == 200
    for style in ("csv", "json", "table"):
        assert "667" in shell.text("jobs", "--user", "mallory", "--format", style)
