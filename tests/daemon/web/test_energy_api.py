"""The API of recorded energy: the same figures however they are asked for, and refusals in words."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from energies import NOW, START, job, shares
from werkzeug.test import Client

from idlewatt.daemon.efficiency import EnergyBook
from idlewatt.daemon.efficiency.digest import Saved
from idlewatt.daemon.pricing import Costing
from idlewatt.daemon.settings.costs import CostSettings
from idlewatt.daemon.waste import run_of
from idlewatt.daemon.web.app import WebApp
from idlewatt.daemon.web.own_view import OwnView
from idlewatt.storage.history import History
from idlewatt.storage.power_classes import PowerClass
from idlewatt.storage.records import Allocation, JobState, SchedulerSnapshot
from idlewatt.storage.run_energy import EnergyShare


@pytest.fixture
def client(view, energies):
    costs = CostSettings(currency="EUR", per_kwh=0.25, grams_per_kwh=400.0)
    view.ledger = EnergyBook(energies, Costing(costs), view.now)
    return Client(WebApp(view))


def rows(client, path):
    answer = client.get(f"/api/v1/{path}")
    assert answer.status_code == 200, answer.text
    return json.loads(answer.text)["data"]


def test_every_sum_is_the_same_energy(client):
    total = 5 * 12 * 200_000.0 + 12 * 30_000.0
    for by in ("user", "account", "partition", "node", "day", "class"):
        assert sum(row["energy_joules"] for row in rows(client, f"waste?since=7d&by={by}")) == pytest.approx(total), by
    jobs = sum(row["energy_joules"] for row in rows(client, "waste?since=7d&by=job"))
    assert jobs == sum(row["energy_joules"] for row in rows(client, "jobs?since=7d")) == 5 * 12 * 200_000.0
    users = {row["name"]: row for row in rows(client, "users?since=7d")}
    assert users["alice"]["energy_joules"] == rows(client, "jobs/4711")[0]["run"]["energy_joules"] == 2_400_000.0
    assert users[""]["wasted_joules"] == 360_000.0


def test_money_and_carbon_stand_beside_the_energy(client):
    (row,) = rows(client, "jobs?since=7d&user=alice")
    assert row["cost"] == {"currency": "EUR", "energy": pytest.approx(2.4 / 3.6 * 0.25, abs=1e-5),
                           "wasted": pytest.approx(0.72 / 3.6 * 0.25, abs=1e-5), "gpu_hours": None,
                           "carbon_grams": pytest.approx(2.4 / 3.6 * 400), "priced_ratio": 1.0, "carbon_ratio": 1.0}


def test_without_prices_there_is_no_cost(view, energies):
    view.ledger = EnergyBook(energies, Costing(), view.now)
    assert {row["cost"] for row in rows(Client(WebApp(view)), "jobs?since=7d")} == {None}


def test_a_job_s_report_names_the_fix(client):
    (report,) = rows(client, "jobs/4711")
    assert {"words": "2 of 4 GPUs were never used.", "fix": "Ask for 2.", "kind": "unused_gpus"} in report["notes"]
    assert report["waited_s"] == 600.0
    assert [one["name"] for one in report["series"]] == [f"dgx01:{index}" for index in range(4)]
    assert {one["name"]: one["watts"][0] for one in report["classes"]} == {
        "productive": 400.0, "allocated_idle": 200.0, "host_active": pytest.approx(66.667, abs=1e-3)}
    assert (report["run"]["power_max_watts"], report["run"]["activity"]) == (711.0, 0.5)


def test_an_array_is_its_tasks(client):
    assert {row["job"]["job_id"] for row in rows(client, "jobs/900")} == {"900_1", "900_2"}


@pytest.fixture
def numbered_alike(view, tmp_path):
    """Yield a view on a history into which two clusters recorded jobs of one number, one after the other."""
    first, reused = job("7", "alice"), job("8", "alice")
    second = replace(job("7", "bob", ended=False), submit_s=START - 300, partition="v100",
                     allocations=(Allocation("n1", 4, (0, 1, 2, 3)),))
    again = replace(job("8", "bob"), submit_s=START + 7200, start_s=START + 7200, end_s=START + 9000)
    with History.open(f"sqlite:///{tmp_path}/two.db") as history:
        for one in (first, second, reused, again):
            running = replace(one, state=JobState.RUNNING, end_s=None)
            history.record_snapshot(SchedulerSnapshot(one.start_s, (), (), (running,)))
            if one.state.finished:
                history.record_finished([one])
        history.record_shares([*shares(first), *(replace(share, node="n1", partition="v100")
                                                 for share in shares(second, windows=6))])
        view.ledger = EnergyBook(history, Costing(), view.now)
        yield view


@pytest.mark.parametrize(("named", "users"), [
    ("", ["bob", "alice"]), ("?partition=v100", ["bob"]), ("?partition=a100", ["alice"]), ("?user=alice", ["alice"])])
def test_a_job_of_each_cluster_that_has_its_number_is_reported_or_the_one_that_is_named(numbered_alike, named, users):
    found = rows(Client(WebApp(numbered_alike)), f"jobs/7{named}")
    assert [report["job"]["user"] for report in found] == users
    assert all(report["run"]["user"] == report["job"]["user"] and report["classes"] for report in found)


def test_sums_by_job_are_of_one_cluster_each(numbered_alike):
    client = Client(WebApp(numbered_alike))
    found = {(row["name"], row["partition"]): row["energy_joules"] for row in rows(client, "waste?since=7d&by=job")}
    assert found == {("7", "a100"): 2_400_000.0, ("7", "v100"): 1_200_000.0}
    (one,) = rows(client, "waste?since=7d&by=job&partition=v100")
    assert (one["name"], one["partition"]) == ("7", "v100")
    (first,) = rows(client, "waste?since=7d&by=job&limit=1")
    assert (first["partition"], first["energy_joules"]) == ("a100", 2_400_000.0)
    assert {row["partition"] for row in rows(client, "waste?since=7d&by=user")} == {""}


def test_a_number_that_each_of_two_sources_gave_one_after_the_other_is_two_jobs(view, tmp_path):
    jobs = [replace(job("7", "alice"), source="north"),
            replace(job("7", "alice"), source="south", submit_s=START + 7200, start_s=START + 7200, end_s=START + 9000)]
    with History.open(f"sqlite:///{tmp_path}/two.db") as history:
        history.record_finished(jobs)
        view.ledger = EnergyBook(history, Costing(), view.now)
        found = rows(Client(WebApp(view)), "jobs/7")
    assert sorted(report["job"]["submit_s"] for report in found) == [one.submit_s for one in jobs]
    assert all("source" not in report["job"] for report in found)


def test_who_wastes_now_has_the_energy_of_the_own_cluster_s_job(numbered_alike):
    first, second = (replace(job("7", user, ended=False), partition=partition, submit_s=submit_s,
                             allocations=(Allocation(node, 4, (0, 1, 2, 3)),))
                     for user, partition, node, submit_s in (("alice", "a100", "dgx01", START - 600),
                                                             ("bob", "v100", "n1", START - 300)))
    parts = [SimpleNamespace(node=held.allocations[0].node, gpu=0, run=run_of(held), power_watts=60.0, since_s=None,
                             power_class=PowerClass.ALLOCATED_IDLE) for held in (first, second)]
    found, _ = numbered_alike.ledger.wasters(parts, (first, second), 10)
    assert {row.user: row.energy_joules for row in found} == {"alice": 2_400_000.0, "bob": 1_200_000.0}


def test_a_job_that_is_not_on_the_cluster_that_is_named_is_not_found(numbered_alike):
    answer = Client(WebApp(numbered_alike)).get("/api/v1/jobs/7?partition=none")
    assert (answer.status_code, answer.json["error"]) == (404, "no job '7', partition 'none', is known")


def test_an_owner_finds_a_job_whose_number_another_cluster_gave_somebody_else_since(numbered_alike):
    (report,) = rows(Client(WebApp(OwnView(numbered_alike, "alice"))), "jobs/7")
    assert report["job"]["user"] == "alice"
    assert Client(WebApp(OwnView(numbered_alike, "carol"))).get("/api/v1/jobs/7").status_code == 404


def test_a_number_that_one_scheduler_gives_again_later_is_the_last_job_of_it(numbered_alike):
    (report,) = rows(Client(WebApp(numbered_alike)), "jobs/8")
    assert report["job"]["user"] == "bob"


def test_the_page_of_a_number_that_two_clusters_gave_links_to_each_job(numbered_alike):
    client = Client(WebApp(numbered_alike))
    text = client.get("/jobs/7").text
    assert "2 jobs have this id, on several clusters" in text
    assert 'href="?partition=a100&amp;user=alice"' in text
    one = client.get("/jobs/7?partition=a100&user=alice").text
    assert "on several clusters" not in one
    assert "/users/alice" in one
    assert "/users/bob" not in one


def test_a_job_that_the_scheduler_only_now_knows_is_reported_without_energy(client, view):
    live = next(job for job in view.jobs() if job.state is JobState.PENDING)
    (report,) = rows(client, f"jobs/{live.job_id}")
    assert (report["run"], report["notes"]) == (None, [])


@pytest.mark.parametrize(("path", "ids"), [
    ("jobs?since=7d&user=bob", ["4712"]), ("jobs?since=7d&state=running", ["4712"]),
    ("jobs?since=7d&search=900_", None), ("jobs?since=7d&account=none", []),
    ("jobs?since=7d&min_kwh=5", []), ("jobs?since=7d&limit=1&offset=4", None),
    ("jobs?since=1m", [])])
def test_filters_and_paging(client, path, ids):
    found = [row["job_id"] for row in rows(client, path)]
    assert found == ids if ids is not None else found


def test_rows_left_out_are_told(client):
    answer = json.loads(client.get("/api/v1/jobs?since=7d&limit=2&sort=wasted").text)
    assert (len(answer["data"]), answer["warnings"]) == (2, ["2 of 5 rows; the others with limit and offset"])


def test_only_the_classes_that_are_asked_for_count_as_wasted(client):
    (row,) = rows(client, "waste?since=7d&by=user&user=alice&class=allocated_hung")
    assert (row["wasted_joules"], row["energy_joules"]) == (0.0, 2_400_000.0)


@pytest.mark.parametrize(("path", "status", "words"), [
    ("jobs?since=tomorrow", 400, "no age"), (f"jobs?since={NOW + 9:.0f}", 400, "future"),
    *((f"{path}?since=2999-01-01", 400, "future") for path in ("notices", "prices", "flavours", "waste", "digest")),
    ("jobs?since=9e999", 400, "no age"), ("jobs?since=7d&sort=colour", 400, "sort must be one of"),
    ("jobs?since=7d&colour=red", 400, "unknown parameter"),
    ("jobs?since=7d&offset=-1", 400, "offset"), ("jobs?since=7d&limit=100000", 400, "limit"),
    ("jobs?since=7d&until=2020-01-01", 400, "before since"), ("waste?since=7d&by=colour", 400, "by must be one of"),
    ("waste?since=7d&by=node&user=alice", 400, "does not know user"), ("waste?by=user&class=red", 400, "class must be"),
    ("jobs?since=99999999999999999999d", 200, ""), ("jobs/unknown", 404, "no job"), ("nodes/unknown", 404, "no node"),
    ("jobs?since=7d&min_kwh=nan", 400, "min_kwh"), ("jobs?since=2026-13-45", 400, "no age"),
    ("jobs/%00", 404, "no job"), ("jobs?since=" + "9" * 300, 400, "longer")])
def test_what_makes_no_sense_is_refused_in_words(client, path, status, words):
    answer = client.get(f"/api/v1/{path}")
    assert (answer.status_code, words in answer.text) == (status, True), answer.text


def test_a_node_with_what_it_took_and_who_runs_there(client, view):
    (report,) = rows(client, "nodes/dgx01?since=7d")
    assert report["now"]["node"]["name"] == "dgx01"
    assert report["days"][0]["energy_joules"] == 5 * 12 * 200_000.0 + 12 * 30_000.0


def test_a_database_that_is_away_is_said(client, view, monkeypatch):
    from idlewatt.storage.errors import StoreUnavailable

    def away(*_, **__):
        raise StoreUnavailable("the disk is gone")

    monkeypatch.setattr(view.ledger, "by", away)
    answer = client.get("/api/v1/users")
    assert (answer.status_code, json.loads(answer.text)["errorType"]) == (503, "unavailable")


def test_the_description_knows_every_question(client):
    told = json.loads(client.get("/api/v1/openapi.json").text)["paths"]
    assert {"/api/v1/jobs/{job}", "/api/v1/nodes/{node}", "/api/v1/users", "/api/v1/wasters"} <= told.keys()
    assert {"user", "since", "sort"} <= {one["name"] for one in told["/api/v1/jobs"]["get"]["parameters"]}


def test_who_wastes_now_with_what_to_do(client, view):
    found = rows(client, "wasters")
    assert found == sorted(found, key=lambda row: -row["wasted_watts"])
    assert all(row["action"] for row in found)


def test_what_a_kwh_cost_is_told_by_quarters_of_an_hour(client, energies):
    energies.record_shares([EnergyShare(NOW - 900.0, 300.0, "dgx01", "a100", {}, price_per_kwh=0.31, currency="EUR",
                                        grams_per_kwh=412.0)])
    newest, *others = rows(client, "prices?since=1d")
    assert newest == {"start_s": NOW - 900.0, "per_kwh": 0.31, "currency": "EUR", "grams_per_kwh": 412.0}
    assert {row["per_kwh"] for row in others} == {0.25}
    assert rows(client, "prices?since=1d&until=12h") == []


def test_the_digest_of_the_cluster_says_what_advice_saved_and_that_of_an_account_does_not(client, view):
    view.saving = Saved("sjf", "fifo", 1e9, 1e10, 0.02)
    row, = client.get("/api/v1/digest?since=7d").json["data"]
    assert (row["saved"]["joules"], row["saved"]["of_joules"], row["saved_certain"]) == (1e9, 1e10, True)
    row, = client.get("/api/v1/digest?since=7d&account=lab").json["data"]
    assert (row["saved"], row["saved_certain"]) == (None, False)
