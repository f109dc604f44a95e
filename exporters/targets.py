"""Which pages to read: static lists, files and HTTP endpoints in Prometheus' own service-discovery formats.

Files are looked at each round and read again when they change; endpoints are read once per ``refresh_interval``.
A discovery that fails keeps its last good answer and shows in the source's health.
"""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

import yaml
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from ..storage.durations import Duration
from .causes import innermost
from .deadline import Errand
from .fetch import Client
from .http_options import HttpOptions, StrictOptions
from .kubernetes.discovery import ExporterPods, PodSdConfig
from .source import FAULTS, SourceError, TargetHealth
from .text import clean, decode, without_login

_LARGEST_FILE = 32 * 2**20
_PATIENCE_S = 2.0
"""How long a round waits for an endpoint."""


class TargetEntry(BaseModel):
    """Addresses that share labels: one entry of ``static_configs``, of a file_sd file or of an http_sd answer."""

    targets: tuple[str, ...] = Field(description="Addresses, host:port or a whole URL.")
    labels: dict[str, str] = Field(default_factory=dict,
                                   description="Labels of these targets; `node` names the server.")


class StaticConfig(TargetEntry, StrictOptions):
    """Targets written in the configuration itself."""


class FileSdConfig(StrictOptions):
    """Targets from files, as Prometheus' ``file_sd_configs``."""

    files: tuple[str, ...] = Field(description="JSON or YAML files; * and ? match within the file name.")


class HttpSdConfig(HttpOptions):
    """Targets from an endpoint, as Prometheus' ``http_sd_configs``."""

    url: str = Field(description="Answers a JSON list of {targets, labels}.")
    refresh_interval: Duration = Field(default=60.0, description="How often the endpoint is read.")


class TargetOptions(StrictOptions):
    """Where a source finds its pages."""

    targets: tuple[str, ...] = Field(default=(), description="Addresses without labels, host:port or a whole URL.")
    static_configs: tuple[StaticConfig, ...] = Field(default=(), description="Addresses with labels.")
    file_sd_configs: tuple[FileSdConfig, ...] = Field(default=(), description="Files that list targets.")
    http_sd_configs: tuple[HttpSdConfig, ...] = Field(default=(), description="Endpoints that list targets.")
    pod_sd_configs: tuple[PodSdConfig, ...] = Field(default=(), description="Pods of an exporter under Kubernetes.")


@dataclass(frozen=True, slots=True)
class Target:
    """One page to read."""

    url: str
    instance: str
    """The address as it was given, but for a login: what people recognise."""
    labels: dict[str, str] = field(default_factory=dict)
    """Labels of the target; those that start with ``__`` have done their work and are gone."""


_GROUPS = TypeAdapter(tuple[TargetEntry, ...])


def parse_groups(text: str | bytes, *, yaml_too: bool = True) -> tuple[TargetEntry, ...]:
    """Return the groups in a file_sd document (JSON, or YAML as well); raise ``ValueError`` where it is none."""
    try:
        document = json.loads(decode(text) if isinstance(text, bytes) else text)
    except (ValueError, RecursionError) as error:
        if not yaml_too:
            raise ValueError(f"not JSON: {error}") from error
        try:
            document = yaml.safe_load(text)
        except (yaml.YAMLError, RecursionError) as broken:
            raise ValueError(f"neither JSON nor YAML: {str(broken).splitlines()[0]}") from broken
    try:
        return _GROUPS.validate_python(document or ())
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        place = ".".join(str(step) for step in fault["loc"])
        raise ValueError(f"not a list of {{targets, labels}}: {place or 'top'}: {fault['msg']}") from error


class _File:
    """One file_sd file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._stamp: tuple[int, int, int] | None = None
        self._groups: tuple[TargetEntry, ...] = ()
        self.error = ""

    def groups(self) -> tuple[TargetEntry, ...]:
        """Return the file's groups, read again where it changed."""
        try:
            status = os.stat(self._path)
            stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
            if stamp == self._stamp:
                return self._groups
            self._stamp, self.error = stamp, ""
            if status.st_size > _LARGEST_FILE:
                raise ValueError(f"larger than {_LARGEST_FILE} bytes")
            self._groups = parse_groups(Path(self._path).read_bytes())
        except (OSError, ValueError) as error:
            self.error = f"targets cannot be read: {innermost(error) if isinstance(error, OSError) else error}"
        return self._groups


