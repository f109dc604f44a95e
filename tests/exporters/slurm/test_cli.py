"""Slurm's commands, played by small programs that print what the real ones printed."""

from pathlib import Path

import pytest

from idlewatt.exporters.slurm.cli import SlurmCliConfig
from idlewatt.exporters.source import SourceError, kinds
from idlewatt.storage.records import JobState

RECORDED = Path(__file__).parents[2] / "recorded/slurm"


class Programs:
    """A folder of programs; each notes how it was called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.prints("squeue", "squeue.json")
        self.prints("sinfo", "sinfo.json")
        self.runs("scontrol", f"case $4 in partition) cat {RECORDED}/scontrol_show_partition_o.txt;; "
                              f"reservation) cat {RECORDED}/scontrol_show_reservation_o.txt;; esac")
        self.prints("sacct", "sacct.txt")

    def prints(self, program: str, recording: str) -> None:
        self.runs(program, f"cat {RECORDED / recording}")

    def runs(self, program: str, script: str) -> None:
        path = self.folder / program
        path.write_text(f'#!/bin/sh\necho "{program} $*|$TZ|$SLURM_CONF" >> {self.folder}/calls\n{script}\n')
        path.chmod(0o755)

    def calls(self) -> list[str]:
        return (self.folder / "calls").read_text().splitlines()


@pytest.fixture
def programs(tmp_path):
    return Programs(tmp_path)


@pytest.fixture
def source(programs, clock):
    return SlurmCliConfig(bin_dir=programs.folder, slurm_conf=Path("/etc/slurm/slurm.conf"), timeout="5s").build(clock)


def test_slurm_cli_is_a_kind_of_scheduler():
    assert kinds()["slurm_cli"] is SlurmCliConfig
    assert SlurmCliConfig.role == "scheduler"


def test_the_recorded_cluster_is_read(source, programs, clock):
    clock.now = 1795231100.0
    snapshot = source.read()

    assert (len(snapshot.nodes), len(snapshot.partitions), len(snapshot.jobs)) == (4, 2, 15)
    assert all(call.endswith("|UTC|/etc/slurm/slurm.conf") for call in programs.calls())


def test_the_accounts_are_asked_for_every_run_since_a_time_in_utc(source, programs):
    finished = source.finished(1_700_000_000.0)

    assert {job.state for job in finished if job.name == "bert-ft"} == {JobState.PREEMPTED, JobState.CANCELLED}
    assert "--starttime=2023-11-14T22:13:20" in programs.calls()[0]
    assert "--duplicates" in programs.calls()[0]


def test_where_sinfo_lists_no_nodes_scontrol_does_and_is_remembered(source, programs):
    programs.runs("sinfo", "echo '{\"sinfo\": [], \"errors\": []}'")
    programs.runs("scontrol", f"case $4 in nodes) cat {RECORDED}/shape_v0.0.42_nodes.json;; esac")
    source.read()
    assert [node.name for node in source.read().nodes] == ["a1", "a2"]

    assert sum(call.startswith("sinfo") for call in programs.calls()) == 1


def test_a_command_that_fails_is_told_with_its_own_words(source, programs):
    programs.runs("squeue", "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1")

    with pytest.raises(SourceError, match="squeue fails with status 1: .*Unable to contact slurm controller"):
        source.read()


def test_a_command_that_hangs_is_ended(programs, clock):
    programs.runs("sinfo", "exec sleep 60")
    programs.runs("scontrol", "exit 1")

    with pytest.raises(SourceError, match=r"sinfo did not end within 0.2 s"):
        SlurmCliConfig(bin_dir=programs.folder, timeout=0.2).build(clock).read()


def test_a_command_that_is_not_there_is_told_with_what_to_do(clock, tmp_path):
    with pytest.raises(SourceError, match="cannot run .*No such file.*; set bin_dir"):
        SlurmCliConfig(bin_dir=tmp_path).build(clock).read()


def test_an_output_beyond_the_bound_is_refused(programs, clock):
    with pytest.raises(SourceError, match=r"squeue prints more than 20000 bytes"):
        SlurmCliConfig(bin_dir=programs.folder, max_output_bytes=20_000).build(clock).read()


def test_accounts_that_are_switched_off_are_told(source, programs):
    programs.runs("sacct", "echo 'Slurm accounting storage is disabled' >&2; exit 1")

    with pytest.raises(SourceError, match="accounting cannot be read: .*Slurm accounting storage is disabled"):
        source.finished(0.0)


def test_nothing_is_run_through_a_shell(programs, clock):
    folder = programs.folder / "bin; touch owned"
    folder.mkdir()
    with pytest.raises(SourceError, match="cannot run"):
        SlurmCliConfig(bin_dir=folder).build(clock).read()

    assert not list(programs.folder.glob("**/owned"))
