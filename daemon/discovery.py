"""Find what a site has: its scheduler, and the exporters of its servers at their usual ports.

Whatever is found was read by the very source that the daemon will read it with, so a configuration made of it works.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from ..exporters.source import SourceError, Watched, kinds
from ..storage.records import SchedulerSnapshot
from .cycles import Collection

EXPORTERS = {"dcgm": (9400, "GPUs"), "node": (9100, "CPU and memory, and wall power where hwmon has it"),
             "ipmi": (9290, "wall power"), "cgroup": (9306, "CPUs and memory of jobs")}
"""Exporters that run on every server: their usual port, and what they tell."""
SLURM_REST = ("unix:/run/slurmrestd/slurmrestd.socket", "http://localhost:6820")
"""Where slurmrestd usually listens."""
_WITHIN_S = 60.0

Entry = dict[str, Any]
"""One entry of ``sources`` in the configuration."""


@dataclass(frozen=True)
class DiscoveredSite:
    """What was found, and what was looked for in vain, in words."""

    sources: list[Entry] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    nodes: tuple[str, ...] = ()

    def and_with(self, other: DiscoveredSite) -> DiscoveredSite:
        """Return what this search and another one found together."""
        return DiscoveredSite(self.sources + other.sources, self.missing + other.missing, self.nodes or other.nodes)


def scheduler(rest_urls: Sequence[str] = SLURM_REST) -> DiscoveredSite:
    """Look for Slurm: slurmrestd at each of these addresses, else the commands of this machine."""
    candidates: list[Entry] = [{"kind": "slurm_rest", "url": url} for url in rest_urls]
    if shutil.which("sinfo"):
        candidates.append({"kind": "slurm_cli"})
    missing = []
    for entry in candidates:
        watched, why = _read([entry])[0]
        facts = watched.facts() if watched is not None else None
        if isinstance(facts, SchedulerSnapshot):
            return DiscoveredSite([entry], nodes=tuple(node.name for node in facts.nodes))
        missing.append(f"{entry['kind']} {entry.get('url', 'by sinfo and squeue')}: {why}")
    if len(candidates) == len(rest_urls):
        missing.append("slurm_cli: there is no sinfo on the PATH")
    return DiscoveredSite(missing=missing)


def exporters(nodes: Sequence[str], ports: Mapping[str, int]) -> DiscoveredSite:
    """Look for the exporters of these servers, all servers and exporters side by side."""
    entries: list[Entry] = [
        {"kind": kind, "static_configs": [{"targets": [f"{node}:{ports.get(kind, usual)}"], "labels": {"node": node}}
                                          for node in nodes]}
        for kind, (usual, _) in EXPORTERS.items()]
    sources, missing = [], []
    for entry, (watched, why) in zip(entries, _read(entries), strict=True):
        up = {health.node for health in watched.health() if health.up} if watched is not None else set()
        reachable = [group for group in entry["static_configs"] if group["labels"]["node"] in up]
        kind, port = entry["kind"], ports.get(entry["kind"], EXPORTERS[entry["kind"]][0])
        if reachable:
            sources.append({"kind": kind, "static_configs": reachable})
        if len(reachable) < len(nodes):
            missing.append(_without(kind, port, [node for node in nodes if node not in up], len(nodes), why))
    return DiscoveredSite(sources, missing, tuple(nodes))


def prometheus(url: str) -> DiscoveredSite:
    """Ask a Prometheus for the same facts."""
    entry: Entry = {"kind": "prometheus", "url": url}
    watched, why = _read([entry])[0]
    if watched is not None and watched.snapshot.fresh:
        return DiscoveredSite([entry])
    return DiscoveredSite(missing=[f"prometheus {url}: {why}"])


def _without(kind: str, port: int, nodes: Sequence[str], total: int, why: str) -> str:
    if len(nodes) == total:
        return f"{kind}: no server answers at port {port} ({EXPORTERS[kind][1]}){f': {why}' if why else ''}"
    shown = ", ".join(nodes[:3]) + (" …" if len(nodes) > 3 else "")  # noqa: PLR2004 - as many as a line holds
    return f"{kind}: {len(nodes)} of {total} servers do not answer at port {port}: {shown}"


def _read(entries: Iterable[Entry]) -> list[tuple[Watched | None, str]]:
    """Read sources of these entries once, side by side; None with the reason for those that cannot be."""
    built = [_built(entry) for entry in entries]
    collection = Collection([watched for watched, _ in built if watched is not None])
    try:
        for _ in collection.read("telemetry", "scheduler", within_s=_WITHIN_S):
            pass
        return [(watched, why if watched is None else watched.status.error) for watched, why in built]
    finally:
        collection.leave()


def _built(entry: Entry) -> tuple[Watched | None, str]:
    try:
        source = kinds()[entry["kind"]].model_validate(entry).build(time.time)
        return Watched(source, time.time, entry["kind"]), ""
    except ValidationError as error:
        return None, "; ".join(fault["msg"] for fault in error.errors())
    except (OSError, ValueError, SourceError) as error:
        return None, str(error)
