"""``idlewatt demo``: a simulated cluster, the daemon that watches it, and a view of both, without an installation."""

from __future__ import annotations

import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, TypedDict, Unpack

import click

from ...exporters.simulated.slurm_shapes import SETTINGS
from ._hardware import (
    OPTIONS,
    SOURCES,
    advises,
    enclosures,
    exporters,
    first_server,
    links,
    usual_nodes,
)
from ._parts import (
    ADVISES,
    COMPILED_WITHIN_S,
    COSTS,
    RATED_WATTS,
    READY_WITHIN_S,
    SCHEDULER,
    SPARE_NODES,
    TABLE_2_HOUR_S,
    DemoError,
    EssentialChild,
    answered,
    python,
    table_2,
    tail,
)
from ._progress import waiting

SPEED, SLOWER = 60.0, 20.0
"""Simulated seconds per second, and the lower value for racks, which have nine times as many pages to read."""
HARDWARE = ("dgx", "gb200-nvl72", "mi300x", "mixed")
"""Kinds of simulated hardware, copied from ``exporters.simulated.hardware`` so that ``--help`` need not import it."""
TARGETS = {"slurm": ("dcgm", "node", "ipmi", "cgroup"), "kubernetes": ("dcgm_pods", "node", "ipmi", "cgroup_pods")}
"""Kinds of pages to read, by scheduler; the cgroups of pods differ from those of Slurm's jobs."""
COMPILING_S = 30.0
"""Usual time of the first compilation of policies, s."""


class _Site(TypedDict):
    """Options that every demo has."""

    speed: float | None
    seed: int
    hardware: str
    nodes: int | None
    port: int
    folder: Path | None
    once: bool


@click.command("demo", short_help="Watch a simulated GPU cluster.")
@click.option("--speed", type=click.FloatRange(1, 3600),
              help=f"Simulated seconds per second.  [{SPEED:g}; {SLOWER:g} of gb200-nvl72; 1 after --days]")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True,
              help="Random seed; the same seed simulates the same cluster.")
@click.option("--hardware", type=click.Choice(HARDWARE), default="dgx", show_default=True,
              help="DGX A100 and DGX-1V; racks of GB200 NVL72; servers with MI300X; or HGX H100, MI300X, Gaudi 3 and "
                   "DGX A100 side by side.")
@click.option("--nodes", type=click.IntRange(1, 1000),
              help="Number of servers, the same of each kind.  [4; 36 trays of gb200-nvl72; 8 of mixed]")
@click.option("--port", type=click.IntRange(1, 65535), default=9723, show_default=True,
              help="Port of the daemon.")
@click.option("--dir", "folder", type=click.Path(file_okay=False, path_type=Path),
              help="Folder for configuration, database and log.  [a temporary folder]")
@click.option("--once", is_flag=True, help="Show one summary when the daemon is ready, and exit.")
@click.option("--scheduler", type=click.Choice(tuple(TARGETS)), default="slurm", show_default=True,
              help="Scheduler of the cluster.")
@click.option("--days", type=click.FloatRange(0.05, 60),
              help="Simulate this many past days first, in minutes, and show them in a Prometheus.")
@click.option("--prometheus-port", type=click.IntRange(1, 65535), default=9090, show_default=True,
              help="Port of the Prometheus of --days.")
def command(scheduler: str, days: float | None, prometheus_port: int, **site: Unpack[_Site]) -> None:
    """Watch a simulated GIST AI-X cluster: two DGX A100 and two DGX-1V with idle, hung and underused jobs.

    The daemon runs as it would on a real cluster; only the cluster is simulated. Ctrl-C ends everything.

    With --days the cluster has a past, for the dashboards in Grafana: two weeks are simulated in about a minute,
    and then the demo continues in real time. A Prometheus serves the past; if none is installed, the past is left
    in --dir as OpenMetrics, with the command that turns it into blocks.

    \b
    Examples:
      idlewatt demo
      idlewatt demo --speed 120 --seed 7
      idlewatt demo --scheduler kubernetes
      idlewatt demo --hardware gb200-nvl72
      idlewatt demo --nodes 100 --dir /tmp/demo
      idlewatt demo --days 14
    """
    from .live import watch

    speed, seed, port, hardware = site["speed"], site["seed"], site["port"], site["hardware"]
    nodes = site["nodes"] or usual_nodes(hardware)
    if days and speed not in (None, 1.0):
        raise click.UsageError("after --days the demo goes on in real time, as Prometheus does: leave --speed out")
    if days and scheduler != "slurm":
        raise click.UsageError("a past is simulated under Slurm alone: leave --days or --scheduler out")
    if hardware != "dgx" and (days or scheduler != "slurm"):
        raise click.UsageError("other hardware is simulated under Slurm from now on: leave --days or --scheduler out")
    signal.signal(signal.SIGTERM, _interrupt)
    parts: list[EssentialChild] = []
    try:
        with ExitStack() as stack:
            if days:
                url, notes = _with_past(stack, site["folder"], days, nodes, seed, (port, prometheus_port))
            else:
                usual = SLOWER if hardware == "gb200-nvl72" else SPEED
                wanted = DemoPlan(_folder(site["folder"], stack), nodes, seed, speed or usual, port, scheduler,
                                  hardware)
                url, notes = _from_now(stack, wanted, parts)
            click.echo("\n".join(notes))
            watch(url, once=site["once"], footer=notes, pause=_looking_after(parts))
    except KeyboardInterrupt:
        click.echo("\nthe demo has ended")


