"""Slurm through its commands: squeue, sinfo, scontrol and sacct."""

from __future__ import annotations

import logging
import os
import secrets
import subprocess
import tempfile
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from ...storage.durations import Duration
from ...storage.records import Job, Node, Partition
from ...storage.rules import Association, CountedUsage, License, Qos, Reservation
from ..commands import Commands
from ..source import Clock, Role, SourceConfig, SourceError, register
from ..text import clean, decode, quoted
from .fields import BadRecord
from .parse_json import Parsed, load, parse_job, parse_list
from .parse_node import parse_node
from .parse_settings import (
    ASSOCIATION_FIELDS,
    QOS_FIELDS,
    SWITCH_FIELDS,
    parse_association_table,
    parse_licenses,
    parse_qos_table,
    parse_settings,
    parse_switches,
)
from .parse_text import (
    SACCT_FIELDS,
    SOFTWARE_FIELDS,
    has_free_text,
    parse_partitions,
    parse_reservations,
    parse_sacct,
    print_time,
    reservation_names,
)
from .parse_usage import parse_usage
from .source import SlurmSource

log = logging.getLogger(__name__)

_MOST_RESERVATIONS = 1000
# Nodes: sinfo's JSON lists them up to 22.05 and groups them after; scontrol's lists them from 23.02 on.
_UNKNOWN_FIELD = "Invalid field requested"
"""What sacct says of a field that its version does not know."""
_NODE_COMMANDS = (("sinfo", "--all", "--json"), ("scontrol", "--all", "--json", "show", "nodes"))


class SlurmCommands(SourceConfig):
    """Where Slurm's commands are, and their bounds."""

    bin_dir: Path | None = Field(default=None, description="Folder of squeue, sinfo, scontrol and sacct; else PATH.")
    slurm_conf: Path | None = Field(default=None, description="SLURM_CONF for the commands; else Slurm's own default.")
    timeout: Duration = Field(default=30.0, description="Longest time for one command.")
    max_output_bytes: int = Field(default=512 * 2**20, gt=0, description="Longest output read; about 4 kB a job.")


@register("slurm_cli")
class SlurmCliConfig(SlurmCommands):
    """Jobs, nodes and partitions from Slurm's commands, for sites without slurmrestd."""

    role: ClassVar[Role] = "scheduler"
    kind: Literal["slurm_cli"] = "slurm_cli"

    settings: dict[str, str] = Field(
        default={}, description="Settings that scontrol does not report here, as `scontrol show config` has them.")

    def build(self, clock: Clock) -> SlurmSource:
        """Return the source that this configuration describes."""
        return SlurmSource(self.name or self.kind, SlurmCli(self), clock, self.settings)


