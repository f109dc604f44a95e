"""Batches that wait on disk, oldest first: plain lines in numbered files of one folder, bounded, one process at a time.

A line is on the disk (fsync) before it counts as kept. A file is never written by two processes: what a crash tore is
the end of a file that nobody goes on with.
"""

from __future__ import annotations

import fcntl
import logging
import os
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, TypeAlias

from . import batches
from .batches import Batch, Damaged
from .whole_files import sync

log = logging.getLogger(__name__)

SEGMENT_BYTES = 8 << 20
"""A file is closed when it is longer, and deleted once all of it is in the database."""
LONGEST_LINE_BYTES = 1 << 28

Line: TypeAlias = bytes
"""A batch as it is on disk."""


class SpoolBusy(OSError):
    """Another process keeps its backlog in this folder."""


class Spool:
    """A queue of batches on disk. Methods that touch the disk raise ``OSError`` when it refuses."""

    def __init__(self, folder: Path, limit_bytes: int) -> None:
        self.folder, self._limit_bytes = folder, limit_bytes
        self.damaged = 0
        self._items: Counter[Path] = Counter()
        self._bytes: Counter[Path] = Counter()
        self._aside: set[Path] = set()
        self._lock: int | None = None
        self._head: BinaryIO | None = None
        self._tail: BinaryIO | None = None
        self._tail_path: Path | None = None
        self._peeked: tuple[Batch, int] | None = None

    @property
    def items(self) -> int:
        """Return how many facts wait."""
        return self._items.total()

    @property
    def bytes(self) -> int:
        """Return how much of the disk they take."""
        return self._bytes.total()

    @property
    def peeked(self) -> bool:
        """Tell whether ``first`` gave a batch that is not done."""
        return self._peeked is not None

    def recover(self) -> None:
        """Count what an earlier process left; nothing is made where nothing was left."""
        if self.folder.is_dir():
            self._hold()

    def append(self, line: Line, items: int) -> bool:
        """Keep a batch; False when the bound leaves no room for it."""
        self._hold()
        if self.bytes + len(line) > self._limit_bytes:
            return False
        tail = self._open_tail()
        before = os.fstat(tail.fileno()).st_size
        try:
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(tail.fileno(), rest):]
            os.fsync(tail.fileno())
        except OSError:
            self._give_up_tail(before)
            raise
        assert self._tail_path is not None
        self._items[self._tail_path] += items
        self._bytes[self._tail_path] += len(line)
        return True

    def first(self) -> Batch | None:
        """Return the oldest batch; None when nothing waits. What is damaged or cannot be read is passed over."""
        while self._peeked is None:
            line = self._next_line()
            if line is None:
                return None
            try:
                self._peeked = batches.decode(line), len(line)
            except Damaged as error:
                self._count_damage(error)
                self._bytes[self._head_path()] -= len(line)
        return self._peeked[0]

    def done(self) -> None:
        """Let go of the oldest batch: it is in the database."""
        if self._peeked is not None:
            batch, length = self._peeked
            self._peeked = None
            path = self._head_path()
            self._items[path] -= batch.items
            self._bytes[path] -= length
            self._tidy()

    def close(self) -> None:
        """Let another process have the folder; what waits stays, nothing else does."""
        for file in (self._head, self._tail):
            if file is not None:
                file.close()
        self._head = self._tail = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _hold(self) -> None:
        """Take the folder for this process, once."""
        if self._lock is not None:
            return
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(lock)
            raise SpoolBusy(error.errno, "another process keeps its backlog there", str(self.folder)) from error
        self._lock = lock
        for path in self._segments():
            try:
                self._count(path)
            except OSError as error:
                self._set_aside(path, error)

    def _segments(self) -> list[Path]:
        return sorted(self.folder.glob("*.jsonl"))

    def _count(self, path: Path) -> None:
        with path.open("rb") as file:
            while line := file.readline(LONGEST_LINE_BYTES):
                self._bytes[path] += len(line)
                # What is damaged is counted and logged when its turn comes.
                with suppress(Damaged):
                    self._items[path] += batches.items(line)

    def _open_tail(self) -> BinaryIO:
        if self._tail is not None and os.fstat(self._tail.fileno()).st_size >= SEGMENT_BYTES:
            self._tail.close()
            self._tail = None
        if self._tail is None:
            last = max((int(path.stem) for path in self._segments() if path.stem.isdecimal()), default=0)
            self._tail_path = self.folder / f"{last + 1:08d}.jsonl"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
            self._tail = os.fdopen(os.open(self._tail_path, flags, 0o600), "wb", buffering=0)
            sync(self.folder)
        return self._tail

    def _give_up_tail(self, length: int) -> None:
        """Cut off what a full disk tore, and begin another file next time."""
        if self._tail is not None:
            os.truncate(self._tail.fileno(), length)
            self._tail.close()
            self._tail = None

    def _next_line(self) -> Line | None:
        while (path := self._oldest()) is not None:
            try:
                if self._head is None:
                    self._head = path.open("rb")
                line = self._head.readline(LONGEST_LINE_BYTES)
            except OSError as error:
                self._set_aside(path, error)
                continue
            if line:
                return line
            self._drop_head()
        return None

    def _oldest(self) -> Path | None:
        """Return the file that is read, else the oldest that can be."""
        if self._head is not None:
            return self._head_path()
        waiting = self._segments() if self._lock is not None else []
        return next((path for path in waiting if path not in self._aside), None)

    def _head_path(self) -> Path:
        assert self._head is not None
        return Path(os.fsdecode(self._head.name))

    def _tidy(self) -> None:
        """Delete the oldest file when all of it was read."""
        if self._head is not None and self._head.tell() >= os.fstat(self._head.fileno()).st_size:
            self._drop_head()

    def _drop_head(self) -> None:
        path = self._head_path()
        self._forget(path)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            self._aside.add(path)  # all of it is in the database, and would be read again for ever
            log.error("a file of facts that are recorded cannot be deleted", extra={
                "target": str(path), "error": error.strerror or str(error)})

    def _set_aside(self, path: Path, error: OSError) -> None:
        """Leave a file that cannot be read to the next process, which may be able to."""
        self.damaged += max(1, self._items[path])
        self._forget(path)
        self._aside.add(path)
        log.error("facts that waited on disk cannot be read and are not recorded; a restart tries it again", extra={
            "target": str(path), "error": error.strerror or str(error)})

    def _forget(self, path: Path) -> None:
        """Neither read a file any further nor write to it."""
        if path == self._tail_path and self._tail is not None:
            self._tail.close()
            self._tail = None
        if self._head is not None and path == self._head_path():
            self._head.close()
            self._head = None
        del self._items[path], self._bytes[path]

    def _count_damage(self, error: Damaged) -> None:
        self.damaged += 1
        log.error("a batch of facts that waited on disk is not recorded", extra={
            "target": str(self.folder), "error": str(error)})
