"""The WSGI application: routes, the gate before them, and what every answer carries."""

from __future__ import annotations

import gzip
import ipaddress
import logging
import re
import socket
from collections.abc import Callable, Iterable
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from werkzeug.exceptions import HTTPException, NotFound
from werkzeug.routing import Map, Rule
from werkzeug.wrappers import Request, Response

from ...exporters import publish
from ...storage.errors import StoreError
from ..stylesheet import class_colors
from . import energy_api
from .api import ENDPOINTS, BadData, Endpoint, answer, error
from .energy_api import QUERIES, Query, recorded
from .energy_pages import PAGES, Page, error_page
from .gate import Passwords, TokenBucket, WebConfigFile
from .openapi import PRIORITIZE, written
from .own_view import OwnView
from .page import render
from .view import ReloadError, View

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

log = logging.getLogger(__name__)

STATIC = {"style.css": "text/css", "refresh.js": "text/javascript", "icon.svg": "image/svg+xml"}
SECURITY = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
                               "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "deny",
}
SMALLEST_GZIP = 1024
ERROR_TYPES = {400: "bad_data", 401: "unauthorized", 403: "forbidden", 404: "not_found", 405: "bad_data",
               429: "unavailable", 503: "unavailable"}

ASKS = "idlewatt.user"
"""Where a request says which user the gate has let in; no header can set it."""
OPEN = frozenset(("/-/healthy", "/health", "/healthz", "/-/ready"))
"""Paths that say nothing of anybody."""

VARIABLE = re.compile(r"\{\w+\}")

Handler = Callable[..., Response]


