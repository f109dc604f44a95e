"""Commands on recorded energy: the figures of the API, tables of 80 columns, hostile names, refusals."""

import csv
import io
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import energies
import pytest
from click.testing import CliRunner

from idlewatt.daemon.amounts import amount
from idlewatt.daemon.cli import main
from idlewatt.daemon.cli._against import compared
from idlewatt.daemon.cli._units import energy
from idlewatt.storage.records import SchedulerSnapshot


@pytest.fixture
def past(serve, rig, monkeypatch):
    """Return a shell on a daemon with a recorded past."""
    monkeypatch.setattr(energies, "START", rig.now_s - 7200.0)
    shell = serve()
    energies.record(shell.service.history)
    return shell


def test_every_table_fits_80_columns(past):
    for arguments in (["jobs", "--since", "7d", "--sort", "wasted"], ["waste", "--by", "user", "--since", "7d"],
                      ["waste", "--by", "day", "--since", "7d"], ["job", "4711"], ["job", "900"],
                      ["report", "--month", month(past), "--by", "user"]):
        lines = past.run(*arguments, env={"COLUMNS": "80"}).stdout.splitlines()
        assert lines
        assert max(map(len, lines)) <= 80, arguments


def month(shell):
    return datetime.fromtimestamp(shell.service.now(), UTC).strftime("%Y-%m")


def test_jobs_that_two_clusters_gave_one_number_are_shown_with_how_to_name_one(past):
    other = replace(energies.job("4711", "bob", ended=False), submit_s=energies.START - 300, partition="v100")
    past.service.history.record_snapshot(SchedulerSnapshot(energies.START, (), (), (other,)))
    text = past.text("job", "4711")
    assert text.splitlines()[:3] == ["2 jobs have the id 4711, on several clusters: partition v100, bob; partition",
                                     "a100, alice.", "--partition shows the job of one partition."]
    assert "Job 4711 train - running" in text
    one = past.text("job", "4711", "--partition", "a100")
    assert one.startswith("Job 4711 train - completed")
    assert "running" not in one


def test_a_job_is_reported_with_the_fix_and_the_figures_of_the_api(past):
    text = past.text("job", "4711")
    assert "Job 4711 train - completed" in text
    assert "* 2 of 4 GPUs were never used. Ask for 2." in text
    assert "667 Wh, mean 667 W, at most 711 W" in text
    assert text.count("dgx01:") == 5
    (row,) = past.json("job", "4711")
    listed = {one["job_id"]: one for one in past.json("jobs", "--since", "7d")}
    by_job = {one["name"]: one for one in past.json("waste", "--since", "7d", "--by", "job")}
    assert row["run"]["energy_joules"] == listed["4711"]["energy_joules"] == by_job["4711"]["energy_joules"] == 2.4e6
    done = past.run("job", "no/such")
    assert (done.exit_code, "no job 'no/such' is known" in done.stderr) == (1, True)


def test_jobs_are_sorted_filtered_and_cut(past):
    assert [row["job_id"] for row in past.json("jobs", "--since", "7d", "--user", "bob")] == ["4712"]
    wasted = [row["wasted_joules"] for row in past.json("jobs", "--sort", "wasted")]
    assert wasted == sorted(wasted, reverse=True)
    assert len(past.json("jobs", "--since", "7d", "--limit", "2")) == 2
    (row,) = [row for row in past.json("waste", "--since", "7d", "--by", "user", "--class", "allocated_hung")
              if row["name"] == "alice"]
    assert row["wasted_joules"] == 0.0


@pytest.mark.parametrize("arguments", [
    ("waste", "--by", "day"), ("waste", "--account", "x"), ("waste", "--since", "7d", "--node", "a"),
    ("jobs", "--account", "x"), ("jobs", "--since", "7d", "--node", "a"), ("report", "--month", "2026-13"),
    ("report", "--month", "9999-01"), ("report", "--month", "0000-05"), ("report",), ("job", ".."),
    ("jobs", "--sort", "colour")])
def test_wrong_usage_ends_with_2(arguments):
    assert CliRunner().invoke(main, arguments).exit_code == 2


def test_an_invalid_value_is_named(shell):
    for arguments, words in ((("jobs", "--since", "tomorrow"), "is no age"),
                             (("jobs", "--since", "2100-01-01"), "future"),
                             (("waste", "--since", "7d", "--by", "node", "--user", "x"), "does not know user")):
        done = shell.run(*arguments)
        assert (done.exit_code, words in done.stderr) == (2, True), done.output
    assert shell.text("jobs", "--since", "7d") == "no jobs were recorded then\n"
    assert shell.text("waste", "--since", "7d") == "nothing was recorded then\n"


