"""The pages of jobs, users and nodes: whole without JavaScript, and closed to what names bring."""

import re
import time
from dataclasses import replace
from html.parser import HTMLParser
from urllib.parse import urljoin

import energies
import pytest
import requests
from energies import HOSTILE, NOW, START
from werkzeug.test import Client

from idlewatt.daemon.cli.job import report
from idlewatt.daemon.efficiency import EnergyBook
from idlewatt.daemon.efficiency.book import _classes
from idlewatt.daemon.pricing import Costing
from idlewatt.daemon.settings.costs import CostSettings
from idlewatt.daemon.web.app import WebApp
from idlewatt.daemon.web.units import job_path
from idlewatt.storage.errors import StoreUnavailable
from idlewatt.storage.gpu_parts import GpuPart
from idlewatt.storage.history import History
from idlewatt.storage.power_classes import PowerClass
from idlewatt.storage.records import Allocation, Job, JobState, Node, Request, SchedulerSnapshot
from idlewatt.storage.uses import Use

PATHS = ["/", "/jobs", "/jobs?sort=wasted&since=30d", "/jobs/4711", "/jobs/4712", "/jobs/666", "/jobs/900", "/users",
         "/users/alice", "/nodes/dgx01"]
EUR = CostSettings(currency="EUR", per_kwh=0.25, grams_per_kwh=400.0, per_gpu_hour={"A100": 1.5})


@pytest.fixture
def client(view, energies):
    view.ledger = EnergyBook(energies, Costing(EUR), view.now)
    return Client(WebApp(view))


class Elements(HTMLParser):
    """Every element that a browser would see, and whether each that opens is closed."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.seen, self.open, self.texts, self.ids = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in ("meta", "link", "input", "img", "br", "rect", "path"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if self.open and self.open[-1] == tag:
            self.open.pop()
        elif tag not in ("rect", "path"):
            self.open.append(f"/{tag}")

    def handle_data(self, data):
        self.texts.append(data)


def parsed(client, path):
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    elements = Elements()
    elements.feed(answer.text)
    return answer.text, elements


@pytest.mark.parametrize("path", PATHS)
def test_every_page_is_whole_and_carries_no_script_of_its_own(client, path):
    text, elements = parsed(client, path)
    assert [tag for tag in elements.open if tag not in ("p", "li", "tr", "td", "th", "option")] == []
    assert len(elements.ids) == len(set(elements.ids))
    assert not re.search(r"\son\w+=|style=|javascript:|\{\{|\{%", text)
    assert [tag for tag, attributes in elements.seen if tag == "script" and "src" not in attributes] == []
    assert "None" not in " ".join(elements.texts)


@pytest.mark.parametrize("path", [*PATHS, f"/users/{energies.HOSTILE.replace('/', '%2F')}"])
def test_a_hostile_name_is_text_and_nothing_else(client, view, path):
    job = replace(view.job_rows[0], name=HOSTILE, user=HOSTILE, account=HOSTILE, partition=HOSTILE)
    view.job_rows = (job, *view.job_rows[1:])
    view.waste_rows = tuple(replace(row, user=HOSTILE) for row in view.waste_rows)
    text, elements = parsed(client, path)
    assert "<script>alert" not in text
    assert all("alert(1)" not in (attributes.get("src") or "") for _, attributes in elements.seen)
    assert {tag for tag, _ in elements.seen} <= {
        "html", "head", "meta", "title", "link", "script", "noscript", "body", "a", "header", "h1", "h2", "h3", "img",
        "nav", "main", "div", "strong", "ul", "li", "p", "section", "svg", "rect", "path", "g", "text", "table",
        "thead", "tbody", "tr", "th", "td", "span", "code", "footer", "form", "label", "select", "option", "input",
        "button", "dl", "dt", "dd", "br"}


@pytest.mark.parametrize("path", PATHS)
def test_links_lead_to_pages_that_are_there(client, path):
    from urllib.parse import urljoin
    _, elements = parsed(client, path)
    for tag, attributes in elements.seen:
        target = attributes.get("href", "")
        if tag != "a" or target.startswith("#"):
            continue
        where = urljoin(f"http://here{path}", target).removeprefix("http://here")
        answer = client.get(where)
        assert answer.status_code in (200, 404 if "/nodes/" in where or "/users/" in where or "/jobs/" in where else 0,
                                      503 if "ready" in where else 0), (where, answer.text[:200])


def test_a_job_s_page_says_what_a_terminal_says(client):
    text, _ = parsed(client, "/jobs/4711")
    for words in ("2 of 4 GPUs were never used.", "Ask for 2.", "667 Wh", "0.17 EUR", "711 W", "dgx01:3", "10 min",
                  "EUR", "kg CO2e"):
        assert words in text, words
    assert text.count('class="productive"') > 2


@pytest.mark.parametrize("path", ["/jobs/4711", "/users/alice?since=30d", "/nodes/dgx01?since=30d"])
def test_energy_by_class_has_its_money_beside_it(client, path):
    page = client.get(path).text
    table = page[page.index('aria-label="Energy by class"'):]
    costs = re.findall(r'<td class="number wide">([\d.]+) EUR</td>', table[:table.index("</table>")])
    assert len(costs) >= 3
    assert "0.10" in costs if path.startswith("/jobs") else costs


def test_without_prices_no_money_is_shown_and_never_zero(client, view, energies):
    view.ledger = EnergyBook(energies, Costing(), view.now)
    for path in PATHS:
        text, _ = parsed(client, path)
        assert "EUR" not in text
        assert "CO2e" not in text


def test_who_wastes_now_is_on_the_first_page_with_what_to_do(client):
    text, _ = parsed(client, "/")
    section = text.split('id="wasters"')[1].split("</section>")[0]
    assert 'href="jobs/4711"' in section or 'href="jobs/' in section
    assert "<code>" in section


def test_on_the_first_page_a_known_cause_stands_in_place_of_what_is_said_of_its_class(client, view):
    def wasters():
        return parsed(client, "/")[0].split('id="wasters"')[1].split("</section>")[0]

    assert "Waits for data, 62 % of the time; more on its page. <code>idlewatt job 4711</code>" in wasters()
    view.by_subject = {}
    assert "another input pipeline" in wasters()


def power_of(history, job, **changes):
    """Return when each window of a run's power begins and how long it lasts, in minutes after the start, and kW."""
    run = replace(history.runs_of(job)[0], **changes)
    (first, *_) = _classes(history.classes_of(run, 96), run)
    return [((start - run.start_s) / 60, length / 60, watts / 1000)
            for start, length, watts in zip(first.start_s, first.seconds, first.watts, strict=True)]


