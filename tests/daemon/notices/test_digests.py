"""The digest of a week: what it says, to whom it goes, when, and how it looks whatever jobs are called."""

from datetime import datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from idlewatt.daemon import config
from idlewatt.daemon.counterfactual import Counterfactual, ReplayedWindow
from idlewatt.daemon.efficiency import EnergyBook, digest_pages
from idlewatt.daemon.efficiency.digest import Saved, digest
from idlewatt.daemon.notices.local_time import digest_due, digest_until
from idlewatt.daemon.pricing import Costing
from idlewatt.daemon.settings.costs import CostSettings
from idlewatt.daemon.settings.notices import DigestSettings
from idlewatt.storage.power_classes import PowerClass
from idlewatt.storage.run_energy import EnergyShare

DAY = 86400.0
MONDAY = 1_795_417_200.0
"""2026-11-23, 07:00 UTC."""


def share(start_s, job_id, user, account, wasted, useful=7.2e6):
    joules = {PowerClass.PRODUCTIVE: useful, PowerClass.ALLOCATED_IDLE: wasted}
    return EnergyShare(start_s, 300.0, "dgx01", "a100", {one: value for one, value in joules.items() if value}, job_id,
                       0.0, 1.0, user, account, "A100", 4.0, 300.0, 1200.0, 1200.0, 600.0)


@pytest.fixture
def week(place):
    """Return a place with two weeks of records, the last of which ends on a Monday."""
    place.now_s = MONDAY
    place.history.record_shares([
        share(MONDAY - 10 * DAY, "1", "ada", "lab", 3.6e6), share(MONDAY - 3 * DAY, "2", "<b>bob", "=lab2", 7.2e6),
        share(MONDAY - 2 * DAY, "3", "ada", "lab", 0.0), share(MONDAY - DAY, "4", "ada", "lab", 1.8e6)])
    return place


def told(week, account="", saved=None):
    book = EnergyBook(week.history, Costing(CostSettings(currency="EUR", per_kwh=0.25)), lambda: MONDAY)
    return digest_pages.as_json(digest(book, MONDAY - 7 * DAY, MONDAY, account, saved))


def replayed(fifo, sjf, error_ratio):
    """Return what was saved in one window of which that much was replayed."""
    window = ReplayedWindow(1.0, {"fifo": fifo, "sjf": sjf}, error_ratio)
    return Saved.of(Counterfactual().plus(window, "fifo"), "fifo", "sjf")


def test_a_digest_says_what_was_wasted_what_changed_the_best_and_the_worst(week):
    row = told(week)
    text = digest_pages.text(row, "dgx")
    assert "Wasted   2.5 kWh (29 %) = 0.62 EUR, 150 % more than in the span before" in text
    assert [one["job_id"] for one in row["worst"]] == ["2", "4"]
    assert [one["job_id"] for one in row["best"]] == ["3", "4", "2"]
    assert [one["name"] for one in row["names"]] == ["=lab2", "lab"]


def test_a_job_that_runs_on_after_the_week_is_in_its_digest_and_one_of_before_or_after_is_not(week):
    for days in (-9, -4, 1):  # a notebook that was left open: its last window lies after the last midnight
        week.history.record_shares([share(MONDAY + days * DAY, "99", "sleeper", "lab", 3.6e7, 3.6e6)])
    week.history.record_shares([share(MONDAY + DAY, "100", "sleeper", "lab", 7.2e7)])
    row = told(week)
    assert [one["job_id"] for one in row["worst"]] == ["99", "2", "4"]
    assert row["worst"][0]["wasted_joules"] == 3 * 3.6e7
    assert [one["job_id"] for one in row["best"]] == ["3", "4", "2", "99"]
    assert "1" not in [one["job_id"] for one in told(week, "lab")["worst"]]
    for page in (digest_pages.text(row), digest_pages.html(row)):
        assert "Figures of a job are of its whole run, also of its time before and after these days." in page


def test_the_owner_of_an_account_hears_of_its_users_and_jobs_only(week):
    text = digest_pages.text(told(week, "lab"))
    assert "2.00 kWh" not in text
    assert "bob" not in text
    assert "Users by waste" in text
    assert "0.5 kWh of 4.5 kWh" in text


def test_what_advice_would_have_saved_stands_beside_its_error(week):
    saved = replayed(1e9, 0.9e9, 0.02)
    text = digest_pages.text(told(week, saved=saved))
    assert "would have saved 27.8 kWh (6.94 EUR at the mean price of these days) since counting began" in text
    assert "by replay; its error is 2.0 %" in text
    unsure = replayed(1e9, 0.999e9, 0.02)
    for text in (digest_pages.text(told(week, saved=unsure)), digest_pages.html(told(week, saved=unsure))):
        assert "would have saved nothing distinguishable from 0 (+-5.56 kWh) since counting began" in text
        assert "0.278 kWh" not in text
    unknown = replayed(1e9, 0.5e9, None)
    for text in (digest_pages.text(told(week, saved=unknown)), digest_pages.html(told(week, saved=unknown))):
        assert "is not known to have saved anything since counting began, by replay, as the error of the" in text
        assert "139 kWh" not in text
        assert "mean price" not in text
    alone = Counterfactual().plus(ReplayedWindow(1.0, {"fifo": 1e9}, None), "fifo")
    assert Saved.of(alone, "fifo", "sjf") is Saved.of(alone, "fifo", "fifo") is None


