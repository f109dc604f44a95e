"""The schema and its migrations say the same, on both databases."""

from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text

from idlewatt.storage import database, schema
from idlewatt.storage.history import History


def test_migrations_lead_exactly_to_the_schema(history):
    with history._reading() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, schema.metadata) == []


def test_the_head_is_known_without_alembic_and_is_alembics(history):
    with history._reading() as connection:
        head = ScriptDirectory.from_config(database._alembic(connection)).get_current_head()
        assert head == connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one()
        assert database._at_head(connection)


def test_sqlite_is_set_for_one_writer_and_many_readers(tmp_path):
    with History.open(f"sqlite:///{tmp_path}/history.db") as history, history._reading() as connection:
        pragmas = {name: connection.execute(text(f"PRAGMA {name}")).scalar_one()
                   for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")}
    assert pragmas == {"journal_mode": "wal", "synchronous": 1, "foreign_keys": 1, "busy_timeout": 5000}


def test_every_table_tells_its_age():
    timeless = {"allocations", "boards", "phrases", "adherence"}
    assert schema.CLOCKS.keys() | timeless == schema.metadata.tables.keys()


def test_a_bare_path_is_an_sqlite_database():
    assert database.parse("/var/lib/idlewatt/history.db").render_as_string() == "sqlite:////var/lib/idlewatt/history.db"
