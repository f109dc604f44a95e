"""Where a chassis reports its power, and how much: the four places of the standard, the newest first.

1. ``EnvironmentMetrics``: ``PowerWatts.Reading``;
2. ``PowerSubsystem/PowerSupplies/*/Metrics``: ``InputPowerWatts.Reading``, added up, all of those that are in use;
3. ``Power`` (deprecated): ``PowerControl[0].PowerConsumedWatts``, else ``PowerMetrics.AverageConsumedWatts``;
4. ``Sensors/TotalPower``: ``ChassisPower`` in W.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..facts import server_watts
from ..fetch import Refused
from ..source import SourceError
from .client import Bmc, Resource, link, members, shows_all

MOST_SUPPLIES = 64
_ABSENT = frozenset(("Absent", "StandbyOffline", "Disabled", "UnavailableOffline"))


@dataclass(frozen=True, slots=True)
class ChassisPower:
    """What a chassis draws."""

    watts: float
    measured_at: str = ""
    """When the BMC says that it measured it, as it writes it; '' where it does not say."""
    supplies: int = 1
    """Power supplies that were added up, with those that are listed as absent."""
    place: str = ""
    """The resource that reports it."""


Reader = Callable[[Bmc, Resource], ChassisPower | None]


def number(value: object) -> float | None:
    """Return watts of a property, which may be a number or an object with a ``ChassisPower``."""
    if isinstance(value, dict):
        value = value.get("Reading")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return server_watts(float(value))
    except OverflowError:  # whole numbers of JSON have no bound
        return None


def _of_part(value: object) -> float | None:
    """Return watts of a property of one of several parts, 0 where it draws nothing: a supply that stands by."""
    reading = value.get("Reading") if isinstance(value, dict) else value
    return 0.0 if reading == 0 and not isinstance(reading, bool) else number(value)


def _environment(bmc: Bmc, chassis: Resource) -> ChassisPower | None:
    path = link(chassis, "EnvironmentMetrics")
    metrics = bmc.get(path) if path else {}
    watts = number(metrics.get("PowerWatts"))
    return None if watts is None else ChassisPower(watts, _time(metrics.get("PowerWatts")), place="EnvironmentMetrics")


def _supplies(bmc: Bmc, chassis: Resource) -> ChassisPower | None:
    path = link(chassis, "PowerSubsystem")
    listed = link(bmc.get(path), "PowerSupplies") if path else ""
    total, collection = 0.0, bmc.get(listed) if listed else {}
    if not shows_all(collection, MOST_SUPPLIES):
        return None
    paths = members(collection, MOST_SUPPLIES)
    for supply_path in paths:
        supply = bmc.get(supply_path)
        if _is_absent(supply):
            continue
        metrics = link(supply, "Metrics")
        watts = _of_part(bmc.get(metrics).get("InputPowerWatts")) if metrics else None
        if watts is None:
            return None  # a part of the supplies is no wall power
        total += watts
    return ChassisPower(total, supplies=len(paths), place="PowerSupplies") if total else None


def _control(bmc: Bmc, chassis: Resource) -> ChassisPower | None:
    path = link(chassis, "Power")
    rows = bmc.get(path).get("PowerControl") if path else None
    first = rows[0] if isinstance(rows, list) and rows and isinstance(rows[0], dict) else {}
    metrics = first.get("PowerMetrics")
    for value in (first.get("PowerConsumedWatts"),
                  metrics.get("AverageConsumedWatts") if isinstance(metrics, dict) else None):
        if (watts := number(value)) is not None:
            return ChassisPower(watts, place="Power")
    return None


def _sensor(bmc: Bmc, chassis: Resource) -> ChassisPower | None:
    path = link(chassis, "Sensors")
    if not path:
        return None
    sensor = bmc.get(f"{path.rstrip('/')}/TotalPower")
    if sensor.get("ReadingUnits", "W") != "W" or _is_absent(sensor):
        return None
    watts = number(sensor.get("Reading"))
    return None if watts is None else ChassisPower(watts, _time(sensor), place="TotalPower")


def _time(reading: object) -> str:
    time = reading.get("ReadingTime") if isinstance(reading, dict) else None
    return time[:64] if isinstance(time, str) else ""


READERS: tuple[Reader, ...] = (_environment, _supplies, _control, _sensor)


def first(bmc: Bmc, chassis: Resource) -> tuple[Reader, ChassisPower] | None:
    """Return the first place that reports the power of a chassis, and what it reports."""
    for reader in READERS:
        power = read(reader, bmc, chassis)
        if power is not None:
            return reader, power
    return None


def read(reader: Reader, bmc: Bmc, chassis: Resource) -> ChassisPower | None:
    """Return what one place reports; None where the BMC does not have it."""
    try:
        return reader(bmc, chassis)
    except Refused as error:
        if error.status in (404, 405, 501):
            return None
        raise


def equipment(bmc: Bmc) -> Iterator[dict[str, ChassisPower]]:
    """Yield what each power shelf draws, then each PDU, of a rack's controller, by path.

    Raises:
        SourceError: one that is in use does not report its power: the sum without it would not be the rack's.
    """
    root = bmc.get("/redfish/v1/")
    path = link(root, "PowerEquipment")
    top = bmc.get(path) if path else {}
    for kind in ("PowerShelves", "RackPDUs"):
        listed = link(top, kind)
        shown = bmc.get(listed) if listed else {}
        if not shows_all(shown, MOST_SUPPLIES):
            raise SourceError(f"{kind} does not show all its members: without them the sum is not the rack's")
        powers = {path: _of_equipment(bmc, path) for path in members(shown, MOST_SUPPLIES)}
        yield {path: power for path, power in powers.items() if power is not None}


def _of_equipment(bmc: Bmc, path: str) -> ChassisPower | None:
    """Return the watts of a power shelf or PDU, 0 where it feeds nothing; None where it is not in use."""
    resource = bmc.get(path)
    if _is_absent(resource):
        return None
    metrics = link(resource, "Metrics")
    power = bmc.get(metrics).get("PowerWatts") if metrics else None
    watts = _of_part(power)
    if watts is None:
        raise SourceError(f"{path.rstrip('/').rpartition('/')[2][:80]} does not report its power: without it the sum "
                          "is not the rack's")
    return ChassisPower(watts, _time(power))


def _is_absent(resource: Resource) -> bool:
    status = resource.get("Status")
    return isinstance(status, dict) and status.get("State") in _ABSENT