class WebApp:
    """Answers requests from what the view says; holds no facts of its own."""

    def __init__(self, view: View, gate: WebConfigFile | None = None, *, telemetry_path: str = "/metrics",
                 lifecycle: bool = False) -> None:
        self._view, self._gate = view, gate or WebConfigFile(None)
        self._telemetry_path, self._lifecycle = telemetry_path, lifecycle
        self._passwords, self._rate = Passwords(), TokenBucket()
        self._registry, self._scraped = publish.registry(view.published), False
        self._openapi = written()
        self.routes = Map(list(self._rules()), strict_slashes=True, merge_slashes=False)

    def _rules(self) -> Iterable[Rule]:
        yield _get("/", self._landing)
        for path, pages in PAGES.items():
            yield _get(path, partial(self._page, pages))
        yield _get(self._telemetry_path, self._metrics)
        for path in ("/-/healthy", "/health", "/healthz"):
            yield _get(path, self._healthy)
        yield _get("/-/ready", self._ready)
        yield Rule("/-/reload", methods=["POST", "PUT"], endpoint=self._reload)
        yield _get("/api/v1/openapi.json", self._describe)
        yield Rule(PRIORITIZE, methods=["POST"], endpoint=self._prioritize)
        for endpoint in ENDPOINTS.values():
            yield _get(endpoint.path, partial(self._rows, endpoint))
        for query in QUERIES.values():
            if query.path not in ENDPOINTS:
                yield _get(f"/api/v1/{VARIABLE.sub('<path:name>', query.path)}", partial(self._recorded, query))
        for name, content_type in STATIC.items():
            yield _get(f"/static/{name}", partial(_static, name, content_type))
        yield _get("/static/classes.css", _class_colors)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request (PEP 3333)."""
        request = Request(environ)
        response = self._answer(request)
        _finish(request, response, SECURITY | self._gate.current().http_server_config.headers)
        return response(environ, start_response)

    def prepare(self) -> None:
        """Write what is large of the metrics page before the next scrape asks for it, once there has been one."""
        if not self._scraped:
            return
        try:
            publish.prepare(self._registry)
        except Exception:  # noqa: BLE001 - the scraper gets the error; the thread that prepares goes on
            log.exception("the metrics page cannot be prepared")

    def _answer(self, request: Request) -> Response:
        try:
            refused = self._refusal(request)
            if refused:
                return refused
            handler, arguments = self.routes.bind_to_environ(request.environ).match()
            response: Response = handler(request, **arguments)
            return response
        except BadData as fault:
            return self._failed(request, 400, str(fault))
        except StoreError as fault:
            return self._failed(request, 503, f"the history cannot be read: {fault}")
        except HTTPException as fault:
            response = self._failed(request, fault.code or 500, _plain(fault))
            response.headers.extend([item for item in fault.get_headers() if item[0] == "Allow"])
            return response
        except Exception:  # noqa: BLE001 - the edge of the web side: one failing answer must not end its thread
            log.exception("request failed", extra={"target": request.path[:200]})
            return _failure(request, 500, "internal error; the daemon's log says which")

    def _failed(self, request: Request, status: int, message: str) -> Response:
        """Return why there is no page, as a page where a browser asks for one of jobs, users or nodes."""
        wants = request.accept_mimetypes.best_match(("text/plain", "text/html"))
        if wants != "text/html" or not request.path.startswith(("/jobs", "/users", "/nodes")):
            return _failure(request, status, message)
        root = "../" * (request.path.count("/") - 1)
        return Response(error_page(self._seen_by(request), status, message, root), status, mimetype="text/html")

    def _refusal(self, request: Request) -> Response | None:
        """Return why the request may not pass, None when it may."""
        config = self._gate.current()
        if not self._rate.allows(config.rate_limit):
            return _failure(request, 429, "too many requests")
        roles = config.idlewatt
        if roles is not None:
            named = roles.named(request.remote_addr, request.headers.get(roles.user_header or "-"))
            if named:
                request.environ[ASKS] = named
                return None
        if not config.basic_auth_users:
            return None if roles is None or request.path in OPEN else _failure(
                request, 403, "nobody is named: this is for users behind the proxy")
        given = request.authorization
        user, password = (given.username or "", given.password or "") if given and given.type == "basic" else ("", "")
        if given and self._passwords.right(config.basic_auth_users, user, password):
            request.environ[ASKS] = user
            return None
        response = _failure(request, 401, "a user and password are required")
        response.headers["WWW-Authenticate"] = 'Basic realm="idlewatt", charset="UTF-8"'
        return response

    def _seen_by(self, request: Request) -> View:
        """Return the daemon as the requesting user may see it: all of it, or a user's own part."""
        roles = self._gate.current().idlewatt
        user = str(request.environ.get(ASKS, ""))
        return self._view if roles is None or user in roles.admins else OwnView(self._view, user)

    def _landing(self, request: Request) -> Response:
        return Response(render(self._seen_by(request), self._telemetry_path), mimetype="text/html",
                        headers={"Cache-Control": "no-store"})

    def _page(self, page: Page, request: Request, name: str = "") -> Response:
        root = "../" * (request.path.count("/") - 1)
        return Response(page(self._seen_by(request), request.args, _named(name), root), mimetype="text/html")

    def _metrics(self, request: Request) -> Response:
        view = self._seen_by(request)
        self._scraped = self._scraped or view is self._view
        registry = self._registry if view is self._view else publish.registry(view.published)
        body, content_type = publish.page(registry, request.headers.get("Accept", ""))
        return Response(body, content_type=content_type)

    def _healthy(self, request: Request) -> Response:
        return Response("idlewatt is healthy.\n", mimetype="text/plain")

    def _ready(self, request: Request) -> Response:
        missing = self._view.missing()
        if missing:
            return Response("idlewatt is not ready: " + "; ".join(missing) + ".\n", 503, mimetype="text/plain")
        return Response("idlewatt is ready.\n", mimetype="text/plain")

    def _reload(self, request: Request) -> Response:
        if not self._lifecycle:
            return _failure(request, 403, "the lifecycle API is off; start with --web.enable-lifecycle")
        # A browser that carries the operator's password must not be driven here by another site.
        if _sent_by_another_site(request):
            return _failure(request, 403, "a reload is not taken from another site")
        if self._seen_by(request) is not self._view:
            return _failure(request, 403, "only an administrator may do that")
        try:
            self._view.reload()
        except ReloadError as fault:
            return _failure(request, 500, f"not reloaded, the old configuration goes on: {fault}")
        return Response("reloaded\n", mimetype="text/plain")

    def _prioritize(self, request: Request) -> Response:
        """Answer kube-scheduler, which asks by a body; an empty list says nothing, and changes nothing there."""
        from ...exporters.kubernetes.extender import parse_question, scores_answer  # sites without Kubernetes

        if _sent_by_another_site(request):
            return _failure(request, 403, "this is for schedulers, not for pages of another site")
        try:
            question = parse_question(request.get_data())
        except ValueError as fault:
            return _failure(request, 400, str(fault))
        return _json(scores_answer(self._seen_by(request).prioritize(question)))

    def _rows(self, endpoint: Endpoint, request: Request) -> Response:
        query = recorded(endpoint.name, request.args)
        if query is not None:
            return self._recorded(query, request)
        return _json(answer(endpoint, request.args, self._seen_by(request)))

    def _recorded(self, query: Query, request: Request, name: str = "") -> Response:
        return _json(energy_api.answer(query, self._seen_by(request), request.args, _named(name)))

    def _describe(self, request: Request) -> Response:
        return _json(self._openapi)


