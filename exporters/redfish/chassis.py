"""Which chassis of a BMC is the server: adding up baseboard, modules and trays would count watts twice."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from ..fetch import Refused
from ..source import SourceError
from .client import Bmc, Resource, link, members
from .power import ChassisPower, Reader, first

MOST_CHASSIS = 128
_WHOLE = ("RackMount", "Sled", "Blade", "StandAlone", "Tower", "Enclosure")
"""Types that are a server as a whole, the likeliest first."""


def choose(bmc: Bmc, pattern: str) -> tuple[str, Resource, Reader, ChassisPower]:
    """Return path, resource, place and reading of the one chassis that counts; ``pattern`` fits its id.

    Raises:
        SourceError: none reports its power, or several do and none is the whole.
    """
    found = _all(bmc)
    wanted = {path: one for path, one in found.items() if fnmatchcase(_id(path), pattern)} if pattern else found
    if not wanted:
        raise SourceError(f"no chassis fits {pattern!r}; there are {', '.join(map(_id, found)) or 'none'}")
    reporting = {path: (one, *reported) for path, one in _ranked(wanted) if (reported := first(bmc, one)) is not None}
    if not reporting:
        raise SourceError(f"no power at any chassis ({', '.join(map(_id, wanted))})")
    whole = _whole({path: one for path, (one, _, _) in reporting.items()})
    if len(whole) > 1:
        raise SourceError(f"several chassis report power ({', '.join(map(_id, whole))}): name the one that counts "
                          "(chassis)")
    return whole[0], *reporting[whole[0]]


def _all(bmc: Bmc) -> dict[str, Resource]:
    listed = link(bmc.get("/redfish/v1/"), "Chassis") or "/redfish/v1/Chassis"
    found: dict[str, Resource] = {}
    for path in members(bmc.get(listed), MOST_CHASSIS):
        try:
            found[path] = bmc.get(path)
        except Refused as error:
            if error.status != 404:
                raise
    return found


def _ranked(chassis: Mapping[str, Resource]) -> list[tuple[str, Resource]]:
    """Return those whose type is a whole server; all where none is."""
    whole = [(path, one) for path, one in chassis.items() if one.get("ChassisType") in _WHOLE]
    return whole or list(chassis.items())


def _whole(chassis: Mapping[str, Resource]) -> list[str]:
    """Return those that lie in no other one, of the likeliest type."""
    outer = [path for path, one in chassis.items() if not _within(one, chassis)] or list(chassis)
    for kind in _WHOLE:
        if of_kind := [path for path in outer if chassis[path].get("ChassisType") == kind]:
            return of_kind
    return outer


def _within(one: Resource, chassis: Mapping[str, Resource]) -> bool:
    links = one.get("Links")
    return isinstance(links, dict) and link(links, "ContainedBy") in chassis


def _id(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2][:80]
