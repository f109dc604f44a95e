"""Which users may come in: the web configuration as it is on disk now, passwords, rate, certificates."""

from __future__ import annotations

import hashlib
import logging
import os
import ssl
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import bcrypt

from .webconfig import RateLimit, Tls, WebConfig, WebConfigError, load

log = logging.getLogger(__name__)

# A valid hash of nobody's password: an unknown user costs as much as a wrong password. Its cost is set per file.
NOBODY = "$2y$%s$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi"
LONGEST_PASSWORD = 72
"""bcrypt reads no further."""

Stamp = tuple[tuple[int, int, int], ...]


def stamp(paths: Iterable[Path]) -> Stamp:
    """Return what changes when one of the files does; a missing file is a stamp too."""
    return tuple(_stamp(path) for path in paths)


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        status = os.stat(path)
    except OSError:
        return (0, 0, 0)
    return (status.st_mtime_ns, status.st_size, status.st_ino)


class WebConfigFile:
    """The file, read again whenever it has changed on disk; a bad change is logged once and the last good one stays.

    Without a file everything is open and plain, as in the exporters of Prometheus.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._stamp = stamp([path] if path else [])
        self._config = load(path) if path else WebConfig()
        self._tls: tuple[Tls, Stamp] | None = None
        """What the context was made from."""
        self._context: ssl.SSLContext | None = None
        if self._config.tls_server_config:
            self._renew(self._config.tls_server_config)

    @property
    def secure(self) -> bool:
        """Tell whether connections are TLS."""
        return self._context is not None

    def current(self) -> WebConfig:
        """Return the configuration in force."""
        with self._lock:
            seen = stamp([self._path] if self._path else [])
            if self._path and seen != self._stamp:
                self._stamp = seen
                try:
                    self._config = load(self._path)
                except WebConfigError as fault:
                    log.error("web configuration not reloaded", extra={"target": str(fault)})
            return self._config

    def context(self) -> ssl.SSLContext:
        """Return the TLS context in force, new after a certificate was rotated or its section was changed."""
        tls = self.current().tls_server_config
        with self._lock:
            if tls and (tls, stamp(tls.files())) != self._tls:
                try:
                    self._renew(tls)
                except WebConfigError as fault:
                    log.error("TLS settings or certificate not reloaded", extra={"target": str(fault)})
            assert self._context is not None, "context() is for servers that started with TLS"
            return self._context

    def check_peer(self, connection: ssl.SSLSocket) -> None:
        """Raise ssl.SSLCertVerificationError unless the client's certificate bears an allowed name."""
        tls = self.current().tls_server_config
        allowed = set(tls.client_allowed_sans) if tls else set()
        certificate = connection.getpeercert()
        # Without a certificate there is nothing to compare: whether one must be shown is client_auth_type's matter.
        if allowed and certificate:
            names = {str(pair[1]) for pair in certificate.get("subjectAltName", ())}
            if names.isdisjoint(allowed):
                raise ssl.SSLCertVerificationError("the client's certificate bears no allowed name")

    def _renew(self, tls: Tls) -> None:
        # The stamp first: a file that changes while it is read is read again at the next handshake.
        self._tls = tls, stamp(tls.files())
        try:
            self._context = tls.context()
        except (OSError, ValueError) as fault:
            raise WebConfigError(f"{tls.cert_file}, {tls.key_file}: {fault}") from fault


class Passwords:
    """Checks basic authentication against bcrypt hashes, one at a time, and remembers the right answers.

    One at a time so that guesses cannot take every core; remembered so that a scrape costs no bcrypt and waits for
    no guess. What is kept is a digest, never a password; guesses cannot push it out. Bounded.
    """

    def __init__(self, remembered: int = 100) -> None:
        self._remembered = remembered
        self._right: OrderedDict[bytes, None] = OrderedDict()
        self._lock, self._hashing = threading.Lock(), threading.Lock()
        self._key = os.urandom(32)

    def right(self, users: Mapping[str, str], user: str, password: str) -> bool:
        """Tell whether the user is known and the password is hers."""
        hashed, secret = users.get(user, _nobody(users)), password.encode(errors="replace")
        credentials = b"\0".join((user.encode(errors="replace"), hashed.encode(), secret))
        digest = hashlib.blake2b(credentials, key=self._key).digest()
        with self._lock:
            if digest in self._right:
                self._right.move_to_end(digest)
                return True
        with self._hashing:
            matches = _matches(secret, hashed)
        if not (matches and user in users and len(secret) <= LONGEST_PASSWORD):
            return False
        with self._lock:
            self._right[digest] = None
            if len(self._right) > self._remembered:
                self._right.popitem(last=False)
        return True


def _matches(secret: bytes, hashed: str) -> bool:
    try:
        return bcrypt.checkpw(secret[:LONGEST_PASSWORD], hashed.encode())
    except ValueError:
        return False


def _nobody(users: Mapping[str, str]) -> str:
    return NOBODY % max((hashed[4:6] for hashed in users.values()), default="10")


class TokenBucket:
    """A token bucket: ``burst`` requests at once, then one each interval."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tokens: float | None = None
        self._last_s = clock()
        self._lock = threading.Lock()

    def allows(self, limit: RateLimit) -> bool:
        """Tell whether one more request may pass now."""
        if not limit.interval_s:
            return True
        with self._lock:
            now, most = self._clock(), float(max(1, limit.burst))
            tokens = most if self._tokens is None else self._tokens
            tokens = min(most, tokens + (now - self._last_s) / limit.interval_s)
            self._last_s = now
            self._tokens = tokens - 1 if tokens >= 1 else tokens
            return tokens >= 1
