"""How long an answer of PostgreSQL is waited for: a server that accepts and says nothing must not hold a cycle."""

from __future__ import annotations

import math
import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Engine, event

if TYPE_CHECKING:
    import psycopg


@dataclass(slots=True)
class Patience:
    """Longest silence within a statement; may change while it is waited."""

    seconds: float = math.inf


def bounded(engine: Engine, patience: Patience) -> None:
    """Make connections of an engine give up, and close, when the server is silent for longer; SQLite has no server."""
    if engine.dialect.name == "postgresql":
        kind = _connection(patience)

        @event.listens_for(engine, "do_connect")
        def connect(_dialect: object, _record: object, words: tuple[str, ...], options: dict[str, Any]) -> object:
            return kind.connect(*words, **options)


def _connection(patience: Patience) -> type[psycopg.Connection[Any]]:
    import psycopg  # only sites with PostgreSQL have it

    class Bounded(psycopg.Connection[Any]):
        """Passes every wait for the server through a generator that looks at the clock."""

        def wait(self, gen: object, *options: Any, **more: Any) -> Any:
            return super().wait(_within(gen, self, patience), *options, **more)

    return Bounded


def _within(waiting: Any, connection: psycopg.Connection[Any], patience: Patience) -> Generator[Any, object, object]:
    """Yield what psycopg waits for; it answers with nothing (0) every tenth of a second in which nothing came."""
    import psycopg  # as above

    try:
        state = next(waiting)
        since = time.monotonic()
        while True:
            ready = yield state
            if ready:
                since = time.monotonic()
            elif time.monotonic() - since > patience.seconds:
                silent = time.monotonic() - since
                waiting.close()
                connection.close()
                raise psycopg.OperationalError(f"the server has not answered for {silent:.0f} s")
            state = waiting.send(ready)
    except StopIteration as end:
        return end.value
