"""Which chassis of a BMC is the server: adding up baseboard, modules and trays would count watts twice."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from ..fetch import Refused
from ..source import SourceError
from .client import Bmc, Resource, link, members
from .power import ChassisPower, Reader, first

log = logging.getLogger(__name__)

MOST_CHASSIS = 128
_REMOVED_AFTER_S = 86400.0
_WHOLE = ("RackMount", "Sled", "Blade", "StandAlone", "Tower", "Enclosure")
"""Types that are a server as a whole, the likeliest first."""


@dataclass(slots=True)
class ChassisInUse:
    """The chassis that measures a server: where it falls silent, another one may be a part of it."""

    bmc: str
    """Its BMC, for the log."""
    path: str = ""
    listed: int = 0
    silent_s: float | None = None
    """Since when it does not report."""

    def replace(self, path: str, listed: Collection[str], now_s: float) -> None:
        """Take another chassis in its place.

        Raises:
            SourceError: the former is still listed, or fewer are listed than before, and that not yet for a day.
        """
        if self.path and path != self.path and (self.path in listed or len(listed) < self.listed):
            self.silent_s = now_s if self.silent_s is None else min(now_s, self.silent_s)
            if now_s - self.silent_s < _REMOVED_AFTER_S:
                raise SourceError(f"chassis {_id(self.path)} measured the server and reports no power now; "
                                  f"{_id(path)} may be a part of it: name the one that counts (chassis)")
            log.warning("chassis %s of %s that is silent for a day is taken as removed", _id(self.path), self.bmc)
        self.path, self.listed, self.silent_s = path, len(listed), None


def choose(bmc: Bmc, pattern: str, in_use: ChassisInUse, now_s: float) -> tuple[Resource, Reader, ChassisPower]:
    """Return resource, place and reading of the one chassis that counts; ``pattern`` fits its id.

    Raises:
        SourceError: none reports its power, several do and none is the whole, or the one in use has fallen silent.
    """
    everything = _all(bmc)
    wanted = {path: resource for path, resource in everything.items() if not pattern or fnmatchcase(_id(path), pattern)}
    if not wanted:
        raise SourceError(f"no chassis fits {pattern!r}; there are {', '.join(map(_id, everything)) or 'none'}")
    reporting = {path: (resource, *reported) for path, resource in _ranked(wanted)
                 if (reported := first(bmc, resource)) is not None}
    if not reporting:
        raise SourceError(f"no power at any chassis ({', '.join(map(_id, wanted))})")
    whole = _whole({path: resource for path, (resource, _, _) in reporting.items()})
    if len(whole) > 1:
        raise SourceError(f"several chassis report power ({', '.join(map(_id, whole))}): name the one that counts "
                          "(chassis)")
    in_use.replace(whole[0], wanted, now_s)
    return reporting[whole[0]]


def _all(bmc: Bmc) -> dict[str, Resource]:
    listed = link(bmc.get("/redfish/v1/"), "Chassis") or "/redfish/v1/Chassis"
    chassis: dict[str, Resource] = {}
    for path in members(bmc.get(listed), MOST_CHASSIS):
        try:
            chassis[path] = bmc.get(path)
        except Refused as error:
            if error.status != 404:
                raise
    return chassis


def _ranked(chassis: Mapping[str, Resource]) -> list[tuple[str, Resource]]:
    """Return those whose type is a whole server; all where none is."""
    whole = [(path, resource) for path, resource in chassis.items() if resource.get("ChassisType") in _WHOLE]
    return whole or list(chassis.items())


def _whole(chassis: Mapping[str, Resource]) -> list[str]:
    """Return those that lie in no other one, of the likeliest type."""
    outer = [path for path, resource in chassis.items() if not _within(resource, chassis)] or list(chassis)
    for kind in _WHOLE:
        if of_kind := [path for path in outer if chassis[path].get("ChassisType") == kind]:
            return of_kind
    return outer


def _within(resource: Resource, chassis: Mapping[str, Resource]) -> bool:
    links = resource.get("Links")
    return isinstance(links, dict) and link(links, "ContainedBy") in chassis


def _id(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2][:80]
