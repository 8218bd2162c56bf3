"""Third version of the tables: an owner for actions, calibration recordings and settings, and the table of users.

Rows of older libraries belong to the owner "", who uses the library without a user name.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "3"
down_revision = "2"

_NAME = sa.String(200)


def upgrade() -> None:
    """Add the owners and create the table of users."""
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    counters = _read_counters() if is_sqlite else {}
    for table, old, new, columns in (
        ("actions", "one_action_a_label", "one_action_per_label", ["owner", "label"]),
        ("calibration", "a_calibration_recording_once", "calibration_recording_once", ["owner", "checksum"]),
    ):
        with op.batch_alter_table(table, table_kwargs={"sqlite_autoincrement": True}) as batch:
            batch.add_column(sa.Column("owner", _NAME, nullable=False, server_default=""))
            batch.drop_constraint(old, type_="unique")
            batch.create_unique_constraint(new, columns)
    value = [sa.Column("key", _NAME, primary_key=True), sa.Column("value", sa.Text(), nullable=False)]
    _add_owner_key("settings", value)
    _add_owner_key("revision", [sa.Column("number", sa.BigInteger(), nullable=False)])
    for table, number in counters.items():  # ids of deleted rows are not used again
        op.execute(
            sa.text("UPDATE sqlite_sequence SET seq = :n WHERE name = :t").bindparams(n=number, t=table)
        )
    op.create_table(
        "users",
        sa.Column("name", _NAME, primary_key=True),
        sa.Column("token_id", sa.String(32), nullable=True),
        sa.Column("salt", sa.String(64), nullable=True),
        sa.Column("hash", sa.String(64), nullable=True),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.UniqueConstraint("token_id", name="one_user_per_token"),
    )


def _read_counters() -> dict[str, int]:
    """Return the largest id that SQLite has ever given to a row of each table."""
    rows = op.get_bind().execute(sa.text("SELECT name, seq FROM sqlite_sequence"))
    return {row.name: row.seq for row in rows}


def _add_owner_key(table: str, columns: list[sa.Column[Any]]) -> None:
    """Create a table again with the owner in its primary key, and copy its rows."""
    names = ", ".join(column.name for column in columns)
    op.rename_table(table, f"{table}_2")
    owner = sa.Column("owner", _NAME, nullable=False, server_default="", primary_key=True)
    op.create_table(table, owner, *columns)
    op.execute(f"INSERT INTO {table} ({names}) SELECT {names} FROM {table}_2")
    op.drop_table(f"{table}_2")
