"""An emulated API server of Kubernetes for tests and the demo: discovery, lists in pages, watches, faults on demand.

It answers GET alone. What it keeps is a ``Store``; the store's owner changes it, and every watch tells of it.
"""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from .api_store import ExpiredError, Resource, Store, StoredObject

JSON = "application/json"
_REASONS = {400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 410: "Expired",
            429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable"}
_FIELDS = {"metadata.name": ("metadata", "name"), "metadata.namespace": ("metadata", "namespace"),
           "status.phase": ("status", "phase"), "spec.nodeName": ("spec", "nodeName")}
Query = dict[str, str]


@dataclass(slots=True)
class Fault:
    """What is answered in place of the truth."""

    path: str
    """How the paths begin that it concerns."""
    status: int = 500
    times: int = 1
    """How often; -1 for ever."""
    retry_after: str = ""
    watches: bool | None = None
    """True for watches alone, False for lists alone."""
    text: str = ""
    """In place of the message."""
    body: bytes | None = None
    """Answered as it is, whatever it is."""


class RefusedError(Exception):
    """A request that is not served, with its HTTP status."""

    def __init__(self, status: int, message: str, retry_after: str = "", body: bytes | None = None) -> None:
        super().__init__(message)
        self.status, self.retry_after, self.body = status, retry_after, body


class Api:
    """Answers the requests of any HTTP server below a path."""

    def __init__(self, store: Store, *, root: str = "", bookmark_s: float = 60.0,
                 before: Callable[[], None] = lambda: None) -> None:
        self.store, self.root, self.bookmark_s, self._before = store, root, bookmark_s, before
        self.faults: list[Fault] = []
        self.tokens: set[str] | None = None
        """The bearer tokens that are taken; None takes everybody."""
        self.silent = False
        """Watches stay open and tell nothing, bookmarks neither."""
        self.requests: list[str] = []
        """What was requested, in order."""
        self._generation = 0
        self._routes = {self._path(resource): resource for resource in store.resources}

    def _path(self, resource: Resource) -> str:
        return f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"

    def drop_watches(self) -> None:
        """Cut every watch in the middle of an answer."""
        with self.store.changed:
            self._generation += 1
            self.store.changed.notify_all()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer one request."""
        url = urlsplit(handler.path)
        path = url.path.removeprefix(self.root)
        query = {name: values[-1] for name, values in parse_qs(url.query, keep_blank_values=True).items()}
        self.requests.append(handler.path.removeprefix(self.root))
        try:
            self._check(handler, path, query)
            self._before()
            if query.get("watch") in ("1", "true"):
                self._watch(handler, path, query)
            else:
                _send(handler, 200, self._read(path, query))
        except RefusedError as refused:
            _send(handler, refused.status, refused.body or status(refused.status, str(refused)), refused.retry_after)
        except ExpiredError as expired:
            _send(handler, 410, status(410, str(expired)))

    def _check(self, handler: BaseHTTPRequestHandler, path: str, query: Query) -> None:
        """Raise the faults that were ordered, and for tokens that are not taken."""
        given = handler.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.tokens is not None and given not in self.tokens:
            raise RefusedError(401, "Unauthorized")
        watching = query.get("watch") in ("1", "true")
        for fault in self.faults:
            if path.startswith(fault.path) and fault.watches in (None, watching) and fault.times:
                fault.times -= fault.times > 0
                if fault.body is not None:
                    raise RefusedError(fault.status, "", body=fault.body)
                raise RefusedError(fault.status, fault.text or "as was ordered", fault.retry_after)

    def _read(self, path: str, query: Query) -> bytes:
        discovery = self._discovery(path)
        if discovery is not None:
            return json.dumps(discovery).encode()
        resource, namespace, name = self._resource(path)
        if name:
            stored = self.store.get(resource, (namespace, name))
            if stored is None:
                raise RefusedError(404, f'{resource.plural} "{name}" not found')
            return stored.text
        limit = query.get("limit", "0")
        page = self.store.page(resource, _filter(namespace, query), int(limit) if limit.isdecimal() else 0,
                               query.get("continue", ""))
        metadata: dict[str, object] = {"resourceVersion": str(page.version)}
        if page.more:
            metadata |= {"continue": page.more, "remainingItemCount": page.remaining}
        head = json.dumps({"kind": f"{resource.kind}List", "apiVersion": resource.api_version, "metadata": metadata})
        return b"".join((head[:-1].encode(), b',"items":[', b",".join(item.text for item in page.items), b"]}"))

    def _resource(self, path: str) -> tuple[Resource, str, str]:
        """Return the resource that a path names, with namespace and name where it names these."""
        for resource in self.store.resources:
            steps = path.removeprefix(self._path(resource) + "/").split("/")
            namespace = ""
            if len(steps) > 2 and steps[0] == "namespaces" and resource.namespaced:
                namespace, steps = steps[1], steps[2:]
            if steps[2:] and steps[2] in ("status", "resize"):
                steps = steps[:2]  # a part of an object is shown as the whole of it
            if path.startswith(self._path(resource) + "/") and steps[0] == resource.plural and len(steps) <= 2:
                return resource, namespace, steps[1] if len(steps) == 2 else ""
        raise RefusedError(404, "the server could not find the requested resource")

    def _watch(self, handler: BaseHTTPRequestHandler, path: str, query: Query) -> None:
        resource, namespace, name = self._resource(path)
        wanted = _filter(namespace, {**query, **({"fieldSelector": f"metadata.name={name}"} if name else {})})
        version = int(query["resourceVersion"]) if query.get("resourceVersion", "").isdecimal() else 0
        end = time.monotonic() + float(query.get("timeoutSeconds") or 3600)
        bookmarks, generation = query.get("allowWatchBookmarks") in ("1", "true"), self._generation
        lines: list[bytes] = []
        if version == 0:
            page = self.store.page(resource, wanted, 0)
            version, lines = page.version, [_event("ADDED", item.text) for item in page.items]
        else:
            self.store.since(resource, version)
        stream = _Stream(handler)
        stream.begin()
        marked = time.monotonic()
        while generation == self._generation:
            stream.write(lines)
            if stream.broken or time.monotonic() >= end:
                break
            self._before()
            try:
                version, lines = self._news(resource, wanted, version, end)
            except ExpiredError as expired:
                stream.write([_event("ERROR", status(410, str(expired)))])
                break
            if bookmarks and not lines and not self.silent and time.monotonic() - marked >= self.bookmark_s:
                lines = [_event("BOOKMARK", _bookmark(resource, version))]
            if lines:
                marked = time.monotonic()
        stream.end(clean=generation == self._generation)

    def _news(self, resource: Resource, wanted: Callable[[StoredObject], bool], version: int,
              end: float) -> tuple[int, list[bytes]]:
        """Wait a moment for changes; return the version reached and the lines that tell of them."""
        with self.store.changed:
            if self.store.version == version or self.silent:
                self.store.changed.wait(max(0.0, min(end - time.monotonic(), self.bookmark_s / 4, 0.25)))
            if self.silent:
                return version, []
            version, changes = self.store.since(resource, version)
        return version, [_event(change.kind, change.stored.text) for change in changes if wanted(change.stored)]

    def _discovery(self, path: str) -> dict[str, object] | None:
        """Return what a client asks to learn which kinds there are; None where it asks for something else."""
        groups: dict[str, list[str]] = {}
        for resource in self.store.resources:
            groups.setdefault(resource.group, [])
            if resource.version not in groups[resource.group]:
                groups[resource.group].append(resource.version)
        if path == "/version":
            return {"major": "1", "minor": "37", "gitVersion": "v1.37.0", "platform": "linux/amd64"}
        if path == "/api":
            return {"kind": "APIVersions", "versions": groups.get("", ["v1"]), "serverAddressByClientCIDRs": []}
        if path == "/apis":
            return {"kind": "APIGroupList", "apiVersion": "v1",
                    "groups": [_group(name, versions) for name, versions in groups.items() if name]}
        if path in self._routes:
            here = [resource for resource in self.store.resources if self._path(resource) == path]
            return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": here[0].api_version,
                    "resources": [{"name": resource.plural, "singularName": resource.kind.lower(),
                                   "namespaced": resource.namespaced, "kind": resource.kind,
                                   "verbs": ["get", "list", "watch"]} for resource in here]}
        return None


class _Stream:
    """The answer to a watch: chunks, as they come."""

    def __init__(self, handler: BaseHTTPRequestHandler) -> None:
        self._handler, self.broken = handler, False

    def begin(self) -> None:
        """Send the headers at once: a client may wait for them."""
        self._handler.send_response(200)
        self._handler.send_header("Content-Type", JSON)
        self._handler.send_header("Transfer-Encoding", "chunked")
        self._handler.end_headers()
        self._handler.wfile.flush()

    def write(self, lines: list[bytes]) -> None:
        """Send some events."""
        try:
            for line in lines:
                self._handler.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            self._handler.wfile.flush()
        except OSError:
            self.broken = True

    def end(self, *, clean: bool) -> None:
        """End the answer as it should, or in the middle of a line."""
        with suppress(OSError):
            self._handler.wfile.write(b"0\r\n\r\n" if clean else b'40\r\n{"type":"MODI')
            self._handler.wfile.flush()
        self._handler.close_connection = self._handler.close_connection or not clean or self.broken


def _filter(namespace: str, query: Query) -> Callable[[StoredObject], bool]:
    """Return which objects a request wants; of field selectors those that kubectl uses are known."""
    terms = []
    for term in filter(None, query.get("fieldSelector", "").split(",")):
        name, _, value = term.partition("=")
        if name.rstrip("!") not in _FIELDS:
            raise RefusedError(400, f'field label not supported: "{name}"')
        terms.append((_FIELDS[name.rstrip("!")], value.lstrip("="), not name.endswith("!")))
    labels = [term.partition("=") for term in filter(None, query.get("labelSelector", "").split(","))]
    if any(not mark or name.endswith("!") for name, mark, _ in labels):
        raise RefusedError(400, "label selectors other than name=value are not emulated")

    def wanted(stored: StoredObject) -> bool:
        given = stored.content["metadata"].get("labels", {})
        return (not namespace or stored.name[0] == namespace) and all(
            given.get(name) == value.lstrip("=") for name, _, value in labels) and all(
            (stored.content.get(part, {}).get(leaf, "") == value) == equal for (part, leaf), value, equal in terms)

    return wanted


def _group(name: str, versions: list[str]) -> dict[str, object]:
    rows = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": rows, "preferredVersion": rows[0]}


def _event(kind: str, content: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), content)


def _bookmark(resource: Resource, version: int) -> bytes:
    return json.dumps({"kind": resource.kind, "apiVersion": resource.api_version,
                       "metadata": {"resourceVersion": str(version), "creationTimestamp": None}}).encode()


def status(code: int, message: str) -> bytes:
    """Return the object by which an API server says no."""
    return json.dumps({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
                       "reason": _REASONS.get(code, "Unknown"), "code": code}).encode()


def _send(handler: BaseHTTPRequestHandler, code: int, body: bytes, retry_after: str = "") -> None:
    handler.send_response(code)
    handler.send_header("Content-Type", JSON)
    if retry_after:
        handler.send_header("Retry-After", retry_after)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)
    handler.wfile.flush()


class _ApiHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    server: ApiServer

    def do_GET(self) -> None:
        self.server.api.answer(self)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class ApiServer(ThreadingHTTPServer):
    """Serves an API on 127.0.0.1, over TLS where it is given a context; port 0 takes a free one."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, api: Api, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", port), _ApiHandler)
        self.api, self._scheme = api, "https" if tls else "http"
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_side=True)

    @property
    def url(self) -> str:
        """Return where it listens."""
        return f"{self._scheme}://127.0.0.1:{self.server_port}{self.api.root}"

    def begin(self) -> ApiServer:
        """Serve on a thread of its own."""
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: clients that hang up are the point of the tests."""