def test_watts_are_those_of_the_part_of_a_window_in_which_the_run_was_there(energies):
    whole = power_of(energies, "4711")
    assert len(whole) == 12
    assert whole[0][:2] == (0, 5)
    # It began two minutes into the first window, and ended a minute into the last.
    cut = power_of(energies, "4711", start_s=START + 120.0, end_s=START + 3360.0)
    assert [window[:2] for window in (cut[0], cut[-1])] == [(0, 3), (53, 1)]
    assert cut[0][2] == pytest.approx(whole[0][2] * 5 / 3)
    assert cut[-1][2] == pytest.approx(whole[-1][2] * 5)


def test_of_a_run_that_was_found_running_the_first_window_is_not_drawn(energies):
    """The daemon came somewhere in that window: its joules over all of it would be watts that never were."""
    assert [window[0] for window in power_of(energies, "4711", start_s=START - 600.0)] == list(range(15, 70, 5))


def test_filters_stay_while_paging(client, monkeypatch):
    monkeypatch.setattr("idlewatt.daemon.web.energy_pages.ROWS", 2)
    text, elements = parsed(client, "/jobs?since=30d&search=&account=lab&sort=energy")
    assert "5 jobs, 1 to 2" in text
    later = next(attributes["href"] for tag, attributes in elements.seen if attributes.get("rel") == "next")
    text, _ = parsed(client, f"/jobs{later}")
    assert "5 jobs, 3 to 4" in text
    assert 'value="lab"' in text


@pytest.mark.parametrize(("path", "status"), [
    ("/jobs/none", 404), ("/users/none", 404), ("/nodes/none", 404), ("/jobs?since=x", 400), ("/jobs?sort=x", 400),
    ("/jobs?offset=x", 400), ("/jobs?min_kwh=x", 400), ("/users?since=2100-01-01", 400),
    ("/jobs/%2e%2e%2fpasswd", 404)])
def test_what_nobody_knows_and_what_makes_no_sense(client, path, status):
    answer = client.get(path)
    assert (answer.status_code, answer.mimetype) == (status, "text/plain")


