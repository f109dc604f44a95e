"""A copy of one list of the API server, kept by watching it: on a thread of its own, always whole, never half a list.

After a watch has ended, or was cut, it goes on from where it was. What the server has forgotten (410) is listed again,
and so it is after a watch that was cut before it sent anything: a proxy may keep that back, and a server that was
restored from a backup waits until its versions come to ours. Until a list is whole the old copy stays: nothing that is
still there ever seems to be gone.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from ..bulk import uncollected
from ..fetch import Refused
from ..source import FAULTS, Clock, SourceError
from ..text import quoted
from .api import ApiClient
from .fields import Event, Identified, Listing, ListOf, Meta, ServerStatus, Text, some
from .lists import read_list

log = logging.getLogger(__name__)

Kept = TypeVar("Kept")
Name = tuple[str, str]

NAMELESS: Name = ("", "something")
"""Of an object of which not even its name is understood."""
_MOST_GONE = 100_000
_LONGEST_WAIT_S = 60.0
_LIST, _EVENT = msgspec.json.Decoder(Listing), msgspec.json.Decoder(Event)
_IDENTIFIED, _STATUS = msgspec.json.Decoder(Identified), msgspec.json.Decoder(ServerStatus)


@dataclass(frozen=True, slots=True)
class Strange:
    """An object that is not understood."""

    uid: str
    """'' where not even that is."""
    why: str
    salvaged: Any = None
    """What ``salvage`` makes of it."""


_Listed = tuple[Name, tuple[str, Kept] | Strange]
"""The name of an object, and its uid with what is kept of it."""


class Expired(SourceError):
    """The server has forgotten what happened since our copy."""


@dataclass(frozen=True, slots=True)
class WatchPatience:
    """How long is waited for what; seconds."""

    watch_s: float = 300.0
    """A watch is requested to last so long, or a fifth less."""
    silent_s: float = 90.0
    """A watch that says nothing for so long is cut: a server marks about every minute that it is alive."""
    resync_s: float = 3600.0
    """The whole list is read again so often, whatever the watch sent."""
    wait_s: float = 0.5
    """Pause after the first failure; it doubles with each further one."""


@dataclass(frozen=True, slots=True)
class Wholesale(Generic[Kept]):
    """How a page of a long list is read in one go: thousands of objects at every start."""

    page: msgspec.json.Decoder[Any]
    """Of a list of whole objects, each with ``metadata``."""
    keep: Callable[[Any], Kept]


class Reflector(Generic[Kept]):
    """Keeps what ``parse`` makes of each object of a path, and what ``salvage`` makes of those that it refuses."""

    def __init__(self, api: ApiClient, path: str, parse: Callable[[Text], Kept], clock: Clock,
                 patience: WatchPatience | None = None, wholesale: Wholesale[Kept] | None = None,
                 salvage: Callable[[Text], object] | None = None) -> None:
        self.path, self._wholesale, self._salvage = path, wholesale, salvage
        self._api, self._parse, self._clock = api, parse, clock
        self._patience = patience or WatchPatience()
        self._kept: dict[Name, tuple[str, Kept]] = {}
        self._gone: deque[Kept] = deque(maxlen=_MOST_GONE)
        self._strange: dict[Name, Strange] = {}
        self._lock, self._stop, self.synced = threading.Lock(), threading.Event(), threading.Event()
        self._listed, self._doubtful = float("-inf"), False
        self.version = ""
        """Of the newest that is known."""
        self.error = ""
        """Why there is no watch now, '' while there is one."""
        self.refused = 0
        """The HTTP status by which the server refused us, 0 where it did not."""
        self.last_answer = float("-inf")
        """When the server last answered, on the monotonic clock."""
        self.last_answer_s: float | None = None
        """The same in seconds since the epoch."""
        self.lists = self.events = 0
        """Lists read and events taken in since the start."""
        self._thread = threading.Thread(target=self._run, name=f"kubernetes-{path.rpartition('/')[2]}", daemon=True)

    def start(self) -> None:
        """Begin to list and watch."""
        self._thread.start()

    def stop(self) -> None:
        """Let the thread end; what it waits for is cut by closing the client."""
        self._stop.set()

    def kept(self) -> list[Kept]:
        """Return what is there now."""
        with self._lock:
            return [item for _, item in self._kept.values()]

    def gone(self) -> list[Kept]:
        """Return what has gone since the last call, as it was at the last."""
        with self._lock:
            gone = list(self._gone)
            self._gone.clear()
        return gone

    @property
    def skipped(self) -> tuple[str, ...]:
        """Return the objects that could not be understood, and why."""
        with self._lock:
            return tuple(f"{'/'.join(filter(None, name))}: {entry.why}" for name, entry in self._strange.items())

    def strange(self) -> list[tuple[Kept | None, Any]]:
        """Return what is kept of each object that is not understood from before, and what is known of it now."""
        with self._lock:
            return [(self._kept[name][1] if name in self._kept else None, entry.salvaged)
                    for name, entry in self._strange.items()]

    def silent_for_s(self) -> float:
        """Return the seconds since the server last answered."""
        return time.monotonic() - self.last_answer

    def _run(self) -> None:
        failures = 0
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                if not self.version or self._doubtful or time.monotonic() - self._listed > self._patience.resync_s:
                    self._list()
                self._watch()
                failures = 0
                pause = self._patience.wait_s if time.monotonic() - began < self._patience.wait_s else 0.0
            except Expired as expired:
                self.version, self.error, failures = "", str(expired), failures + 1
                log.info("%s is listed anew: %s", self.path, expired)
                pause = self._pause(failures - 1)  # the first time at once, but for the jitter
            except SourceError as error:
                failures = 1 if time.monotonic() - began > _LONGEST_WAIT_S else failures + 1
                pause = self._failed(error, failures)
            except FAULTS as fault:
                failures, self.error = failures + 1, "a fault in idlewatt itself, which its log describes"
                log.exception("%s: a fault in idlewatt itself: %s", self.path, fault)
                pause = self._pause(failures)
            self._stop.wait(pause)

    def _failed(self, error: SourceError, failures: int) -> float:
        """Note why there is no watch; return how long to wait before the next."""
        self.error = str(error)
        self.refused = error.status if isinstance(error, Refused) else 0
        pause = self._pause(failures)
        if isinstance(error, Refused) and error.retry_after.isdecimal():
            pause += min(float(error.retry_after), _LONGEST_WAIT_S)
        return pause

    def _pause(self, failures: int) -> float:
        """Return a pause that doubles with each failure; no two clients come back at the same moment."""
        longest = min(self._patience.wait_s * 2.0 ** min(failures, 20), _LONGEST_WAIT_S)
        return longest * random.uniform(0.5, 1.0)  # noqa: S311 - no secret

    def _list(self) -> None:
        fresh: dict[Name, tuple[str, Kept]] = {}
        strange: dict[Name, Strange] = {}

        def take(body: bytes) -> ListOf[Any]:
            page, entries = self._page(body)
            for name, entry in entries:
                if isinstance(entry, Strange):
                    strange[name] = entry
                known = self._known(name, entry)
                if known is not None:
                    fresh[name] = known
            self._hear()
            return page

        version = self._read_list(take)
        with self._lock:
            if NAMELESS in strange:  # which may be any of those that are missing: none of them has gone
                fresh = self._kept | fresh
            for name, (uid, item) in self._kept.items():
                if name not in fresh or fresh[name][0] != uid:
                    self._gone.append(item)
            self._kept, self._strange = fresh, strange
        self.version, self._listed, self._doubtful = version, time.monotonic(), False
        self.lists += 1
        self.synced.set()

    def _read_list(self, take: Callable[[bytes], ListOf[Any]]) -> str:
        """Give each page of the list to ``take``; return its version, with which a watch begins."""
        try:
            version = read_list(self._api, self.path, take)
        except Refused as refused:
            if refused.status == 410:
                raise Expired("its list was forgotten while it was read") from refused
            raise
        if not version:
            raise SourceError(f"{self.path}: a list without resourceVersion: is this the address of an API server?")
        return version

    def _page(self, body: bytes) -> tuple[ListOf[Any], list[_Listed[Kept]]]:
        """Return a page, and its objects."""
        if self._stop.is_set():
            raise SourceError("is not read any more")
        with uncollected():
            if self._wholesale is not None:
                with suppress(msgspec.MsgspecError, *FAULTS):  # one strange object: then each is read by itself
                    return _at_once(body, self._wholesale)
            page = _LIST.decode(body)
            return page, [(name, item) for name, _, item in map(self._read, some(page.items))]

    def _known(self, name: Name, parsed: tuple[str, Kept] | Strange) -> tuple[str, Kept] | None:
        """Return what is kept of an object from now on; one that has become strange stays as it was: it is not gone."""
        if not isinstance(parsed, Strange):
            return parsed
        before = self._kept.get(name)
        return before if before is not None and before[0] == parsed.uid else None

    def _read(self, raw: Text) -> tuple[Name, str, tuple[str, Kept] | Strange]:
        """Return name and version of an object, and its uid with what is kept of it."""
        name, version, uid = NAMELESS, "", ""
        try:
            known = _IDENTIFIED.decode(raw).metadata
            name, version, uid = (known.namespace, known.name), known.resource_version, known.uid
            return name, version, (uid, self._parse(raw))
        except (msgspec.MsgspecError, *FAULTS) as error:
            # Whatever a strange object sets off costs that object alone.
            return name, version, Strange(uid, quoted(str(error), 120), self._salvage(raw) if self._salvage else None)

    def _watch(self) -> None:
        lasts_s = self._patience.watch_s * random.uniform(0.8, 1.0)  # noqa: S311 - no secret
        query = {"watch": "1", "resourceVersion": self.version, "allowWatchBookmarks": "true",
                 "timeoutSeconds": str(max(1, round(lasts_s)))}
        began = time.monotonic()
        try:
            with closing(self._lines(query, lasts_s)) as lines:
                for line in lines:
                    self._hear()
                    self.error, self.refused = "", 0
                    if line:
                        self._event(line)
                    self._doubtful = not line
        except Refused as refused:
            if refused.status == 410:
                raise Expired("its version was forgotten") from refused
            raise
        if self._doubtful and time.monotonic() - began < lasts_s / 2.0:
            raise SourceError("the watch ended at once and sent nothing: does a proxy not let it through?")
        self._doubtful = False  # a quiet one that ends in its time

    def _lines(self, query: dict[str, str], lasts_s: float) -> Generator[bytes]:
        return self._api.lines(self.path, query, lasts_s=lasts_s, silent_s=self._patience.silent_s)

    def _event(self, line: bytes) -> None:
        try:
            event = _EVENT.decode(line)
            status = _STATUS.decode(event.object) if event.type == "ERROR" else None
        except msgspec.MsgspecError as error:
            raise SourceError(f"{self.path}: no event: {error!s:.120}") from error
        raw = event.object
        if status is not None:
            reason = quoted(status.message, 120)
            raise Expired(reason) if status.code == 410 else SourceError(f"{self.path}: the watch failed: {reason}")
        if event.type == "BOOKMARK":
            with suppress(msgspec.MsgspecError):
                self.version = _IDENTIFIED.decode(raw).metadata.resource_version or self.version
            return
        self._change(event.type, raw)
        self.events += 1

    def _change(self, kind: str, raw: Text) -> None:
        name, version, item = self._read(raw)
        with self._lock:
            self._strange.pop(name, None)
            if kind == "DELETED":
                self._remove(name, item)
            else:
                self._put(name, item)
        self.version = version or self.version

    def _put(self, name: Name, parsed: tuple[str, Kept] | Strange) -> None:
        if isinstance(parsed, Strange):
            self._strange[name] = parsed
        known, before = self._known(name, parsed), self._kept.pop(name, None)
        if known is not None:
            self._kept[name] = known
        if before is not None and (known is None or known[0] != before[0]):
            self._gone.append(before[1])  # another of the same name

    def _remove(self, name: Name, parsed: tuple[str, Kept] | Strange) -> None:
        uid, last = (parsed.uid, None) if isinstance(parsed, Strange) else parsed
        before = self._kept.get(name)
        if before is not None and before[0] != uid:
            return  # that one has gone before, and another has its name
        self._kept.pop(name, None)
        if last is None and before is not None:
            last = before[1]
        if last is not None:
            self._gone.append(last)

    def _hear(self) -> None:
        self.last_answer, self.last_answer_s = time.monotonic(), self._clock()


def _at_once(body: bytes, wholesale: Wholesale[Kept]) -> tuple[ListOf[Any], list[_Listed[Kept]]]:
    """Return a page whose objects are all of the form that is known; raise for nonsense in one of them."""
    page, keep, entries = wholesale.page.decode(body), wholesale.keep, list[_Listed[Kept]]()
    for item in some(page.items):
        known: Meta = item.metadata
        entries.append(((known.namespace, known.name), (known.uid, keep(item))))
    return page, entries
