"""The configuration of what is followed: strict, with every fault's line."""

import re

import pytest
import yaml

from idlewatt.daemon.follow import config
from idlewatt.daemon.follow.slurm import QueuedJob, Slurm, SlurmError, SlurmRefused, checked, stood
from idlewatt.daemon.follow.slurm import parse as parse_line
from idlewatt.daemon.settings.follow import CommandSettings, FollowSettings
from idlewatt.daemon.strict_yaml import ConfigError

ALLOW = "allow:\n  partitions: [gpu]\n  users: ['*']\n"


def test_the_sample_says_every_default_and_names_every_key():
    told = config.parse(config.sample())
    assert told == FollowSettings(allow={"partitions": ["gpu"], "users": ["*"]})
    assert yaml.safe_load(config.sample()).keys() == FollowSettings.model_fields.keys()


def test_nothing_is_changed_until_a_site_says_so():
    assert config.parse(ALLOW).dry_run


@pytest.mark.parametrize(("text", "fault"), [
    (ALLOW.replace("gpu", "gpu, gqu"),
     "configuration:2: allow.partitions[1]: Slurm has no partition 'gqu'; it has big, gpu"),
    ("dry_run: false\n", "configuration:1: allow: Field required"),
    (ALLOW.replace("['*']", "[]"), "configuration:3: allow.users: Tuple should have at least 1 item"),
    (ALLOW + "  actions: [cancel]\n", "configuration:4: allow.actions[0]: Input should be 'required_nodes' or 'nice'"),
    (ALLOW + "every: 1m\nstart_within: 90s\n", "start_within must be at least twice as long as every"),
    (ALLOW + "despite: [all]\n", "configuration:4: despite[0]: 'all' is no cause of the degraded state"),
    (ALLOW + "limit: 3\n", "configuration:4: limit: unknown key"),
    (ALLOW + "daemon: {url: 'file:///etc'}\n", "configuration:4: daemon.url: String should match pattern"),
])
def test_a_fault_is_told_with_its_line(text, fault):
    with pytest.raises(ConfigError, match=re.escape(fault)):
        config.parse(text, partitions={"gpu", "big"})


def test_a_line_of_squeue_is_read():
    assert parse_line("7|7|PENDING|gpu|ada|n[2-3],n1|-100|2026-11-22T16:16:55") == QueuedJob(
        "7", "PENDING", "gpu", "ada", ("n1", "n2", "n3"), -100, 1795364215.0)
    assert not parse_line("7|7_[1-3]|PENDING|gpu|ada||0|2026-11-22T16:16:55").plain


@pytest.mark.parametrize("line", ["", "7|7|PENDING", "7|7|PENDING|gpu|ada|n[|0|2026-11-22T16:16:55",
                                  "7|7|PENDING|gpu|ada||x|2026-11-22T16:16:55", "7|7|PENDING|gpu|ada||0|N/A"])
def test_a_line_that_is_not_understood_is_an_error(line):
    with pytest.raises(SlurmError):
        parse_line(line)


@pytest.mark.parametrize("line", ["7|7", "7|7|PENDING|gpu|a|b||0|2026-11-22T16:16:55",
                                  "7|7|PENDING|gpu|ada|n[|0|2026-11-22T16:16:55",
                                  "7|7|PENDING|gpu|ada||0|1969-13-01T00:00:00"])
def test_a_line_of_squeue_that_is_not_understood_costs_its_own_job_and_is_told_once(tmp_path, caplog, line):
    """It had stopped the whole look. A job that is left out altogether would be taken for one that is over."""
    good = "8|8|PENDING|gpu|ada||0|2026-11-22T16:16:55"
    (tmp_path / "squeue").write_text(f"#!/bin/sh\ncat <<'END'\n{line}\n{good}\nanother|line\nEND\n")
    (tmp_path / "squeue").chmod(0o755)
    slurm = Slurm(CommandSettings(bin_dir=tmp_path))
    assert slurm.jobs(["7", "8"]) == slurm.jobs(["7", "8"]) == {"7": QueuedJob.unread("7"), "8": parse_line(good)}
    assert [(record.getMessage(), record.target) for record in caplog.records] == [("a job is left alone", "7")]


@pytest.mark.parametrize(("attribute", "value"), [
    ("required_nodes", "a b"), ("required_nodes", "-a"), ("required_nodes", "a\nb"), ("required_nodes", "a,"),
    ("required_nodes", "a[1-2]"), ("nice", "0 Partition=big"), ("nice", "")])
def test_no_value_goes_into_a_command_unchecked(attribute, value):
    with pytest.raises(SlurmRefused):
        checked(attribute, value)
    assert checked("required_nodes", "") == ""


SHOWN = """scontrol: show job 7
JobId=7 JobName=wrap
   Priority=1 Nice={nice} Account=(null) QOS=normal
   ReqNodeList={nodes} ExcNodeList=(null)
   Comment={comment}
scontrol: update jobid=7 ReqNodeList=a
"""


@pytest.mark.parametrize(("nodes", "comment", "stands"), [
    ("(null)", "", ""), ("n[2-3],n1", "", "n1,n2,n3"), ("a", "ReqNodeList=b ExcNodeList=(null)", "a"),
    ("a", "\n   ReqNodeList=b ExcNodeList=(null)", None), ("n[", "", None)])
def test_what_stood_right_before_a_change_is_read_and_no_users_text_passes_for_it(nodes, comment, stands):
    shown = SHOWN.format(nice=-100, nodes=nodes, comment=comment)
    assert (stood(shown, "required_nodes"), stood(shown, "nice")) == (stands, "-100")
    assert stood("", "nice") is None


@pytest.mark.parametrize(("words", "error"), [
    ("slurm_update error: Unable to contact slurm controller (connect failure)", SlurmError),
    ("slurm_update error: Socket timed out on send/recv operation", SlurmError),
    ("Invalid user id for job 7", SlurmRefused)])
def test_silence_is_told_from_a_refusal(words, error, tmp_path):
    (tmp_path / "scontrol").write_text(f"#!/bin/sh\necho '{words}' >&2\nexit 1\n")
    (tmp_path / "scontrol").chmod(0o755)
    with pytest.raises(SlurmError, match="scontrol: ") as caught:
        Slurm(CommandSettings(bin_dir=tmp_path)).change("7", "required_nodes", "a")
    assert caught.type is error
