"""How many parts a meter adds up: power supplies of a server, shelves or PDUs of a rack.

A part that vanishes from a page makes the sum smaller, and nothing else tells it from one that draws less.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

log = logging.getLogger(__name__)

REMOVED_AFTER_S = 86400.0
"""How long a meter adds up fewer parts than before until the others are taken as removed."""
FORGET_AFTER_S = 3600.0
"""For how long a meter may be silent until nobody knows what was there meanwhile."""


@dataclass(slots=True)
class _Shortfall:
    """How long a meter has added up fewer parts than before, and how many it did at most meanwhile."""

    since_s: float
    reported_s: float
    parts: int

    def lasts(self, parts: int, now_s: float) -> bool:
        """Note how many are added up now; tell whether fewer than before have been for so long that they are gone."""
        if now_s - self.reported_s > FORGET_AFTER_S:
            self.since_s, self.parts = now_s, parts
        self.reported_s, self.parts = now_s, max(parts, self.parts)
        return now_s - self.since_s >= REMOVED_AFTER_S


@dataclass(slots=True)
class PartCount:
    """How many parts a meter has to add up: as many as it ever did, without those that were removed."""

    most: int = 1
    reported_s: float = 0.0
    """When it reported last, by our own clock."""
    _short: _Shortfall | None = field(default=None)

    def is_whole(self, parts: int, now_s: float, meter: str, kind: str) -> bool:
        """Tell whether a reading adds up all parts; ``meter`` and ``kind`` are the words of the log."""
        self.reported_s = now_s
        if parts < self.most:
            self._note_removed(parts, now_s, meter, kind)
        if parts < self.most:
            return False
        self.most, self._short = parts, None
        return True

    def move(self, seconds: float) -> None:
        """Move along when it reported, with a clock that was set."""
        self.reported_s += seconds
        if self._short is not None:
            self._short.since_s += seconds
            self._short.reported_s += seconds

    def _note_removed(self, parts: int, now_s: float, meter: str, kind: str) -> None:
        """Lower how many there have to be, once there have been fewer for so long that the others are gone."""
        self._short = self._short or _Shortfall(now_s, now_s, parts)
        if self._short.lasts(parts, now_s):
            log.warning("%s adds up %d %s for a day, %d before: the others are taken as removed", meter,
                        self._short.parts, kind, self.most)
            self.most, self._short = self._short.parts, None
