"""Reading exporters' pages: every target of a source at once, in two lanes, each failing alone.

A target begins in the fast lane, which has few places. Only as many of them are used as it takes to be through in some
seconds: threads that want the processor at the same time take it from one another. Once a target has taken longer than
``_PATIENCE_S`` it goes on in the slow lane, and its place is free for the next. When the slow lane is full as well,
the target that is longest over its usual time is cut. A target that timed out last time begins in the slow lane: it
never takes a place from those that answer.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, Literal

from pydantic import Field

from ..storage.telemetry import EnclosureMeter, Telemetry
from .deadline import DEADLINES
from .exposition import Exposition, Look, Samples
from .fetch import Client, Displaced, TimedOut
from .http_options import HttpOptions
from .page_checks import GpuOwners, PageError, PageLimits, ServerNames, check_found
from .source import FAULTS, Clock, Role, SourceConfig, SourceError, SourcePurpose, TargetHealth, joined
from .targets import Discovery, Target, TargetOptions, page_url
from .text import without_login

Parse = Callable[[Samples, Target, float], Telemetry]
"""Samples of one page, where they came from, and when (seconds since the epoch)."""

log = logging.getLogger(__name__)

_LONGEST_PAUSE_S = 300.0
_JITTER = (0.75, 1.25)
_KEPT_S = 600.0
"""How long the last answer of a target is given on; callers judge by its age."""
_PATIENCE_S = 0.25
"""How long a target may keep a place in the fast lane."""
_SOON_S = 5.0
"""More places are used where a round would go on for longer than this: 16 cost half as much CPU again as one."""
_LINGER_S = 2.0
"""How long a round waits for targets that have just become slow; what they bring later is kept all the same."""
_SLOW_PER_FAST = 8
"""Places in the slow lane for each in the fast lane: a thread and a connection each, while targets hang."""
_TOGETHER, _LARGE_BYTES = 8, 131072
"""Pages that are read together, and from which size on one does not wait for others."""
_LEAST_S = 2.0
"""Nobody is cut before it has had this long."""
_USUAL = 3.0
"""Times its usual time that a target may take before it is cut in favour of others."""


class PageConfig(SourceConfig, TargetOptions, HttpOptions, PageLimits):
    """A source that reads pages of exporters."""

    finds: ClassVar[SourcePurpose | None] = None
    """What every page must show; None where a page may well show nothing."""
    meters: ClassVar[str] = ""
    """The power source of targets with the label ``enclosure``."""
    scheme: Literal["http", "https"] = Field(default="http", description="Scheme for targets given as host:port.")
    metrics_path: str = Field(default="/metrics", description="Path of the page on targets given as host:port.")
    params: dict[str, str] = Field(default_factory=dict, description="Query parameters of every page.")
    concurrency: int = Field(default=16, ge=1, le=256,
                             description="How many targets are read at once at most, where fewer would take seconds; "
                                         "raise it where exporters are slow. Up to eight times as many are waited for "
                                         "beside them while they hang.")

    def locate(self, address: str, labels: dict[str, str]) -> str:
        """Return the URL of a target's page."""
        return page_url(address, labels, self.scheme, self.metrics_path, self.params)


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
        self._name, self._places, self._used = name, places, 1
        self._most_slow = places * _SLOW_PER_FAST
        self._change = threading.Condition()
        self._waiting: deque[Trip] = deque()
        self._fast: set[Trip] = set()
        self._slow: set[Trip] = set()
        self._ended, self._closed = 0, False

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
        self._used, ended, since = max(1, self._used // 2), self._ended, time.monotonic()
        while (self._waiting or self._fast) and not self._closed:
            self._overtake()
            for _ in range(min(len(self._waiting), self._used - len(self._fast))):
                self._start(self._waiting.popleft())
            self._change.wait(_PATIENCE_S / 2)
            if (passed := time.monotonic() - since) >= _PATIENCE_S / 2:
                if len(self._waiting) > (self._ended - ended) / passed * _SOON_S:
                    self._used = min(2 * self._used, self._places)
                ended, since = self._ended, since + passed

    def _overtake(self) -> None:
        """Move to the slow lane targets that have been in the fast one for too long, making room there."""
        late = time.monotonic() - _PATIENCE_S
        for trip in [trip for trip in self._fast if trip.began < late]:
            if len(self._slow) >= self._most_slow and not self._make_room():
                return
            self._fast.discard(trip)
            self._slow.add(trip)

    def _make_room(self) -> bool:
        """Cut the target that is longest over its usual time; its place is counted as free from now on."""
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
            in_time, self._ended = ended in self._fast, self._ended + 1
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


@dataclass(slots=True, eq=False)
class _Record:
    """What is remembered of a target between rounds."""

    target: Target
    facts: Telemetry = Telemetry()
    """Its last answer, with the time of the request."""
    names: ServerNames = field(default_factory=ServerNames)
    health: TargetHealth | None = None
    """None until it has answered or failed for the first time."""
    last_success_s: float | None = None
    usual_s: float = 0.0
    """How long its last good answer took."""
    silent: int = 0
    """How many times in a row it ran into a time limit."""
    retry_at: float = 0.0
    under_way: bool = False


@dataclass(slots=True)
class _Visit:
    record: _Record
    look: Look
    started: float
    page: bytes = b""
    took_s: float = 0.0
    left_s: float = 0.0
    """Time that it took to answer, and that is left; while a page waits for others neither counts on."""


class PageSource:
    """Reads the pages of all targets and reduces them to records; the telemetry source behind dcgm, node and ipmi.

    Targets that run into a time limit (powered down, or hung) are tried ever more rarely, up to every five minutes, in
    a lane of their own, since each costs a thread its whole time limit; a refused connection costs nothing and is
    tried each round. The last answer of a target is kept for a while, with its own time, for callers that judge by age.
    """

    role: Role = "telemetry"

    def __init__(self, config: PageConfig, wanted: Iterable[str], parse: Parse, clock: Clock,
                 timer: Callable[[], float] = time.monotonic) -> None:
        self.name = config.name or config.kind
        self._config, self._parse, self._clock, self._timer = config, parse, clock, timer
        self._client = Client(config)
        self._discovery = Discovery(config, config.locate, clock)
        self._exposition = Exposition(wanted, config)
        self._lanes = Lanes(self.name, config.concurrency)
        self._records: dict[str, _Record] = {}
        self._owners = GpuOwners()
        self._parking, self._asking, self._parked = threading.Lock(), False, list[_Visit]()
        self._random = random.Random()  # noqa: S311 - spreads retries, keeps no secret

    def read(self) -> Telemetry:
        """Ask every target that is due; return all answers until then.

        A target that takes long is not waited for: ``facts`` has what it tells later. SourceError only when there are
        targets, each was tried, and none could be read.
        """
        self._renew(self._discovery.targets())
        self._ask([record for record in self._records.values()
                   if not record.under_way and self._timer() >= record.retry_at])
        self._owners.forget(self._timer(), self._records)
        self._exposition.next_round()
        tried = (*self._discovery.faults(), *(record.health for record in self._records.values()))
        if tried and not any(health is None or health.up for health in tried):
            first = next(filter(None, tried))
            raise SourceError(f"none of {len(tried)} targets could be read; {first.target}: {first.error}")
        return self.facts()

    def facts(self) -> Telemetry:
        """Return the last answer of each target, unless that is old."""
        now, records = self._clock(), tuple(self._records.values())
        telemetry = joined(replace(record.facts, left=record.names.left()) for record in records
                           if record.last_success_s is not None and abs(now - record.last_success_s) <= _KEPT_S)
        return replace(telemetry, meters=tuple(
            EnclosureMeter(rack, self._config.meters, record.target.instance) for record in records
            if self._config.meters and (rack := record.target.labels.get("enclosure"))))

    def health(self) -> tuple[TargetHealth, ...]:
        """Return how each target fared when it was read last, discoveries that failed first."""
        return (*self._discovery.faults(), *(record.health or _health_of(record, up=False, error="has not answered yet")
                                             for record in tuple(self._records.values())))

    def close(self) -> None:
        """End what is under way, release threads and connections."""
        self._lanes.close()
        self._client.close()
        self._discovery.close()

    def _renew(self, targets: list[Target]) -> None:
        """Remember each target that there is, forget the others."""
        before = self._records
        self._records = {target.url: before.get(target.url) or _Record(target) for target in targets}
        for target in targets:
            self._records[target.url].target = target
        for url in before.keys() - self._records.keys():
            self._client.forget(url)

    def _ask(self, due: list[_Record]) -> None:
        """Send each record on its trip; those for which there was no room are due again at the next round."""
        for record in due:
            record.under_way = True
        trips = [Trip(partial(self._scrape, record), record.silent > 0, record.usual_s) for record in due]
        self._asking = True
        try:
            self._lanes.round(trips)
        finally:
            with self._parking:
                self._asking, left, self._parked = False, self._parked, []
            self._read_parked(left)
            for record, trip in zip(due, trips, strict=True):
                if not trip.began:
                    record.under_way = False

    def _scrape(self, record: _Record) -> None:
        """Ask one target, and read its page together with others; nothing is raised."""
        visit = _Visit(record, Look(self._clock(), time.monotonic() + self._config.timeout), self._timer())
        self._noted(visit, lambda: self._park(visit, self.fetch(record.target, visit.look)))

    def _noted(self, visit: _Visit, work: Callable[[], Telemetry | None]) -> None:
        """Do what gives a target's facts and note how it went: one target's fault must not cost another."""
        record, error = visit.record, ""
        try:
            facts = work()
            if facts is None:
                return
            record.names.take(facts, self._timer(), self._config.server_limit)
            record.facts, wrong = self._owners.sift(facts, self._timer(), record.target.url)
            record.last_success_s, record.silent, error = visit.look.time_s, 0, "; ".join(wrong.values())
            record.usual_s, record.retry_at = self._timer() - visit.started, visit.started + self.pause_s()
        except (SourceError, PageError) as fault:
            error = str(fault)
            self._pause(record, fault)
        except FAULTS:
            error = "a fault in idlewatt itself, which its log describes"
            log.exception("%s: a fault in idlewatt itself while reading %s", self.name, record.target.instance)
        record.health = _health_of(record, up=not error, error=error, duration_s=self._timer() - visit.started)
        record.under_way = False

    def _park(self, visit: _Visit, page: bytes | Telemetry) -> Telemetry | None:
        """Let a page wait for others of its round, and read all of them once there are enough.

        Read one by one, with the processor somebody else's between, they take half as long again.
        """
        if isinstance(page, Telemetry):
            return page
        visit.page, visit.took_s, visit.left_s = page, self._timer() - visit.started, visit.look.due - time.monotonic()
        with self._parking:
            self._parked.append(visit)
            if len(self._parked) < _TOGETHER and len(page) <= _LARGE_BYTES and self._asking:
                return None
            ready, self._parked = self._parked, []
        self._read_parked(ready)
        return None

    def _read_parked(self, ready: Iterable[_Visit]) -> None:
        for visit in ready:
            visit.started, visit.look.due = self._timer() - visit.took_s, time.monotonic() + visit.left_s
            self._noted(visit, partial(self._read_page, visit.page, visit.record.target, visit.look))

    def fetch(self, target: Target, look: Look) -> bytes | Telemetry:
        """Return one target's page, or what it tells; raise ``SourceError`` or ``PageError`` where it cannot be had."""
        return self._client.get(target.url)

    def pause_s(self) -> float:
        """Return how long a target that answered is left alone; 0 asks it each round."""
        return 0.0

    def _read_page(self, page: bytes, target: Target, look: Look) -> Telemetry:
        """Return what a page shows; raise ``PageError`` where it is none, beyond its limits or not what it should."""
        if page[:256].lstrip().startswith(b"<"):
            raise PageError("answers with HTML or XML, not with metrics: is the path right?")
        samples = self._exposition.samples(page, look)
        look.check()
        telemetry = self._parse(samples, target, look.read_s)
        self._config.check_sizes(telemetry)
        check_found(telemetry, self._config.finds, page, look.stale)
        return telemetry

    def _pause(self, record: _Record, fault: Exception) -> None:
        """Ask a target that ran into a time limit more rarely; chance keeps those that hang together apart."""
        if not isinstance(fault, TimedOut | Displaced):
            record.silent = 0
        # A target that had to make room may be well: it has its next turn at once, unless it was silent before.
        record.silent += isinstance(fault, TimedOut)
        if not record.silent:
            return
        pause = min(self._config.connect_timeout * 2 ** min(record.silent, 16), _LONGEST_PAUSE_S)
        record.retry_at = self._timer() + pause * self._random.uniform(*_JITTER)


def _health_of(record: _Record, *, up: bool, error: str, duration_s: float = 0.0) -> TargetHealth:
    target = record.target
    return TargetHealth(target.instance, up, duration_s, error, record.last_success_s, without_login(target.url),
                        target.labels.get("node", ""))
