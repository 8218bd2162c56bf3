"""First version of the tables: actions, examples, settings, revision.

The columns are written out here because ``schema`` changes with later versions. A downgrade is not supported.
"""

import sqlalchemy as sa
from alembic import op

revision = "1"
down_revision = None


def upgrade() -> None:
    """Create the tables and set the revision to 0."""
    number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    now = sa.func.now()
    op.create_table(
        "actions",
        sa.Column("id", number, primary_key=True),
        sa.Column("label", sa.String(200), nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False, server_default=now),
        sa.UniqueConstraint("label", name="one_action_a_label"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "examples",
        sa.Column("id", number, primary_key=True),
        sa.Column(
            "action_id",
            number,
            sa.ForeignKey("actions.id", name="example_of_action", ondelete="CASCADE"),
            nullable=False,
        ),
        sa.Column("checksum", sa.String(64), nullable=False),
        sa.Column("layout", sa.Text(), nullable=False),
        sa.Column("tags", sa.Text(), nullable=False),
        sa.Column("frames", sa.Integer(), nullable=False),
        sa.Column("persons", sa.Integer(), nullable=False),
        sa.Column("joints", sa.LargeBinary(), nullable=False),
        sa.Column("valid", sa.LargeBinary(), nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False, server_default=now),
        sa.UniqueConstraint("action_id", "checksum", name="an_example_once"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "settings",
        sa.Column("key", sa.String(200), primary_key=True),
        sa.Column("value", sa.Text(), nullable=False),
    )
    counter = op.create_table("revision", sa.Column("number", sa.BigInteger(), nullable=False))
    op.bulk_insert(counter, [{"number": 0}])
