"""Users under other names in metrics: a keyed hash, the same for a user as long as the key is the same."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ..exporters.metrics import METRICS, Published
from ..exporters.metrics.declared import PREFIX

log = logging.getLogger(__name__)

LEAST_BYTES = 16


Rename = Callable[[str], str]


def pseudonymised(published: Published, key_file: Path, users: Collection[str]) -> Published:
    """Return a page on which users are called by pseudonyms, also where the text of a reason names one of them.

    Without a good key, one without the series that have or name a user.
    """
    key = _key(key_file)
    rename = None if key is None else _of(key)
    changed: dict[str, Any] = {}
    for metric in METRICS:
        name = metric.name.removeprefix(PREFIX)
        values = getattr(published, name)
        if "user" in metric.labels:
            place = metric.labels.index("user")
            values = changed[name] = {} if rename is None else {_renamed(labels, place, rename): value
                                                                for labels, value in values.items()}
        if "reason" in metric.labels:
            changed[name] = _unnamed(values, metric.labels.index("reason"), users, rename)
    return replace(published, **changed)


def _unnamed(values: Mapping[Any, Any], place: int, users: Collection[str], rename: Rename | None) -> Mapping[Any, Any]:
    """Return the series of a metric with pseudonyms in their reasons; without any, those that name nobody."""
    found: dict[Any, Any] = {}
    for labels, value in values.items():
        names = names_in(labels if isinstance(labels, str) else labels[place], users)
        if names is None:
            found[labels] = value
        elif rename is not None:
            found[_renamed(labels, place, partial(names.sub, partial(_of_match, rename)))] = value
    return values if found == values else found  # the same object is not written anew


def _of_match(rename: Rename, found: re.Match[str]) -> str:
    return rename(found[0])


def names_in(text: str, users: Collection[str]) -> re.Pattern[str] | None:
    """Return what finds the names of users that are words of a text; None where it has none, or is one word: a code."""
    names = sorted((user for user in users if user in text), key=len, reverse=True) if " " in text else []
    # Slurm calls a reservation without a name by its user and a number: alice_12. Kubernetes' job ids begin with a
    # namespace and a slash: they stay as they are in other labels.
    words = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, names))})(?=_\d+(?!\w)|(?!\w|/))")
    return words if names and words.search(text) else None


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


def _of(key: bytes) -> Rename:
    # A key of any length: BLAKE2 takes 64 bytes.
    digest = hashlib.sha256(key).digest()
    return lambda user: user and "u-" + hashlib.blake2b(user.encode("utf-8", "replace"), key=digest,
                                                        digest_size=6).hexdigest()


def _renamed(labels: str | tuple[str, ...], place: int, rename: Rename) -> str | tuple[str, ...]:
    if isinstance(labels, str):
        return rename(labels)
    return (*labels[:place], rename(labels[place]), *labels[place + 1:])