class SlurmCli:
    """Runs Slurm's commands: no shell, a time limit, and UTC in place of the machine's zone."""

    def __init__(self, config: SlurmCommands) -> None:
        self._config, self._commands = config, Commands()
        self._node_commands: tuple[tuple[str, ...], ...] = _NODE_COMMANDS
        self._accounted: tuple[str, ...] = SACCT_FIELDS + SOFTWARE_FIELDS
        # Times without a zone are ambiguous when clocks go back; Slurm cuts task lists at 64 characters.
        self._environment = os.environ | {"TZ": "UTC", "SLURM_TIME_FORMAT": "standard", "SLURM_BITSTR_LEN": "0"}
        if config.slurm_conf:
            self._environment["SLURM_CONF"] = str(config.slurm_conf)

    def nodes(self) -> Parsed[Node]:
        """Return all nodes, by whichever command lists them in this version."""
        parsed, command = self._nodes()
        self._node_commands = (command,)
        return parsed

    def _nodes(self) -> tuple[Parsed[Node], tuple[str, ...]]:
        reasons = []
        for command in self._node_commands:
            try:
                return parse_list(load(self._run(*command)), "nodes", parse_node), command
            except (SourceError, BadRecord) as error:
                reasons.append(str(error))
        self._node_commands = _NODE_COMMANDS
        raise SourceError("; ".join(reasons))

    def jobs(self) -> Parsed[Job]:
        """Return pending, running and just finished jobs."""
        return parse_list(load(self._run("squeue", "--all", "--states=all", "--json")), "jobs", parse_job)

    def partitions(self) -> Parsed[Partition]:
        """Return all partitions."""
        return parse_partitions(self._text("scontrol", "--all", "--oneliner", "show", "partition"))

    def reservations(self) -> Parsed[Reservation]:
        """Return all reservations."""
        text = self._text("scontrol", "--all", "--oneliner", "show", "reservation")
        if not has_free_text(text):
            return parse_reservations(text)
        # A comment may hold what looks like further lines: the first line of each answer about one is Slurm's own.
        names = reservation_names(text)[:_MOST_RESERVATIONS]
        return parse_reservations("\n".join(map(self._reservation, names)))

    def _reservation(self, name: str) -> str:
        """Return the one line about a reservation; '' where Slurm knows none of that name."""
        try:
            text = self._text("scontrol", "--all", "--oneliner", "show", f"reservation={name}")
        except SourceError as error:
            log.warning("no reservation %s: %s", quoted(name), error)
            return ""
        return text.partition("\n")[0]

    def licenses(self) -> Parsed[License]:
        """Return all licences."""
        return parse_licenses(self._text("scontrol", "--oneliner", "show", "licenses"))

    def qos(self) -> Parsed[Qos]:
        """Return all qualities of service; the accounts know them."""
        return parse_qos_table(self._text("sacctmgr", "--readonly", "--noheader", "--parsable2", "show", "qos",
                                          f"format={','.join(QOS_FIELDS)}"))

    def qos_grp_tres_mins(self) -> dict[str, str]:
        """Return by QOS what its jobs may use in all, as sacctmgr writes it; '' where nothing is set."""
        text = self._text("sacctmgr", "--readonly", "--noheader", "--parsable2", "show", "qos",
                          "format=Name,GrpTRESMins")
        return {name: limits for name, mark, limits in (line.rpartition("|") for line in text.splitlines()) if mark}

    def associations(self) -> Parsed[Association]:
        """Return the accounts and users of this cluster."""
        cluster = self._settings().get("ClusterName", "")
        return parse_association_table(self._text(
            "sacctmgr", "--readonly", "--noheader", "--parsable2", "show", "assoc",
            *((f"cluster={cluster}",) if cluster else ()), f"format={','.join(ASSOCIATION_FIELDS)}"))

    def usage(self, now_s: float) -> Parsed[CountedUsage]:
        """Return what accounts, users and qualities of service have used until now."""
        return parse_usage(self._text("scontrol", "--oneliner", "show", "assoc_mgr", "flags=assoc,qos"), now_s)

    def settings(self) -> dict[str, str]:
        """Return the controller's settings that decide about starts."""
        return self._settings()

    def switches(self) -> dict[int, tuple[int, float | None]]:
        """Return by raw id which waiting jobs ask for few switches, and for how long they wait for them."""
        return parse_switches(self._text("squeue", "--all", "--states=pending", "--noheader",
                                         f"--Format={SWITCH_FIELDS}"))

    def _settings(self) -> dict[str, str]:
        return parse_settings(self._text("scontrol", "show", "config"))

    def topology(self) -> str:
        """Return the switches as scontrol shows them; '' when Slurm knows none."""
        return "\n".join(map(clean, self._text("scontrol", "show", "topology").split("\n")))

    def finished(self, since_s: float, until_s: float | None = None) -> Parsed[Job]:
        """Return the runs that the accounts know since a time, or those that touch a window."""
        # Nobody can have named a job after a mark that is drawn now.
        mark = f"<{secrets.token_hex(16)}>"
        # sacct's own default starts at midnight and shows only the last run of a requeued job.
        window = [f"--starttime={print_time(since_s)}"]
        window += [] if until_s is None else [f"--endtime={print_time(until_s)}"]
        try:
            text = self._accounts(mark, window)
        except SourceError as error:
            if self._accounted == SACCT_FIELDS or _UNKNOWN_FIELD not in str(error):
                raise
            log.warning("sacct is older than Slurm 21.08 and knows no %s: jobs of the accounts are recorded without "
                        "what they run", " or ".join(SOFTWARE_FIELDS))
            self._accounted = SACCT_FIELDS
            text = self._accounts(mark, window)
        return parse_sacct(text, mark)

    def _accounts(self, mark: str, window: list[str]) -> str:
        return self._text("sacct", "--allusers", "--duplicates", "--parsable", f"--delimiter={mark}", "--allocations",
                          *window, f"--format={','.join(self._accounted)}")

    def close(self) -> None:
        """End the commands that are running."""
        self._commands.close()

    def _text(self, *command: str) -> str:
        return decode(self._run(*command))

    def _run(self, program: str, *options: str) -> bytes:
        path = str(self._config.bin_dir / program) if self._config.bin_dir else program
        with tempfile.TemporaryFile() as output:
            try:
                done = self._commands.run([path, *options], env=self._environment, stdout=output,
                                          timeout=self._config.timeout)
            except subprocess.TimeoutExpired as error:
                raise SourceError(f"{program} did not end within {self._config.timeout:g} s") from error
            except OSError as error:
                raise SourceError(f"cannot run {path}: {error.strerror}; set bin_dir", permanent=True) from error
            if done.returncode:
                error_text = quoted(done.stderr[-300:].strip(), 300)
                raise SourceError(f"{program} fails with status {done.returncode}: {error_text}")
            if output.tell() > self._config.max_output_bytes:
                raise SourceError(
                    f"{program} prints more than {self._config.max_output_bytes} bytes (max_output_bytes)")
            output.seek(0)
            return output.read()
