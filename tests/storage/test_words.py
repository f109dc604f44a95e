"""The store knows no scheduler: its code, tables and columns are named for all of them."""

import re
from pathlib import Path

import pytest

import idlewatt.storage
from idlewatt.storage import schema
from idlewatt.storage.owners import Holder, OwnerKind
from idlewatt.storage.records import Job, JobState, Request
from idlewatt.storage.waiting import WaitReason

FOLDER = Path(idlewatt.storage.__file__).parent if idlewatt.storage.__file__ else Path()
CODE = sorted(path for path in FOLDER.glob("*.py") if path.stem != "former")  # the words of older versions
SCHEDULERS = re.compile(r"slurm|kubernetes|kueue|volcano|sbatch|scontrol", re.IGNORECASE)


@pytest.mark.parametrize("path", CODE, ids=lambda path: path.stem)
def test_no_file_of_the_store_names_a_scheduler(path):
    assert SCHEDULERS.findall(path.read_text()) == []


def test_no_table_and_no_column_names_a_scheduler():
    names = [f"{table.name}.{column.name}" for table in schema.metadata.tables.values() for column in table.columns]
    assert [name for name in names if SCHEDULERS.search(name)] == []


@pytest.mark.parametrize("word", [*JobState, *WaitReason, *OwnerKind])
def test_words_of_records_are_lower_case_as_label_values_are(word):
    assert re.fullmatch("[a-z_]*", word)


def test_a_job_tells_in_whose_name_it_holds_what_it_holds():
    job = Job("7", 1.0, JobState.RUNNING, "gpu", Request(1), user="ann", account="vision")
    assert job.holder == Holder("ann", "vision")


def test_a_service_is_the_one_kind_of_work_that_does_not_end():
    assert [kind for kind in OwnerKind if not kind.ends] == [OwnerKind.SERVICE]
