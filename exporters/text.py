"""Text from outside, made fit for people, logs and databases once, where it enters.

Slurm takes any bytes as the name of a job, and an exporter's page may hold anything. What is no UTF-8, control
characters, surrogates and marks that turn the direction of writing become U+FFFD; a space of any kind becomes a space.
"""

from __future__ import annotations

import re
import unicodedata

STAND_IN = "\N{REPLACEMENT CHARACTER}"
_LONGEST_SHOWN = 60
_UNFIT = frozenset(("Cc", "Cs", "Cn", "Zl", "Zp"))
_INVISIBLE = re.compile("[\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]")
"""Format characters that hide or reorder what stands beside them; joiners, which scripts and emoji need, are none."""

_LOGIN = re.compile(r"(?:^|(?<=//))[^/?#]*@")


def decode(raw: bytes) -> str:
    """Return bytes as text; what is no UTF-8, surrogates too, becomes U+FFFD."""
    return raw.decode("utf-8", "replace")


def clean(text: str) -> str:
    """Return a name or other short text without what terminals, databases and pages choke on."""
    if text.isprintable():  # nearly all of it, at the price of a look
        return text
    return "".join(map(_fit, text))


def _fit(character: str) -> str:
    if character.isprintable():
        return character
    kind = unicodedata.category(character)
    if kind == "Zs":
        return " "
    return STAND_IN if kind in _UNFIT or _INVISIBLE.match(character) else character


def quoted(text: str | bytes, longest: int = _LONGEST_SHOWN) -> str:
    """Return the start of hostile text in quotes, plain ASCII on one line: for messages."""
    if isinstance(text, bytes):
        text = decode(text[:4 * longest])
    return ascii(text[:longest])


def without_login(address: str) -> str:
    """Return a URL or ``host:port`` without the name and password that it may hold: for all that people may read."""
    return _LOGIN.sub("", address, count=1) if "@" in address else address


def described(value: object) -> str:
    """Return a value of JSON as a message names it: short ones as they are, the others by their kind."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, float) or (isinstance(value, int) and abs(value) < 2**64):
        return str(value)
    kinds = {int: "a number beyond reason", list: "a list", dict: "an object"}
    return kinds.get(type(value), "something else")
