"""GET of Redfish resources from one BMC: a session that is opened when needed and closed at the end, or basic auth."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import urlsplit

from ..fetch import Client, Refused, TimedOut
from ..http_options import BasicAuth
from ..secret_file import secret_of
from ..source import SourceError
from ..text import decode, quoted

SESSIONS = "/redfish/v1/SessionService/Sessions"
Resource = Mapping[str, object]


class Bmc:
    """One management controller. Not safe for threads: its caller asks one thing at a time."""

    def __init__(self, base: str, client: Client, login: BasicAuth | None) -> None:
        self._base, self._client, self._login = base.rstrip("/"), client, login
        self._token = self._session = ""
        self._until = math.inf

    def allow(self, seconds: float) -> None:
        """Begin a look that may take so long, all its requests together: each alone may be within its own limit."""
        self._until = time.monotonic() + seconds

    def get(self, path: str) -> Resource:
        """Return a resource; raise ``SourceError`` where it cannot be had, in time, or is no JSON object."""
        if time.monotonic() > self._until:
            raise TimedOut(f"did not report its power in time (walk): {path} was to be read next")
        self._open()
        try:
            return self._resource(path)
        except Refused as error:
            if error.status != 401 or not self._token:
                raise
        self._token = ""  # the session has ended; a BMC that restarts forgets them all
        self._open()
        return self._resource(path)

    def close(self, client: Client) -> None:
        """End the session, by a client that waits for nobody: a BMC keeps few sessions, and for long."""
        if not self._token or not self._session:
            return
        with suppress(SourceError):  # it ends by itself
            client.send("DELETE", self._base + self._session, headers={"X-Auth-Token": self._token})
        self._token = self._session = ""

    def _open(self) -> None:
        if self._login is None or self._token:
            return
        body = {"UserName": self._login.username, "Password": secret_of(self._login)()}
        try:
            answer = self._client.send("POST", self._base + SESSIONS, body=body, accepted=(200, 201))
        except Refused as error:
            raise SourceError(f"no session: {error}", permanent=error.permanent) from error
        self._token = answer.headers.get("X-Auth-Token", "")
        if not self._token:
            raise SourceError("no session: the answer has no X-Auth-Token; try auth: basic")
        self._session = urlsplit(answer.headers.get("Location", "")).path
        if not self._session.startswith("/redfish/"):
            self._session = ""

    def _resource(self, path: str) -> Resource:
        headers = {"X-Auth-Token": self._token} if self._token else {}
        body = self._client.send("GET", self._base + path, headers=headers).body
        try:
            resource = json.loads(decode(body))
        except (ValueError, RecursionError) as error:
            raise SourceError(f"{path} is not JSON: {quoted(body)}") from error
        if not isinstance(resource, dict):
            raise SourceError(f"{path} is no resource: {quoted(body)}")
        return resource


def link(resource: Resource, name: str) -> str:
    """Return the path that a property links to; '' where it links to nothing within Redfish."""
    target = resource.get(name)
    path = target.get("@odata.id") if isinstance(target, dict) else None
    return path if isinstance(path, str) and path.startswith("/redfish/v1/") and ".." not in path else ""


def members(collection: Resource, most: int) -> list[str]:
    """Return the paths of a collection's members, each once."""
    rows = collection.get("Members")
    paths = [link({"one": row}, "one") for row in rows[:most]] if isinstance(rows, list) else []
    return list(dict.fromkeys(path for path in paths if path))


def shows_all(collection: Resource, most: int) -> bool:
    """Tell whether a collection shows each of its members, on one page and by a link that can be followed."""
    rows = collection.get("Members")
    if not isinstance(rows, list):
        return True
    return (len(rows) <= most and "Members@odata.nextLink" not in collection
            and collection.get("Members@odata.count", len(rows)) == len(rows)
            and all(link({"one": row}, "one") for row in rows))
