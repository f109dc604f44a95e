"""GET against an API server: lists in pages, and watches line by line, within bounds of time and size."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Generator, Iterator, Mapping

import requests
from requests.adapters import HTTPAdapter
from urllib3.exceptions import HTTPError
from urllib3.response import HTTPResponse

from ..deadline import DEADLINES
from ..fetch import Client, Refused, TimedOut, as_source_error
from ..http_options import HttpOptions, TlsConfig
from ..source import SourceError
from .access import Access

_CHUNK = 65536
_MOST_CONNECTIONS = 32
LARGEST_OBJECT = 8 * 2**20
"""Bytes of one line of a watch: no object may have more than 3 MiB in its store."""
_GRACE_S = 15.0
"""How much longer than requested a watch may last."""


class ApiClient(Client):
    """Asks one API server, by the token of the moment."""

    def __init__(self, access: Access, options: HttpOptions) -> None:
        tls = options.tls_config
        # Packing a list costs server and us more than its way within a cluster; for a far server say gzip.
        super().__init__(options.model_copy(update={
            "headers": {"Accept-Encoding": "identity"} | options.headers,
            "tls_config": TlsConfig(
                ca_file=access.ca_file or tls.ca_file, cert_file=access.cert_file or tls.cert_file,
                key_file=access.key_file or tls.key_file,
                insecure_skip_verify=access.insecure or tls.insecure_skip_verify)}), accept="application/json",
            adapter=HTTPAdapter(pool_connections=1, pool_maxsize=_MOST_CONNECTIONS))
        self._access = access
        if access.token is not None:
            token = access.token
            self._authorization = lambda: f"Bearer {token()}"

    def read(self, path: str, params: Mapping[str, str] | None = None) -> bytes:
        """Return the answer to a request; a token that is refused is fetched again next time."""
        try:
            return self.get(f"{self._access.url}{path}", params)
        except Refused as refused:
            self._refused(refused)
            raise

    def lines(self, path: str, params: Mapping[str, str], *, lasts_s: float, silent_s: float) -> Generator[bytes]:
        """Yield an empty line once the server has agreed, then the lines of a watch as they come.

        Raises:
            SourceError: it is refused, cut off, says nothing for ``silent_s``, or lasts longer than ``lasts_s``.
        """
        request, thread = self._request(f"{self._access.url}{path}", params, self._authorization()), \
            threading.get_ident()
        # Packed, a line would wait for the next ones.
        request.headers = requests.structures.CaseInsensitiveDict({**request.headers, "Accept-Encoding": "identity"})
        with DEADLINES.limit(lasts_s + _GRACE_S) as exchange:
            self._under_way.add(thread)
            try:
                if self._closed:
                    raise SourceError("is not read any more")
                response = self._adapter.send(request, stream=True, verify=self._verify, cert=self._cert,
                                              timeout=(self._options.connect_timeout, silent_s))
                try:
                    self._refuse_faults(response, (200,))
                    yield b""
                    yield from _lines(response.raw)
                finally:
                    response.raw.close()
            except Refused as refused:
                self._refused(refused)
                raise
            except (requests.RequestException, HTTPError, OSError, zlib.error, SourceError) as error:
                if exchange.overdue:
                    raise TimedOut("the watch did not end in its time") from error
                raise as_source_error(error) from error
            finally:
                self._under_way.discard(thread)

    def close(self) -> None:
        """End what is under way, and what gave us tokens."""
        super().close()
        self._access.close()

    def _refused(self, refused: Refused) -> None:
        if refused.status == 401:
            self._access.forget()


def _lines(raw: HTTPResponse) -> Iterator[bytes]:
    left = b""
    while part := raw.read1(_CHUNK, decode_content=False):
        *whole, left = (left + part).split(b"\n")
        yield from whole
        if len(left) > LARGEST_OBJECT:
            raise SourceError(f"a line of a watch with more than {LARGEST_OBJECT} bytes")
    if left:
        raise SourceError("the watch was cut in the middle of a line")
