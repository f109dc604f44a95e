"""Numbers sentences that come again and again: what differs between them, their figures, is kept beside them."""

from __future__ import annotations

import re
from collections.abc import Collection

from sqlalchemy import Connection, select

from . import schema
from .database import upsert
from .values import chunks

_FIGURE = re.compile(r"#|\d+(?:\.\d+)?")
"""The mark itself counts as one, so that every sentence comes back as it was."""


def taken_apart(sentence: str) -> tuple[str, str]:
    """Return a sentence with # in place of its figures, and the figures."""
    return _FIGURE.sub("#", sentence), ",".join(_FIGURE.findall(sentence))


def put_together(phrase: str, figures: str) -> str:
    """Return the sentence that was taken apart."""
    some = iter(figures.split(","))
    return re.sub("#", lambda _: next(some, "#"), phrase)


def numbers(connection: Connection, texts: Collection[str]) -> dict[str, int]:
    """Return the number of each text; new ones get one."""
    known = _known(connection, texts)
    new = sorted(set(texts) - known.keys())
    if new:
        upsert(connection, schema.phrases, [{"text": text} for text in new])
        known |= _known(connection, new)
    return known


def _known(connection: Connection, texts: Collection[str]) -> dict[str, int]:
    table = schema.phrases
    return {row.text: row.id for some in chunks(set(texts))
            for row in connection.execute(select(table).where(table.c.text.in_(some)))}
