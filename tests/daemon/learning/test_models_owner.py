"""The database that a folder of models belongs to: who may train into it, and what the others are told."""

import os

import pytest

from idlewatt.daemon.learning.models import ModelError
from idlewatt.daemon.learning.models_owner import OWNER, ForeignModels, claim
from idlewatt.storage.history import History
from idlewatt.storage.ledger import Ledger
from idlewatt.storage.records import Node, SchedulerSnapshot


def database(path, records=True):
    """Return the address of a database, into which somebody has recorded or nobody."""
    with History.open(f"sqlite:///{path}") as history:
        if records:
            history.record_snapshot(SchedulerSnapshot(1e9, (Node("n1", ("batch",), 4),)))
    return f"sqlite:///{path}"


def claimed(models, url):
    with Ledger.open(url) as ledger:
        claim(models, ledger, url)


def test_a_folder_belongs_to_the_first_database_and_the_second_is_told_what_to_do(tmp_path):
    models, first, second = tmp_path / "models", database(tmp_path / "first.db"), database(tmp_path / "second.db")
    claimed(models, first)
    claimed(models, first)
    with pytest.raises(ForeignModels) as refused:
        claimed(models, second)
    assert f"belong to the database {tmp_path}/first.db, and this one is {tmp_path}/second.db" in str(refused.value)
    assert "Give each database a folder of its own (storage.models)" in str(refused.value)
    (path,) = (models / OWNER).parent.iterdir()
    assert f"or remove {path} where this one has taken the place of the other for good" in str(refused.value)
    path.unlink()
    claimed(models, second)
    with pytest.raises(ForeignModels):
        claimed(models, first)


def test_a_database_keeps_its_folder_where_it_is_moved_or_restored_from_a_backup(tmp_path):
    models, url = tmp_path / "models", database(tmp_path / "here.db")
    claimed(models, url)
    (tmp_path / "here.db").rename(tmp_path / "there.db")
    claimed(models, f"sqlite:///{tmp_path}/there.db")
    with pytest.raises(ForeignModels, match=r"belong to the database \S+/there\.db,"):
        claimed(models, database(tmp_path / "other.db"))


def test_a_database_into_which_nobody_has_recorded_takes_no_folder_and_is_refused_none(tmp_path):
    models, young = tmp_path / "models", database(tmp_path / "young.db", records=False)
    claimed(models, young)
    assert not models.exists()
    claimed(models, database(tmp_path / "first.db"))
    claimed(models, young)
    claimed(models, f"sqlite:///{tmp_path}/first.db")


@pytest.mark.parametrize("content", [None, b"", b"[[1]]", b'["x"]', b"\xff"])
def test_a_damaged_note_is_named_and_gives_the_folder_to_nobody(tmp_path, content):
    path = tmp_path / OWNER
    path.parent.mkdir()
    os.mkfifo(path) if content is None else path.write_bytes(content)
    with pytest.raises(ModelError, match=r"database\.json: which database the models belong to cannot be read \(.*\); "
                                         "restore the file, or remove it where one database alone uses this folder"):
        claimed(tmp_path, database(tmp_path / "first.db"))
