"""HTTP GET for sources: kept connections, credentials, TLS, hard bounds on time and size, bodies known to be whole.

It uses requests' adapter without its session: a scrape needs no cookies, redirects, proxies or merged settings, and
at thousands of targets they cost more than the parsing.
"""

from __future__ import annotations

import io
import re
import threading
import time
import zlib
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.connectionpool import ConnectionPool, HTTPConnectionPool
from urllib3.exceptions import HTTPError
from urllib3.poolmanager import PoolManager
from urllib3.response import HTTPResponse

from .causes import innermost
from .deadline import DEADLINES, POOLS, Exchange
from .http_options import HttpOptions
from .secret_file import secret_from
from .source import SourceError
from .text import quoted, without_login

_MOST_MEMBERS = 16
"""Parts of one gzip body; each costs a copy of what follows it."""
_END = b"# EOF"
"""How OpenMetrics ends a page."""
_LAST_LINE = b"\n" + _END
_CHUNK = 262144
_MOST_HOSTS = 65536
_CONNECTIONS_PER_HOST = 16
_SHORTEST_SECRET = 4
_BEFORE_AT = re.compile(r"(?:^|(?<=//)).*@")
_ACCEPT = "text/plain;version=0.0.4;q=1,*/*;q=0.1"


class TimedOut(SourceError):
    """The server did not end within its time: it hangs, or is too slow."""


class Displaced(SourceError):
    """The exchange was cut before its time so that others could have their turn: it says little of the server."""


class Unreachable(TimedOut):
    """Nothing answered at all while connecting: the machine is off, or a firewall is silent."""


class Refused(SourceError):
    """The server answered, but not with 200."""

    def __init__(self, message: str, status: int, body: bytes = b"", retry_after: str = "") -> None:
        super().__init__(message, permanent=status in (401, 403, 404))
        self.status, self.body, self.retry_after = status, body, retry_after


def cut_at_deadlines(manager: PoolManager) -> None:
    """Make a manager's connections ones that a deadline can cut."""
    manager.pool_classes_by_scheme = POOLS


