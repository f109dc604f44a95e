"""Which of a server's hwmon and ACPI power meters measures what: the wall, a Grace module, or a part of either.

A server of the x86 kind has one ACPI meter, and it is the wall. A Grace superchip has four for each of its modules:
the module as a whole, its Grace, and of that the cores and the I/O. The largest of them is one module, not the wall,
and none of them knows fans, network cards or what conversion loses.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from .facts import server_watts

MeterRole = Literal["wall", "module", "part", "unknown"]
Roles = Mapping[str, MeterRole]
"""What a site says of its meters, by a pattern of their name."""

_ACPI = re.compile(r"acpi000d|power_meter", re.IGNORECASE)
_DEVICE = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}[._]", re.IGNORECASE)
"""A PCI address: a GPU or a network card tells of itself."""
_NAMED = re.compile(r"(module|grace|cpu|sysio) power socket \d+", re.IGNORECASE)
"""How Grace's firmware names its meters (power1_oem_info)."""
_OF_A_MODULE = 4
_MOST_SERVERS = 65_536
_LIKE, _LIKE_WATTS = 0.15, 3.0
"""How far a sum may be off its parts: the meters are not read in one moment."""


@dataclass(frozen=True, slots=True)
class Meter:
    """One meter of a server, and what it is taken for."""

    name: str
    watts: float
    role: MeterRole
    why: str
    """In words, for the configuration check."""


class MeterBook:
    """Judges the meters of servers, and keeps to what it once found: the modules of a tray are not always alike."""

    def __init__(self, told: Roles | None = None) -> None:
        self._told = told or {}
        self.servers: dict[str, tuple[Meter, ...]] = {}
        """What the meters of each server were taken for last."""

    def judge(self, server: str, power: Mapping[str, float], labels: Mapping[str, str]) -> tuple[Meter, ...]:
        """Return the meters of a server with their roles."""
        now, before = judged(power, labels, self._told), self.servers.get(server, ())
        if any(meter.role == "unknown" for meter in now) and _names(now) == _names(before):
            now = tuple(Meter(new.name, new.watts, old.role, old.why) for new, old in zip(now, before, strict=True))
        if server not in self.servers and len(self.servers) >= _MOST_SERVERS:
            self.servers.clear()
        self.servers[server] = now
        return now


def _names(meters: Sequence[Meter]) -> list[str]:
    return [meter.name for meter in meters]


def judged(power: Mapping[str, float], labels: Mapping[str, str], told: Roles) -> tuple[Meter, ...]:
    """Return the meters that measure something, each with its role: as configured, as it is named, or as they add up.

    Args:
        power: watts by name of the meter (chip).
        labels: what the firmware calls them, by the same name.
        told: what the configuration says.
    """
    measuring = {name: watts for name, number in sorted(power.items()) if (watts := server_watts(number)) is not None}
    if any(_configured(name, told) for name in measuring):
        return tuple(_as_told(name, watts, _configured(name, told)) for name, watts in measuring.items())
    if any(_NAMED.match(labels.get(name, "")) for name in measuring):
        return tuple(_as_named(name, watts, labels.get(name, "")) for name, watts in measuring.items())
    acpi = {name: watts for name, watts in measuring.items() if _ACPI.search(name)}
    servers = acpi or {name: watts for name, watts in measuring.items() if not _DEVICE.search(name)}
    others = tuple(Meter(name, watts, "part", "a device's own, or beside an ACPI meter")
                   for name, watts in measuring.items() if name not in servers)
    return (*_by_sums(servers), *others)


def total(meters: Sequence[Meter]) -> tuple[float | None, str]:
    """Return watts and what they are of: ``hwmon``, the wall; ``modules`` without the rest of the tray; or nothing."""
    for role, source in (("wall", "hwmon"), ("module", "modules")):
        watts = [meter.watts for meter in meters if meter.role == role]
        if watts:
            return sum(watts), source
    return None, ""


def _configured(name: str, told: Roles) -> MeterRole | None:
    return next((role for pattern, role in told.items() if fnmatchcase(name, pattern)), None)


def _as_told(name: str, watts: float, role: MeterRole | None) -> Meter:
    return Meter(name, watts, role or "part", "configured" if role else "not configured, where others are")


def _as_named(name: str, watts: float, label: str) -> Meter:
    match = _NAMED.match(label)
    role: MeterRole = "module" if match and match[1].lower() == "module" else "part"
    return Meter(name, watts, role, f"its firmware calls it {label}" if match else "beside meters of a Grace module")


def _by_sums(meters: Mapping[str, float]) -> tuple[Meter, ...]:
    """Return the roles of meters that nobody has named, by how their numbers add up."""
    rows = list(meters.items())
    largest = max(rows, key=lambda row: row[1], default=None)
    if largest is None:
        return ()
    if len(rows) == 1:
        return (Meter(*largest, "wall", "the only one"),)
    fours = [rows[start:start + _OF_A_MODULE] for start in range(0, len(rows), _OF_A_MODULE)]
    if all(_is_module(four) for four in fours):
        return tuple(Meter(*row, "module" if row == max(four, key=lambda each: each[1]) else "part",
                           "of four that add up like a Grace module's") for four in fours for row in four)
    if min(watts for _, watts in rows) >= largest[1] / 2:
        return tuple(Meter(*row, "module", "several of one size: the modules of a tray") for row in rows)
    return tuple(Meter(*row, "unknown", "several that do not add up: configure power_meters") for row in rows)


def _is_module(meters: list[tuple[str, float]]) -> bool:
    """Tell whether these are four: a module, its Grace, and the two parts of that."""
    if len(meters) != _OF_A_MODULE:
        return False
    smaller, small, grace, module = sorted(watts for _, watts in meters)
    return abs(grace - small - smaller) <= max(_LIKE * grace, _LIKE_WATTS) and module > grace
