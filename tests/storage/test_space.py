"""What giving space back will write is foretold."""

from contextlib import contextmanager

import pytest

from idlewatt.storage import database, space
from idlewatt.storage.history import History


@pytest.fixture
def grown(tmp_path):
    """A database from which two thirds of some megabytes are deleted."""
    url = f"sqlite:///{tmp_path / 'idlewatt.db'}"
    History.open(url).close()
    engine = database.connect(database.parse(url))
    with engine.connect().execution_options(writing=True) as connection:
        connection.exec_driver_sql("CREATE TABLE much (id INTEGER PRIMARY KEY, text TEXT)")
        connection.exec_driver_sql("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000) "
                                   "INSERT INTO much SELECT i, printf('%.200c', 'x') FROM n")
        connection.exec_driver_sql("DELETE FROM much WHERE id > 10000")
        connection.commit()
    engine.dispose()
    return url


def test_as_many_bytes_are_written_as_were_foretold(grown, monkeypatch):
    foretold = []

    @contextmanager
    def watched(total, tell):
        foretold.append(total)
        yield

    monkeypatch.setattr(space, "_watched", watched)
    with History.open(grown) as history:
        before, written = history.size_bytes(), space._written_bytes()
        history.vacuum()
        assert history.size_bytes() < before / 2
        assert space._written_bytes() - written == pytest.approx(foretold[0], rel=0.25)  # each page has a rest
