"""Which flavour a job is of, and what is said where it is of none."""

from dataclasses import replace

import pytest

from idlewatt.daemon.config import ConfigError, parse
from idlewatt.daemon.flavours import FlavourBook, impossible, size_name
from idlewatt.daemon.flavours import FlavourKey as Key
from idlewatt.daemon.settings.flavours import FlavourSettings
from idlewatt.storage.records import Job, JobState, Node, Request, SchedulerSnapshot

HOUR = 3600.0
TABLE = [FlavourSettings(name=f"{size}-{model}", gpus=gpus, partition=model, limit=hours * HOUR)
         for model in ("A100", "V100")
         for size, gpus, hours in (("f", 16, 504), ("s", 2, 72), ("m", 4, 168), ("l", 8, 336))]
NODES = [Node(f"{model}-{number}", (model,), 8, gpu_model=model.lower())
         for model in ("A100", "V100") for number in (1, 2)]


@pytest.mark.parametrize(("key", "flavour"), [
    (Key("A100", 2, 72 * HOUR), "s-A100"), (Key("V100", 1, HOUR), "s-V100"), (Key("A100", 3, HOUR), "m-A100"),
    (Key("A100", 2, 100 * HOUR), "m-A100"), (Key("A100", 16, 504 * HOUR), "f-A100"),
    (Key("A100", 17, HOUR), ""), (Key("A100", 2, None), ""), (Key("H100", 2, HOUR), ""),
    (Key("A100", 0, HOUR), ""), (Key("H100,V100", 8, HOUR), "l-V100")])
def test_a_job_is_of_the_smallest_flavour_that_allows_it(key, flavour):
    assert FlavourBook(TABLE).of(key) == flavour


@pytest.mark.parametrize(("gpus", "flavour"), [(1, "1-gpu"), (2, "2-gpu"), (3, "4-gpu"), (8, "8-gpu"), (9, "16-gpu")])
def test_without_configured_ones_a_jobs_flavour_is_its_size(gpus, flavour):
    assert FlavourBook().of(Key("A100", gpus, None)) == size_name(gpus) == flavour
    assert FlavourBook().of(Key("A100", 0, None)) == ""


def test_a_flavour_of_a_type_is_for_jobs_that_ask_for_it_or_get_it_in_their_partition():
    book = FlavourBook([FlavourSettings(name="two", gpus=2, gpu_model="A100")])
    assert book.of(Key("mixed", 2, None)) == ""
    book.learn([*NODES, Node("m", ("mixed",), 8, gpu_model="a100"), Node("n", ("mixed",), 8, gpu_model="v100")])
    keys = [Key("A100", 2, None), Key("V100", 2, None), Key("mixed", 2, None), Key("mixed", 2, None, "a100")]
    assert [book.of(one) for one in keys] == ["two", "", "", "two"]


def test_a_snapshot_is_told_its_flavours():
    job = Job("1", 0.0, JobState.PENDING, "A100", Request(4), limit_s=HOUR)
    told = FlavourBook(TABLE).with_flavours(SchedulerSnapshot(1.0, tuple(NODES), jobs=(job,)))
    assert told.jobs[0].flavour == "m-A100"


def test_a_job_that_comes_again_stays_the_same_object_until_its_flavour_is_another():
    book, job = FlavourBook(TABLE), Job("1", 0.0, JobState.PENDING, "A100", Request(4), limit_s=HOUR)
    first, second = (book.with_flavours(SchedulerSnapshot(now, tuple(NODES), jobs=(job,))).jobs for now in (1.0, 2.0))
    assert first[0] is second[0]
    longer = book.with_flavours(SchedulerSnapshot(3.0, tuple(NODES), jobs=(replace(job, limit_s=400 * HOUR), job)))
    assert [one.flavour for one in longer.jobs] == ["f-A100", "m-A100"]


def test_what_was_told_of_jobs_is_told_anew_where_a_partition_gets_other_gpus():
    book = FlavourBook([FlavourSettings(name="two", gpus=2, gpu_model="A100")])
    job = Job("1", 0.0, JobState.PENDING, "V100", Request(2), limit_s=HOUR)
    nodes = tuple(replace(node, gpu_model="a100") for node in NODES)
    snapshots = [SchedulerSnapshot(1.0, known, jobs=(job,)) for known in (tuple(NODES), nodes)]
    assert [book.with_flavours(snapshot).jobs[0].flavour for snapshot in snapshots] == ["", "two"]


@pytest.mark.parametrize(("key", "why"), [
    (Key("A100", 32, HOUR), "it asks for 32 GPUs, and the largest flavour there, f-A100, has 16: add a larger one"),
    (Key("A100", 16, 600 * HOUR), "it asks for 600 h, and the longest flavour of its size, f-A100, allows 504 h: "
                                  "raise its limit, or add another"),
    (Key("A100", 2, None), "it asks for no time limit, and the longest flavour of its size, f-A100, allows 504 h: "
                           "raise its limit, or add another"),
    (Key("H100", 2, HOUR), "no flavour is for partition H100: add one, or leave out the partition of another"),
    (Key("A100", 0, HOUR), "it asks for no GPU"), (Key("A100", 2, HOUR), "")])
def test_a_job_of_no_flavour_is_told_why(key, why):
    assert FlavourBook(TABLE).why_none(key) == why


def test_flavours_that_no_partition_can_hold_are_told_with_what_to_do():
    wrong = [FlavourSettings(name="huge", gpus=17, partition="A100"),
             FlavourSettings(name="gone", gpus=1, partition="old"),
             FlavourSettings(name="other", gpus=1, gpu_model="h100"), *TABLE]
    assert impossible(wrong, NODES) == {
        "huge": "no partition can hold it: it has 17 GPUs, and A100 16: lower gpus, or correct the partition or the "
                "type",
        "gone": "there is no partition old (renamed?); there are A100, V100: correct its partition",
        "other": "no partition can hold it: it has 1 GPUs of type h100, and V100 0: lower gpus, or correct the "
                 "partition or the type"}
    assert impossible(wrong, []) == {}


def test_two_flavours_with_one_name_are_refused_at_the_second_ones_line():
    with pytest.raises(ConfigError) as refused:
        parse("flavours:\n  - {name: s, gpus: 2}\n  - {name: m, gpus: 4}\n  - {name: s, gpus: 8}\n", "site.yml")
    assert str(refused.value) == ("site.yml:4: flavours[2].name: flavours[0] is called 's' already: give each its own "
                                  "name")


@pytest.mark.parametrize(("row", "fault"), [
    ("{name: s, gpus: 0}", "flavours[0].gpus"), ("{name: ' ', gpus: 1}", "flavours[0].name"),
    ("{name: s, gpus: 1, limit: -3d}", "flavours[0].limit"), ("{gpus: 1}", "flavours[0].name")])
def test_a_flavour_that_makes_no_sense_is_refused_at_its_place(row, fault):
    with pytest.raises(ConfigError, match=f"site.yml:1: {fault}".replace("[", r"\[")):
        parse(f"flavours: [{row}]", "site.yml")
