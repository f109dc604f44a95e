"""``python -m idlewatt.exporters.simulated`` serves a simulated cluster until its standard input closes.

The parent process holds the other end of that pipe, so that the server never outlives it.
"""

from __future__ import annotations

import sys
import threading
import time

import click

from .clock import SimulatedClock
from .cluster import ClusterShape, SimulatedCluster
from .hardware import HARDWARE
from .server import SimulatedSite, SimulationServer


@click.command()
@click.option("--nodes", type=click.IntRange(1, 1000), default=4, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--speed", type=click.FloatRange(min=0, min_open=True), default=60.0, show_default=True)
@click.option("--start", type=float, default=None, help="Wall time at which the simulated time equals it.  [now]")
@click.option("--port", type=click.IntRange(0, 65535), default=0, show_default=True, help="0 takes a free one.")
@click.option("--hardware", type=click.Choice(tuple(HARDWARE)), default="dgx", show_default=True)
@click.option("--mig", is_flag=True, help="Put the last gpu of the first node into MIG mode.")
def main(nodes: int, seed: int, speed: float, start: float | None, port: int, hardware: str,
         mig: bool) -> None:
    """Serve a simulated cluster on 127.0.0.1 until standard input closes."""
    start_s = float(int(time.time())) if start is None else start
    cluster = SimulatedCluster(ClusterShape(nodes=nodes, hardware=hardware, seed=seed, start_s=start_s))
    with SimulationServer(SimulatedSite(cluster, SimulatedClock(speed, start_s), mig), port) as server:
        click.echo(server.url)
        sys.stdout.flush()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        sys.stdin.read()
        server.shutdown()


main()