def _looking_after(parts: Sequence[EssentialChild]) -> Callable[[float], None]:
    """Return a pause function that ends the demo with an error if a part of it has died."""
    clock = threading.Event()

    def pause(seconds: float) -> None:
        clock.wait(seconds)
        for part in parts:
            part.check()

    return pause


@dataclass(frozen=True, slots=True)
class DemoPlan:
    """The plan of a demo without a past."""

    folder: Path
    nodes: int
    seed: int
    speed: float
    port: int
    scheduler: str
    hardware: str = "dgx"


def _from_now(stack: ExitStack, site: DemoPlan, parts: list[EssentialChild]) -> tuple[str, list[str]]:
    """Start cluster and daemon as ``parts``; return the daemon's URL and the messages to print."""
    folder, speed = site.folder, site.speed
    _check_port(site.port)
    _rehearse(folder, advises(site.hardware))
    start_s = float(int(time.time()))
    simulation = stack.enter_context(_simulation(site, start_s, parts))
    config = _write_config(site, simulation)
    url = stack.enter_context(_daemon(config, site.port, speed, start_s, folder, parts))
    return url, _notes(url, simulation, site)


def _with_past(stack: ExitStack, folder: Path | None, days: float, nodes: int, seed: int,
               ports: tuple[int, int]) -> tuple[str, list[str]]:
    """Start a daemon with a simulated past; return its URL and the messages to print."""
    from . import _opening

    _opening.check(folder, ports)
    folder = _folder(folder, stack)
    _rehearse(folder)
    return _opening.begin(stack, folder, days, nodes, seed, ports)


def _check_port(port: int) -> None:
    """Raise ``DemoError`` if the port is taken: a daemon that has it would be shown in place of the demo's."""
    from ..web.server import ListenError, listen

    try:
        listen(f"127.0.0.1:{port}").close()
    except ListenError as error:
        raise DemoError(f"{error}; choose another with --port") from error


def _interrupt(number: int, frame: object) -> NoReturn:
    """End as Ctrl-C does, so that the children are stopped."""
    raise KeyboardInterrupt


def _folder(wanted: Path | None, stack: ExitStack) -> Path:
    if wanted is None:
        return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="idlewatt-demo-")))
    try:
        wanted.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.UsageError(f"--dir: {wanted} cannot be made: {error.strerror}") from error
    return wanted


def _rehearse(folder: Path, policy: str = ADVISES) -> None:
    """Wait until the policies are compiled; the simulated clock starts afterwards."""
    click.echo("Getting the policies ready: half a minute the first time, a moment later on.")
    arguments = ("-m", "idlewatt.daemon.advice.warm_up", *(() if policy == ADVISES else (SCHEDULER, policy)))
    with python("the compilation", arguments, folder / "warm_up.log") as child, waiting("compiling", COMPILING_S):
        if child.wait(COMPILED_WITHIN_S):
            raise DemoError(f"the policies cannot be compiled:\n{tail(folder / 'warm_up.log')}")


def _notes(url: str, simulation: str, site: DemoPlan) -> list[str]:
    return [f"page     {url}/   metrics {url}/metrics",
            f"cluster  {simulation}/{first_server(site.hardware)}  (simulated, {site.speed:g} times as fast as real)",
            f"files    {site.folder}   Ctrl-C ends the demo"]


def configuration(simulation: str, site: DemoPlan) -> dict[str, object]:
    """Return the daemon's configuration for a simulation at a URL, as an operator would write it for real nodes."""
    # A second of ours is minutes of theirs: what a real site looks at every 15 s is looked at as often as we can.
    beat = {"scrape": "1s", "jobs": "1s", "assess": "1s", "advise": "2s", "record": "5s", "retention": "1h",
            "counterfactual": "1m"}
    return {"cluster": "GIST AI-X (simulated)" if site.hardware == "dgx" else f"{site.hardware} (simulated)",
            "storage": {"url": f"sqlite:///{site.folder / 'idlewatt.db'}"},
            "cycles": beat,
            "waste": {"rated_node_watts": RATED_WATTS, "enclosures": enclosures(site.hardware, site.nodes)},
            "advice": {"policy": advises(site.hardware), "spare_nodes": SPARE_NODES},
            "counterfactual": {"incumbent": SCHEDULER},
            "costs": COSTS,
            "flavours": table_2(TABLE_2_HOUR_S, site.scheduler) if site.hardware == "dgx" else [],
            # Ten minutes of theirs are enough to see what a job does not use: it does the same all the time.
            # Between two looks at what GPUs and servers do no more may pass than a site would let pass.
            "recommenders": {"elastic": _elastic(), "allocation": {"every": "1s", "window": "10m"},
                             "causes": {"every": "1s"}},
            "sources": [*_pages(simulation, site), *_scheduler(simulation, site.scheduler),
                        *links(site.hardware, site.nodes)]}


