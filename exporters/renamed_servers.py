"""Servers that a target calls otherwise now: under their old names they are not there any more, nor silent."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..storage.telemetry import Telemetry
from .page_limits import PageError

_REMEMBERED_S = 3600.0
"""How long a name is remembered that a target tells no more: as long as a silent server's power may be estimated."""


@dataclass(slots=True)
class ServerNames:
    """The names that one target gives to its servers, answer by answer."""

    _told: frozenset[str] = frozenset()
    _absent: dict[str, float] = field(default_factory=dict)
    """Names that it tells no more, with when that was seen."""
    _left: frozenset[str] = frozenset()
    """Those of them in whose place there are others."""

    def take(self, facts: Telemetry, now_s: float, most: int) -> None:
        """Take in the names of an answer; raise ``PageError`` where a target has told ever others within an hour.

        As many servers that are missing as there are new ones are called otherwise. More of them may just be silent:
        nobody knows which of them are.
        """
        told = frozenset(one.node for found in (facts.gpus, facts.nodes, facts.jobs) for one in found)
        new = told - self._told - self._absent.keys()
        known = self._absent | dict.fromkeys(self._told, now_s)
        self._absent = {name: seen_s for name, seen_s in known.items()
                        if name not in told and now_s - seen_s <= _REMEMBERED_S}
        for name in list(self._absent)[:-2 * most]:
            del self._absent[name]
        missing = self._absent.keys() - self._left
        self._left = frozenset(self._absent if len(missing) <= len(new) else self._absent.keys() & self._left)
        self._told = told
        if len(self._absent) > most:
            raise PageError(f"gives its servers ever other names: {len(self._absent) + len(told)} within an hour, "
                            f"{len(told)} of them now (server_limit is {most}); the label `node` on its target names "
                            "a server for good")

    def left(self) -> tuple[str, ...]:
        """Return the names that are none of a server any more."""
        return tuple(sorted(self._left))
