"""The start of ``idlewatt demo --days``: simulates the past, loads it, and continues in real time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click
import yaml
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from ..config import Settings
from ..logs import configure
from ..service import Service
from ..view import DaemonView
from ..web.app import WebApp
from ..web.gate import WebConfigFile
from ..web.server import ListenError, WebServer, listen
from . import _past, _prometheus
from ._parts import DemoError
from ._progress import progress, waiting

CLUSTER = "gist"
"""The ``cluster`` label that the demo's Prometheus gives."""
BLOCKS_BYTES_S = 20e6
"""Approximate speed of promtool, bytes per second; only the remaining time is computed from it."""


def check(folder: Path | None, ports: tuple[int, int]) -> None:
    """Raise ``DemoError`` for faults that would otherwise appear only after the past is simulated."""
    if folder is None and not _prometheus.installed():
        raise DemoError("there is no Prometheus here to open the past: install prometheus (Debian's package brings "
                        "promtool), or name with --dir where the past shall be left as OpenMetrics")
    if folder is not None and folder.is_dir() and any(folder.iterdir()):
        raise DemoError(f"{folder} is not empty: a past is written once, name a new folder")
    for port in ports if _prometheus.installed() else ports[:1]:
        try:
            listen(f"127.0.0.1:{port}").close()
        except ListenError as error:
            raise DemoError(f"{error}; choose others with --port and --prometheus-port") from error


def begin(stack: ExitStack, folder: Path, days: float, nodes: int, seed: int,
          ports: tuple[int, int]) -> tuple[str, list[str]]:
    """Simulate the days and continue in real time; return the daemon's URL and the messages to print."""
    configure("info", "logfmt", stack.enter_context((folder / "demo.log").open("w", encoding="utf-8")))
    address, file = f"127.0.0.1:{ports[0]}", folder / "past.om"
    labels = {"cluster": CLUSTER, "instance": address, "job": "idlewatt"}
    cluster = _past.simulated(days, nodes, seed, time.time())
    clock, since_s = _past.Time(cluster), cluster.now_s
    service = stack.enter_context(_past.serving(cluster, clock, folder))
    with _bar(days) as tick:
        _past.write(service, cluster, days, file, labels, tick)
    until_s, clock.past = cluster.now_s, False
    url = stack.enter_context(_going_on(service, address))
    notes = [f"page     {url}/   metrics {url}/metrics"]
    if _prometheus.installed():
        click.echo("Making it into blocks of a Prometheus.")
        with waiting("making blocks", file.stat().st_size / BLOCKS_BYTES_S):
            _prometheus.make_blocks(file, _prometheus.data_of(folder))
        file.unlink()
        metrics = stack.enter_context(_prometheus.running(folder, ports[1], days, address, labels))
        with progress("evaluating rules") as report:
            _prometheus.record(metrics, folder, since_s, until_s, _past.STEP_S, report)
        notes += [f"metrics  {metrics}   {days:g} days in a Prometheus: Grafana's data source",
                  "dashboards   idlewatt grafana install --dir DIR writes them"]
    else:
        notes += [f"metrics  {days:g} days as OpenMetrics; for a Prometheus that keeps so much:",
                  f"         {' '.join(_prometheus.blocks_command(file, Path('DATA')))}"]
    return url, [*notes, f"agent    idlewatt train --config.file {_config(folder, service.settings)} --budget 1m",
                 "         trains one in a minute: the dashboard Learning shows it beside the heuristics",
                 f"files    {folder}   Ctrl-C ends the demo"]


def _config(folder: Path, settings: Settings) -> Path:
    """Write the configuration that other commands need for this daemon."""
    path = folder / "idlewatt.yml"
    path.write_text(yaml.safe_dump({
        "cluster": settings.cluster, "storage": {"url": settings.storage.url},
        "counterfactual": {"incumbent": settings.incumbent}}, sort_keys=False), "utf-8")
    return path


@contextmanager
def _bar(days: float) -> Iterator[_past.Tick]:
    """Show the progress of the simulated past; yield the progress callback."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:.2f} of {task.total:g} days"),
               TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("living through the past", total=days)
        yield lambda done: progress.update(task, completed=done)


@contextmanager
def _going_on(service: Service, address: str) -> Iterator[str]:
    """Run the daemon's cycles and its HTTP server; yield its URL."""
    gate = WebConfigFile(None)
    server = WebServer(WebApp(DaemonView(service, lambda: service.settings), gate), [listen(address)], gate)
    service.start()
    server.start()
    try:
        yield f"http://{address}"
    finally:
        server.stop()