def _pages(simulation: str, site: DemoPlan) -> Iterator[dict[str, object]]:
    """Yield the configurations of the sources that read pages."""
    kinds = TARGETS[site.scheduler] if site.hardware == "dgx" else exporters(site.hardware, site.nodes)
    for kind in kinds:
        yield {"kind": SOURCES.get(kind, kind.partition("_")[0]), **OPTIONS.get(kind, {}),
               "http_sd_configs": [{"url": f"{simulation}/targets/{kind}"}]}


def _scheduler(simulation: str, scheduler: str) -> list[dict[str, object]]:
    """Return the configurations of the sources for jobs and their throughput."""
    if scheduler == "slurm":
        return [{"kind": "throughput", "url": simulation},
                {"kind": "slurm_rest", "url": simulation, "settings": SETTINGS}]
    from ...exporters.simulated.kubernetes import USER
    from ...exporters.simulated.throughput import PODS_QUERY

    return [{"kind": "throughput", "url": simulation, "query": PODS_QUERY},
            {"kind": "kubernetes", "url": f"{simulation}/kubernetes", "user": f"label:{USER}"}]


def _elastic() -> dict[str, object]:
    """Return two speed curves as measured by the site, so that recommendations need not wait for recorded runs."""
    from ...exporters.simulated.throughput import speed

    # A job of theirs is over in a minute of ours.
    return {"every": "2s", "settle": "1s", "curves": [
        {"name": f"{name}*", "speeds": {gpus: round(speed(name, gpus), 1) for gpus in (2, 4, 8)}}
        for name in ("resnet50", "vit-large")]}


def _write_config(site: DemoPlan, simulation: str) -> Path:
    import yaml

    path = site.folder / "idlewatt.yml"
    path.write_text(yaml.safe_dump(configuration(simulation, site), sort_keys=False), encoding="utf-8")
    return path


@contextmanager
def _simulation(site: DemoPlan, start_s: float, parts: list[EssentialChild]) -> Iterator[str]:
    """Run the simulated cluster as one of the parts and yield its URL."""
    folder = site.folder
    arguments = ("-m", "idlewatt.exporters.simulated", f"--nodes={site.nodes}", f"--seed={site.seed}",
                 f"--speed={site.speed}", f"--start={start_s}", f"--hardware={site.hardware}")
    with python("the simulated cluster", arguments, folder / "simulation.log") as child:
        announced = folder / "simulation.log"
        parts.append(EssentialChild("the simulated cluster", child, announced))
        yield answered("the simulated cluster", child, announced, lambda: _first_line(announced))


@contextmanager
def _daemon(config: Path, port: int, speed: float, start_s: float, folder: Path,
            parts: list[EssentialChild]) -> Iterator[str]:
    """Run the daemon as one of the parts and yield its URL once it is ready."""
    url = f"http://127.0.0.1:{port}"
    arguments = ("-m", "idlewatt.daemon.cli", "serve", f"--config.file={config}",
                 f"--web.listen-address=127.0.0.1:{port}", f"--clock.speed={speed}", f"--clock.start={start_s}")
    with python("the daemon", arguments, folder / "daemon.log") as child:
        parts.append(EssentialChild("the daemon", child, folder / "daemon.log"))
        with waiting("starting the daemon", READY_WITHIN_S, "at most"):
            address = answered("the daemon", child, folder / "daemon.log", lambda: url if _ready(url) else "")
        yield address


def _first_line(log: Path) -> str:
    line, end, _ = log.read_text(encoding="utf-8", errors="replace").partition("\n")
    return line if end and line.startswith("http://") else ""


def _ready(url: str) -> bool:
    """Return whether the daemon is ready and has advice for the pending jobs."""
    import requests

    try:
        if not requests.get(f"{url}/-/ready", timeout=5).ok:
            return False
        waiting, advice = (requests.get(f"{url}/api/v1/{path}", timeout=5).json()["data"]
                           for path in ("jobs?state=pending", "recommendations"))
    except (requests.RequestException, KeyError):
        return False
    return bool(advice) or not waiting
