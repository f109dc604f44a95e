"""The web configuration file, in the format of Prometheus' exporter-toolkit.

TLS, client certificates, basic authentication, response headers and a rate limit. Unknown keys are errors; relative
paths are relative to the file. Source: the toolkit's docs/web-configuration.md.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator

from ...exporters.causes import innermost
from ...exporters.text import decode
from ..settings.values import StrictSettings
from ..strict_yaml import ConfigError, document_of
from .roles import Roles

MOST_BYTES = 1 << 20

VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
Version = Literal["TLS12", "TLS13"]

# Go's names, as the toolkit takes them, to OpenSSL's. TLS 1.3 suites are not configurable there either.
CIPHERS = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_AES_128_GCM_SHA256": "", "TLS_AES_256_GCM_SHA384": "", "TLS_CHACHA20_POLY1305_SHA256": "",
}
CURVES = {"CurveP256": "prime256v1", "CurveP384": "secp384r1", "CurveP521": "secp521r1", "X25519": "X25519"}

# Python's ssl always verifies a certificate that it requested, so RequireAnyClientCert cannot be had; one that is
# requested and ignored (RequestClientCert) need not be requested.
CLIENT_AUTH = {"": ssl.CERT_NONE, "NoClientCert": ssl.CERT_NONE, "RequestClientCert": ssl.CERT_NONE,
               "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL, "RequireAndVerifyClientCert": ssl.CERT_REQUIRED}

HEADERS: dict[str, Callable[[str], bool]] = {
    "Content-Security-Policy": bool,
    "Strict-Transport-Security": bool,
    "X-Content-Type-Options": lambda value: value.lower() == "nosniff",
    "X-Frame-Options": lambda value: value.lower() in ("deny", "sameorigin"),
    "X-XSS-Protection": bool,
}
BCRYPT = re.compile(r"\$2[aby]\$(0[4-9]|[12]\d|3[01])\$[./A-Za-z0-9]{53}")
DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")


class WebConfigError(Exception):
    """The web configuration cannot be used; the message names the file and every fault."""


class Tls(StrictSettings):
    """Keys of ``tls_server_config``."""

    cert_file: Path
    key_file: Path
    client_auth_type: str = ""
    client_ca_file: Path | None = None
    client_allowed_sans: tuple[str, ...] = ()
    min_version: Version = "TLS12"
    max_version: Version = "TLS13"
    cipher_suites: tuple[str, ...] = ()
    prefer_server_cipher_suites: bool = True
    curve_preferences: tuple[str, ...] = Field(default=(), max_length=1)
    """One at most: Python's ssl takes no list."""

    @field_validator("client_auth_type")
    @classmethod
    def _known_client_auth(cls, value: str) -> str:
        return _one_of(value, CLIENT_AUTH)

    @field_validator("cipher_suites", "curve_preferences")
    @classmethod
    def _known_names(cls, values: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        for value in values:
            _one_of(value, CIPHERS if info.field_name == "cipher_suites" else CURVES)
        return values

    @model_validator(mode="after")
    def _consistent(self) -> Tls:
        verifies = CLIENT_AUTH[self.client_auth_type] != ssl.CERT_NONE
        if self.client_ca_file and not verifies:
            raise ValueError("client_ca_file needs a client_auth_type that verifies")
        if self.client_allowed_sans and not verifies:
            raise ValueError("client_allowed_sans needs a client_auth_type that verifies")
        if self.min_version > self.max_version:
            raise ValueError(f"min_version {self.min_version} is above max_version {self.max_version}")
        return self

    def files(self) -> tuple[Path, ...]:
        """Return the files whose change means a new context."""
        return tuple(path for path in (self.cert_file, self.key_file, self.client_ca_file) if path)

    def context(self) -> ssl.SSLContext:
        """Return a server context; raise OSError or ssl.SSLError where a file is missing or no certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version, context.maximum_version = VERSIONS[self.min_version], VERSIONS[self.max_version]
        context.load_cert_chain(self.cert_file, self.key_file)
        context.verify_mode = CLIENT_AUTH[self.client_auth_type]
        if self.client_ca_file:
            context.load_verify_locations(self.client_ca_file)
        elif context.verify_mode != ssl.CERT_NONE:
            context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
        if chosen := [CIPHERS[name] for name in self.cipher_suites if CIPHERS.get(name)]:
            context.set_ciphers(":".join(chosen))
        if self.prefer_server_cipher_suites:
            context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
        for curve in self.curve_preferences:
            context.set_ecdh_curve(CURVES[curve])
        return context


class Http(StrictSettings):
    """Keys of ``http_server_config``. HTTP/2 is accepted as a wish: this server speaks HTTP/1.1."""

    http2: bool = True
    headers: dict[str, str] = {}

    @field_validator("headers")
    @classmethod
    def _allowed_headers(cls, headers: dict[str, str]) -> dict[str, str]:
        for name, value in headers.items():
            if not HEADERS[_one_of(name, HEADERS)](value) or not value.isprintable():
                raise ValueError(f"{name} cannot be {value!r}")
        return headers


class RateLimit(StrictSettings):
    """Keys of ``rate_limit``: one request each ``interval`` after a first ``burst``."""

    interval: str = "0s"
    burst: Annotated[int, Field(ge=0)] = 0

    @field_validator("interval")
    @classmethod
    def _a_duration(cls, value: str) -> str:
        if not DURATION.fullmatch(value):
            raise ValueError(f"{value!r} is no duration such as 500ms, 1s or 2m")
        return value

    @property
    def interval_s(self) -> float:
        """Return the time between two requests in seconds; 0 means no limit."""
        number, unit = DURATION.fullmatch(self.interval).groups()  # type: ignore[union-attr]
        return float(number) * {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}[unit]


class WebConfig(StrictSettings):
    """The whole file."""

    tls_server_config: Tls | None = None
    http_server_config: Http = Http()
    basic_auth_users: dict[str, str] = {}
    rate_limit: RateLimit = RateLimit()
    idlewatt: Roles | None = None
    """Our own: which users see what. Without it every user that is let in sees all."""

    @model_validator(mode="after")
    def _somebody_can_be_named(self) -> WebConfig:
        roles = self.idlewatt
        if roles is not None and bool(roles.user_header) != bool(roles.trusted_proxies):
            raise ValueError("idlewatt.user_header and idlewatt.trusted_proxies belong together")
        if roles is not None and not (roles.user_header or self.basic_auth_users):
            raise ValueError("idlewatt.admins needs basic_auth_users, or a header of trusted_proxies")
        return self

    @field_validator("basic_auth_users")
    @classmethod
    def _hashed(cls, users: dict[str, str]) -> dict[str, str]:
        for user, password in users.items():
            if not BCRYPT.fullmatch(password):
                # The value stays out of the message: it may be a password in clear.
                raise ValueError(f"the password of {user!r} is not a bcrypt hash (make one with htpasswd -nB)")
        return users


def load(path: Path) -> WebConfig:
    """Return the configuration of the file; raise WebConfigError with every fault."""
    try:
        with path.open("rb") as file:
            raw = document_of(decode(file.read(MOST_BYTES)), str(path))
    except OSError as fault:
        raise WebConfigError(f"{path}: cannot be read: {innermost(fault)}") from fault
    except ConfigError as fault:
        raise WebConfigError(str(fault)) from fault
    if not isinstance(raw, dict | None):
        raise WebConfigError(f"{path}: a mapping is expected, not {type(raw).__name__}")
    try:
        return WebConfig.model_validate(_beside(raw or {}, path.parent))
    except ValidationError as fault:
        faults = "; ".join(f"{'.'.join(map(str, item['loc'])) or 'file'}: {item['msg']}" for item in fault.errors())
        raise WebConfigError(f"{path}: {faults}") from None


def _beside(raw: dict[str, object], folder: Path) -> dict[str, object]:
    """Return the raw file with relative paths made relative to ``folder``."""
    tls = raw.get("tls_server_config")
    if not isinstance(tls, dict):
        return raw
    paths = {key: str(folder / tls[key]) for key in ("cert_file", "key_file", "client_ca_file")
             if isinstance(tls.get(key), str) and tls[key]}
    return raw | {"tls_server_config": tls | paths}


def _one_of(value: str, known: Collection[str]) -> str:
    if value not in known:
        raise ValueError(f"{value!r} is none of {', '.join(filter(None, known))}")
    return value
