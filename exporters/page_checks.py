"""What one page of an exporter may cost, what it has to show, and of which servers it may speak.

The limits are those of Prometheus' scrape configuration. A page that is not what it is read for gets an error that says
whose page it seems to be, for an operator who has to find the right one.

Two servers claim a GPU where a page was copied, a port is wrong, or one server has two names. Of GPUs that two
exporters of one server show under one number, those that nothing tells apart are left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from threading import Lock

from prometheus_client.parser import text_string_to_metric_families
from pydantic import Field

from ..storage.durations import Duration
from ..storage.telemetry import GpuReading, Telemetry
from .http_options import StrictOptions
from .source import SourcePurpose
from .text import decode, quoted

_LOOKED_AT_BYTES = 262144
_SHOWN_METRICS = 3
_NAME = re.compile(rb"^([a-zA-Z_:][a-zA-Z0-9_:]{0,100})[{ \t]", re.MULTILINE)
_OF_LIBRARIES = ("go", "process", "promhttp", "python", "scrape", "http")
"""Prefixes of what the libraries of exporters show of themselves: they say nothing of whose page it is."""
_EXPORTERS = {"DCGM": "dcgm-exporter", "node": "node_exporter", "ipmi": "ipmi_exporter", "cgroup": "cgroup_exporter",
              "slurm": "an exporter of Slurm", "prometheus": "Prometheus itself",
              "redfish": "a Redfish exporter", "nvidia": "nvidia_gpu_exporter",
              "habanalabs": "Intel's Gaudi metric exporter", "amd": "an exporter of AMD GPUs",
              "gpu": "AMD's device-metrics-exporter"}


class PageError(ValueError):
    """A page is not Prometheus' text format, or beyond its bounds; the message says where."""


def too_many_servers(count: int, limit: int) -> str:
    """Return what is wrong with a target that names ``count`` servers as its own."""
    return f"speaks for {count} servers, more than {limit} (server_limit)"


class PageLimits(StrictOptions):
    """Bounds on one page; a page beyond one of them is a fault of its target, and nothing of it is taken."""

    sample_limit: int = Field(default=20_000, gt=0, description="Samples of the metrics that are read, on one page.")
    label_limit: int = Field(default=64, gt=0, description="Labels of one sample.")
    label_name_length_limit: int = Field(default=256, gt=0, description="Longest name of a label, in bytes.")
    label_value_length_limit: int = Field(default=2048, gt=0, description="Longest value of a label, in bytes.")
    gpu_limit: int = Field(default=64, gt=0, description="GPUs on one page; raise it where a page speaks for many "
                                                         "servers.")
    server_limit: int = Field(default=64, gt=0, description="Servers that one page may speak for; raise it where one "
                                                            "exporter asks more.")
    max_age: Duration = Field(default=120.0, description="A sample with a timestamp of its own that is older than "
                                                         "this is no reading.")

    def check_labels(self, labels: dict[str, str]) -> None:
        """Raise ``PageError`` where a sample has too many labels, or one too long."""
        if len(labels) > self.label_limit:
            raise PageError(f"a sample with {len(labels)} labels, more than {self.label_limit} (label_limit)")
        for name, value in labels.items():
            if len(name.encode()) > self.label_name_length_limit:
                raise PageError(f"a label whose name has {len(name)} characters (label_name_length_limit)")
            if len(value.encode()) > self.label_value_length_limit:
                raise PageError(f"a label whose value has {len(value)} characters (label_value_length_limit)")

    def check_sizes(self, telemetry: Telemetry) -> None:
        """Raise ``PageError`` where a page shows more GPUs than a target may have, or speaks for too many servers."""
        if len(telemetry.gpus) > self.gpu_limit:
            raise PageError(f"shows {len(telemetry.gpus)} GPUs, more than {self.gpu_limit} (gpu_limit)")
        servers = {record.node for records in (telemetry.gpus, telemetry.nodes, telemetry.jobs) for record in records}
        if len(servers) > self.server_limit:
            raise PageError(too_many_servers(len(servers), self.server_limit))


def check_found(telemetry: Telemetry, wanted: SourcePurpose | None, page: bytes, stale: int) -> None:
    """Raise ``PageError`` where a page shows nothing of what it is read for."""
    if wanted and not wanted.there(telemetry):
        old = f" but {stale} samples whose own timestamps are too old (max_age)" if stale else ""
        raise PageError(f"no {wanted.word} on this page{old}: {found_instead(page)}")


def found_instead(page: bytes) -> str:
    """Return which metrics a page shows, and whose page that is where the names tell."""
    names = list(dict.fromkeys(decode(name) for name in _NAME.findall(page[:_LOOKED_AT_BYTES])))
    if not names:
        return "it is empty"
    telling = [name for name in names if name.partition("_")[0] not in _OF_LIBRARIES] or names
    prefix = Counter(name.partition("_")[0] for name in telling).most_common(1)[0][0]
    hint = f" (is this {_EXPORTERS[prefix]}?)" if prefix in _EXPORTERS else ""
    more = f" and {len(names) - _SHOWN_METRICS} more" if len(names) > _SHOWN_METRICS else ""
    return f"it shows {', '.join(telling[:_SHOWN_METRICS])}{more}{hint}"


def no_exposition(page: bytes) -> str:
    """Return why a page without our metrics is no exposition at all; '' where it is one."""
    start = page[:_LOOKED_AT_BYTES].rpartition(b"\n")[0]
    try:
        for _ in text_string_to_metric_families(decode(start)):
            pass
    except (ValueError, OverflowError, IndexError):
        return f"not Prometheus' text format: {quoted(page[1:250])}"
    return ""


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
