"""The real cluster: jobs are submitted held, placed by ``follow``, and record their own times."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from .....storage.follow_ledger import FollowLedger
from ....agents.gist_mdrl.environment import GpuPartition
from ....follow.follower import Follower
from ....follow.sight import Advised, BelievedAdvice
from ....follow.slurm import Slurm, SlurmError
from ....settings.follow import AllowSettings, CommandSettings, FollowSettings, LimitSettings
from ...failures import ReproductionError
from .config import RealSettings

PATIENCE_S = 600.0
SCRIPT = '#!/bin/sh\necho "$(date +%s.%N) $SLURMD_NODENAME" > {begun}\nsleep {seconds}\ndate +%s.%N > {ended}\n'
"""The script of a job, which only sleeps for the job's run time and records its beginning and end."""


class RealSlurm:
    """One Slurm cluster, and a follower of the experiment's advice."""

    def __init__(self, settings: RealSettings, ledger: FollowLedger) -> None:
        self._settings, self._bin = settings, settings.bin_dir
        self._environment = os.environ | {"TZ": "UTC", "SLURM_TIME_FORMAT": "standard"}
        if settings.slurm_conf:
            self._environment["SLURM_CONF"] = str(settings.slurm_conf)
        rules = rules_of(settings)
        self.slurm = Slurm(rules.slurm)
        self._advice: dict[str, Advised] = {}
        self.follower = Follower(rules, self.slurm, ledger, lambda now_s: BelievedAdvice(tuple(self._advice.values())),
                                 "experiment")

    def servers(self, partition: str, kind: GpuPartition) -> tuple[str, ...]:
        """Return a partition's servers in order; ReproductionError unless their number is the paper's."""
        names = tuple(sorted(set(self._run("sinfo", "-h", "-N", "-p", partition, "-o", "%N").split())))
        if len(names) != kind.servers:
            raise ReproductionError(f"partition {partition} has {len(names)} servers, and the paper's {kind.servers}")
        return names

    def submit(self, name: str, partition: str, gpus: int, servers: int, seconds: float) -> str:
        """Submit a held job and return its number."""
        script = SCRIPT.format(begun=self.mark(name, "begun"), ended=self.mark(name, "ended"), seconds=f"{seconds:.3f}")
        return self._run("sbatch", "--parsable", "--hold", "--chdir=/", "--output=/dev/null", f"--job-name={name}",
                         f"--partition={partition}", f"--nodes={servers}", f"--gres=gpu:{gpus // servers}",
                         "--mem-per-cpu=100", *self._settings.submit, script=script).strip()

    def mark(self, name: str, what: str) -> Path:
        """Return the file in which a job records its beginning or its end."""
        return self._settings.scratch / f"{name}.{what}"

    def begun(self, name: str) -> tuple[float, str] | None:
        """Return the recorded time and node of a job's beginning; None before it begins."""
        words = self._note(name, "begun")
        return (float(words[0]), words[1]) if len(words) == 2 else None

    def ended(self, name: str) -> float | None:
        """Return the recorded time of a job's end; None before it ends."""
        words = self._note(name, "ended")
        return float(words[0]) if words else None

    def _note(self, name: str, what: str) -> list[str]:
        """Return the words of a job's record, if it is complete."""
        try:
            text = self.mark(name, what).read_text()
        except FileNotFoundError:
            return []
        return text.split() if text.endswith("\n") else []

    def advise(self, job: str, partition: str, node: str) -> None:
        """Advise a job to start on a node, until it has started."""
        known = self.slurm.jobs([job])[job]
        now_s = time.time()
        self._advice[job] = Advised(job, known.submit_s, partition, (node,), "experiment", now_s, now_s)

    def withdraw(self, job: str) -> None:
        """Withdraw the advice on a job."""
        self._advice.pop(job, None)

    def pinned(self) -> set[str]:
        """Return the jobs that are pinned to a node, by the ledger."""
        return {change.job_id for change in self.follower.tally.standing if change.state == "pinned"}

    @staticmethod
    def now() -> float:
        """Return the present time of the clock that jobs record, seconds since the epoch."""
        return time.time()

    def release(self, job: str) -> None:
        """Release a held job."""
        self._run("scontrol", "release", job)

    def cancel(self, jobs: list[str]) -> None:
        """Cancel jobs in any state."""
        if jobs:
            self._run("scancel", "--quiet", *jobs)

    def _run(self, program: str, *arguments: str, script: str | None = None) -> str:
        path = str(self._bin / program) if self._bin else program
        try:
            done = subprocess.run((path, *arguments), env=self._environment, capture_output=True,  # noqa: S603
                                  text=True, input=script, timeout=PATIENCE_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SlurmError(f"{path}: {error}") from error
        if done.returncode:
            raise SlurmError(f"{program}: {' '.join(done.stderr.split())[:300]}")
        return done.stdout


def rules_of(settings: RealSettings) -> FollowSettings:
    """Return the follower's allow-list: the experiment's own jobs on its own partitions."""
    return FollowSettings(
        dry_run=False, slurm=CommandSettings(slurm_conf=settings.slurm_conf, bin_dir=settings.bin_dir, timeout=60.0),
        kill_switch=settings.scratch / "stop", every=0.2, start_within=3600.0,
        allow=AllowSettings(partitions=settings.partitions, users=(settings.user,), actions=("required_nodes",)),
        limits=LimitSettings(at_once=10_000, per_minute=10_000))
