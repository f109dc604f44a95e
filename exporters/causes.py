"""Why a request failed, in words for people: the libraries' own texts name their objects and wrap one another."""

from __future__ import annotations

import http.client
import re
import ssl

import urllib3.exceptions

_OBJECT = re.compile(r"<?\b[\w.]+\((?:[^()]|\([^()]*\))*\)>?:? *|<[^<>]* at 0x[0-9a-f]+>:? *")
_TLS_ALERT = "\x15\x03"
"""How the answer of a port for TLS to anything else begins."""
_PROXY = "that of a proxy (HTTP_PROXY, HTTPS_PROXY)"
"""Errors of requests do not tell the address that was asked from the proxy's, which the environment names."""
_SOURCE_LINE = re.compile(r" \(_ssl\.c:\d+\)|^\[[^\]]*\] ")


def innermost(error: BaseException) -> str:
    """Return the first cause, plain ASCII on one line: requests wraps urllib3, which wraps the socket's error."""
    while (inner := _inner(error)) is not None:
        error = inner
    return ascii(_words(error))[1:-1]


def of_request(error: BaseException) -> str:
    """Return the first cause as ``innermost`` does, without what the libraries quote of a request: URL and headers."""
    import requests  # whoever asked has it; commands that ask nobody start sooner without

    if isinstance(error, requests.exceptions.InvalidProxyURL):
        return "the URL of the proxy cannot be read"
    if isinstance(error, requests.exceptions.InvalidURL | urllib3.exceptions.LocationValueError):
        return f"its URL or {_PROXY} cannot be read: look at scheme, login, host and port"
    if isinstance(error, requests.exceptions.InvalidHeader | UnicodeEncodeError):
        return (f"its token or password, or {_PROXY}, cannot be sent: it has a line's end, a control character or a "
                "typographic mark")
    return innermost(error)


def _inner(error: BaseException) -> BaseException | None:
    if isinstance(error, urllib3.exceptions.NameResolutionError):
        return None  # it alone knows the name
    wrapped = (getattr(error, "reason", None), *error.args, error.__cause__)
    return next((part for part in wrapped if isinstance(part, BaseException) and part is not error), None)


def _words(error: BaseException) -> str:
    if isinstance(error, http.client.IncompleteRead | urllib3.exceptions.IncompleteRead):
        return "the connection ended before the answer did"
    if isinstance(error, urllib3.exceptions.InvalidChunkLength):
        return "the answer's chunks are broken"
    if isinstance(error, http.client.BadStatusLine) and not isinstance(error, http.client.RemoteDisconnected):
        if str(error.args[0]).startswith(_TLS_ALERT):
            return ("it speaks https and was read by http: write https://, or scheme: https, where its address is "
                    "configured")
        return "answers with something that is not HTTP"
    if isinstance(error, urllib3.exceptions.NameResolutionError):
        return _OBJECT.sub("", str(error)).partition(" (")[0]
    if isinstance(error, ssl.SSLError):
        return _SOURCE_LINE.sub("", str(error))
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return _OBJECT.sub("", str(error)).strip() or "no reason is given"
