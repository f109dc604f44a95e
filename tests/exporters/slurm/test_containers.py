"""What a job runs, as a real Slurm 22.05 told it of ``sbatch --container`` and of comments; a script is never read."""

import logging

import pytest

from idlewatt.exporters.slurm.cli import SlurmCliConfig
from idlewatt.exporters.slurm.parse_json import load, parse_accounted, parse_job, parse_list
from idlewatt.exporters.slurm.parse_text import SACCT_FIELDS, parse_sacct
from idlewatt.exporters.source import SourceError

TOLD = {"train": ("/images/pytorch-24.01-cuda12.3", "pytorch", "12.3"), "infer": ("", "vllm", "12.1")}


def of(runs):
    return {run.name: (run.image, run.framework, run.cuda) for run in runs}


def test_squeue_accounts_and_rest_tell_the_same_of_a_real_container(recorded):
    queue = parse_list(load(recorded("slurm/containers/squeue.json")), "jobs", parse_job)
    accounts = parse_sacct(recorded("slurm/containers/sacct.txt").decode())
    rest = parse_list(load(recorded("slurm/containers/rest_slurmdb_jobs.json")), "jobs", parse_accounted)
    assert queue.skipped == accounts.skipped == rest.skipped == ()
    assert of(queue.records) == of(accounts.records) == TOLD
    assert of(rest.records) == {"train": TOLD["train"]}


def sacct(folder, recorded, body):
    """Play a sacct that is told the mark between fields, and does what is said beside."""
    (folder / "rows").write_bytes(recorded("slurm/containers/sacct.txt"))
    (folder / "sacct").write_text(
        '#!/bin/sh\nfor option; do case $option in --delimiter=*) mark=${option#--delimiter=};; '
        f'--format=*) fields=$option;; esac; done\necho "$fields" >> {folder}/calls\n{body}\n')
    (folder / "sacct").chmod(0o755)


OLD = ('case $fields in *Container*) echo \'sacct: error: Invalid field requested: "Container"\' >&2; exit 1;; esac\n'
       'cut -d"|" -f1-20 {folder}/rows | sed "s/|/$mark/g; s/\\$/$mark/"')


def test_an_accounting_older_than_containers_is_asked_again_without_and_that_is_said_once(
        tmp_path, recorded, clock, caplog):
    clock.now = 1_800_000_000.0
    sacct(tmp_path, recorded, OLD.format(folder=tmp_path))
    source = SlurmCliConfig(bin_dir=tmp_path).build(clock)
    with caplog.at_level(logging.WARNING):
        assert of(source.completed(0.0)) == of(source.completed(0.0)) == {"train": ("", "", ""), "infer": ("", "", "")}
    asked = (tmp_path / "calls").read_text().split()
    assert ["Container" in fields for fields in asked] == [True, False, False]
    assert asked[1] == f"--format={','.join(SACCT_FIELDS)}"
    assert [record.getMessage() for record in caplog.records] == [
        "sacct is older than Slurm 21.08 and knows no Container or Comment: jobs of the accounts are recorded without "
        "what they run"]


def test_any_other_field_that_is_refused_is_an_error(tmp_path, recorded, clock):
    sacct(tmp_path, recorded, "echo 'sacct: error: Invalid field requested: \"QOS\"' >&2; exit 1")
    with pytest.raises(SourceError, match="Invalid field requested"):
        SlurmCliConfig(bin_dir=tmp_path).build(clock).completed(0.0)
    assert len((tmp_path / "calls").read_text().split()) == 2