def _named(part: str) -> str:
    """Return a name as it was: of a path the server leaves ``%2F`` as it came."""
    return part.replace("%2F", "/")


def _sent_by_another_site(request: Request) -> bool:
    """Tell whether a browser sends this for a page that is not ours, as far as the headers say."""
    if request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
        return True
    origin = request.headers.get("Origin")
    if origin is None:
        return False
    try:
        site = urlsplit(origin)
    except ValueError:  # brackets that do not close
        return True
    # A name of another site that resolves to this machine passes as same-origin: only our own names are taken.
    return site.netloc != request.host or not _names_this_machine(site.hostname or "")


def _names_this_machine(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host in ("localhost", socket.gethostname(), socket.getfqdn())
    return True


def _get(path: str, handler: Handler) -> Rule:
    return Rule(path, methods=["GET"], endpoint=handler)


def _static(name: str, content_type: str, request: Request) -> Response:
    # Names come from the table above, never from the request.
    return _revalidated(request, files("idlewatt.daemon").joinpath("static", name).read_bytes(), content_type)


def _class_colors(request: Request) -> Response:
    return _revalidated(request, class_colors().encode(), "text/css")


def _revalidated(request: Request, body: bytes, content_type: str) -> Response:
    response = Response(body, mimetype=content_type, headers={"Cache-Control": "max-age=60"})
    response.add_etag()
    return response.make_conditional(request)


def _json(body: str, status: int = 200) -> Response:
    return Response(body, status, content_type="application/json; charset=utf-8")


def _failure(request: Request, status: int, message: str) -> Response:
    """Return an error in the form that the path's readers expect."""
    if request.path.startswith("/api/"):
        return _json(error(ERROR_TYPES.get(status, "internal"), message), status)
    return Response(message + "\n", status, mimetype="text/plain")


def _plain(fault: HTTPException) -> str:
    if isinstance(fault, NotFound) and fault.description == NotFound.description:
        return "no such page"
    return fault.description or fault.name


def _finish(request: Request, response: Response, headers: dict[str, str]) -> None:
    """Add what every answer carries, and compress it where that is wished."""
    for name, value in headers.items():
        response.headers[name] = value
    if response.status_code == 304 or request.environ["REQUEST_METHOD"] == "HEAD":
        return
    body = response.get_data()
    response.headers.add("Vary", "Accept-Encoding")
    if len(body) >= SMALLEST_GZIP and request.accept_encodings["gzip"] > 0:
        body = gzip.compress(body, compresslevel=1, mtime=0)
        response.headers["Content-Encoding"] = "gzip"
    response.headers["Content-Length"] = str(len(body))
    response.response = [body]  # in one piece: pieces would be a copy of it