def test_a_name_that_is_an_attack_on_html_stays_a_name(week):
    page = digest_pages.html(told(week), "<script>")
    assert "<b>bob" not in page
    assert "&lt;b&gt;bob" in page
    assert "<script" not in page


def test_a_week_of_which_nothing_is_known_is_told_as_that_and_not_as_no_waste(place):
    row = told(place, saved=replayed(1e9, 0.9e9, None))
    for page in (digest_pages.text(row), digest_pages.html(row)):
        assert "nothing was recorded: the cluster" in page
        assert "No energy was recorded in these days." in page
        assert "0 kWh" not in page


def test_a_week_ends_at_its_day_and_hour_of_local_time():
    wanted = DigestSettings(enabled=True)
    zone = config.parse("notices: {timezone: UTC}").notices.zone
    assert digest_due(MONDAY, wanted, zone) == MONDAY
    assert digest_due(MONDAY - 1, wanted, zone) == MONDAY - 7 * DAY
    assert digest_due(MONDAY + 6.9 * DAY, wanted, zone) == MONDAY


@pytest.mark.parametrize(("zone", "day", "at", "spans"), [
    ("America/Los_Angeles", "friday", "16:00", ["2026-10-23 to 2026-10-30", "2026-10-30 to 2026-11-06"]),
    ("Europe/Berlin", "monday", "01:00", ["2026-10-18 to 2026-10-25", "2026-10-25 to 2026-11-01"])])
def test_digests_adjoin_where_clocks_change_between_them(place, mail_server, zone, day, at, spans):
    server = mail_server()
    desk = place.desk("[]", mail=f"{{host: 127.0.0.1, port: {server.port}, sender: i@example.org}}", timezone=zone,
                      digest=f"{{enabled: true, day: {day}, at: '{at}'}}")
    first = datetime.fromisoformat(f"{'2026-10-30' if day == 'friday' else '2026-10-26'}T{at}")
    for week in (0, 7):
        place.now_s = (first + timedelta(days=week, minutes=5)).replace(tzinfo=ZoneInfo(zone)).timestamp()
        place.look(desk)
    assert [mail["Subject"] for _, mail, _ in server.mails] == [f"nothing was recorded: dgx, {span}" for span in spans]


@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles", "Europe/Berlin", "Pacific/Auckland", "Asia/Kolkata"])
@pytest.mark.parametrize("hour", range(24))
def test_weeks_of_digests_adjoin_all_year_and_are_over_when_they_are_due(zone, hour):
    wanted, zone = DigestSettings(enabled=True, at=time(hour, 30)), ZoneInfo(zone)
    due = sorted({digest_due(MONDAY + day * DAY, wanted, zone) for day in range(420)})
    ends = [digest_until(moment, wanted, zone) for moment in due]
    assert {after - before for before, after in pairwise(ends)} == {7 * DAY}
    assert all(0 <= moment - end < DAY + 3600 for moment, end in zip(due, ends, strict=True))


def test_each_reader_gets_the_digest_once_as_text_and_html_and_again_only_where_nobody_took_it(week, mail_server):
    server = mail_server()
    mail = f"{{host: 127.0.0.1, port: {server.port}, sender: i@example.org}}"
    digests = "{enabled: true, owners: {lab: head@example.org, '=lab2': two@example.org}}"
    server.box.refuse["head@example.org"] = "450 later"
    desk = week.desk("[]", mail=mail, digest=digests)
    week.look(desk)
    week.look(desk, 30.0)
    assert sorted(to for to, _, _ in server.mails) == [("root@example.org",), ("two@example.org",)]
    server.box.refuse.clear()
    again = week.desk("[]", mail=mail, digest=digests)
    week.look(again, 60.0)
    week.look(again, 7200.0)
    assert sorted(to for (to,), _, _ in server.mails) == ["head@example.org", "root@example.org", "two@example.org"]
    sent = next(one for to, one, _ in server.mails if to == ("root@example.org",))
    assert sent["Subject"] == "2.5 kWh of 8.5 kWh wasted: dgx, 2026-11-16 to 2026-11-23"
    assert [part.get_content_type() for part in sent.iter_parts()] == ["text/plain", "text/html"]


def test_a_digest_that_is_late_by_more_than_a_day_is_left_out(week, mail_server):
    server = mail_server()
    desk = week.desk("[]", mail=f"{{host: 127.0.0.1, port: {server.port}, sender: i@example.org}}",
                     digest="{enabled: true}")
    week.look(desk, 2 * DAY)
    assert server.mails == []


def test_a_digest_that_nobody_took_within_a_day_is_given_up_and_nothing_stays_behind_for_it(week):
    desk = week.desk("[]", digest="{enabled: true}")
    week.look(desk)
    assert desk.undelivered is not None
    week.look(desk, DAY + 60.0)
    assert desk.undelivered is None
    assert [(one.stage, one.state) for one in week.history.notices(0.0)] == [("digest", "failed")]
    assert week.reasons()[0].startswith("given up: mail: ")
