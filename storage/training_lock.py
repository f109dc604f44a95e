"""The lock of trainings that decide: one at a time in a database, whichever host and folder of models it uses."""

from __future__ import annotations

from sqlalchemy import Engine
from sqlalchemy.engine import URL

from .database import AdvisoryLock, FileLock, Lock
from .errors import StoreLocked, place

_TRAINING_KEY = 0x1D1E_0A78


def training_lock(engine: Engine) -> Lock:
    """Take the lock of trainings that decide; raises ``StoreLocked`` while another one holds it.

    It ends with its process, and on PostgreSQL a minute after its host is gone.
    """
    if engine.dialect.name == "postgresql":
        return AdvisoryLock(engine, _TRAINING_KEY, _trains)
    return FileLock(engine.url, ".training.lock", _trains)


def _trains(url: URL, holder: str) -> StoreLocked:
    return StoreLocked(f"another nightly training decides in {place(url)} ({holder}): two at a time would take two "
                       "chances for one; let one host train, or wait until that training ends")