class _DiscoveryEndpoint:
    """An endpoint that is read for targets now and then."""

    def __init__(self, refresh_s: float, clock: Callable[[], float], ask: Callable[[], tuple[TargetEntry, ...]],
                 close: Callable[[], None]) -> None:
        self._refresh_s, self._clock, self._new, self.close = refresh_s, clock, ask, close
        self._read_s = float("-inf")
        self._groups: tuple[TargetEntry, ...] = ()
        self._fault = ""
        self._errand = Errand("discovery", self._ask)

    @property
    def error(self) -> str:
        """Return why the groups are out of date, '' when they are current."""
        late = "targets cannot be discovered: no answer yet" if self._errand.under_way_s > _PATIENCE_S else ""
        return self._fault or late

    def groups(self) -> tuple[TargetEntry, ...]:
        """Return the groups, read again when its interval has passed or the clock went back.

        One that hangs is not waited for long: its last groups stay until it answers.
        """
        if not 0 <= self._clock() - self._read_s < self._refresh_s and self._errand.begin():
            self._read_s = self._clock()
            self._errand.wait(_PATIENCE_S)
        return self._groups

    def _ask(self) -> None:
        try:
            self._groups = self._new()
            self._fault = ""
        except (SourceError, *FAULTS) as error:
            self._fault = f"targets cannot be discovered: {error}"


def _endpoint(config: HttpSdConfig, clock: Callable[[], float]) -> _DiscoveryEndpoint:
    """Return one http_sd endpoint."""
    client = Client(config, accept="application/json")
    return _DiscoveryEndpoint(config.refresh_interval, clock,
                  lambda: parse_groups(client.get(config.url), yaml_too=False), client.close)


def _pods(config: PodSdConfig, clock: Callable[[], float]) -> _DiscoveryEndpoint:
    """Return the pods of one exporter."""
    pods = ExporterPods(config)
    return _DiscoveryEndpoint(config.refresh_interval, clock, lambda: tuple(
        TargetEntry(targets=(pod.address,), labels={"node": pod.node}) for pod in pods.ask()), pods.close)


class Discovery:
    """Finds the targets of one source again at each round."""

    def __init__(self, options: TargetOptions, locate: Callable[[str, dict[str, str]], str],
                 clock: Callable[[], float]) -> None:
        self._options, self._locate = options, locate
        self._files: dict[str, _File] = {}
        self._endpoints = {config.url: _endpoint(config, clock) for config in options.http_sd_configs} | {
            f"pods {config.label_selector}": _pods(config, clock) for config in options.pod_sd_configs}

    def targets(self) -> list[Target]:
        """Return every target once, in the order of the configuration."""
        targets: dict[str, Target] = {}
        for group in self._groups():
            for address in group.targets:
                url = self._locate(address, group.labels)
                labels = {name: clean(value) for name, value in group.labels.items() if not name.startswith("__")}
                targets.setdefault(url, Target(url, clean(without_login(address)), labels))
        return list(targets.values())

    def faults(self) -> tuple[TargetHealth, ...]:
        """Return the discoveries that failed last time."""
        parts: dict[str, _File | _DiscoveryEndpoint] = {**self._files, **self._endpoints}
        return tuple(TargetHealth(without_login(name), False, 0.0, part.error)
                     for name, part in parts.items() if part.error)

    def close(self) -> None:
        """Release the connections of the endpoints."""
        for endpoint in self._endpoints.values():
            endpoint.close()

    def _groups(self) -> Iterator[TargetEntry]:
        yield TargetEntry(targets=self._options.targets)
        yield from self._options.static_configs
        self._files = {path: self._files.get(path) or _File(path) for path in self._paths()}
        for file in self._files.values():
            yield from file.groups()
        for endpoint in self._endpoints.values():
            yield from endpoint.groups()

    def _paths(self) -> Iterator[str]:
        for config in self._options.file_sd_configs:
            for pattern in config.files:
                # A plain name that is missing must show as a fault; a pattern may match nothing.
                yield from sorted(glob.glob(pattern)) if glob.has_magic(pattern) else [pattern]


def page_url(address: str, labels: dict[str, str], scheme: str, path: str, params: dict[str, str]) -> str:
    """Return the URL of a target; its labels ``__scheme__``, ``__metrics_path__`` and ``__param_*`` win."""
    params = params | {name.removeprefix("__param_"): value
                       for name, value in labels.items() if name.startswith("__param_")}
    if "://" not in address:
        scheme, path = labels.get("__scheme__", scheme), labels.get("__metrics_path__", path)
        address = f"{scheme}://{address}{path}"
    return f"{address}?{urlencode(params)}" if params else address


def host_of(address: str) -> str:
    """Return the host of ``host:port``, ``[::1]:port`` or a URL."""
    host = address.partition("://")[2] or address
    host = host.partition("/")[0]
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if host.count(":") == 1 else host
