"""Daemons that recorded, one after the other: one that lost its lock for a while learns here whether another wrote."""

from __future__ import annotations

import os
import socket
import time
import uuid

from sqlalchemy import Connection, func, select

from . import schema
from .errors import Superseded
from .values import words

_TABLE = schema.recorders


class Claim:
    """One process's right to record, taken with its first write and checked within every later one."""

    def __init__(self, connection: Connection) -> None:
        self._token = uuid.uuid4().hex
        self._since_s = time.time()
        self._number = _last(connection)[0]
        self._pending: int | None = None
        self._claimed = False

    @property
    def number(self) -> int:
        """Return the number of the last recorder that is known: this one once it has written."""
        return self._number

    def hold(self, connection: Connection) -> None:
        """Make sure, within a transaction that writes, that nobody else has written since; raise ``Superseded``."""
        number, token, place = _last(connection)
        self._pending = number
        if token == self._token:
            return
        if number > self._number or (self._claimed and number == self._number):
            raise Superseded(f"another idlewatt daemon ({place}) has recorded into this database since; this one "
                              "writes no more until it is restarted")
        row = {"token": self._token, "place": _place(), "since_s": self._since_s}
        self._pending = connection.execute(_TABLE.insert().returning(_TABLE.c.id), row).scalar_one()

    def confirm(self) -> None:
        """Note that the transaction came about."""
        if self._pending is not None:
            self._number, self._claimed = self._pending, True

    def others_since(self, connection: Connection, after: int) -> float | None:
        """Return since when another daemon has recorded after a given recorder; None when none has."""
        query = select(func.min(_TABLE.c.since_s)).where(_TABLE.c.id > after, _TABLE.c.token != self._token)
        since_s: float | None = connection.execute(query).scalar_one()
        return since_s


def identity(connection: Connection) -> str:
    """Return what only this database and copies of it hold, by whichever name it is reached; '' of one without jobs."""
    token: str | None = connection.execute(select(_TABLE.c.token).order_by(_TABLE.c.id).limit(1)).scalar_one_or_none()
    return token or ""


def _last(connection: Connection) -> tuple[int, str, str]:
    row = connection.execute(select(_TABLE.c.id, _TABLE.c.token, _TABLE.c.place)
                             .order_by(_TABLE.c.id.desc()).limit(1)).one_or_none()
    return (0, "", "") if row is None else (row.id, row.token, row.place)


def _place() -> str:
    return words(f"process {os.getpid()} on {socket.gethostname()}")