def test_a_month_as_html_is_escaped_and_as_csv_no_formula(past):
    page = past.text("report", "--month", month(past), "--by", "user", "--format", "html")
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    rows = list(csv.DictReader(io.StringIO(past.text("report", "--month", month(past), "--by", "user",
                                                     "--format", "csv"))))
    assert {row["name"] for row in rows} == {"alice", "bob", "carol", energies.HOSTILE, "(nobody)"}
    assert sum(float(row["energy_joules"]) for row in rows) == sum(
        row["energy_joules"] for row in json.loads(past.text("report", "--month", month(past), "--format", "json")))


@pytest.mark.parametrize(("joules", "text"), [(None, "-"), (0.0, "0 Wh"), (3600.0, "1 Wh"), (3.6e6, "1 kWh"),
                                              (3.6e9, "1 MWh"), (7.2e12, "2,000 MWh")])
def test_energy_in_people_s_units(joules, text):
    assert energy(joules) == text


def test_no_price_is_no_amount_and_never_zero():
    assert amount(None) == amount({"currency": "EUR", "energy": None}) == ""
    assert amount({"currency": "EUR", "energy": 0.0}) == "0.00 EUR"


def accounted(job_id, start_s, *consumed):
    """Return a job of slurmdbd as 23.02 and later write it, numbers wrapped; 22.05 writes them bare."""
    steps = [{"statistics": {"energy": {"consumed": one}}} for one in consumed]
    start = int(start_s)
    times = {"submission": start - 600, "start": start, "end": start + 3600, "eligible": start - 600}
    return {"job_id": job_id, "time": times, "state": {"current": ["COMPLETED"]},
            "partition": "a100", "nodes": "dgx01", "tres": {"allocated": [], "requested": []}, "steps": steps}


def test_runs_are_compared_with_slurms_own_meters(past, tmp_path):
    """Of steps that overlap the one that took most counts; what has no energy, or is not recorded, is left out."""
    start_s = energies.START
    rows = [accounted(4711, start_s, 1_000_000, {"set": True, "infinite": False, "number": 2_400_000}),
            accounted(666, start_s, 2_000_000), accounted(4712, start_s, 0), accounted(1, start_s, 5_000_000)]
    file = tmp_path / "sacct.json"
    file.write_text(json.dumps({"jobs": rows}))
    done = past.run("report", "--month", month(past), "--against", str(file), "--format", "json")
    found = {row["job_id"]: row["ratio"] for row in json.loads(done.stdout)}
    assert found == {"4711": pytest.approx(1.0), "666": pytest.approx(1.2)}
    assert list(found) == ["666", "4711"], "the furthest apart first"
    assert "2 of 4 runs compared: idlewatt counted 1.091 of Slurm's 1.22 kWh" in done.stderr


def test_a_real_consumed_energy_stands_beside_what_was_measured_of_the_same_job():
    """Recorded: Slurm's counter and idlewatt's wall meter read the same node; idlewatt had counted 210,373 J."""
    recorded = Path(__file__).parents[2] / "recorded" / "slurm" / "sacct_consumed_energy.json"
    start_s = 1_795_380_052.0
    run = {"job_id": "4", "start_s": start_s, "end_s": start_s + 61.0, "seen_seconds": 60.9, "energy_joules": 210_373.0}
    (row,), words = compared(recorded, [run])
    assert (row["slurm"], row["ratio"]) == (208_525.0, pytest.approx(1.009, abs=5e-4))
    assert row["seen"] == pytest.approx(99.8, abs=0.1)
    assert words.startswith("1 of 1 runs compared: idlewatt counted 1.009 of Slurm's 0.0579 kWh")


def test_slurm_without_energy_is_said_and_never_compared_as_zero(past):
    recorded = Path(__file__).parents[2] / "recorded" / "slurm" / "rest_slurmdb_job_with_step.json"
    done = past.run("report", "--month", month(past), "--against", str(recorded))
    assert (done.exit_code, len(done.stdout.strip().splitlines())) == (0, 1)
    assert "Slurm counted no energy of these 1 runs" in done.stdout


@pytest.mark.parametrize("text", ["", "[]", "JobID|Energy", '{"jobs": 1}'])
def test_what_sacct_did_not_print_is_refused(past, tmp_path, text):
    (tmp_path / "file").write_text(text)
    done = past.run("report", "--month", month(past), "--against", str(tmp_path / "file"))
    assert done.exit_code == 1
    assert "sacct --json" in done.stderr


def test_a_report_begins_with_its_conclusion_in_words(past):
    text = past.text("report", "--month", month(past), "--by", "user")
    assert text.splitlines()[0].startswith(f"{month(past)}: ")
    assert "the most by user" in text.partition("\n\n")[0]
    page = past.text("report", "--month", month(past), "--by", "user", "--format", "html")
    assert page.partition("<h1>")[2].partition("<table>")[0].count("the most by user") == 1
