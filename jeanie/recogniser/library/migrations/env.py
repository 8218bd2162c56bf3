"""Alembic environment: runs the migrations on the connection that ``library.database`` opened."""

from alembic import context

from jeanie.recogniser.library.schema import VERSION_TABLE, metadata

if __name__ == "env_py":  # the name under which alembic loads this file; a normal import does nothing
    context.configure(
        connection=context.config.attributes["connection"],
        target_metadata=metadata,
        version_table=VERSION_TABLE,
    )
    with context.begin_transaction():
        context.run_migrations()
