"""What is wasted, and how sure that is: the one sentence that page, title, terminal and tables say alike.

Where something is not measured the waste is a lower bound ("at least"), and where nothing is known it is unknown: never
zero. "At the wall" is used for wall meters only. The figure that comes first is what is wasted and the unused part of
busy nodes together: it does not fall when jobs are spread over more nodes that are alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..storage.power_classes import UNUSED_PART, WASTED, PowerClass

VISIBLE_WATTS = 0.5
"""Less than this reads "0 W", which is only shown where all is known."""


def watts(value: float | None) -> str:
    """Return power as a person reads it."""
    if value is None:
        return "not measured"
    for unit, size in (("MW", 1e6), ("kW", 1e3)):
        if abs(value) >= size:
            return f"{value / size:.2f} {unit}"
    return f"{value:.0f} W"


def percent(share: float) -> str:
    """Return a ratio in percent."""
    return f"{100 * share:.1f} %" if 0 < share < 0.1 else f"{100 * share:.0f} %"


@dataclass(frozen=True, slots=True)
class HeadlineRow:
    """One row of the API's ``waste``, as far as it counts: a GPU, or the rest of a node."""

    node: str
    power_class: PowerClass
    watts: float | None
    is_gpu: bool
    source: str = ""
    """Where the power of the node was read, in a row on the rest of a node."""
    unused: float | None = None
    """The unused part of the rest of a busy node, contained in ``watts``; None where that is not known."""

    @classmethod
    def of_json(cls, row: Mapping[str, Any]) -> HeadlineRow:
        """Return the part that a row of the API's answer tells."""
        return cls(row["node"], PowerClass(row["power_class"]), row["power_watts"], row.get("gpu") is not None,
                   row.get("power_source") or "", row.get("unused_power_watts"))

    @property
    def metered(self) -> bool:
        """Tell whether a wall meter of its own stands behind the rest of the node."""
        return self.source not in ("", "gpus", "estimated")


