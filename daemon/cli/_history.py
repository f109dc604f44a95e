"""What ``idlewatt replay`` replays: a trace file, the daemon's own history, or a database by its URL."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ._client import DaemonUnreachable, warn_beside
from ._progress import progress

if TYPE_CHECKING:
    from ...storage.reading import HistoryReader
    from ..config import Settings
    from ..replay.cluster import Cluster
    from ..replay.site_speeds import SiteSpeeds
    from ..replay.workload_builder import WorkloadBuilder

DEFAULT_CONFIG = Path("/etc/idlewatt/config.yml")
PREDICTING = "predicting run times"
"""Name of the step that predicts run times from data before each submission; a million jobs take a minute."""


@dataclass(frozen=True)
class JobSource:
    """The source of jobs for a replay: a trace, the history or a database."""

    name: str
    config_file: Path = DEFAULT_CONFIG
    format_name: str | None = None
    begins: str | None = None
    """Beginning of the replayed history, an age or a day; None replays all of it."""
    speeds: str = ""
    """``site``, ``flat`` or a YAML file; '' means ``site`` for a recorded history and ``flat`` for a trace."""

    @property
    def recorded(self) -> bool:
        """Return whether the source is a database of the daemon and not a trace file."""
        return self.name == "history" or "://" in self.name

    def same_as(self, name: str) -> bool:
        """Return whether another name means the same jobs: the configured history is also a database with a URL.

        Two URLs may name the same server differently, so the contents of the databases decide.
        """
        from ...storage.database import fingerprint
        from ...storage.errors import StoreError

        other = replace(self, name=name)
        if not (self.recorded and other.recorded):
            return self.recorded == other.recorded and Path(self.name).resolve() == Path(name).resolve()
        try:
            if self.name == name or fingerprint(self._url()) == fingerprint(other._url()):
                return True
            identity = self._identity()
            return identity != "" and identity == other._identity()
        except StoreError:  # who reads it says what is wrong with it
            return False

    def _identity(self) -> str:
        from ...storage.history import History

        with History.read_only(self._url()) as reader:
            return reader.identity()

    @contextmanager
    def history(self) -> Iterator[HistoryReader]:
        """Open the database beside a running daemon."""
        from ...storage.errors import StoreError
        from ...storage.history import History

        try:
            with History.read_only(self._url()) as reader:
                warn_beside(self._url())
                yield reader
        except StoreError as error:
            raise DaemonUnreachable(str(error)) from error

    def told(self, settings: Settings) -> Settings:
        """Return settings, with the recorded scheduler's own settings where nothing is configured."""
        from ..recorded_scheduling import with_recorded_scheduler

        if not self.recorded:
            return settings
        with self.history() as reader:
            return with_recorded_scheduler(settings, reader)

    def read(self, cluster_text: str | None) -> tuple[Cluster, WorkloadBuilder]:
        """Return the cluster and its jobs; a click exception names the fault of either."""
        from ...storage.errors import without_password
        from ...storage.traces import TraceError, read_trace
        from ..recorded_speeds import in_groups
        from ..recorded_watts import CATALOGUED
        from ..replay.cluster import ClusterError
        from ..replay.workload_builder import HistoryError, fitted, from_trace

        try:
            if self.recorded:
                return self._recorded(cluster_text)
            if cluster_text is None:
                raise click.UsageError("a trace does not name its cluster: give --cluster, e.g. 64x8 or cluster.yaml")
            cluster, speeds = described(cluster_text), self.known_speeds()
            self._there()
            with progress("reading") as heard:
                trace = read_trace(self.name, self.format_name, heard)
            with progress(PREDICTING) as heard:
                prepared = fitted(from_trace(trace, heard), cluster)
            return cluster, replace(in_groups(prepared, speeds), power=CATALOGUED.on(cluster), watts=CATALOGUED.summary)
        except ClusterError as error:
            raise click.UsageError(str(error)) from error
        except TraceError as error:
            raise click.ClickException(str(error)) from error
        except HistoryError as error:
            raise click.ClickException(f"{without_password(self.name)}: {error}") from error

    def _there(self) -> None:
        """Raise UsageError if the trace file does not exist."""
        if not Path(self.name).exists():
            raise click.UsageError(f"there is no file or folder {self.name!r}, and neither is it history or a database")

    def since(self) -> float | None:
        """Return the beginning of the replayed history, seconds since the epoch; None for all of it."""
        from ..moments import moment_of

        return None if self.begins is None else moment_of(self.begins, time.time())

    def _recorded(self, cluster_text: str | None) -> tuple[Cluster, WorkloadBuilder]:
        from ..recorded_speeds import applied
        from ..recorded_watts import in_watts, site_watts
        from ..recorded_window import recorded_cluster
        from ..replay.workload_builder import fitted, from_columns

        with self.history() as reader:
            cluster = described(cluster_text) if cluster_text else recorded_cluster(reader, self.since())
            with progress("reading") as heard:
                columns = reader.load_columns(self.since(), report=heard)
            with progress(PREDICTING) as heard:
                prepared = fitted(from_columns(columns, heard), cluster)
            watts = site_watts(reader)
            return cluster, in_watts(applied(reader, prepared, cluster, self.known_speeds(reader)), cluster, watts)

    def known_speeds(self, reader: HistoryReader | None = None, until_s: float | None = None) -> SiteSpeeds:
        """Return the requested speeds; a click exception names their fault."""
        from ..recorded_speeds import site_speeds
        from ..replay.site_speeds import FLAT_SPEEDS
        from ..replay.speed import SpeedError
        from ..replay.speed_file import read

        wanted = self.speeds or ("site" if reader is not None else "flat")
        if wanted.endswith((".yaml", ".yml")):
            try:
                return read(Path(wanted))
            except SpeedError as error:
                raise click.ClickException(str(error)) from error
        if wanted not in ("site", "flat"):
            raise click.UsageError(f"--speeds is site, flat or a YAML file, not {wanted!r}")
        if wanted == "flat":
            return FLAT_SPEEDS
        if reader is None:
            raise click.UsageError("a trace records no speeds: give --speeds flat or a YAML file")
        return site_speeds(reader, until_s, self._applications())

    def _applications(self) -> dict[str, str]:
        """Return the applications with published speeds from the configuration, or the defaults without one."""
        from .. import config
        from ..settings.advice import AdviceSettings

        if self.name != "history" and not self.config_file.exists():
            return AdviceSettings().applications
        try:
            return config.load(self.config_file).advice.applications
        except config.ConfigError as error:
            raise click.UsageError(str(error)) from error

    def _url(self) -> str:
        from .. import config

        if self.name != "history":
            return self.name
        try:
            return config.load(self.config_file).storage.url
        except config.ConfigError as error:
            raise click.UsageError(str(error)) from error


