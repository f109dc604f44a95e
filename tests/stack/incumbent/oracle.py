"""What Slurm itself says of priorities and shares, ``sprio`` and ``sshare``, and the queue in our records."""

from __future__ import annotations

import time

from judge.slurm import Slurm

from idlewatt.exporters.slurm.cli import SlurmCliConfig
from idlewatt.storage.records import SchedulerSnapshot

_FACTORS = {"AGE": "%A", "FAIRSHARE": "%F", "JOBSIZE": "%J", "PARTITION": "%P", "QOS": "%Q", "NICE": "%N",
            "ASSOC": "%B", "SITE": "%S"}
SHARES = ("account", "user", "rawusage", "normshares", "effectvusage", "fairshare", "levelfs")


def factors(slurm: Slurm) -> dict[str, dict[str, float]]:
    """Return by job id the weighted factors of ``sprio -l``, and the priority."""
    lines = slurm.run("sprio", "-h", "-o", "|".join(("%i", *_FACTORS.values(), "%T", "%Y"))).splitlines()
    found = {}
    for line in lines:
        number, *values, resources, priority = (word.strip() for word in line.split("|"))
        found[number] = {**dict(zip(_FACTORS, map(float, values), strict=True)), "PRIORITY": float(priority),
                         "TRES": sum(float(part.split("=")[1]) for part in resources.split(",") if "=" in part)}
    return found


def shares(slurm: Slurm) -> dict[tuple[str, str], dict[str, str]]:
    """Return by account and user what ``sshare -a -l`` prints."""
    rows = slurm.run("sshare", "-a", "-P", "-n", "-o", ",".join(SHARES)).splitlines()
    table = [dict(zip(SHARES, (word.strip() for word in row.split("|")), strict=True)) for row in rows]
    return {(row["account"], row["user"]): row for row in table}


def snapshot(slurm: Slurm) -> SchedulerSnapshot:
    """Return what our own source reads."""
    source = SlurmCliConfig(slurm_conf=slurm.conf).build(time.time)
    try:
        return source.read()
    finally:
        source.close()