@dataclass(frozen=True, slots=True)
class Balance:
    """The watts of some GPUs and nodes by class, and what is not known of them."""

    watts: Mapping[PowerClass, float]
    """Every class, in the order of reading."""
    unmeasured_gpus: int = 0
    """GPUs of class ``unmeasured``, with watts or without."""
    dark_gpus: int = 0
    """GPUs without watts on nodes without a meter: nowhere in the sum."""
    dark_hosts: int = 0
    """Empty nodes with GPUs whose own draw nobody measures: waste that is nowhere in the sum."""
    unused: float = 0.0
    """The unused part of busy nodes, contained in class ``host_active``, as far as it is known."""
    dark_busy: int = 0
    """Busy nodes whose unused part is not known."""
    nodes: int = 0
    metered: int = 0
    """Nodes with a wall meter."""
    estimated: int = 0

    @property
    def total(self) -> float:
        """Return all watts that are known of."""
        return sum(self.watts.values())

    @property
    def wasted(self) -> float:
        """Return the watts of the wasted classes."""
        return sum(self.watts[row] for row in WASTED)

    @property
    def unmeasured(self) -> float:
        """Return the watts that nobody can judge."""
        return self.watts[PowerClass.UNMEASURED]

    @property
    def reported(self) -> float:
        """Return the watts that are wasted or of the unused part of busy nodes."""
        return self.wasted + self.unused

    @property
    def reported_share(self) -> float:
        """Return the reported watts as a share of all watts, 0..1."""
        return self.reported / self.total if self.total else 0.0

    @property
    def waste_complete(self) -> bool:
        """Tell whether the waste is known, and not just a part of it."""
        return not (self.unmeasured_gpus or self.dark_gpus or self.dark_hosts) and self.unmeasured < VISIBLE_WATTS

    @property
    def complete(self) -> bool:
        """Tell whether the waste and the unused part of busy nodes are known, and not just a part of them."""
        return self.waste_complete and not self.dark_busy

    @property
    def known(self) -> bool:
        """Tell whether a figure of waste may be given: a complete one, or a lower bound."""
        return self.reported >= VISIBLE_WATTS or (self.complete and (self.total > 0.0 or self.nodes > 0))

    @property
    def waste(self) -> str:
        """Return what is wasted or unused in words, as one figure, without what is missing."""
        if not self.known:
            return "waste unknown"
        unused = " or unused" if self.dark_busy or self.unused >= VISIBLE_WATTS else ""
        return f"{'' if self.complete else 'at least '}{watts(self.reported)} wasted{unused}"

    @property
    def unused_text(self) -> str:
        """Return the unused part of busy nodes as text."""
        if self.dark_busy and self.unused < VISIBLE_WATTS:
            return watts(None)
        return f"{'at least ' if self.dark_busy else ''}{watts(self.unused)}"

    @property
    def parts(self) -> str:
        """Return of which parts the figure is the sum, in words; '' where nothing unused is known of."""
        if self.unused < VISIBLE_WATTS:
            return ""
        wasted = f"{'' if self.waste_complete else 'at least '}{watts(self.wasted)} wasted"
        if not self.waste_complete and self.wasted < VISIBLE_WATTS:
            wasted = "waste unknown"
        return f"{wasted}, {self.unused_text} {UNUSED_PART[:1].lower()}{UNUSED_PART[1:]}"

    @property
    def missing(self) -> str:
        """Return what is not known, in words; '' when nothing is missing."""
        parts = []
        if self.unmeasured >= VISIBLE_WATTS:
            parts.append(f"{watts(self.unmeasured)} not measured")
        unread = self.dark_gpus or (0 if parts else self.unmeasured_gpus)
        if unread:
            parts.append(f"{_counted(unread, 'GPU')} not measured")
        if self.dark_hosts:
            parts.append(f"{_counted(self.dark_hosts, 'empty node')} measured at the GPUs only")
        if self.dark_busy:
            parts.append(f"unused part of {_counted(self.dark_busy, 'busy node')} not measured")
        return ", ".join(parts)

    @property
    def headline(self) -> str:
        """Return ``at least 1.60 kW wasted or unused (1.20 kW wasted, …), 3.10 kW not measured``."""
        return ", ".join(filter(None, (f"{self.waste} ({self.parts})" if self.parts else self.waste, self.missing)))

    @property
    def basis(self) -> str:
        """Return what the sum is of: the wall only where all of it is metered there."""
        if self.metered == self.nodes and self.nodes:
            return "at the wall"
        if self.metered:
            return f"by wall meters of {self.metered} of {self.nodes} nodes, GPUs and estimated hosts of the others"
        return "of GPUs and estimated hosts" if self.estimated else "of GPUs, without their hosts"

    @property
    def sentence(self) -> str:
        """Return power and waste in one line."""
        if not self.total:
            return "no watts measured yet" if not self.missing else self.headline
        if not self.complete:
            return f"{watts(self.total)} {self.basis}, {self.headline}"
        within = ": ".join(filter(None, (percent(self.reported_share), self.parts)))
        return f"{watts(self.total)} {self.basis}, {self.waste} ({within})"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' if count != 1 else ''}"


@dataclass(frozen=True, slots=True)
class Scope:
    """What of a whole cluster must be known to judge some of its parts."""

    lit: frozenset[str]
    """Nodes of which more is known than the watts of single GPUs."""
    with_gpus: frozenset[str]


def scope(parts: Iterable[HeadlineRow]) -> Scope:
    """Return the scope of the parts."""
    given = list(parts)
    return Scope(frozenset(part.node for part in given if not part.is_gpu and part.watts is not None),
                 frozenset(part.node for part in given if part.is_gpu))


def balance(parts: Iterable[HeadlineRow], within: Scope | None = None) -> Balance:
    """Return the sum of the parts, ``within`` a larger whole where they are only some of it."""
    given = list(parts)
    within = scope(given) if within is None else within
    hosts = [part for part in given if not part.is_gpu]
    gpus = [part for part in given if part.is_gpu]
    sums = dict.fromkeys(PowerClass, 0.0)
    for part in given:
        sums[part.power_class] += part.watts or 0.0
    # A server without GPUs and without a meter is none of a GPU cluster's watts.
    busy = [host for host in hosts if host.power_class is PowerClass.HOST_ACTIVE]
    counted = [host for host in hosts if host.node in within.with_gpus or host.watts is not None]
    return Balance(
        sums, sum(gpu.power_class is PowerClass.UNMEASURED for gpu in gpus),
        sum(gpu.power_class is PowerClass.UNMEASURED and gpu.watts is None and gpu.node not in within.lit
            for gpu in gpus),
        sum(host.power_class is PowerClass.NODE_OVERHEAD_EMPTY and host.watts is None for host in counted),
        sum((host.unused or 0.0 for host in busy), 0.0), sum(host.unused is None for host in busy),
        len(counted), sum(host.metered for host in counted), sum(host.source == "estimated" for host in counted))
