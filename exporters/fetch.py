"""HTTP GET for sources: kept connections, credentials, TLS, and hard bounds on time and size.

It uses requests' adapter without its session: a scrape needs no cookies, redirects, proxies or merged settings, and
at thousands of targets they cost more than the parsing.
"""

from __future__ import annotations

import io
import threading
import time
import zlib
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator
from requests.adapters import HTTPAdapter
from urllib3.connectionpool import ConnectionPool, HTTPConnectionPool
from urllib3.exceptions import HTTPError
from urllib3.response import HTTPResponse

from ..storage.durations import Duration
from .body import unpacker, whole
from .causes import innermost
from .deadline import DEADLINES, POOLS, Exchange
from .source import SourceError
from .text import quoted

_CHUNK = 262144
_MOST_HOSTS = 65536
_CONNECTIONS_PER_HOST = 16
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


class StrictOptions(BaseModel):
    """A part of a source's configuration: unknown keys are errors, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class BasicAuth(StrictOptions):
    """User name and password, as in Prometheus' ``basic_auth``."""

    username: str = Field(description="User name.")
    password: SecretStr | None = Field(default=None, description="Password in the clear; prefer password_file.")
    password_file: Path | None = Field(default=None, description="File that holds the password; re-read on change.")

    @model_validator(mode="after")
    def _one_password(self) -> BasicAuth:
        if (self.password is None) == (self.password_file is None):
            raise ValueError("give either password or password_file")
        return self


class Authorization(StrictOptions):
    """An ``Authorization`` header, as in Prometheus' ``authorization``."""

    type: str = Field(default="Bearer", description="Scheme in front of the credentials.")
    credentials: SecretStr | None = Field(default=None, description="The token; prefer credentials_file.")
    credentials_file: Path | None = Field(default=None, description="File that holds the token; re-read on change.")

    @model_validator(mode="after")
    def _one_token(self) -> Authorization:
        if (self.credentials is None) == (self.credentials_file is None):
            raise ValueError("give either credentials or credentials_file")
        return self


class TlsConfig(StrictOptions):
    """How HTTPS servers are trusted and how we show who we are, as in Prometheus' ``tls_config``."""

    ca_file: Path | None = Field(default=None, description="Authority that signed the targets' certificates.")
    cert_file: Path | None = Field(default=None, description="Our own certificate, where targets ask for one.")
    key_file: Path | None = Field(default=None, description="The key of cert_file.")
    insecure_skip_verify: bool = Field(default=False, description="Trust any certificate: only for trying out.")


class HttpOptions(StrictOptions):
    """What every HTTP request of a source has in common."""

    timeout: Duration = Field(default=10.0, description="Longest time for one answer, from connecting to its end.")
    connect_timeout: Duration = Field(
        default=3.0, description="Longest time to connect; short, so that powered-down nodes do not hold up the rest.")
    max_body_bytes: int = Field(
        default=32 * 2**20, gt=0, description="Largest page taken, unpacked; more is refused as a fault of the target.")
    basic_auth: BasicAuth | None = Field(default=None, description="User name and password for every target.")
    authorization: Authorization | None = Field(default=None, description="Bearer token for every target.")
    tls_config: TlsConfig = Field(default=TlsConfig(), description="Trust and certificates for https targets.")
    headers: dict[str, str] = Field(
        default_factory=dict, description="Further request headers, e.g. X-Scope-OrgID for Mimir's tenants.")

    @model_validator(mode="after")
    def _one_credential(self) -> HttpOptions:
        if self.basic_auth and self.authorization:
            raise ValueError("give basic_auth or authorization, not both")
        return self


