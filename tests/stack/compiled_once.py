"""Let one worker compile what several need at the same time: the others wait, and find it in the folder they share.

Without this each of the workers that reach a policy together would compile it for itself.
"""

import fcntl
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba.core.ccallback import CFunc
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher

from idlewatt.daemon.replay.compiled import cache_folder


@contextmanager
def _alone(function: Callable[..., object]) -> Iterator[None]:
    """Keep other processes from compiling a function meanwhile.

    Who compiles needs what its function calls and nothing that calls it, so no two wait for one another. numba's own
    lock, which other threads may hold, comes first.
    """
    with global_compiler_lock:
        if function in _held:  # it calls itself
            yield
            return
        marks = cache_folder() / "compiling"
        marks.mkdir(parents=True, exist_ok=True)
        _held.add(function)
        try:
            # Two functions without a name of their own may call one another, and must not wait for themselves.
            name = f"{function.__module__}.{function.__qualname__}.{function.__code__.co_firstlineno}"
            with (marks / name[-200:]).open("w") as mark:
                fcntl.flock(mark, fcntl.LOCK_EX)
                yield
        finally:
            _held.discard(function)


_held: set[Callable[..., object]] = set()


def compile_once() -> None:
    """Let this process wait for others that compile the same function."""
    for kind, function in ((Dispatcher, "py_func"), (CFunc, "_pyfunc")):
        setattr(kind, "compile", _waiting(kind.compile, function))  # noqa: B010 - no method of ours


def _waiting(compile_: Callable[..., Any], function: str) -> Callable[..., Any]:
    @functools.wraps(compile_)
    def waiting(self: Any, *signature: Any) -> Any:
        with _alone(getattr(self, function)):
            return compile_(self, *signature)

    return waiting
