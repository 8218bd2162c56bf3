"""What alembic runs, loaded by its path: migrations on the connection that ``opening`` hands over."""

from alembic import context

from jeanie.recogniser.schema import VERSION_TABLE, metadata

if __name__ == "env_py":  # alembic's name for this file; imported under its own name it does nothing
    context.configure(
        connection=context.config.attributes["connection"],
        target_metadata=metadata,
        version_table=VERSION_TABLE,
    )
    with context.begin_transaction():
        context.run_migrations()
