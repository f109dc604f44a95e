"""Lanes of a scrape: who answers is never held up by who hangs, and nobody is cut who is only usually slow."""

import threading
import time

import pytest
from cost import widened

from idlewatt.exporters import scrape
from idlewatt.exporters.deadline import DEADLINES
from idlewatt.exporters.scrape import Lanes, Trip


@pytest.fixture(autouse=True)
def brisk(monkeypatch):
    for name, seconds in (("_PATIENCE_S", 0.02), ("_LINGER_S", 0.05), ("_LEAST_S", 0.05)):
        monkeypatch.setattr(scrape, name, seconds)


@pytest.fixture
def road():
    made = []

    def build(places):
        made.append(Lanes("test", places))
        return made[-1]

    yield build
    for one in made:
        one.close()


class Hung:
    """A target that never answers; it ends only when its exchange is cut."""

    def __init__(self):
        self.over = threading.Event()

    def __call__(self):
        with DEADLINES.limit(60) as exchange:
            while not (exchange.overdue or self.over.is_set()):
                threading.Event().wait(0.005)
        self.over.set()


def test_every_trip_is_made_and_waited_for(road):
    done = []
    road(3).round(Trip(lambda number=number: done.append(number)) for number in range(100))
    assert sorted(done) == list(range(100))


def test_targets_that_answer_at_once_are_asked_by_one_thread(road, monkeypatch):
    monkeypatch.setattr(scrape, "_PATIENCE_S", 60.0)  # a busy machine is no slow target
    asking = set()
    road(4).round(Trip(lambda: asking.add(threading.get_ident())) for _ in range(300))
    assert len(asking) == 1


def test_targets_that_take_long_are_asked_by_as_many_threads_as_may_be(road, monkeypatch):
    monkeypatch.setattr(scrape, "_PATIENCE_S", 1.0)  # by who overtakes alone it would take eight seconds
    together = threading.Barrier(8)
    road(8).round([Trip(lambda: together.wait(6)) for _ in range(8)])
    assert not together.broken


def test_far_more_hung_targets_than_threads_do_not_hold_up_the_rest(road):
    hung, done, most = [Hung() for _ in range(60)], [], []

    def note():
        done.append(1)
        most.append(sum(thread.name == "test" for thread in threading.enumerate()))

    began = time.monotonic()
    road(2).round([Trip(work) for work in hung] + [Trip(note) for _ in range(20)])
    assert len(done) == 20
    assert time.monotonic() - began < widened(20)
    # At most 18 work at a time; those that were cut take a moment to end on a machine that is busy.
    assert max(most) < len(hung) / 2


def test_those_known_to_hang_take_no_place_from_those_that_answer(road):
    hung, done = [Hung() for _ in range(50)], []
    lane = road(1)
    trips = [Trip(work, slow=True) for work in hung]
    lane.round([*trips, *(Trip(lambda: done.append(1)) for _ in range(5))])
    assert len(done) == 5
    assert sum(trip.began > 0 for trip in trips) == scrape._SLOW_PER_FAST, "the rest is left for the next round"


def test_a_slow_target_that_is_usually_slow_is_spared_when_room_is_made(road, monkeypatch):
    lane, usual, hung = road(1), Hung(), [Hung() for _ in range(20)]
    lane.round([Trip(usual, usual_s=60.0), *(Trip(work) for work in hung)])
    assert not usual.over.is_set()
    assert sum(work.over.is_set() for work in hung) >= 20 - scrape._SLOW_PER_FAST


def test_what_a_slow_target_brings_after_the_round_is_not_lost(road):
    gate, brought = threading.Event(), threading.Event()
    road(1).round([Trip(lambda: (gate.wait(20), brought.set()))])
    assert not brought.is_set()
    gate.set()
    assert brought.wait(20)


def test_closing_ends_a_round_at_once(road):
    lane, hung = road(1), [Hung() for _ in range(200)]
    thread = threading.Thread(target=lane.round, args=([Trip(work) for work in hung],))
    thread.start()
    lane.close()
    thread.join(10)
    assert not thread.is_alive()
