"""What the demo is made of: facts of the simulated cluster, and processes that are never left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

COSTS = {"currency": "USD", "per_kwh": 0.15}
RATED_WATTS = {"dgx-a100-*": 6500.0, "dgx-v100-*": 3500.0}
"""By NVIDIA's data sheets; the paper's upper bound needs them."""
SCHEDULER = "fifo+first-fit"
"""What the simulated scheduler does, in our words."""
ADVISES = "limit-aged+best-fit+easy"
"""An operator's choice, so that there is something to compare: by itself a daemon advises by the scheduler's order."""
SPARE_NODES = 0
"""Of two nodes a partition, one in reserve would leave nothing to show."""
TABLE_2_HOUR_S = 60.0
"""Length of an hour of the paper's Table 2 in a demo that begins now, as ``ClusterShape`` has it."""
COMPILED_WITHIN_S = 300.0
READY_WITHIN_S = 90.0
STOP_WITHIN_S = 20.0
SMALL = {"MALLOC_ARENA_MAX": "2"}
"""As in the systemd unit: many threads, little memory."""


def table_2(hour_s: float, scheduler: str = "slurm") -> list[dict[str, object]]:
    """Return the flavours of the simulated cluster, as its configuration has them: the paper's Table 2.

    Queues of Kubernetes are named in small letters.
    """
    from ...exporters.simulated.jobs import flavors

    return [{"name": one.name, "gpus": one.gpus, "limit": one.limit_s,
             "partition": partition.lower() if scheduler == "kubernetes" else partition}
            for partition, some in flavors(hour_s).items() for one in some]


class DemoError(click.ClickException):
    """A part of the demo did not come up; the message says which and what it last said."""


@contextmanager
def python(name: str, arguments: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a child of our own Python and stop it at the end."""
    with child(name, (sys.executable, *arguments), log) as running:
        yield running


@contextmanager
def child(name: str, command: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a child and stop it at the end, gently first.

    It gets a session of its own: Ctrl-C is ours, and they are stopped in order. It also gets a pipe as standard
    input that closes when we are gone.
    """
    with log.open("wb") as output, subprocess.Popen(  # noqa: S603 - our own modules, and Prometheus
            command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT,
            start_new_session=True, env=os.environ | SMALL) as running:
        try:
            yield running
        finally:
            running.terminate()
            try:
                running.wait(STOP_WITHIN_S)
            except subprocess.TimeoutExpired:
                click.echo(f"{name} does not end, so it is killed", err=True)
                running.kill()


def answered(name: str, running: subprocess.Popen[bytes], log: Path, answer: Callable[[], str]) -> str:
    """Return the first answer that is not empty; raise ``DemoError`` when the child ends or takes too long."""
    deadline = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < deadline and running.poll() is None:
        if found := answer():
            return found
        time.sleep(0.1)
    state = "takes too long to come up" if running.poll() is None else f"ended with status {running.returncode}"
    raise DemoError(f"{name} {state}. It last said:\n{tail(log)}")


@dataclass(frozen=True, slots=True)
class EssentialChild:
    """A child that everything else rests on."""

    name: str
    running: subprocess.Popen[bytes]
    log: Path

    def check(self) -> None:
        """Raise ``DemoError`` when it has ended."""
        status = self.running.poll()
        if status is not None:
            raise DemoError(f"{self.name} has died ({_how(status)}), so the demo ends. It last said:\n{tail(self.log)}")


def _how(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"status {status}"


def tail(log: Path, lines: int = 12) -> str:
    """Return the last lines of a log."""
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]) or "nothing"
