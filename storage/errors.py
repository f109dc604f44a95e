"""What can go wrong with the store, in words that say what, where and what to do."""

from __future__ import annotations

import re
from urllib.parse import unquote, unquote_plus

from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError


class StoreError(Exception):
    """The store cannot be used as requested."""


class StoreLocked(StoreError):
    """Another daemon records into this database."""


class Superseded(StoreLocked):
    """Another daemon has recorded into this database since: the replaced one writes no more."""


class SchemaTooNew(StoreError):
    """The database was written by a newer idlewatt."""


class SchemaTooOld(StoreError):
    """The database waits for a migration that a reader may not make."""


class StoreUnavailable(StoreError):
    """The database cannot be read or written now; what was to be written is kept by the recorder."""


_SQLITE = {
    "SQLITE_BUSY": "is locked by another program; end the one that writes to it",
    "SQLITE_LOCKED": "is locked by another program; end the one that writes to it",
    "SQLITE_FULL": "cannot grow: the disk or the quota is full; free some space",
    "SQLITE_READONLY": "is read-only; check its owner, its mode and the mount",
    "SQLITE_CANTOPEN": "cannot be opened; check that its folder exists and may be entered and written",
    "SQLITE_IOERR": "cannot be read or written (input/output error); check the disk and the kernel log",
    "SQLITE_CORRUPT": "is damaged; restore a backup, or move it away to start afresh",
    "SQLITE_NOTADB": "is not an SQLite database; check the path",
}
_POSTGRES = {
    "53100": "has a full disk; free some space on the server",
    "53300": "takes no more connections; raise max_connections",
    "53": "has too little memory or too many locks; look into the server's log",
    "58": "cannot read or write its files; look into the server's log",
    "40": "gave way to another transaction; it is tried again",
    "55P03": "is locked by another program; end the one that holds the lock",
    "42P01": "lacks a table of ours; restore it, or restart the daemon to bring the schema up",
    "3F": "lacks its schema; restore it, or restart the daemon to bring the schema up",
    "25006": "is read-only; connect to the primary",
    "42501": "refuses this user; grant it the rights to create and write tables",
    "28": "refuses the login; check user and password",
    "3D": "does not exist; create it",
    "57": "is shutting down or cancelled the statement; it is tried again",
    "08": "cannot be reached; check that the server runs",
}


_REFUSED = ("0A", "21", "22", "23", "42", "54")
"""Classes of what is wrong with the statement or its values: they will be tomorrow."""


MASK = "***"
"""Replaces a password."""
_LOGIN = re.compile("(://[^/:]*):[^@]*@(?:[^?]*@)?")
"""SQLAlchemy takes ``/``, ``?`` and the ``@`` of a user as they are; what follows a second ``@`` is the host."""
_QUERY = re.compile("([?&])([^=?&]+)=([^&]*)")
_SECRETS = {"password", "sslpassword", "oauth_client_secret"}
"""Parameters of libpq."""


def without_password(url: str) -> str:
    """Return the address of a database without the passwords in its login and in its query."""
    told = _QUERY.sub(lambda one: f"{one[1]}{one[2]}={MASK if unquote_plus(one[2]).lower() in _SECRETS else one[3]}",
                      url)
    return _LOGIN.sub(rf"\1:{MASK}@", told)


def place(url: URL) -> str:
    """Name a database for a person, without its password."""
    if url.get_backend_name() != "sqlite":
        return without_password(url.render_as_string(hide_password=True))
    database = url.database or "memory"
    return unquote(database.removeprefix("file://")) if url.query.get("uri") == "true" else database


def explain(error: DBAPIError, url: URL) -> StoreUnavailable | None:
    """Return the availability problem behind a driver's error; None when the statement itself was wrong."""
    advice = _advice(error)
    return None if advice is None else StoreUnavailable(f"database {place(url)} {advice} ({_first_line(error)})")


def _advice(error: DBAPIError) -> str | None:
    name = getattr(error.orig, "sqlite_errorname", None)
    if name is not None:
        return next((advice for code, advice in _SQLITE.items() if name.startswith(code)), None)
    state = getattr(error.orig, "sqlstate", None)
    if state is not None:
        known = next((advice for code, advice in _POSTGRES.items() if state.startswith(code)), None)
        return known or (None if state.startswith(_REFUSED) else "fails; look into the server's log")
    # psycopg knows no state for what happens before or without a server, and has kinds of its own for some of it.
    kinds = {kind.__name__ for kind in type(error.orig).__mro__}
    return _POSTGRES["08"] if kinds & {"OperationalError", "InterfaceError"} else None


def _first_line(error: DBAPIError) -> str:
    return str(error.orig).strip().partition("\n")[0]
