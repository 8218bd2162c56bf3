"""Second version of the tables: calibration, the unlabelled recordings of the user's own sensor."""

import sqlalchemy as sa
from alembic import op

revision = "2"
down_revision = "1"


def upgrade() -> None:
    """Create the table of calibration recordings."""
    op.create_table(
        "calibration",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True),
        sa.Column("checksum", sa.String(64), nullable=False),
        sa.Column("layout", sa.Text(), nullable=False),
        sa.Column("tags", sa.Text(), nullable=False),
        sa.Column("frames", sa.Integer(), nullable=False),
        sa.Column("persons", sa.Integer(), nullable=False),
        sa.Column("joints", sa.LargeBinary(), nullable=False),
        sa.Column("valid", sa.LargeBinary(), nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.UniqueConstraint("checksum", name="a_calibration_recording_once"),
        sqlite_autoincrement=True,
    )
