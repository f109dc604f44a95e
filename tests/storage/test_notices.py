"""The ledger of notices: what was said to whom, on both databases."""

from dataclasses import replace

from idlewatt.storage.ledger import Ledger
from idlewatt.storage.notices import Notice
from idlewatt.storage.retention import Retention

DAY = 86400.0
NOTICE = Notice("idle", "first", "mail", "1", 0.0, 10.0, "idle_gpus", "ada", "lab", "gpu", "waiting", 100.0, 100.0,
                "None of its 4 GPUs does anything.", "End it.", figures={"gpus": 4, "energy": float("nan")})


def test_a_notice_comes_back_and_changes_its_state_in_place(history):
    history.record_notices([NOTICE])
    history.record_notices([replace(NOTICE, state="sent", sent_s=200.0, updated_s=200.0, address="a@example.org")])
    (read,) = history.notices(0.0)
    assert (read.state, read.sent_s, read.address) == ("sent", 200.0, "a@example.org")
    assert read.figures == {"gpus": 4, "energy": None}
    assert history.notices(201.0) == ()


def test_a_notice_that_is_found_anew_after_a_dry_run_keeps_the_time_of_that(history):
    history.record_notices([replace(NOTICE, state="dry_run")])
    history.record_notices([replace(NOTICE, found_s=100.0 + 7 * DAY, updated_s=100.0 + 7 * DAY)])
    (read,) = history.notices(0.0)
    assert (read.state, read.found_s) == ("waiting", 100.0 + 7 * DAY)


def test_notices_are_asked_by_user_and_the_newest_comes_first(history):
    others = [replace(NOTICE, user="bob", job_id="2", updated_s=300.0), replace(NOTICE, job_id="3", updated_s=200.0)]
    history.record_notices([NOTICE, *others])
    assert [one.job_id for one in history.notices(0.0)] == ["2", "3", "1"]
    assert [one.job_id for one in history.notices(0.0, "ada")] == ["3", "1"]
    assert [one.job_id for one in history.notices(0.0, limit=1)] == ["2"]


def test_hostile_names_neither_spoil_the_ledger_nor_select_more(history):
    history.record_notices([replace(NOTICE, user="x' OR '1'='1", words="a\0b\udce4")])
    (read,) = history.notices(0.0, "x' OR '1'='1")
    assert read.words == "ab?"
    assert history.notices(0.0, "' OR '1'='1") == ()


def test_who_opts_out_stays_out_until_she_opts_in(url, history):
    with Ledger.open(url) as ledger:
        ledger.opt_out("ada", 100.0)
        ledger.opt_out("ada", 200.0)
        assert history.opted_out() == {"ada": 100.0}
        assert (ledger.opt_in("ada"), ledger.opt_in("ada")) == (True, False)
    assert history.opted_out() == {}


def test_old_notices_go_with_their_retention(history):
    history.record_notices([NOTICE, replace(NOTICE, job_id="2", updated_s=9 * DAY)])
    history.compact(10 * DAY, Retention(notices_s=5 * DAY))
    assert [one.job_id for one in history.notices(0.0)] == ["2"]