def described(text: str) -> Cluster:
    """Return the cluster of ``64x8`` or of a YAML file; ClusterError names its fault.

    ``topology`` in the file names another one beside it that tells how the nodes hang together; ``links`` names, by
    name of nodes or pattern, what ``nvidia-smi topo -m`` prints on them.
    """
    from ...exporters.fabric import read_file, read_matrix
    from ...exporters.source import SourceError
    from ...storage.topology import NodeLinks, TopologyError
    from ..replay.cluster import Cluster, ClusterError
    from ..strict_yaml import ConfigError, document_of, text_of

    if not text.endswith((".yaml", ".yml")):
        return Cluster.from_spec(text)
    try:
        document = document_of(text_of(Path(text)), text)
    except ConfigError as error:
        raise ClusterError(str(error)) from error
    try:
        if not isinstance(document, dict):
            raise ClusterError("nodes and what is known of them are expected, as in `nodes: [{count: 64, gpus: 8}]`")
        folder, topology, links = Path(text).parent, document.pop("topology", None), document.pop("links", None) or {}
        if not isinstance(links, dict):
            raise ClusterError("links: names of nodes are expected, each with the file of its links")
        fabrics = () if topology is None else (read_file(folder / str(topology)),)
        gpus = [NodeLinks((str(name),), read_matrix(folder / str(file))) for name, file in links.items()]
        return Cluster.from_mapping(document, *fabrics, *gpus)
    except (SourceError, TopologyError, ClusterError) as error:
        raise ClusterError(f"{text}: {error}") from error