class _Adapter(HTTPAdapter):
    """An adapter for few URLs read again and again: it finds the connection of each once, and takes no cookies."""

    def __init__(self) -> None:
        super().__init__(pool_connections=_MOST_HOSTS, pool_maxsize=_CONNECTIONS_PER_HOST)
        self._pools: dict[str, ConnectionPool] = {}
        """By scheme, host and port."""
        self._paths: dict[str | None, str] = {}

    def remember(self, request: requests.PreparedRequest) -> None:
        """Remember the path of a request that is sent again and again."""
        if len(self._paths) >= _MOST_HOSTS:
            self._paths.clear()
        self._paths[request.url] = request.path_url

    def get_connection_with_tls_context(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> Any:
        """Return the connection pool of the request's host."""
        server = _server(request.url or "")
        pool = self._pools.get(server)
        if pool is None:
            if len(self._pools) >= _MOST_HOSTS:
                self._pools.clear()
            pool = self._pools.setdefault(server, super().get_connection_with_tls_context(request, *args, **kwargs))
            self.poolmanager.pools.clear()  # it finds pools by all of their settings, in half a kilobyte each
        return pool

    def forget(self, url: str) -> None:
        """Close the idle connections to a URL's host; they open again when somebody asks there."""
        pool = self._pools.pop(_server(url), None)
        self._paths.pop(url, None)
        idle = pool.pool.queue if isinstance(pool, HTTPConnectionPool) and pool.pool else ()
        for connection in filter(None, tuple(idle)):
            connection.close()

    def close(self) -> None:
        """Close every idle connection now, not when nobody remembers its pool any more."""
        for pool in tuple(self._pools.values()):
            pool.close()
        self._pools.clear()
        super().close()

    def request_url(self, request: requests.PreparedRequest, proxies: object) -> str:
        """Return the path that is requested; proxies are not used."""
        return self._paths.get(request.url) or request.path_url

    def build_response(self, req: requests.PreparedRequest, resp: Any) -> requests.Response:
        """Return what is needed of a response: status, headers, body."""
        response = requests.Response()
        response.status_code, response.headers, response.raw, response.request = resp.status, resp.headers, resp, req
        return response


def _server(url: str) -> str:
    """Return the part of a URL before its path."""
    return url[:url.find("/", len("https://"))]


def _credentials(options: HttpOptions) -> Callable[[], str]:
    """Return what gives the ``Authorization`` header at each request, '' for none."""
    if options.basic_auth:
        basic = options.basic_auth
        secret = secret_from(basic.password, basic.password_file)
        return lambda: "Basic " + b64encode(f"{basic.username}:{secret()}".encode()).decode()
    if options.authorization:
        bearer = options.authorization
        secret = secret_from(bearer.credentials, bearer.credentials_file)
        return lambda: f"{bearer.type} {secret()}"
    return lambda: ""


def unpacker(encoding: str, limit: int) -> Callable[[bytes], bytes]:
    """Return what unpacks a body part by part, at most ``limit`` + 1 bytes; an empty part stands for its end."""
    if encoding in ("", "identity"):
        return lambda part: part
    if encoding != "gzip":
        raise SourceError(f"answers in Content-Encoding {quoted(encoding)}, which was not requested")
    return _Gunzip(limit)


class _Gunzip:
    """Unpacks gzip, which may consist of several members, one after the other."""

    def __init__(self, limit: int) -> None:
        self._left = limit + 1
        self._members = 1
        self._inflate = zlib.decompressobj(wbits=31)

    def __call__(self, part: bytes) -> bytes:
        """Return what a part holds, unpacked."""
        if not part and not self._inflate.eof:
            raise SourceError("its gzip is cut off")
        unpacked = []
        while part and self._left > 0:
            if self._inflate.eof:
                self._next_member()
            unpacked.append(self._inflate.decompress(part, self._left))
            self._left -= len(unpacked[-1])
            part = self._inflate.unused_data
        return b"".join(unpacked)

    def _next_member(self) -> None:
        self._members += 1
        if self._members > _MOST_MEMBERS:
            raise SourceError(f"its gzip has more than {_MOST_MEMBERS} members")
        self._inflate = zlib.decompressobj(wbits=31)


def whole(body: bytes, raw: HTTPResponse) -> bytes:
    """Return a body whose end is certain.

    A page that ends where the connection does looks whole when it was cut at the end of a line, and so does gzip that
    was cut between two of its members. JSON and OpenMetrics show their own end.

    Raises:
        SourceError: the body is cut off, or nobody can tell.
    """
    kind = raw.headers.get("Content-Type", "")
    if body[-16:].rstrip().endswith(_LAST_LINE) or body.rstrip() == _END:
        return body
    if "openmetrics-text" in kind:
        raise SourceError("the page is cut off: it is OpenMetrics and does not end in # EOF")
    # The length that was announced, none of which remains by now; None where none was.
    marked = raw.chunked or raw.length_remaining is not None
    if not marked and not _ends_as_json(body, kind):
        raise SourceError("nobody can tell whether the page is whole: it ends where the connection does "
                          "(no Content-Length, no chunks, no # EOF)")
    return body


def _ends_as_json(body: bytes, kind: str) -> bool:
    """Tell whether a body is JSON up to its last byte; a page of metrics may end in a brace, too."""
    begins = "json" in kind if kind else body[:16].lstrip().startswith((b"{", b"["))
    return begins and body[-16:].rstrip().endswith((b"}", b"]"))


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Client:
    """Fetches URLs within the bounds of its options; safe for many threads.

    Redirects are not followed: credentials must not travel to where a target points.
    """

    def __init__(self, options: HttpOptions, *, accept: str = _ACCEPT, adapter: HTTPAdapter | None = None) -> None:
        self._options, self._accept = options, accept
        self._adapter = adapter or _Adapter()
        cut_at_deadlines(self._adapter.poolmanager)
        self._under_way: set[int] = set()
        """Threads with an exchange."""
        self._closed = False
        self._authorization = _credentials(options)
        self._prepared: dict[str, tuple[str, requests.PreparedRequest]] = {}
        """By URL, with the ``Authorization`` that it has."""
        self._headers: object = None
        tls = options.tls_config
        self._verify: bool | str = not tls.insecure_skip_verify
        if tls.ca_file and self._verify:
            self._verify = str(tls.ca_file)
        self._cert = (str(tls.cert_file), str(tls.key_file or tls.cert_file)) if tls.cert_file else None

    def get(self, url: str, params: Mapping[str, str] | None = None) -> bytes:
        """Return the unpacked body of a 200 answer; raise ``SourceError`` with the reason otherwise."""
        return self._within(self._prepare(url, params), (200,)).body

    def send(self, method: str, url: str, *, body: object = None, headers: Mapping[str, str] | None = None,
             accepted: Sequence[int] = (200, 202, 204)) -> Answer:
        """Return the answer to a request with a JSON body, or none; raise ``SourceError`` for other statuses."""
        request = self._request(url, None, self._authorization(), method, body)
        request.headers = request.headers.copy()  # those of the last request are shared
        request.headers.update(headers or {})
        return self._within(request, accepted)

    def _within(self, request: requests.PreparedRequest, accepted: Sequence[int]) -> Answer:
        thread = threading.get_ident()
        with DEADLINES.limit(self._options.timeout) as exchange:
            try:
                self._under_way.add(thread)
                if self._closed:
                    raise SourceError("is not read any more")
                answer = self._exchange(request, accepted)
            except requests.exceptions.ConnectTimeout as error:
                limit = self._options.connect_timeout
                raise Unreachable(f"does not answer: no connection within {limit:g} s") from error
            except (requests.RequestException, HTTPError, OSError, zlib.error, SourceError) as error:
                if not exchange.overdue:
                    raise as_source_error(error) from error
            finally:
                self._under_way.discard(thread)
        if exchange.overdue:
            raise self._overdue(exchange)
        return answer

    def forget(self, url: str) -> None:
        """Close what is kept open for a URL that is not read any more."""
        self._prepared.pop(url, None)
        if isinstance(self._adapter, _Adapter):
            self._adapter.forget(url)

    def close(self) -> None:
        """End every exchange under way, close every kept connection, answer nobody any more."""
        self._closed = True
        for thread in tuple(self._under_way):
            DEADLINES.hasten(thread)
        self._adapter.close()

    def _overdue(self, exchange: Exchange) -> SourceError:
        if not exchange.hastened:
            return TimedOut(f"did not end within {self._options.timeout:g} s (timeout)")
        passed = time.monotonic() - exchange.began
        return Displaced(f"did not end within {passed:.1f} s and was cut in favour of others: too many hang at once")

    def _exchange(self, request: requests.PreparedRequest, accepted: Sequence[int]) -> Answer:
        response = self._adapter.send(
            request, stream=True, timeout=(self._options.connect_timeout, self._options.timeout),
            verify=self._verify, cert=self._cert)
        try:
            self._refuse_faults(response, accepted)
            return Answer(response.status_code, response.headers, whole(self._body(response.raw), response.raw))
        except BaseException:
            # What is left of the answer would be read as the next one.
            response.raw.close()
            raise

    def _prepare(self, url: str, params: Mapping[str, str] | None) -> requests.PreparedRequest:
        if params:
            return self._request(url, params, self._authorization())
        authorization = self._authorization()
        before, request = self._prepared.get(url, (None, None))
        if request is None or before != authorization:
            if len(self._prepared) >= _MOST_HOSTS:  # discovery with ever new targets
                self._prepared.clear()
            request = self._request(url, None, authorization)
            self._prepared[url] = authorization, request
            if isinstance(self._adapter, _Adapter):
                self._adapter.remember(request)
        return request

    def _request(self, url: str, params: Mapping[str, str] | None, authorization: str, method: str = "GET",
                 body: object = None) -> requests.PreparedRequest:
        headers = {"Accept": self._accept, "Accept-Encoding": "gzip", "User-Agent": "idlewatt"} | self._options.headers
        if authorization:
            headers["Authorization"] = authorization
        for name, value in headers.items():
            if not _sendable(value):  # what the libraries say of it has the secret in it
                raise SourceError(f"the header {quoted(name)} cannot be sent: its value has a line's end, a control "
                                  "character or a typographic mark; look at the token or password", permanent=True)
        try:
            request = requests.Request(method, url, headers=headers, params=params, json=body).prepare()
        except (requests.RequestException, ValueError) as error:
            # What the libraries say has the URL, or a part of a password with a slash in it.
            why = "look at its login, host and port" if "@" in url else innermost(error)
            shown = quoted(_BEFORE_AT.sub("", url))
            raise SourceError(f"{shown} is no URL that can be read: {why}", permanent=True) from error
        request.headers = self._shared(request.headers)
        request._cookies = None  # type: ignore[attr-defined]  # an empty jar with its lock: 1.5 kB, which nobody asks
        return request

    def _shared(self, headers: object) -> Any:
        """Return the headers of the request before where they are the same: 1.4 kB for each of thousands of URLs."""
        before = self._headers
        if headers != before:  # another token, or a URL with a password of its own
            self._headers = before = headers
        return before

    def _refuse_faults(self, response: requests.Response, accepted: Sequence[int] = (200,)) -> None:
        status = response.status_code
        if status in accepted:
            return
        if 300 <= status < 400:
            where = without_login(response.headers.get("Location", "nowhere"))[:200]
            raise SourceError(f"redirects to {ascii(where)}: configure the final address", permanent=True)
        body = _without_secret(self._body(response.raw), response.request.headers)
        raise Refused(f"HTTP {status} {_HINTS.get(status, '')}: {quoted(body, 200)}", status, body,
                      response.headers.get("Retry-After") or "")

    def _body(self, raw: HTTPResponse) -> bytes:
        """Read to the end; never unpack more than the cap (gzip bombs)."""
        limit = self._options.max_body_bytes
        unpack = unpacker(raw.headers.get("Content-Encoding", ""), limit)
        body = io.BytesIO()  # parts that are joined at the end would be there twice, and Slurm's list has 12 MB
        while packed := raw.read1(_CHUNK, decode_content=False):
            part = unpack(packed)
            if body.tell() + len(part) > limit:
                raise SourceError(f"answers with more than {limit} bytes (max_body_bytes)")
            body.write(part)
        unpack(b"")
        return body.getvalue()


def _sendable(value: str) -> bool:
    """Tell whether a header may have a value: printable Latin-1."""
    return value.isprintable() and all(character < "\u0100" for character in value)


def _without_secret(body: bytes, headers: Mapping[str, str | bytes]) -> bytes:
    """Return the body of a refusal without our token or password: some servers repeat the request."""
    secret = str(headers.get("Authorization", "")).rpartition(" ")[2]
    return body.replace(secret.encode(), b"...") if len(secret) >= _SHORTEST_SECRET else body


_HINTS = {401: "(user name, password or token is wrong)", 403: "(not allowed)", 404: "(is the path right?)"}


def as_source_error(error: Exception) -> SourceError:
    """Return the error that an operator reads."""
    if isinstance(error, SourceError):
        return error
    if isinstance(error, (requests.exceptions.Timeout, TimeoutError)):
        return TimedOut(_reason(error))
    return SourceError(_reason(error), permanent=isinstance(error, requests.exceptions.SSLError))


def _reason(error: Exception) -> str:
    """Return in a few words why a request failed; the libraries' own text names their objects."""
    if isinstance(error, requests.exceptions.SSLError):
        return f"TLS fails: {innermost(error)}"
    if isinstance(error, (requests.exceptions.ReadTimeout, TimeoutError)):
        return "took too long to answer"
    if isinstance(error, zlib.error):
        return f"its gzip is broken: {error}"
    return innermost(error)
