"""What flavours there are, how often they are asked for, and what is of none."""

from idlewatt.daemon.flavour_rows import rows
from idlewatt.daemon.flavours import FlavourBook
from idlewatt.daemon.settings.flavours import FlavourSettings
from idlewatt.storage.flavours import FlavourCount
from idlewatt.storage.records import Job, JobState, Node, Request

NODES = (Node("a", ("gpu",), 8), Node("b", ("gpu",), 8))


def job(number, gpus, state=JobState.PENDING, **more):
    return Job(str(number), 0.0, state, "gpu", Request(gpus), **more)


def test_configured_flavours_are_listed_with_what_waits_runs_and_was_recorded():
    book = FlavourBook([FlavourSettings(name="s", gpus=2, limit=3600), FlavourSettings(name="huge", gpus=99)])
    jobs = (job(1, 2, flavour="s"), job(2, 2, JobState.RUNNING, flavour="s"), job(3, 0, flavour=""))
    found = rows(book, NODES, jobs, [FlavourCount("gpu", "s", 2, 3600.0, 5), FlavourCount("gpu", "s", 2, 60.0, 2)])
    assert [(row.flavour, row.gpus, row.jobs, row.pending, row.running) for row in found] == [
        ("s", 2, 7, 1, 1), ("huge", 99, 0, 0, 0)]
    assert "no partition can hold it: it has 99 GPUs, and gpu 16" in found[1].fault


def test_jobs_of_no_flavour_are_a_row_of_their_own_with_the_reason():
    book = FlavourBook([FlavourSettings(name="s", gpus=2)])
    (_, none) = rows(book, NODES, (job(1, 4, flavour=""), job(2, 0, flavour="")), [])
    assert (none.flavour, none.pending) == ("", 1)
    assert none.fault == "it asks for 4 GPUs, and the largest flavour there, s, has 2: add a larger one"
    (_, past) = rows(book, NODES, (), [FlavourCount("gpu", "", 8, None, 3)])
    assert past.jobs == 3
    assert past.fault == "it asks for 8 GPUs, and the largest flavour there, s, has 2: add a larger one"


def test_without_any_the_sizes_that_occur_are_listed_with_the_limits_that_nearly_all_keep():
    asked = ((60.0, 50), (120.0, 46), (9e9, 4), (None, 9))
    counts = [FlavourCount("gpu", "2-gpu", 2, limit, jobs) for limit, jobs in asked]
    counts += [FlavourCount("gpu", "", 0, 60.0, 3)]
    found = rows(FlavourBook(), NODES, (job(1, 8, flavour="8-gpu"),), counts)
    assert [(row.flavour, row.partition, row.gpus, row.limit_s, row.jobs, row.pending) for row in found] == [
        ("2-gpu", "gpu", 2, 120.0, 109, 0), ("8-gpu", "gpu", 8, None, 0, 1)]
