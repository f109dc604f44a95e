"""The real parts on loopback: Slurm 22.05 with four fake DGX nodes, exporters, Prometheus; one chain per machine.

The ports are fixed (README.md), so a lock file makes sessions take turns; the lock's file names the last root, and
whoever comes next first stops what a killed session left behind.
"""

import fcntl
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest
import requests
from cost import patient, pause

HERE = Path(__file__).parent
LOCK = Path(tempfile.gettempdir()) / "idlewatt-stack.lock"
BATCH_STEP = 0xFFFFFFFB
"""Slurm's number for the step that runs the batch script."""
NODES = ("dgx-a100-01", "dgx-a100-02", "dgx-v100-01", "dgx-v100-02")
Found = TypeVar("Found")


def targets(port: int) -> list[dict[str, object]]:
    """Return the four servers for an exporter on this port, as an operator lists them."""
    return [{"targets": [f"127.0.1.{number}:{port}"], "labels": {"node": node}}
            for number, node in enumerate(NODES, start=1)]


@dataclass(frozen=True)
class Chain:
    """A running chain and where its ends are."""

    root: Path
    rest_url: str = "http://127.0.0.1:16820"
    prometheus_url: str = "http://127.0.0.1:19090"
    dcgm_urls: tuple[str, ...] = tuple(f"http://127.0.1.{number}:9400/metrics" for number in (1, 2, 3, 4))
    node_exporter_url: str = "http://127.0.0.1:19100/metrics"
    ipmi_url: str = "http://127.0.0.1:19290/ipmi"
    daemon_address: str = "127.0.0.1:19099"
    """Where this Prometheus scrapes the daemon under test."""

    @property
    def slurm_conf(self) -> Path:
        return self.root / "slurm/etc/slurm.conf"

    @property
    def rest_socket(self) -> Path:
        return self.root / "slurm/restd/sock"

    def token(self) -> str:
        """Return a JWT of root for slurmrestd over TCP."""
        return self.run("scontrol", "token", "lifespan=3600").strip().removeprefix("SLURM_JWT=")

    def run(self, *argv: str) -> str:
        """Return what a Slurm command prints."""
        done = subprocess.run(argv, env=os.environ | {"SLURM_CONF": str(self.slurm_conf)}, capture_output=True,
                              text=True, errors="replace", timeout=900)  # users give jobs any bytes as names
        if done.returncode:
            raise AssertionError(f"{' '.join(argv)}: {done.stderr.strip()}")
        return done.stdout

    def sbatch(self, *options: str, script: str = "sleep 120") -> str:
        """Submit a job and return its id; it belongs to `nobody`, as root's jobs would be no example."""
        return self.run("sbatch", "--parsable", "--uid=nobody", "--chdir=/", "--output=/dev/null", "--mem-per-cpu=1000",
                        *options, f"--wrap={script}").strip()

    def asked(self, query: str) -> list[float]:
        """Return the values that the real Prometheus answers."""
        answer = requests.get(f"{self.prometheus_url}/api/v1/query", params={"query": query}, timeout=60).json()
        return [float(sample["value"][1]) for sample in answer["data"]["result"]]

    def requeue(self, job: str) -> None:
        """Requeue a running job and wait until it runs again; Slurm itself would hold it for two minutes."""
        def runs_again() -> bool:
            state = self.run("squeue", "-h", "-j", job, "-o", "%t %r").strip()
            # Set anew when the node reports the end of the first run, whose second must be over: in it the node
            # takes every credential of the job for a revoked one.
            if state == "PD BeginTime" and time.time() > requeued_s + 2:
                self.run("scontrol", "update", f"jobid={job}", "starttime=now")
            return state.startswith("R ")

        # Slurm takes the end of a batch script that had not begun for the end of the next run: wait for its socket.
        self.wait_for(lambda: list(self.root.glob(f"slurm/spool/*/*_{job}.{BATCH_STEP}")))
        self.run("scontrol", "requeue", job)
        requeued_s = time.time()
        self.wait_for(runs_again)

    def cancel_all(self) -> None:
        """Cancel every job and wait until none is left."""
        for state in ("PENDING", "SUSPENDED", "RUNNING"):
            self.run("scancel", "--quiet", f"--state={state}")
        self.wait_for(lambda: not self.run("squeue", "-h"))

    def set_load(self, node: str, ratio: float) -> None:
        """Make the busy GPUs of a node work at this share (0..1)."""
        directory = self.root / "slurm/jobmap" / node
        directory.mkdir(exist_ok=True)
        (directory / "load").write_text(str(ratio))

    @staticmethod
    def wait_for(condition: Callable[[], Found], seconds: float = 180) -> Found:
        """Return the first truthy answer of the condition, within seconds of a usual machine that does nothing else."""
        began_s = time.monotonic()
        while not (found := condition()):
            if time.monotonic() > began_s + patient(seconds):
                raise AssertionError(f"not within {seconds:g} s: {condition}")
            pause(began_s)
        return found


@contextmanager
def running_chain() -> Iterator[Chain]:
    """Start the chain, hold it alone, and stop it."""
    with LOCK.open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.seek(0)
        if (left_behind := lock.read().strip()) and Path(left_behind).exists():
            subprocess.run([HERE / "stack-down.sh", left_behind], check=False, timeout=900)
        # Not pytest's tmp_path: munge, MariaDB and slurmrestd run as other users and must reach it.
        root = Path(tempfile.mkdtemp(prefix="idlewatt-stack-"))
        root.chmod(0o755)
        lock.truncate(0)
        lock.write(str(root))
        lock.flush()
        try:
            subprocess.run([HERE / "stack-up.sh", root, sys.executable], check=True, timeout=900)
            yield Chain(root)
        finally:
            subprocess.run([HERE / "stack-down.sh", root], check=False, timeout=900)


@pytest.fixture(scope="session")
def chain() -> Iterator[Chain]:
    """The running chain, shared by all tests of the session; whoever submits jobs cancels them."""
    with running_chain() as running:
        yield running
