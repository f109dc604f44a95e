"""Secrets of sources: given in the configuration, or in a file that is read again when it changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pydantic import SecretStr

from .causes import innermost
from .http_options import BasicAuth
from .source import SourceError


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


def secret_from(given: SecretStr | None, path: Path | None) -> Callable[[], str]:
    """Return what gives a secret, read again when its file changes."""
    if path is not None:
        return SecretFile(path).read
    value = given.get_secret_value() if given else ""
    return lambda: value


def secret_of(login: BasicAuth) -> Callable[[], str]:
    """Return what gives the password of a login, read again when its file changes."""
    return secret_from(login.password, login.password_file)
