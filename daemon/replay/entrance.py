"""The way into the compiled loop, which is short where the same run goes on."""

from __future__ import annotations

from collections.abc import Callable

from .compiled import only_version


class Entrance:
    """Remembers the loop's last arguments: unchanged ones need no dispatch by their types."""

    def __init__(self) -> None:
        self._loop: Callable[..., float] | None = None
        self._given: tuple[object, object] = (None, None)
        self._calls: object = None

    def enter(self, loop: Callable[..., float], state: object, event_list: object, calls: object,
              until: float) -> float:
        """Let the loop run on up to a moment; return when something happens next."""
        same = loop is self._loop and state is self._given[0] and event_list is self._given[1] and calls == self._calls
        run_on = only_version(loop) if same else loop
        self._loop, self._given, self._calls = loop, (state, event_list), calls
        return run_on(state, event_list, calls, until)
