"""A waiting job's page and the API's answer on it: when it starts, what stands before it, what smaller would start."""

import json
import re
from dataclasses import replace

import pytest

from idlewatt.daemon.web.view import Status
from idlewatt.storage.records import Allocation, Job


def text(client, path):
    return re.sub(r"\s+", " ", re.sub("<[^>]*>", " ", client.get(path).text))


def test_page_tells_the_interval_what_stands_before_and_what_would_start_now(client):
    said = text(client, "/jobs/4722")
    assert "In 30 min to 2 h in 95 % of 20 futures" in said
    assert "If all jobs used their whole limits, in 1 d." in said
    assert "1 waiting job comes first in its partition." in said
    assert "4711 running, 4 GPUs ends in 1 h at the latest" in said
    assert "8 of its 16 GPUs would start on dgx02 --nodes=1 --gpus-per-node=8" in said
    assert "not known: whether that is enforced is not known" in said


def test_a_job_of_somebody_else_that_stands_before_it_is_no_empty_link(view, client):
    (one,) = view.told
    view.told = (replace(one, ahead=tuple(replace(other, job_id="") for other in one.ahead)),)
    said = text(client, "/jobs/4722")
    assert "a job of somebody else, running, 4 GPUs" in said
    assert 'href="../jobs/"' not in client.get("/jobs/4722").text


def test_page_says_when_nothing_is_known_of_the_start(view, client):
    view.told, view.standing = (), replace(view.standing, no_advice="no advice: the scheduler was not read for 1 h")
    assert "When it starts is not known: no advice: the scheduler was not read for 1 h." in text(client, "/jobs/4722")
    assert isinstance(view.standing, Status)


def test_page_of_a_job_that_runs_says_nothing_of_a_start(client):
    assert "When it starts" not in text(client, "/jobs/4711")


def test_ends_of_the_interval_beyond_what_is_forecast_are_no_figures(view, client):
    (one,) = view.told
    view.told = (replace(one, interval_s=(one.interval_s[0], None), latest_s=None),)
    assert "In 30 min to more than 30 days in 95 %" in text(client, "/jobs/4722")
    view.told = (replace(one, interval_s=(None, None), latest_s=None),)
    assert "In more than 30 days in 95 %" in text(client, "/jobs/4722")
    view.told = (replace(one, interval_s=(one.interval_s[0], one.interval_s[0]), latest_s=None),)
    assert "In about 30 min in 95 %" in text(client, "/jobs/4722"), "an interval with equal ends is none"


def test_api_answers_on_waiting_jobs_only(client):
    (row,) = json.loads(client.get("/api/v1/waits/4722").text)["data"]
    assert (row["verdict"], row["interval_s"][0], row["shapes"][0]["verdict"]) == ("waits", 1_800_001_800.0, "starts")
    for job in ("4711", "nobody", "900", "%3Cscript%3E"):
        answer = client.get(f"/api/v1/waits/{job}")
        assert (answer.status_code, answer.json["errorType"]) == (404, "not_found")
    assert client.get("/api/v1/waits/4722?when=now").status_code == 400


@pytest.mark.parametrize(("named", "found"), [("", 2), ("?partition=a100", 1), ("?partition=v100&user=bob", 1)])
def test_a_number_that_two_clusters_gave_has_an_estimate_of_each_or_of_the_named(view, client, named, found):
    (one,) = view.told
    job = next(job for job in view.job_rows if job.job_id == "4722")
    other = replace(job, submit_s=job.submit_s - 60, partition="v100", user="bob")
    view.job_rows += (other,)
    view.told += (replace(one, submit_s=other.submit_s),)
    rows = json.loads(client.get(f"/api/v1/waits/4722{named}").text)["data"]
    assert len(rows) == found
    assert rows[-1]["submit_s"] == (other.submit_s if "v100" in named or not named else job.submit_s)
    answer = client.get("/api/v1/waits/4722?partition=none")
    assert (answer.status_code, answer.json["error"]) == (
        404, "no job '4722', partition 'none', waits, as far as the scheduler was read")
    assert text(client, "/jobs/4722").count("of 20 futures") >= 1


def test_a_search_finds_who_waits_and_has_no_record_yet(view, client):
    assert "4722" in text(client, "/jobs?search=sweep&since=7d")
    assert "4722" in text(client, "/jobs?search=4722")
    assert "4722" not in text(client, "/jobs?search=sweep&state=running")
    assert "4722" not in text(client, "/jobs?min_kwh=1&search=sweep")
    assert "Waiting and running now" not in text(client, "/jobs")
    hostile = "<b>" * 40
    view.job_rows += (Job("9", 0.0, view.job_rows[1].state, "a100", view.job_rows[1].request, user=hostile),)
    assert hostile not in client.get("/jobs?user=%3Cb%3E").text
    assert hostile not in client.get(f"/jobs?user={hostile.replace('<', '%3C')}").text


def test_errors_of_gpus_are_told_on_the_pages_of_the_job_that_holds_them_and_of_the_node(view, client):
    running = replace(view.job_rows[0], job_id="77", allocations=(Allocation("dgx01", 2, (0, 3)),))
    unnamed = replace(view.job_rows[0], job_id="78", allocations=(Allocation("dgx01", 2, None),))
    view.job_rows += running, unnamed
    view.facts = replace(view.facts, gpu_error_info={("dgx01", "3", "79"): 1.0, ("dgx01", "5", "31"): 1.0,
                                                     ("dgx02", "3", "94"): 1.0})
    said = text(client, "/jobs/77")
    assert "GPU dgx01:3 has reported error Xid 79. Tell your administrator" in said
    assert "Xid 31" not in said
    assert "Xid 94" not in said
    assert "GPU dgx01:5 has reported error Xid 31. The program may be at fault" in text(client, "/jobs/78")
    assert "has reported error" not in text(client, "/jobs/4722")
    assert "GPU 5 has reported error Xid 31" in text(client, "/nodes/dgx01")


def test_pending_jobs_of_the_overview_lead_to_their_pages(client):
    assert 'href="jobs/4722"' in client.get("/").text


def test_a_page_does_not_wait_for_an_estimate_that_takes_long_but_says_so_and_asks_again(view, client):
    view.estimates_take_s = 2.0
    said = client.get("/jobs/4722").text
    assert "When it starts is being worked out" in said
    assert '<meta http-equiv="refresh" content="2">' in said
    assert json.loads(client.get("/api/v1/waits/4722").text)["data"], "a program waits for the whole answer"
    view.estimates_take_s = 0.0
    assert "http-equiv" not in client.get("/jobs/4722").text
