"""Work that must never hold up whoever asks for it: on a thread of its own, one run at a time."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import TypeVar

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
