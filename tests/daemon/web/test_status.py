"""What is wrong with what the daemon knows: the banner of the page, and the same words as JSON."""

import dataclasses
import re

import pytest

from idlewatt.daemon.degraded import Degradation
from idlewatt.daemon.web.view import Status

from .conftest import NOW

UNREAD = Degradation("scheduler_unread", "slurm_rest", "Slurm not read since 14:02", NOW - 7200)
SLOW = Degradation("source_slow", "dcgm", "dcgm not read since 15:31", NOW - 1740)


@pytest.fixture
def degraded(view):
    view.standing = Status(NOW, True, (), "no advice: Slurm not read since 14:02", (UNREAD, SLOW), NOW - 7200, "db")
    view.advice = ()
    view.lacking = ("Slurm not read since 14:02",)
    return view


def words(client):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", client.get("/").text))


def test_the_page_has_a_banner_with_all_that_is_wrong_and_nothing_twice(client, degraded):
    text = words(client)
    assert "Degraded: do not take what is below for the whole truth." in text
    assert "whole truth. Slurm not read since 14:02 dcgm not read since 15:31" in text
    assert "Not ready yet" not in text


def test_a_page_on_which_all_is_well_has_no_banner(client):
    assert 'id="degraded"' not in client.get("/").text
    assert 'id="unadvised"' not in client.get("/").text


def test_pending_jobs_without_advice_say_why_and_when_the_queue_was_seen(client, degraded):
    text = words(client)
    assert "No advice: Slurm not read since 14:02. The jobs below are as they were then." in text
    assert "Start now" not in text
    assert "No advice yet" not in text


def test_while_policies_are_compiled_the_page_says_so(client, view):
    view.standing = Status(NOW, True, no_advice="no advice yet: policies are being compiled")
    view.advice = ()
    assert "No advice yet: policies are being compiled." in words(client)


def test_a_source_that_is_green_and_late_is_shown_as_slow(client, degraded):
    name = degraded.source_rows[0].name
    degraded.standing = dataclasses.replace(degraded.standing,
                                            degraded=(dataclasses.replace(SLOW, subject=name),))
    degraded.source_rows = (dataclasses.replace(degraded.source_rows[0], up=True, error="", targets=()),)
    assert '<span class="state partly">slow</span>' in client.get("/").text
    assert "dcgm not read since 15:31" in words(client)


def test_words_from_outside_are_no_markup(client, view):
    view.standing = Status(NOW, True, degraded=(dataclasses.replace(UNREAD, words="<b>x</b>"),))
    assert "&lt;b&gt;x&lt;/b&gt;" in client.get("/").text


def test_the_status_is_one_row_with_the_same_words(client, degraded):
    (row,) = client.get("/api/v1/status").json["data"]
    assert row["ready"] is False
    assert row["missing"] == ["Slurm not read since 14:02"]
    assert row["no_advice"] == "no advice: Slurm not read since 14:02"
    assert row["degraded"][0] == {"cause": "scheduler_unread", "subject": "slurm_rest",
                                  "words": "Slurm not read since 14:02", "since_s": NOW - 7200}


def test_not_ready_says_what_is_missing(client, degraded):
    answer = client.get("/-/ready")
    assert (answer.status_code, answer.text) == (503, "idlewatt is not ready: Slurm not read since 14:02.\n")
