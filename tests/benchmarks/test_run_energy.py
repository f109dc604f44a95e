"""Recorded energy at the size of a large site: a million finished jobs within a month, and a window of 1,000 nodes."""

import random
import time
from datetime import UTC, datetime

import pytest
from sqlalchemy import insert
from werkzeug.test import Client

from idlewatt.daemon import config
from idlewatt.daemon.service import Service
from idlewatt.daemon.view import DaemonView
from idlewatt.daemon.web.app import WebApp
from idlewatt.storage import schema
from idlewatt.storage.energy_queries import RunFilter
from idlewatt.storage.energy_schema import COST_COLUMNS, NULLABLE_SUMS, SELDOM, SUMS
from idlewatt.storage.history import History
from idlewatt.storage.power_classes import PowerClass
from idlewatt.storage.run_energy import DAY_S, EnergyShare

JOBS = 1_000_000
MONTH = datetime(2026, 10, 1, tzinfo=UTC).timestamp()
SPACING_S = 31 * DAY_S / JOBS


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Return a history of a million runs within October 2026, of 300 users in 20 accounts."""
    with History.open(f"sqlite:///{tmp_path_factory.mktemp('large')}/history.db") as history:
        draw = random.Random(1)
        for first in range(0, JOBS, 50_000):
            numbers = range(first, first + 50_000)
            with history._writing() as connection:
                connection.execute(insert(schema.jobs), [job(number) for number in numbers])
                connection.execute(insert(schema.run_energy), [run(draw, number) for number in numbers])
        with history._writing() as connection:
            connection.execute(insert(schema.energy_days), [
                whole(sums(draw)) | {"day_s": MONTH + day * DAY_S, "partition": f"p{user % 6}",
                                     "account": f"lab{user % 20}", "user": f"user{user}"}
                for day in range(31) for user in range(300)])
        yield history


def sums(draw):
    """Return what a run took in three classes, with its price and carbon; what it took nothing of is NULL."""
    energy = draw.randrange(10**9)
    idle, host = energy // 3, energy // 5
    parts = {"allocated_idle": idle, "host_active": host, "productive": energy - idle - host}
    return dict.fromkeys(SUMS, 0) | dict.fromkeys((*SELDOM, *NULLABLE_SUMS)) | {
        "energy_mj": energy, "wasted_mj": idle, "gpu_ms": 10**6, "priced_mj": energy, "cost_micro": energy // 10,
        "wasted_cost_micro": idle // 10, "gpu_cost_micro": 10**6, "intensity_mj": energy, "carbon_mg": energy // 10,
        **{f"{name}_mj": part for name, part in parts.items()},
        **{f"{name}_cost_micro": part // 10 for name, part in parts.items()}}


def whole(sums):
    """Return sums of a day, of which each has room for what it took nothing of."""
    return {name: value if name in COST_COLUMNS.values() else value or 0 for name, value in sums.items()}


def job(number):
    start_s = MONTH + number * SPACING_S
    return {"job_id": str(number), "submit_s": start_s - 60, "state": "completed", "partition": f"p{number % 6}",
            "user": f"user{number % 300}", "account": f"lab{number % 20}", "name": f"train-{number % 5000}", "qos": "",
            "reason": "", "reason_text": "", "eligible_s": start_s,
            "start_s": start_s, "end_s": start_s + 7200, "limit_s": 86400.0,
            "dependency": "", "restarts": 0, "tasks": 1, "gpus": 4, "nodes": 1, "cpus": 16, "memory_bytes": 1 << 36,
            "request": {}, "changed_s": start_s, "open": False}


def run(draw, number):
    start_s = MONTH + number * SPACING_S
    return sums(draw) | {
        "job_id": str(number), "submit_s": start_s - 60, "start_s": start_s, "user": f"user{number % 300}",
        "account": f"lab{number % 20}", "partition": f"p{number % 6}", "gpu_model": "NVIDIA A100-SXM4-40GB",
        "first_s": start_s, "last_s": start_s + 7200, "gpus": 4.0, "seen_ms": 7_200_000,
        "power_max_mw": 10**6, "memory_max_bytes": 1 << 34, "idle": [], "shared_ms": None}


def timed(work):
    spent = []
    for _ in range(3):
        began = time.process_time()
        work()
        spent.append(time.process_time() - began)
    return min(spent)


WEEK = RunFilter(since_s=MONTH + 24 * DAY_S)
ALL = RunFilter(since_s=MONTH)
IDLE = RunFilter(since_s=MONTH, wasted=(PowerClass.ALLOCATED_IDLE,))
LISTS = {
    "a week, newest first": lambda history: history.runs(WEEK, "ended", 50),
    "a week, most wasted first": lambda history: history.runs(WEEK, "wasted", 50),
    "a month, newest first": lambda history: history.runs(ALL, "ended", 50),
    "a month, page 2,000": lambda history: history.runs(ALL, "ended", 50, 100_000),
    "a month, most wasted first": lambda history: history.runs(ALL, "wasted", 50),
    "a user's month, most wasted first": lambda history: history.runs(
        RunFilter(since_s=MONTH, user="user7"), "wasted", 50),
    "a week, failed ones": lambda history: history.runs(RunFilter(since_s=WEEK.since_s, state="failed"), "ended", 50),
    "a month by account": lambda history: history.energy_by("account", ALL),
    "a month by class": lambda history: history.energy_by("class", ALL),
    "a day's jobs by waste": lambda history: history.energy_by("job", RunFilter(since_s=MONTH + 30 * DAY_S), 50),
    "search by id": lambda history: history.runs(RunFilter(since_s=MONTH, text="500000"), "ended", 50),
    "search by part of an id": lambda history: history.runs(RunFilter(since_s=MONTH, text="4711"), "ended", 50),
    "search by user": lambda history: history.runs(RunFilter(since_s=MONTH, text="user77"), "ended", 50),
    "search by name": lambda history: history.runs(RunFilter(since_s=MONTH, text="train-4711"), "wasted", 50),
    "search for what is not there": lambda history: history.runs(RunFilter(since_s=MONTH, text="nowhere"), "ended", 50),
    "a month, at least 0.25 kWh": lambda history: history.runs(
        RunFilter(since_s=MONTH, least_joules=9e5), "ended", 50),
    "a month of an account": lambda history: history.runs(RunFilter(since_s=MONTH, account="lab7"), "energy", 50),
    "a month of a partition, failed ones": lambda history: history.runs(
        RunFilter(since_s=MONTH, partition="p3", state="failed"), "ended", 50),
    "a month by GPU-hours, failed ones": lambda history: history.runs(
        RunFilter(since_s=MONTH, state="failed"), "gpu_hours", 50),
    "a month by user": lambda history: history.energy_by("user", ALL),
    "a month by job": lambda history: history.energy_by("job", ALL, 50),
    "a month by day": lambda history: history.energy_by("day", ALL),
    "one job": lambda history: history.runs_of("500000"),
    "a month, most idle first": lambda history: history.runs(IDLE, "wasted", 50),
    "a month by job, most idle first": lambda history: history.energy_by("job", IDLE, 50),
    "a month by partition": lambda history: history.energy_by("partition", ALL),
    "a month's runs with some software": lambda history: history.runs(
        RunFilter(since_s=MONTH, software="pytorch"), "ended", 50),
    "a month's runs with software that nobody has": lambda history: history.runs(
        RunFilter(since_s=MONTH, software="nothing"), "ended", 50),
}


@pytest.mark.parametrize("what", LISTS)
def test_lists_and_the_month_report_of_a_million_jobs_take_less_than_a_second(large, capsys, what):
    spent = timed(lambda: LISTS[what](large))
    with capsys.disabled():
        print(f"\n{what}: {spent:.3f} s")
    assert spent < 1.0


PAGES = ("/jobs?since=31d", "/jobs?since=31d&sort=wasted", "/jobs?since=31d&offset=100000",
         "/jobs?since=31d&search=train-4711", "/jobs?since=31d&user=user7&min_kwh=0.1", "/users?since=31d",
         "/users/user7?since=31d", "/jobs/500000", "/api/v1/jobs?since=31d&limit=1000",
         *(f"/api/v1/waste?by={by}&since=2026-10-01&until=2026-11-01&limit=10000"
           for by in ("account", "user", "partition", "day", "class")),
         "/api/v1/waste?by=job&since=2026-10-01&until=2026-11-01", "/api/v1/digest?since=7d")
"""What is looked at, and what ``idlewatt jobs``, ``idlewatt report --month`` and ``idlewatt digest`` ask."""


@pytest.mark.parametrize("path", PAGES)
def test_pages_and_answers_of_a_million_jobs_take_less_than_a_second(large, capsys, path):
    service = Service(config.parse("cluster: dgx\ncosts: {currency: EUR, per_kwh: 0.3}\n"), large,
                      lambda: MONTH + 31 * DAY_S)
    view = DaemonView(service, lambda: service.settings)
    client = Client(WebApp(view))
    assert client.get(path).status_code == 200
    spent = timed(lambda: client.get(path).get_data())
    view.close()
    with capsys.disabled():
        print(f"\n{path}: {spent:.3f} s")
    assert spent < 1.0


LONGEST_S = 4.0
"""Of whole runs by the flavour of their jobs, of which no sums by day are kept; docs/figures.md has what it takes."""


def test_a_million_runs_are_added_up_by_flavour_in_seconds(large, capsys):
    spent = timed(lambda: large.energy_by("flavour", ALL))
    with capsys.disabled():
        print(f"\na month by flavour: {spent:.3f} s")
    assert spent < LONGEST_S


def test_a_window_of_1000_nodes_is_written_within_a_second(tmp_path, capsys):
    def window(number):
        return [EnergyShare(300.0 * number, 300.0, f"dgx-{node:04}", "gpu", {PowerClass.PRODUCTIVE: 1e6,
                            PowerClass.HOST_ACTIVE: 2e5}, f"{node}-{half}", 1.0, 2.0, f"user{node % 300}", "lab",
                            "NVIDIA A100-SXM4-40GB", 4.0, 300.0, 1200.0, 1200.0, 600.0, 0.0, 1500.0, 4e10, ())
                for node in range(1000) for half in range(2)]

    with History.open(f"sqlite:///{tmp_path}/history.db") as history:
        history.record_shares(window(0))
        numbers = iter(range(1, 10))
        spent = timed(lambda: history.record_shares(window(next(numbers))))
    with capsys.disabled():
        print(f"\n2,000 runs on 1,000 nodes, one window: {spent:.3f} s")
    assert spent < 1.0
