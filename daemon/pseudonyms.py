"""Users under other names in metrics: a keyed hash, the same for a user as long as the key is the same."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..exporters.metrics import METRICS, Published
from ..exporters.metrics.declared import PREFIX

log = logging.getLogger(__name__)

LEAST_BYTES = 16


def pseudonymised(published: Published, key_file: Path) -> Published:
    """Return a page on which users are called by pseudonyms; without a good key, one without series of users."""
    key = _key(key_file)
    changed: dict[str, Any] = {}
    for metric in METRICS:
        if "user" in metric.labels:
            name, place = metric.name.removeprefix(PREFIX), metric.labels.index("user")
            values = getattr(published, name)
            changed[name] = {} if key is None else {_renamed(labels, place, _of(key)): value
                                                    for labels, value in values.items()}
    return replace(published, **changed)


def _key(file: Path) -> bytes | None:
    try:
        key = file.read_bytes().strip()
    except OSError as error:
        log.error("users cannot be given pseudonyms, so metrics leave them out", extra={"error": str(error)})
        return None
    if len(key) < LEAST_BYTES:
        log.error("the key of pseudonyms is too short, so metrics leave users out", extra={"target": str(file)})
        return None
    return key


def _of(key: bytes) -> Callable[[str], str]:
    # A key of any length: BLAKE2 takes 64 bytes.
    digest = hashlib.sha256(key).digest()
    return lambda user: user and "u-" + hashlib.blake2b(user.encode("utf-8", "replace"), key=digest,
                                                        digest_size=6).hexdigest()


def _renamed(labels: str | tuple[str, ...], place: int, rename: Callable[[str], str]) -> str | tuple[str, ...]:
    if isinstance(labels, str):
        return rename(labels)
    return (*labels[:place], rename(labels[place]), *labels[place + 1:])
