"""A real Slurm of a random cluster, whose scheduler is stopped while advice is taken and released afterwards."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cost import patient, pause

from .clusters import ACCOUNTS, QOS, USERS, Cluster, write_templates

STACK = Path(__file__).parents[1]
FROZEN = "defer,sched_interval=-1,bf_interval=3600"
"""Nothing starts, and every job stays pending for no reason: held jobs or closed partitions would not be eligible.

The backfill, which ran a moment ago, looks every second whether an hour has passed, or the interval has changed; with
-1 it would look only every 30 s.
"""
ACTING = ("defer,sched_interval=1,bf_max_time=30,bf_max_job_test=1000,bf_continue,sched_min_interval=0,"
          "batch_sched_delay=0,bf_interval=1")
"""A round a second, but of the usual length: ``bf_max_time`` is as long as the interval unless told, so that a round
ended wherever the clock went on to the next second, and looked at a part of the queue.
"""
HEEDLESS = ACTING + ",bf_min_age_reserve=1000000"
"""Jobs are taken in order, and one that fits starts, whomever it delays."""
HEAD_START_S = 3
"""By how much the main scheduler comes before the backfill, once both are released."""
SETTLES_WITHIN_S, MOST_ROUNDS, USUAL_INTERVAL_S = 120.0, 8, 30
_STARTING = threading.Lock()
"""One starts at a time: MariaDB's set-up failed now and then beside others of its kind."""
_WOULD_START = re.compile(r"to start at (\S+) using \d+ processors on nodes (\S+)")


class Rejected(Exception):
    """Slurm does not take a command; the text is its own."""


@dataclass(frozen=True)
class Forecast:
    """What ``sbatch --test-only`` answers about a job that is alone in the queue."""

    now: bool
    words: str


class Slurm:
    """The commands of one running Slurm."""

    def __init__(self, root: Path) -> None:
        self.conf, self.socket = root / "slurm/etc/slurm.conf", root / "slurm/restd/sock"
        self._environment = os.environ | {"SLURM_CONF": str(self.conf), "TZ": "UTC", "SLURM_TIME_FORMAT": "standard"}

        self.lasting: list[str] = []
        """Jobs that run before a round and stay until its end."""
        self.asleep_s = 0
        """How long the backfill sleeps between its rounds; where it has no job to look at, rounds are not counted."""

    def others(self) -> list[str]:
        """Return the jobs that came after those that last."""
        return sorted({number.split("_")[0].split("+")[0] for number in self.states() if number not in self.lasting})

    def run(self, *argv: str) -> str:
        """Return what a command prints, with what it says on stderr; ``Rejected`` when it fails."""
        done = subprocess.run(argv, env=self._environment, capture_output=True, text=True, timeout=900)
        if done.returncode:
            raise Rejected(" ".join((done.stderr or done.stdout).split())[:300])
        return done.stdout + (done.stderr if "--test-only" in argv else "")

    def submit(self, options: Sequence[str], seconds: int = 900) -> str:
        """Submit a job that sleeps and return its number."""
        return self.run(*_batch(options, "--parsable", seconds=seconds)).strip()

    def forecast(self, options: Sequence[str]) -> Forecast:
        """Ask when a job would start; right only while no other job is pending."""
        asked = time.time()
        try:
            told = self.run(*_batch(options, "--test-only", seconds=1))
        except Rejected as refusal:
            return Forecast(False, str(refusal))
        found = _WOULD_START.search(told)
        if not found:
            return Forecast(False, told.strip())
        begins = datetime.fromisoformat(found[1]).replace(tzinfo=UTC).timestamp()
        return Forecast(begins <= asked + 20, f"in {begins - asked:.0f} s on {found[2]}")

    def schedule(self, parameters: str) -> None:
        """Put other parameters of the scheduler in force."""
        told = re.search(r"bf_interval=(\d+)", parameters)
        self.asleep_s = int(told[1]) if told else USUAL_INTERVAL_S
        text = re.sub(r"^SchedulerParameters=.*$", f"SchedulerParameters={parameters}", self.conf.read_text(),
                      flags=re.MULTILINE)
        self.conf.write_text(text)
        self.run("scontrol", "reconfigure")

    def release(self, parameters: str) -> None:
        """Let both schedulers act again, the main one first.

        So it is at any site: it looks as soon as a job comes or ends, the backfill every 30 s. Released together, each
        of them comes first half the time, as both wake once a second. The interval stays that long until the queue has
        settled: a Slurm that reads its configuration between two rounds forgets which nodes it prefers.
        """
        rounds, waited_s = self._cycles()[1], int(time.time()) - self._last_backfill()
        self.schedule(parameters.replace("bf_interval=1", f"bf_interval={waited_s + HEAD_START_S}"))
        wait_for(lambda: self._cycles()[1] > rounds or not _waiting(self.states()))

    def queue(self) -> dict[int, dict[str, Any]]:
        """Return every job that squeue knows, by Slurm's own number."""
        return {job["job_id"]: job for job in json.loads(self.run("squeue", "--states=all", "--json"))["jobs"]}

    def states(self) -> dict[str, tuple[str, str]]:
        """Return state and reason of jobs that wait or run, by the id that people use."""
        lines = self.run("squeue", "-h", "-a", "-r", "-o", "%i|%T|%r").splitlines()
        return {number: (state, reason) for number, state, reason in (line.split("|", 2) for line in lines)}

    def settle(self, *, backfill: bool = True) -> dict[str, tuple[str, str]]:
        """Wait until two rounds of the scheduler, and of the backfill, have changed nothing; return the states."""
        states, cycles = self.states(), self._cycles()
        deadline = time.monotonic() + SETTLES_WITHIN_S + MOST_ROUNDS * self.asleep_s
        while time.monotonic() < deadline:
            time.sleep(0.3)
            found, passed = self.states(), self._cycles()
            if found != states:
                states, cycles = found, passed
            elif passed[0] >= cycles[0] + 2 and (
                    passed[1] >= cycles[1] + 2 or not backfill or not _waiting(states)):
                return states
        return self.states()

    def _cycles(self) -> tuple[int, ...]:
        """Return how often the main scheduler and the backfill have run; the latter only does when jobs wait."""
        return tuple(int(number) for number in re.findall(r"Total cycles: *(\d+)", self.run("sdiag")))[:2]

    def _last_backfill(self) -> int:
        """Return when the backfill ran last, in seconds; while nobody waited it tells nothing and was just stopped."""
        told = re.search(r"Backfilling stats.*?Last cycle when:[^\n]*\((\d+)\)", self.run("sdiag"), re.DOTALL)
        return int(told[1] if told else self.conf.stat().st_mtime)

    def cancel(self, *options: str) -> None:
        """Cancel the jobs that the options select."""
        if options:
            self.run("scancel", "--quiet", *options)

    def empty(self) -> None:
        """Cancel everything, take back reservations and drains."""
        for state in ("PENDING", "SUSPENDED", "RUNNING"):
            self.run("scancel", "--quiet", f"--state={state}")
        wait_for(lambda: not self.run("squeue", "-h", "-a"))
        for name in re.findall(r"ReservationName=(\S+)", self.run("scontrol", "-o", "show", "reservation")):
            self.run("scontrol", "delete", f"reservationname={name}")
        drained = self.run("sinfo", "-h", "-N", "-t", "drain,draining,drained,down", "-o", "%N").split()
        for node in sorted(set(drained)):
            self.run("scontrol", "update", f"nodename={node}", "state=resume")


