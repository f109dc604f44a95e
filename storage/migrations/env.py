"""Runs migrations on the connection that ``idlewatt.storage.database.upgrade`` hands over, inside its transaction."""

from alembic import context

from idlewatt.storage.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    # SQLite cannot alter a column; Alembic then copies the table.
    render_as_batch=True,
    on_version_apply=context.config.attributes.get("hears"),
)
context.run_migrations()