def test_the_first_page_stays_while_the_history_cannot_be_read(client, view, monkeypatch):
    def away(*_):
        raise StoreUnavailable("the disk is gone")

    monkeypatch.setattr(view.ledger, "wasters", away)
    text, _ = parsed(client, "/")
    assert "not recorded" in text
    monkeypatch.setattr(view.ledger, "runs", away)
    assert client.get("/jobs").status_code == 503


@pytest.mark.parametrize("name", ["a/b", "..", ".", "a/../b", "a b?#%", "<x>"])
def test_a_name_leads_to_its_own_page(name):
    from urllib.parse import unquote
    path = job_path(name)
    assert unquote(path.removeprefix("jobs/")) == name
    assert path.count("/") == 1 + name.count("/")
    assert ".." not in path


@pytest.mark.parametrize("path", [job_path("team/train-7"), "jobs/team%2Ftrain-7"])
def test_the_page_of_a_job_of_kubernetes_is_served_as_its_links_and_those_of_others_write_it(serve, view, path):
    view.job_rows = (Job("team/train-7", NOW - 60.0, JobState.PENDING, "a100", Request(2), name="train-7"),)
    root = serve(WebApp(view)).urls[0]
    page = requests.get(f"{root}{path}", timeout=60)
    assert page.status_code == 200
    assert "<h2 id=\"job-title-1\">Job team/train-7 </h2>" in page.text, "its name is said once"
    style = re.search(r'"([^"]*static/style\.css)"', page.text)
    assert requests.get(urljoin(page.url, style[1]), timeout=60).status_code == 200
    assert requests.get(f"{root}api/v1/{path}", timeout=60).json()["data"][0]["job"]["job_id"] == "team/train-7"


def test_a_thousand_nodes_and_two_thousand_pending_jobs_are_rendered_in_300_ms(client, view):
    from idlewatt.daemon.web.view import NodeRow, WasteRow
    states = (PowerClass.ALLOCATED_IDLE, PowerClass.PRODUCTIVE, PowerClass.ALLOCATED_UNDERUSED)
    view.node_rows = tuple(NodeRow(Node(f"n{number}", ("gpu",), 8), 3000.0, "ipmi", 100.0) for number in range(1000))
    view.waste_rows = tuple(WasteRow("gpu", f"n{node}", states[node % 3], 300.0, node % 3 != 1, gpu,
                                     user=f"u{node % 50}", job_id=f"r{node}",
                                     run=(f"r{node}", NOW - 9000, NOW - 8000)) for node in range(1000)
                            for gpu in range(8))
    running = tuple(Job(f"r{node}", NOW - 9000, JobState.RUNNING, "gpu", Request(8), start_s=NOW - 8000,
                        user=f"u{node % 50}", allocations=(Allocation(f"n{node}", 8, tuple(range(8))),))
                    for node in range(1000))
    view.job_rows = running + tuple(Job(f"p{number}", NOW - 60, JobState.PENDING, "gpu", Request(8))
                                    for number in range(2000))
    view.advice = ()
    spent = []
    for _ in range(5):
        began = time.process_time()
        assert client.get("/").status_code == 200
        spent.append(time.process_time() - began)
    print(f"\n{min(spent):.3f} s")
    assert min(spent) < 0.3


def test_a_gpu_of_a_node_is_one_row_whatever_classes_its_watts_are_in_and_whoever_holds_it(client, view):
    mine = [row for row in view.waste_rows if row.node == "dgx01" and row.gpu == 0]
    other = replace(mine[0], power_class=PowerClass.ALLOCATED_UNDERUSED, power_watts=20.0)
    shared = replace(other, job_id="4712", user="bob")
    view.waste_rows += (other, shared)
    page = client.get("/nodes/dgx01").text
    assert page.count(">GPU 0</th>") == 1
    row = re.sub(r"\s+", " ", re.sub("<[^>]*>", " ", page.split(">GPU 0</th>")[1].split("</tr>")[0]))
    watts = sum(one.power_watts for one in mine) + 40.0
    assert f"{watts:.0f} W" in row
    assert "4712 bob" in row
    view.waste_rows = (*(one for one in view.waste_rows if one.gpu != 0), replace(other, power_watts=None))
    assert "0 W" not in client.get("/nodes/dgx01").text.split(">GPU 0</th>")[1].split("</tr>")[0]


