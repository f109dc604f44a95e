"""Which server is which: whose GPU it is where two claim it, and servers that a target calls otherwise now.

Two servers claim a GPU where a page was copied, a port is wrong, or one server has two names. Of GPUs that two
exporters of one server show under one number, those that nothing tells apart are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from threading import Lock

from ..storage.telemetry import GpuReading, Telemetry
from .page_checks import PageError

_KEPT_S = 600.0
"""How long a GPU stays its server's while that is not reported: as long as its last readings are given on."""
_REMEMBERED_S = 3600.0
"""How long a name is remembered that a target reports no more: as long as a silent server's power may be estimated."""


@dataclass(slots=True)
class _Teller:
    """A target, or a server that a Prometheus reports on."""

    reported_s: float
    uuids: set[str] = field(default_factory=set)


class GpuOwners:
    """Remember which server shows each GPU: the first that does, until it shows it no more; safe for many threads.

    A GPU that was moved is taken once its old server answers without it, has been silent for long, or is no target any
    more.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._owners: dict[str, tuple[str, str]] = {}
        """Of each uuid the node, and who reported so last."""
        self._tellers: dict[str, _Teller] = {}

    def sift(self, telemetry: Telemetry, now_s: float, teller: str = "") -> tuple[Telemetry, dict[str, str]]:
        """Return the facts without GPUs of other servers, or that may be others, and what is wrong with each server.

        Args:
            telemetry: what a target reports, or a Prometheus.
            now_s: seconds of a clock that nobody sets.
            teller: the target; without it each server reports on itself.
        """
        telemetry, wrong = _distinct(telemetry)
        with self._lock:
            twins = self._twins(telemetry.gpus, teller)
            if twins:
                wrong = {**wrong, **{gpu.node: _nameless(gpu, "another target") for gpu in twins}}
                telemetry = replace(telemetry, gpus=tuple(gpu for gpu in telemetry.gpus if gpu not in twins))
            self._note(telemetry.gpus, now_s, teller)
            others = self._others(telemetry.gpus, teller)
        if not others:
            return telemetry, wrong
        own_gpus = tuple(gpu for gpu in telemetry.gpus if gpu.uuid not in others.get(gpu.node, ()))
        complaints = {node: _complaint(shown) for node, shown in others.items()}
        return replace(telemetry, gpus=own_gpus), {**wrong, **complaints}

    def forget(self, now_s: float, targets: Collection[str] | None = None) -> None:
        """Release the GPUs of who reported nothing for long, or is none of the targets any more."""
        with self._lock:
            gone = [name for name, teller in self._tellers.items()
                    if now_s - teller.reported_s > _KEPT_S or (targets is not None and name not in targets)]
            for name in gone:
                self._release(name, self._tellers.pop(name).uuids)

    def _twins(self, gpus: tuple[GpuReading, ...], teller: str) -> list[GpuReading]:
        """Return the GPUs that another target shows under the same made-up name: they may be others."""
        if not teller:
            return []
        return [gpu for gpu in gpus if _is_nameless(gpu)
                and self._owners.get(gpu.uuid, (gpu.node, teller)) != (gpu.node, teller)]

    def _others(self, gpus: tuple[GpuReading, ...], teller: str) -> dict[str, dict[str, str]]:
        """Return, by the server that shows them, the GPUs of others with their nodes; who has one comes first."""
        claims = {node: (node, teller or node) for node in {gpu.node for gpu in gpus}}
        for gpu in gpus:
            if self._node(gpu.uuid) == gpu.node:
                self._owners[gpu.uuid] = claims[gpu.node]
        others: dict[str, dict[str, str]] = {}
        for gpu in gpus:
            node, _ = self._owners.setdefault(gpu.uuid, claims[gpu.node])
            if node != gpu.node:
                others.setdefault(gpu.node, {})[gpu.uuid] = node
        return others

    def _note(self, gpus: tuple[GpuReading, ...], now_s: float, teller: str) -> None:
        """Release what each teller has shown before and shows no more."""
        shown: dict[str, set[str]] = {teller: set()} if teller in self._tellers else {}
        places = {(gpu.uuid, gpu.node) for gpu in gpus}
        for gpu in gpus:
            shown.setdefault(teller or gpu.node, set()).add(gpu.uuid)
        for name, uuids in shown.items():
            known = self._tellers.setdefault(name, _Teller(now_s))
            # A server that is called otherwise now shows the same GPUs under its new name.
            self._release(name, {uuid for uuid in known.uuids if (uuid, self._node(uuid)) not in places})
            known.reported_s, known.uuids = now_s, uuids

    def _node(self, uuid: str) -> str | None:
        owner = self._owners.get(uuid)
        return None if owner is None else owner[0]

    def _release(self, teller: str, uuids: set[str]) -> None:
        for uuid in uuids:
            if self._owners.get(uuid, ("", ""))[1] == teller:
                del self._owners[uuid]


@dataclass(slots=True)
class ServerNames:
    """The names that one target gives to its servers, answer by answer.

    A server under an old name is not there any more, nor silent.
    """

    _names: frozenset[str] = frozenset()
    _absent: dict[str, float] = field(default_factory=dict)
    """Names that it reports no more, with when that was seen."""
    _left: frozenset[str] = frozenset()
    """Those of them in whose place there are others."""

    def take(self, facts: Telemetry, now_s: float, most: int) -> None:
        """Take in the names of an answer; raise ``PageError`` where a target has given ever others within an hour.

        As many servers that are missing as there are new ones are called otherwise. More of them may just be silent:
        nobody knows which of them are.
        """
        names = frozenset(record.node for records in (facts.gpus, facts.nodes, facts.jobs) for record in records)
        new = names - self._names - self._absent.keys()
        known = self._absent | dict.fromkeys(self._names, now_s)
        self._absent = {name: seen_s for name, seen_s in known.items()
                        if name not in names and now_s - seen_s <= _REMEMBERED_S}
        for name in list(self._absent)[:-2 * most]:
            del self._absent[name]
        missing = self._absent.keys() - self._left
        self._left = frozenset(self._absent if len(missing) <= len(new) else self._absent.keys() & self._left)
        self._names = names
        if len(self._absent) > most:
            raise PageError(f"gives its servers ever other names: {len(self._absent) + len(names)} within an hour, "
                            f"{len(names)} of them now (server_limit is {most}); the label `node` on its target names "
                            "a server for good")

    def left(self) -> tuple[str, ...]:
        """Return the names that are none of a server any more."""
        return tuple(sorted(self._left))


def _complaint(others: dict[str, str]) -> str:
    """Return what is wrong with a server that shows these GPUs of other nodes, and what to do."""
    nodes = sorted(set(others.values()))
    named = ", ".join(nodes[:3]) + (", …" if len(nodes) > 3 else "")
    count = f"{len(others)} GPUs" if len(others) > 1 else "a GPU"
    return (f"shows {count} of node {named} ({min(others)}{', …' if len(others) > 1 else ''}), left out here: is this "
            "the right address, or is one server called by two names? The label `node` on its target names it")


def _is_nameless(gpu: GpuReading) -> bool:
    """Tell whether a GPU is known by its place only: no exporter's UUID begins with the node's name."""
    return gpu.uuid.startswith(f"{gpu.node}/")


def _distinct(telemetry: Telemetry) -> tuple[Telemetry, dict[str, str]]:
    """Return the facts without GPUs of one number that no UUID tells apart, and what is wrong with their nodes."""
    places = Counter((gpu.node, gpu.vendor, gpu.index) for gpu in telemetry.gpus)
    if len(places) == len(telemetry.gpus):  # as nearly always
        return telemetry, {}
    twins = [gpu for gpu in telemetry.gpus if _is_nameless(gpu) and places[gpu.node, gpu.vendor, gpu.index] > 1]
    distinct = tuple(gpu for gpu in telemetry.gpus if gpu not in twins)
    return replace(telemetry, gpus=distinct), {gpu.node: _nameless(gpu, "another exporter") for gpu in twins}


def _nameless(gpu: GpuReading, other: str) -> str:
    """Return what is wrong with a target, or a node, whose GPU may be another's or one of its own."""
    return (f"shows GPU {gpu.index} of node {gpu.node}, as {other} does, and tells neither a UUID nor a serial number: "
            "left out here. Have the exporter tell UUIDs, or give the right target the label `node`")
