"""Tables of a library: actions, examples, calibration recordings, settings, counters of writes, and users.

Every action has an owner, and with it each of its examples; so do calibration recordings and settings. The owner ""
is whoever uses the library without a user name.

``migrations`` creates these tables and upgrades older libraries.
"""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    func,
)

__all__ = [
    "MAX_NAME",
    "VERSION_TABLE",
    "actions",
    "calibration",
    "examples",
    "metadata",
    "revision",
    "settings",
    "users",
]

MAX_NAME = 200  # characters of a label, and of the key of a setting
VERSION_TABLE = "jeanie_library_version"

metadata = MetaData()


def _make_owner_column(**options: Any) -> Column[Any]:
    return Column("owner", String(MAX_NAME), nullable=False, server_default="", **options)


_NUMBER = BigInteger().with_variant(Integer(), "sqlite")  # SQLite autoincrements INTEGER columns only


def _make_motion_columns() -> tuple[Column[Any], ...]:
    """Return the columns of a stored motion (``codec.Record``) and the time of its enrolment."""
    return (
        Column("checksum", String(64), nullable=False),
        Column("layout", Text(), nullable=False),
        Column("tags", Text(), nullable=False),
        Column("frames", Integer(), nullable=False),
        Column("persons", Integer(), nullable=False),
        Column("joints", LargeBinary(), nullable=False),
        Column("valid", LargeBinary(), nullable=False),
        Column("created", DateTime(timezone=True), nullable=False, server_default=func.now()),
    )


actions = Table(
    "actions",
    metadata,
    Column("id", _NUMBER, primary_key=True),
    Column("label", String(MAX_NAME), nullable=False),
    Column("created", DateTime(timezone=True), nullable=False, server_default=func.now()),
    _make_owner_column(),
    UniqueConstraint("owner", "label", name="one_action_per_label"),
    sqlite_autoincrement=True,
)

# ids are never reused (autoincrement), so a reader that knows all ids up to n asks for those above n
examples = Table(
    "examples",
    metadata,
    Column("id", _NUMBER, primary_key=True),
    Column(
        "action_id",
        _NUMBER,
        ForeignKey("actions.id", name="example_of_action", ondelete="CASCADE"),
        nullable=False,
    ),
    *_make_motion_columns(),
    UniqueConstraint("action_id", "checksum", name="an_example_once"),
    sqlite_autoincrement=True,
)

# unlabelled recordings of the user's own sensor, oldest first
calibration = Table(
    "calibration",
    metadata,
    Column("id", _NUMBER, primary_key=True),
    *_make_motion_columns(),
    _make_owner_column(),
    UniqueConstraint("owner", "checksum", name="calibration_recording_once"),
    sqlite_autoincrement=True,
)

settings = Table(
    "settings",
    metadata,
    _make_owner_column(primary_key=True),
    Column("key", String(MAX_NAME), primary_key=True),
    Column("value", Text(), nullable=False),
)

# one row per owner; every writer updates the row of the owner "" first, so ids grow in the order of the commits
revision = Table(
    "revision",
    metadata,
    _make_owner_column(primary_key=True),
    Column("number", BigInteger(), nullable=False),
)

# a token is the name of its row and a secret; only a salted hash of the secret is stored
users = Table(
    "users",
    metadata,
    Column("name", String(MAX_NAME), primary_key=True),
    Column("token_id", String(32), nullable=True),
    Column("salt", String(64), nullable=True),
    Column("hash", String(64), nullable=True),
    Column("created", DateTime(timezone=True), nullable=False, server_default=func.now()),
    UniqueConstraint("token_id", name="one_user_per_token"),
)