def _waiting(states: dict[str, tuple[str, str]]) -> bool:
    return any(state == "PENDING" for state, _ in states.values())


def _batch(options: Sequence[str], *how: str, seconds: int) -> list[str]:
    script = f"--wrap=exec sleep {seconds}"
    common = [*how, "--chdir=/", "--output=/dev/null"]
    return ["sbatch", *common, *options, script]


def wait_for(condition: Callable[[], object], seconds: float = 120) -> None:
    """Wait until a condition holds, within seconds of a usual machine with nothing else to do."""
    began_s = time.monotonic()
    while not condition():
        if time.monotonic() > began_s + patient(seconds):
            raise AssertionError(f"not within {seconds:g} s: {condition}")
        pause(began_s)


@contextmanager
def running(cluster: Cluster) -> Iterator[Slurm]:
    """Start the Slurm of a cluster on ports of its own, with users, accounts and QOS; stop it at the end."""
    with booted(lambda folder: write_templates(cluster, folder)) as slurm:
        enrol(slurm)
        yield slurm


@contextmanager
def booted(write: Callable[[Path], None]) -> Iterator[Slurm]:
    """Start the Slurm whose templates are written into a folder that is not there yet; stop it at the end."""
    # Not pytest's tmp_path: munge, MariaDB and slurmrestd run as other users and must reach it.
    root = Path(tempfile.mkdtemp(prefix="idlewatt-judge-"))
    root.chmod(0o755)
    write(root / "templates")
    try:
        _start(root)
        yield Slurm(root)
    finally:
        subprocess.run(["bash", STACK / "stack-down.sh", root], check=False, timeout=900)


def _start(root: Path) -> None:
    """Start the parts; AssertionError tells what they log when they do not."""
    with _STARTING:
        done = subprocess.run(["bash", STACK / "slurm-up.sh", root / "slurm", root / "templates"], timeout=300,
                              env=os.environ | {"REST_PORT": ""}, capture_output=True, text=True)
    logs = (root / "slurm/log").glob("*.*")
    assert done.returncode == 0, done.stderr + "".join(f"\n{path.name}: {path.read_text()[-300:]}" for path in logs)


def enrol(slurm: Slurm) -> None:
    """Tell slurmdbd of users, accounts and QOS, and wait until the controller has heard of them."""
    for name, limits in QOS.items():
        slurm.run("sacctmgr", "-i", "modify", "qos", name, "set", limits or "Description=usual")
    for name, limits in ACCOUNTS.items():
        slurm.run("sacctmgr", "-i", "add", "account", name, f"qos={','.join(QOS)}", "defaultqos=normal",
                  *filter(None, [limits]))
        slurm.run("sacctmgr", "-i", "add", "user", ",".join(USERS), f"account={name}", f"qos={','.join(QOS)}",
                  "defaultqos=normal")
    # slurmctld hears of associations a moment after slurmdbd.
    wait_for(lambda: all(name in slurm.run("scontrol", "show", "assoc_mgr", "flags=assoc,qos")
                         for name in (*ACCOUNTS, *QOS)))