class _Adapter(HTTPAdapter):
    """An adapter for few URLs asked again and again: it finds the connection of each once, and takes no cookies."""

    def __init__(self) -> None:
        super().__init__(pool_connections=_MOST_HOSTS, pool_maxsize=_CONNECTIONS_PER_HOST)
        self.poolmanager.pool_classes_by_scheme = POOLS
        self._pools: dict[str | None, ConnectionPool] = {}
        self._paths: dict[str | None, str] = {}

    def get_connection_with_tls_context(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> Any:
        """Return the connection pool of the request's host."""
        pool = self._pools.get(request.url)
        if pool is None:
            if len(self._pools) >= _MOST_HOSTS:
                self._pools.clear()
                self._paths.clear()
            pool = self._pools[request.url] = super().get_connection_with_tls_context(request, *args, **kwargs)
            self._paths[request.url] = request.path_url
        return pool

    def forget(self, url: str) -> None:
        """Close the idle connections to a URL's host; they open again when somebody asks there."""
        pool = self._pools.pop(url, None)
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
        """Return the path that is asked for; proxies are not used."""
        return self._paths.get(request.url) or request.path_url

    def build_response(self, req: requests.PreparedRequest, resp: Any) -> requests.Response:
        """Return what is needed of a response: status, headers, body."""
        response = requests.Response()
        response.status_code, response.headers, response.raw, response.request = resp.status, resp.headers, resp, req
        return response


class SecretFile:
    """The content of a file with one secret, read again when the file changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int] | None = None
        self._secret = ""

    def read(self) -> str:
        """Return the secret without the line's end; raise ``SourceError`` where it cannot be read."""
        try:
            status = self._path.stat()
            stamp = (status.st_mtime_ns, status.st_ino)
            if stamp != self._stamp:
                self._secret = self._path.read_text(encoding="utf-8").strip()
                self._stamp = stamp
        except (OSError, UnicodeDecodeError) as error:
            why = innermost(error) if isinstance(error, OSError) else "it is no text"
            raise SourceError(f"cannot read the secret in {self._path}: {why}", permanent=True) from error
        return self._secret


def _credentials(options: HttpOptions) -> Callable[[], str]:
    """Return what gives the ``Authorization`` header at each request, '' for none."""
    if options.basic_auth:
        basic = options.basic_auth
        secret = _secret(basic.password, basic.password_file)
        return lambda: "Basic " + b64encode(f"{basic.username}:{secret()}".encode()).decode()
    if options.authorization:
        bearer = options.authorization
        secret = _secret(bearer.credentials, bearer.credentials_file)
        return lambda: f"{bearer.type} {secret()}"
    return lambda: ""


def _secret(given: SecretStr | None, path: Path | None) -> Callable[[], str]:
    if path is not None:
        return SecretFile(path).read
    value = given.get_secret_value() if given else ""
    return lambda: value


def secret_of(login: BasicAuth) -> Callable[[], str]:
    """Return what gives the password of a login, read again when its file changes."""
    return _secret(login.password, login.password_file)


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
        self._under_way: set[int] = set()
        """Threads with an exchange."""
        self._closed = False
        self._authorization = _credentials(options)
        self._prepared: dict[tuple[str, str], requests.PreparedRequest] = {}
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
                    raise SourceError("is not asked any more")
                answer = self._exchange(request, accepted)
            except requests.exceptions.ConnectTimeout as error:
                limit = self._options.connect_timeout
                raise Unreachable(f"does not answer: no connection within {limit:g} s") from error
            except (requests.RequestException, HTTPError, OSError, zlib.error, SourceError) as error:
                if not exchange.overdue:
                    raise told(error) from error
            finally:
                self._under_way.discard(thread)
        if exchange.overdue:
            raise self._overdue(exchange)
        return answer

    def forget(self, url: str) -> None:
        """Close what is kept open for a URL that is not asked any more."""
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
        key = url, self._authorization()
        if key not in self._prepared:
            if len(self._prepared) >= _MOST_HOSTS:  # discovery with ever new targets
                self._prepared.clear()
            self._prepared[key] = self._request(url, None, key[1])
        return self._prepared[key]

    def _request(self, url: str, params: Mapping[str, str] | None, authorization: str, method: str = "GET",
                 body: object = None) -> requests.PreparedRequest:
        headers = {"Accept": self._accept, "Accept-Encoding": "gzip", "User-Agent": "idlewatt"} | self._options.headers
        if authorization:
            headers["Authorization"] = authorization
        try:
            request = requests.Request(method, url, headers=headers, params=params, json=body).prepare()
        except (requests.RequestException, ValueError) as error:
            why = innermost(error)
            raise SourceError(f"{quoted(url)} is no URL that can be asked: {why}", permanent=True) from error
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
            where = response.headers.get("Location", "nowhere")[:200]
            raise SourceError(f"redirects to {ascii(where)}: configure the final address", permanent=True)
        body = self._body(response.raw)
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


_HINTS = {401: "(user name, password or token is wrong)", 403: "(not allowed)", 404: "(is the path right?)"}


def told(error: Exception) -> SourceError:
    """Return the error that a person is told."""
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
