"""Parts of the demo: facts of the simulated cluster, and child processes that always end with the demo."""

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
"""Rated power of the servers by NVIDIA's data sheets, W; the paper's upper bound uses it."""
SCHEDULER = "fifo+first-fit"
"""Policy of the simulated scheduler."""
ADVISES = "limit-aged+best-fit+easy"
"""Policy that advises in the demo; the default would be the scheduler's own order, without anything to compare."""
SPARE_NODES = 0
"""Number of reserve nodes; with two nodes in each partition, a reserve would leave nothing to show."""
TABLE_2_HOUR_S = 60.0
"""Length of an hour of the paper's Table 2 in a demo that begins now, as ``ClusterShape`` has it."""
COMPILED_WITHIN_S = 300.0
READY_WITHIN_S = 90.0
STOP_WITHIN_S = 20.0
SMALL = {"MALLOC_ARENA_MAX": "2"}
"""Environment of child processes as in the systemd unit: little memory for many threads."""


def table_2(hour_s: float, scheduler: str = "slurm") -> list[dict[str, object]]:
    """Return the flavours of the simulated cluster, as its configuration has them: the paper's Table 2.

    Queues of Kubernetes have names in lower case.
    """
    from ...exporters.simulated.jobs import flavors

    return [{"name": flavour.name, "gpus": flavour.gpus, "limit": flavour.limit_s,
             "partition": partition.lower() if scheduler == "kubernetes" else partition}
            for partition, some in flavors(hour_s).items() for flavour in some]


class DemoError(click.ClickException):
    """A part of the demo did not start; the message names it and shows its last output."""


@contextmanager
def python(name: str, arguments: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a child process with this Python interpreter and stop it at the end."""
    with child(name, (sys.executable, *arguments), log) as running:
        yield running


@contextmanager
def child(name: str, command: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a child process and stop it at the end, first by SIGTERM.

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
        if result := answer():
            return result
        time.sleep(0.1)
    state = "takes too long to come up" if running.poll() is None else f"ended with status {running.returncode}"
    raise DemoError(f"{name} {state}. It last said:\n{tail(log)}")


@dataclass(frozen=True, slots=True)
class EssentialChild:
    """A child process without which the demo cannot continue."""

    name: str
    running: subprocess.Popen[bytes]
    log: Path

    def check(self) -> None:
        """Raise ``DemoError`` if the child process has ended."""
        status = self.running.poll()
        if status is not None:
            raise DemoError(f"{self.name} has died ({_how(status)}), so the demo ends. It last said:\n{tail(self.log)}")


def _how(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"status {status}"


def tail(log: Path, lines: int = 12) -> str:
    """Return the last lines of a log file."""
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]) or "nothing"
