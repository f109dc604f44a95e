"""`idlewatt flavours`, asked of a daemon that watches a cluster."""

from idlewatt.daemon.flavours import FlavourBook
from idlewatt.daemon.settings.flavours import FlavourSettings


def test_without_configured_ones_sizes_are_listed_with_what_waits_and_runs(shell):
    found = {(row["partition"], row["flavour"]): row for row in shell.json("flavours")}
    jobs = [job for job in shell.service.known.snapshot.jobs if job.request.gpus]
    assert {(job.partition, job.flavour) for job in jobs} <= found.keys()
    assert sum(row["running"] for row in found.values()) == sum(job.state == "running" for job in jobs)
    table = shell.text("flavours").splitlines()
    assert table[0].split() == ["flavour", "partition", "GPUs", "limit", "jobs", "waiting", "running"]
    assert any(line.startswith("2-gpu") and " A100 " in line for line in table)


def test_what_no_partition_can_hold_and_jobs_of_none_are_told_with_what_to_do(shell, monkeypatch):
    monkeypatch.setattr(shell.service, "flavours", FlavourBook([
        FlavourSettings(name="huge", gpus=64), FlavourSettings(name="small", gpus=1, partition="A100")]))
    told = shell.text("flavours")
    assert "huge: no partition can hold it: it has 64 GPUs, and " in told


def test_watts_are_those_of_a_flavour_where_one_is_named(shell):
    found = shell.json("waste", "--by", "flavour")
    assert {"2-gpu", "4-gpu"} & {row["flavour"] for row in found}
