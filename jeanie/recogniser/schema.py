"""Tables of a library: actions, their examples, settings, and a number that grows with every write.

How a table came to be, and how an older library gets there, is in ``migrations``.
"""

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

__all__ = ["MAX_NAME", "VERSION_TABLE", "actions", "examples", "metadata", "revision", "settings"]

MAX_NAME = 200  # characters of a label and of a setting's key
VERSION_TABLE = "jeanie_library_version"

metadata = MetaData()
_NUMBER = BigInteger().with_variant(Integer(), "sqlite")  # SQLite counts up only columns typed INTEGER

actions = Table(
    "actions",
    metadata,
    Column("id", _NUMBER, primary_key=True),
    Column("label", String(MAX_NAME), nullable=False),
    Column("created", DateTime(timezone=True), nullable=False, server_default=func.now()),
    UniqueConstraint("label", name="one_action_a_label"),
    sqlite_autoincrement=True,
)

# numbers are never given twice (autoincrement): a reader that knows all up to n asks for those after n
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
    Column("checksum", String(64), nullable=False),
    Column("layout", Text(), nullable=False),
    Column("tags", Text(), nullable=False),
    Column("frames", Integer(), nullable=False),
    Column("persons", Integer(), nullable=False),
    Column("joints", LargeBinary(), nullable=False),
    Column("valid", LargeBinary(), nullable=False),
    Column("created", DateTime(timezone=True), nullable=False, server_default=func.now()),
    UniqueConstraint("action_id", "checksum", name="an_example_once"),
    sqlite_autoincrement=True,
)

settings = Table(
    "settings",
    metadata,
    Column("key", String(MAX_NAME), primary_key=True),
    Column("value", Text(), nullable=False),
)

# one row; whoever writes takes it first, so that examples get their numbers in the order they are committed
revision = Table("revision", metadata, Column("number", BigInteger(), nullable=False))
