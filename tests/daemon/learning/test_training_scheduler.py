"""When a night's training begins: once in every night, also in those in which clocks change."""

import os
import time
from datetime import UTC, datetime
from datetime import time as time_of_day

import pytest

from idlewatt.daemon import config
from idlewatt.daemon.learning.training_scheduler import NOTE, TrainingScheduler, last_night, last_time


@pytest.fixture(autouse=True)
def berlin(monkeypatch):
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def utc(*moment):
    return datetime(*moment, tzinfo=UTC).timestamp()


def begun(at, since_s, until_s, tmp_path):
    """Return when trainings would begin, looked for every minute, as the local time then reads."""
    shift, begins = TrainingScheduler(tmp_path, since_s), []
    for now_s in range(int(since_s), int(until_s), 60):
        if shift._due(at, now_s):
            shift._began_s = now_s
            begins.append(f"{datetime.fromtimestamp(now_s):%d %H:%M}")
    return begins


@pytest.mark.parametrize(("at", "nights"), [
    (time_of_day(3), ["24 03:00", "25 03:00", "26 03:00"]),
    (time_of_day(2, 30), ["24 02:30", "25 02:30", "26 02:30"]),
    (time_of_day(1), ["24 01:00", "25 01:00", "26 01:00"])])
def test_in_the_night_in_which_an_hour_comes_twice_it_trains_once_at_its_hour(tmp_path, at, nights):
    assert begun(at, utc(2026, 10, 23, 20), utc(2026, 10, 26, 20), tmp_path) == nights


@pytest.mark.parametrize(("at", "nights"), [
    (time_of_day(3), ["28 03:00", "29 03:00", "30 03:00"]),
    (time_of_day(2, 30), ["28 02:30", "29 03:30", "30 02:30"]),
    (time_of_day(1), ["28 01:00", "29 01:00", "30 01:00"])])
def test_in_the_night_in_which_an_hour_is_left_out_it_trains_once(tmp_path, at, nights):
    assert begun(at, utc(2026, 3, 27, 20), utc(2026, 3, 30, 20), tmp_path) == nights


def test_the_time_of_a_day_is_that_of_its_own_rules():
    assert last_time(time_of_day(1), utc(2026, 3, 29, 12)) == utc(2026, 3, 29, 0)
    assert last_time(time_of_day(1), utc(2026, 10, 25, 12)) == utc(2026, 10, 24, 23)


def test_trainings_are_counted_from_zero_on_by_every_result_where_the_daemon_trains(tmp_path):
    """The rise of a counter that begins at 1 is seen by nobody: no alert would know of the first failure."""
    noon_s = utc(2026, 7, 14, 12)
    shift = TrainingScheduler(tmp_path, noon_s)
    off, on = (config.parse(f"storage: {{models: {tmp_path}}}\ntraining: {{enabled: {word}}}")
               for word in ("false", "true"))
    assert shift.look(off, noon_s).runs == {}
    assert shift.look(on, noon_s).runs == {"done": 0, "refused": 0, "failed": 0, "interrupted": 0}
    shift._runs["failed"] += 1
    assert shift.look(on, noon_s).runs["failed"] == 1


def test_a_clock_that_is_set_back_by_days_does_not_put_training_off_by_days(tmp_path):
    shift = TrainingScheduler(tmp_path, utc(2026, 7, 14, 12))
    back_s = utc(2026, 7, 10, 12)
    assert not shift._due(time_of_day(3), back_s)
    assert shift._due(time_of_day(3), back_s + 86400)


def test_a_clock_that_is_corrected_by_a_second_does_not_train_twice(tmp_path):
    shift = TrainingScheduler(tmp_path, utc(2026, 7, 14, 1, 0))
    assert not shift._due(time_of_day(3), utc(2026, 7, 14, 0, 59))
    assert not shift._due(time_of_day(3), utc(2026, 7, 14, 1, 1))


@pytest.mark.parametrize("content", [None, b'{"began_s": NaN, "result": "done", "message": ""}', b"[" * 100_000])
def test_a_note_of_the_last_night_that_is_none_is_no_news_and_no_daemon_waits_for_it(tmp_path, content):
    (tmp_path / NOTE).parent.mkdir()
    if content is None:
        os.mkfifo(tmp_path / NOTE)
    else:
        (tmp_path / NOTE).write_bytes(content)
    assert last_night(tmp_path) is None


@pytest.mark.parametrize(("note", "success_s"), [
    (b'{"began_s": 9, "result": "done", "message": "", "model": ""}', 9.0),
    (b'{"began_s": 9, "result": "failed", "message": "", "model": ""}', None),
    (b'{"began_s": 9, "result": "failed", "message": "", "model": "", "last_success_s": 5}', 5.0)])
def test_a_note_tells_of_the_last_night_that_was_done_and_an_old_one_of_its_own_alone(tmp_path, note, success_s):
    (tmp_path / NOTE).parent.mkdir()
    (tmp_path / NOTE).write_bytes(note)
    assert last_night(tmp_path).success_s == success_s
