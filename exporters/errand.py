"""Work that must never hold up whoever asks for it: on a thread of its own, or many targets at once, in two lanes.

A target begins in the fast lane, which has few places. Once it has taken longer than ``_PATIENCE_S`` it goes on in the
slow lane, and its place is free for the next. When the slow lane is full as well, whoever is longest over its usual
time is cut. A target that timed out last time begins in the slow lane: it never takes a place from those that answer.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from .deadline import DEADLINES
from .source import FAULTS, SourceError

Result = TypeVar("Result")


class Errand:
    """Something that is done now and then on a thread of its own; a run that never ends costs that one thread.

    Its threads are daemons: nobody waits for them at the end of the process. ``then`` is called after each run, when
    the next could begin.
    """

    def __init__(self, name: str, work: Callable[[], None], then: Callable[[], None] = lambda: None) -> None:
        self._name, self._work, self.then = name, work, then
        self._starting = threading.Lock()
        self._ended = threading.Event()
        self._ended.set()
        self._began: float | None = None

    def begin(self) -> bool:
        """Begin a run; return False while one is under way."""
        with self._starting:
            if not self._ended.is_set():
                return False
            self._ended.clear()
            self._began = time.monotonic()
            try:
                threading.Thread(target=self._run, name=self._name, daemon=True).start()
            except RuntimeError:  # no more threads: tried again at the next beginning
                self._ended.set()
                return False
        return True

    def wait(self, seconds: float) -> bool:
        """Wait for the end of the run under way; return whether it has ended."""
        return self._ended.wait(seconds)

    @property
    def under_way(self) -> bool:
        """Tell whether a run has begun and not ended."""
        return not self._ended.is_set()

    @property
    def under_way_s(self) -> float:
        """Return for how many seconds the present run has lasted, 0 when none is under way."""
        return 0.0 if self._ended.is_set() or self._began is None else time.monotonic() - self._began

    def _run(self) -> None:
        try:
            self._work()
        finally:
            self._ended.set()
            self.then()


def all_of(name: str, calls: Iterable[Callable[[], Result]], threads: int) -> list[Result]:
    """Return what each call returns, a few side by side; after a fault no more are begun, and the first is raised."""
    waiting, taking = deque(enumerate(calls)), threading.Lock()
    results: dict[int, Result] = {}
    faults: list[Exception] = []

    def work() -> None:
        while not faults:
            with taking:
                if not waiting:
                    return
                number, call = waiting.popleft()
            try:
                results[number] = call()
            except (SourceError, *FAULTS) as fault:
                faults.append(fault)

    crew = [threading.Thread(target=work, name=name, daemon=True) for _ in range(min(threads, len(waiting)))]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    if faults:
        raise faults[0]
    return [results[number] for number in sorted(results)]


_PATIENCE_S = 0.25
"""How long a target may keep a place in the fast lane."""
_LINGER_S = 2.0
"""How long a round waits for targets that have just become slow; what they bring later is kept all the same."""
_SLOW_PER_FAST = 8
"""Places in the slow lane for each in the fast lane: a thread and a connection each, while targets hang."""
_LEAST_S = 2.0
"""Nobody is cut before it has had this long."""
_USUAL = 3.0
"""Times its usual time that a target may take before it is cut in favour of others."""


@dataclass(slots=True, eq=False)
class Trip:
    """One target's turn: ``work`` must not raise."""

    work: Callable[[], None]
    slow: bool = False
    """Whether it begins in the slow lane."""
    usual_s: float = 0.0
    """How long it takes when all is well, as far as known."""
    began: float = 0.0
    """0: it found no place and was left out of the round."""
    thread: int = 0
    cut: bool = False


class Lanes:
    """Runs trips on threads that end when there is nothing more to do; safe for many threads, one round at a time."""

    def __init__(self, name: str, places: int) -> None:
        self._name, self._places = name, places
        self._most_slow = places * _SLOW_PER_FAST
        self._change = threading.Condition()
        self._waiting: deque[Trip] = deque()
        self._fast: set[Trip] = set()
        self._slow: set[Trip] = set()
        self._closed = False

    def round(self, trips: Iterable[Trip]) -> None:
        """Start every trip; return once each has ended, or is slow and has been waited for long enough.

        Trips that begin slow are not waited for; where the slow lane has no place for them they are left out.
        """
        trips = list(trips)
        awaited = [trip for trip in trips if not trip.slow]
        with self._change:
            try:
                self._waiting.extend(awaited)
                for trip in trips:
                    if trip.slow and len(self._slow) < self._most_slow and not self._closed:
                        self._start(trip)
                self._drive()
            finally:
                self._waiting.clear()
            self._change.wait_for(lambda: self._closed or self._slow.isdisjoint(awaited), _LINGER_S)

    def close(self) -> None:
        """Cut what is under way, start nothing more."""
        with self._change:
            self._closed = True
            self._waiting.clear()
            for trip in self._fast | self._slow:
                self._cut(trip)
            self._change.notify_all()

    def _drive(self) -> None:
        """Keep the fast lane moving until nobody waits for a place or has one."""
        while (self._waiting or self._fast) and not self._closed:
            self._overtake()
            for _ in range(min(len(self._waiting), self._places - len(self._fast))):
                self._start(self._waiting.popleft())
            self._change.wait(_PATIENCE_S / 2)

    def _overtake(self) -> None:
        """Move to the slow lane who has been in the fast one for too long, making room there."""
        late = time.monotonic() - _PATIENCE_S
        for trip in [trip for trip in self._fast if trip.began < late]:
            if len(self._slow) >= self._most_slow and not self._make_room():
                return
            self._fast.discard(trip)
            self._slow.add(trip)

    def _make_room(self) -> bool:
        """Cut who is longest over its usual time; its place is counted as free from now on."""
        now = time.monotonic()
        overtime, trip = max(((now - trip.began - max(_LEAST_S, _USUAL * trip.usual_s), trip)
                              for trip in self._slow if not trip.cut), key=lambda pair: pair[0], default=(-1.0, None))
        if trip is None or overtime < 0:
            return False
        self._cut(trip)
        self._slow.discard(trip)
        return True

    def _start(self, trip: Trip) -> None:
        lane = self._slow if trip.slow else self._fast
        trip.began = time.monotonic()
        lane.add(trip)
        try:
            threading.Thread(target=self._travel, args=(trip,), name=self._name, daemon=True).start()
        except RuntimeError:
            lane.discard(trip)
            raise

    def _travel(self, trip: Trip | None) -> None:
        """Make this trip, and those that wait for as long as this thread has a place in the fast lane."""
        while trip is not None:
            trip.thread = threading.get_ident()
            trip.work()
            trip = self._next(trip)

    def _next(self, ended: Trip) -> Trip | None:
        with self._change:
            in_time = ended in self._fast
            self._fast.discard(ended)
            self._slow.discard(ended)
            if in_time and self._waiting and not self._closed:
                following = self._waiting.popleft()
                following.began = time.monotonic()
                self._fast.add(following)
                return following
            self._change.notify_all()
            return None

    @staticmethod
    def _cut(trip: Trip) -> None:
        trip.cut = True
        if trip.thread:
            DEADLINES.hasten(trip.thread)