def test_the_list_of_jobs_is_asked_the_same_of_the_api_with_all_its_filters(client):
    _, elements = parsed(client, "/jobs?user=alice&sort=wasted&until=2027-01-15&min_kwh=0.1")
    (link,) = [attributes["href"] for tag, attributes in elements.seen if "api/v1/jobs" in attributes.get("href", "")]
    asked = client.get(f"/{link.removeprefix('./')}")
    assert asked.status_code == 200, asked.text
    assert {row["user"] for row in asked.json["data"]} <= {"alice"}
    assert all(f"{name}=" in link for name in ("since", "until", "user", "sort", "min_kwh"))


def test_how_long_a_job_has_run_counts_from_its_start_however_long_it_was_looked_at(client):
    assert "2 h so far" in client.get("/jobs?user=bob").text
    assert "2 h so far" in client.get("/users/bob").text


def test_jobs_are_listed_until_a_day(client):
    text, _ = parsed(client, "/jobs?since=2026-12-01&until=2027-01-01")
    assert "No such job was recorded in that time." in text
    assert client.get("/jobs?since=2027-01-02&until=2027-01-01").status_code == 400


def test_parts_of_gpus_are_named_on_the_page_in_the_api_and_by_the_command(view, tmp_path):
    held = Allocation("dgx01", 0, None, 4, parts=(GpuPart("shard", 7, 1.0, 0.25),))
    job = replace(energies.job("77", ended=False), allocations=(held,), request=Request(0))
    with History.open(f"sqlite:///{tmp_path}/history.db") as history:
        history.record_snapshot(SchedulerSnapshot(energies.START, jobs=(job,)))
        history.record_shares(list(energies.shares(job, gpus=0.25)))
        view.ledger = EnergyBook(history, Costing(EUR), view.now)
        client = Client(WebApp(view))
        text, _ = parsed(client, "/jobs/77")
        (row,) = client.get("/api/v1/jobs/77").json["data"]
    assert "25 % of GPU 7 (1 shard), 4 CPUs" in text
    assert "parts of GPUs" in text
    assert row["job"]["allocations"][0]["parts"] == [
        {"kind": "shard", "index": 7, "units": 1.0, "share": 0.25, "uuid": ""}]
    lines = list(report(row, 80))
    assert "      Ran on  dgx01: 25 % of GPU 7 (1 shard), 4 CPUs" in lines
    assert any(line.startswith("   Asked for  parts of GPUs") for line in lines)


@pytest.mark.parametrize(("measured_s", "shown"), [(180.0, False), (3500.0, True)])
def test_cpus_and_memory_that_were_measured_for_minutes_of_hours_are_not_shown_as_the_jobs(view, tmp_path, measured_s,
                                                                                         shown):
    job = energies.job("78")
    with History.open(f"sqlite:///{tmp_path}/history.db") as history:
        running = replace(job, state=JobState.RUNNING, end_s=None)
        history.record_snapshot(SchedulerSnapshot(energies.START, jobs=(running,)))
        history.record_finished([job])
        history.record_shares(list(energies.shares(job)))
        history.record_uses([Use(*job.key, job.start_s, "alice", "train", 4, 64, 2**38, job.end_s, measured_s, "cgroup",
                                 2.0, 2.0, 0.0, 2.0**33)])
        view.ledger = EnergyBook(history, Costing(EUR), view.now)
        client = Client(WebApp(view))
        text, _ = parsed(client, "/jobs/78")
        (row,) = client.get("/api/v1/jobs/78").json["data"]
    assert ("Its CPUs and memory were measured 5.0 % of the time: not long enough to judge them." in text) is not shown
    assert ("8.0 GiB in use" in text) is shown
    assert ("Ask for 10 GiB." in text) is shown
    assert (row["cpus_used"], row["memory_used_bytes"]) == ((2.0, 2.0**33) if shown else (None, None))


def test_a_program_is_told_a_fault_in_plain_text_and_a_browser_on_a_page(view):
    client = Client(WebApp(view))
    plain = client.get("/jobs/none")
    assert (plain.status_code, plain.mimetype, plain.text) == (404, "text/plain", "no job 'none' is known\n")
    page = client.get("/jobs/none", headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert (page.status_code, page.mimetype) == (404, "text/html")
    hostile = client.get("/users/%3Cscript%3Ealert(1)%3C%2Fscript%3E", headers={"Accept": "text/html"})
    assert hostile.status_code == 404
    assert "<script>alert" not in hostile.text
    assert client.get("/api/v1/jobs/none", headers={"Accept": "text/html"}).mimetype == "application/json"
