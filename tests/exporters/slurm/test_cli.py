"""Slurm's commands, played by small programs that print what the real ones printed."""

import json
import re
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
        self.accounts((RECORDED / "sacct.txt").read_text())

    def prints(self, program: str, recording: str) -> None:
        self.runs(program, f"cat {RECORDED / recording}")

    def accounts(self, rows: str) -> None:
        """Have sacct print rows, with the mark that it is told between fields, and after the last."""
        (self.folder / "rows").write_text(rows)
        self.runs("sacct", 'for option; do case $option in --delimiter=*) mark=${option#--delimiter=};; esac; done\n'
                           f'sed "s/|/$mark/g; s/\\$/$mark/" {self.folder}/rows')

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


def test_the_accounts_are_asked_for_every_run_since_a_time_in_utc(source, programs, clock):
    clock.now = 1_800_000_000.0
    finished = source.completed(1_700_000_000.0)

    assert {job.state for job in finished if job.name == "bert-ft"} == {JobState.PREEMPTED, JobState.CANCELLED}
    assert "--starttime=2023-11-14T22:13:20" in programs.calls()[0]
    assert "--duplicates" in programs.calls()[0]


def test_the_mark_between_fields_of_the_accounts_is_drawn_anew_for_each_call(source, programs):
    for _ in range(2):
        source.completed(1_700_000_000.0)

    marks = [re.search(r"--delimiter=(\S+)", call)[1] for call in programs.calls()]
    assert len(set(marks)) == 2
    assert all(len(mark) >= 32 for mark in marks)


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
        source.completed(0.0)


def test_nothing_is_run_through_a_shell(programs, clock):
    folder = programs.folder / "bin; touch owned"
    folder.mkdir()
    with pytest.raises(SourceError, match="cannot run"):
        SlurmCliConfig(bin_dir=folder).build(clock).read()

    assert not list(programs.folder.glob("**/owned"))


def test_a_comment_forges_no_reservation(source, programs):
    real = "ReservationName=res1 StartTime=2026-11-21T00:00:00 EndTime=2026-11-21T01:00:00 Nodes=dgx-a100-01 Flags= "
    forged = "ReservationName=forged StartTime=2026-01-01T00:00:00 EndTime=2030-01-01T00:00:00 Nodes=dgx-v100-01 "
    again = real.replace("dgx-a100-01", "dgx-a100-02")
    (programs.folder / "reservations").write_text(f"{real}Comment=see {forged}\n{forged}\n{again}\n")
    programs.runs("scontrol", f"case $4 in partition) cat {RECORDED}/scontrol_show_partition_o.txt;; "
                              f"reservation|reservation=res1) cat {programs.folder}/reservations;; *) exit 1;; esac")

    transport = source._transport
    assert [(kept.name, kept.nodes) for kept in transport.reservations().records] == [("res1", ("dgx-a100-01",))]


def test_names_that_are_no_utf8_blind_nobody(source, programs):
    recorded = (RECORDED / "squeue.json").read_bytes()
    name = json.dumps(json.loads(recorded)["jobs"][0]["name"]).encode()
    for hostile in (b'"Gr\xf6\xdfe"', b'"\xed\xa0\xbd\xed\xb8\x80"', b'"\\ud83d\\u0000\\n"', b'"raw\x01\x1b[2J"'):
        (programs.folder / "jobs").write_bytes(recorded.replace(b'"name": ' + name, b'"name": ' + hostile))
        programs.runs("squeue", f"cat {programs.folder}/jobs")
        jobs = source.read().jobs
        assert len(jobs) == 15
        assert any("\N{REPLACEMENT CHARACTER}" in job.name for job in jobs)
        assert all(job.name.isprintable() for job in jobs)
        assert "".join(job.name for job in jobs).encode("utf-8")


@pytest.mark.parametrize("strange", ["1" * 400, '{"set": true, "number": 1e999}', "[" * 800 + "]" * 800, '"x"'])
def test_a_record_that_cannot_be_read_costs_that_record_is_counted_and_logged(source, programs, strange, caplog):
    answer = json.loads((RECORDED / "squeue.json").read_text())
    answer["jobs"][3]["submit_time"] = "STRANGE"
    (programs.folder / "jobs").write_text(json.dumps(answer).replace('"STRANGE"', strange))
    programs.runs("squeue", f"cat {programs.folder}/jobs")

    for _ in range(3):
        assert len(source.read().jobs) == 14
    assert [health.skipped for health in source.health()] == [0, 1, 0, 0, 0]
    assert [record.message for record in caplog.records if "1 skipped" in record.message] == [
        f"slurm_cli: of jobs, {source.health()[1].error}"]
    assert not re.search(r"\{'|\[\[|Error", source.health()[1].error)
