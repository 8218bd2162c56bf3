"""Single statements on the tables of a library, inside a transaction of the caller."""

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import asdict, fields
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, delete, insert, select, update

from jeanie.errors import ConfigError
from jeanie.recogniser.library.codec import Record
from jeanie.recogniser.library.schema import MAX_NAME, actions, calibration, examples, revision, settings

__all__ = [
    "batch_by_size",
    "count_write",
    "delete_action_if_empty",
    "find_action",
    "insert_calibration",
    "insert_example",
    "merge_actions",
    "normalise_name",
    "select_calibration",
    "select_examples",
    "write_setting",
]

_DIRECTIONS = set(
    "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)  # they could reverse the text around a name
_BATCH_BYTES = 2**22  # bytes of joints per batch; a larger example is a batch of its own


def select_examples(owner: str, *columns: ColumnElement[Any]) -> Select[Any]:
    """Return a query for the examples of an owner.

    The default columns are id, label, and the fields of ``Record`` in their order.
    """
    record = (examples.c[field.name] for field in fields(Record))
    selection = columns or (examples.c.id, actions.c.label, *record)
    return select(*selection).select_from(examples).join(actions).where(actions.c.owner == owner)


def select_calibration(owner: str, *columns: ColumnElement[Any]) -> Select[Any]:
    """Return a query for the calibration recordings of an owner, oldest first.

    The default columns are id and the fields of ``Record`` in their order.
    """
    record = (calibration.c[field.name] for field in fields(Record))
    query = select(*(columns or (calibration.c.id, *record))).where(calibration.c.owner == owner)
    return query.order_by(calibration.c.id)


def find_action(connection: Connection, owner: str, label: str) -> int | None:
    """Return the id of an action, or None if the owner has no such action."""
    return connection.scalar(select(actions.c.id).where(actions.c.owner == owner, actions.c.label == label))


def count_write(connection: Connection, owner: str) -> None:
    """Add one to the revision of an owner. Other writers of the library wait until this transaction ends."""
    for name in dict.fromkeys(("", owner)):
        counted = update(revision).where(revision.c.owner == name).values(number=revision.c.number + 1)
        if not connection.execute(counted).rowcount:
            connection.execute(insert(revision).values(owner=name, number=1))


def normalise_name(name: str, what: str = "a label") -> str:
    """Return a label or key in normal form (trimmed, NFC); raise ConfigError if it is not a valid name."""
    if not isinstance(name, str):
        raise ConfigError(f"{what} is text, got {name!r}")
    trimmed = unicodedata.normalize("NFC", name.strip())
    if not 0 < len(trimmed) <= MAX_NAME:
        raise ConfigError(f"{what} has 1 to {MAX_NAME} characters, got {len(trimmed)}: {trimmed[:40]!r}")
    kinds = [unicodedata.category(letter) for letter in trimmed]
    if any(kind in ("Cc", "Cs", "Zl", "Zp") for kind in kinds) or _DIRECTIONS & set(trimmed):
        raise ConfigError(f"{what} has no control characters or line breaks, got {trimmed[:60]!r}")
    if all(kind in ("Cf", "Zs") for kind in kinds):
        raise ConfigError(f"{what} has visible characters, got {trimmed[:60]!r}")
    return trimmed


def batch_by_size(sizes: Iterable[tuple[int, int]]) -> Iterator[list[int]]:
    """Group the ids of (id, bytes) pairs in order: at most ``_BATCH_BYTES`` per batch, or one example."""
    batch: list[int] = []
    free = _BATCH_BYTES
    for example, size in sizes:
        if batch and size > free:
            yield batch
            batch, free = [], _BATCH_BYTES
        batch.append(example)
        free -= size
    if batch:
        yield batch


def insert_example(connection: Connection, owner: str, label: str, record: Record) -> tuple[int, bool]:
    """Insert a record unless the action has it already. Returns its id and whether it is new."""
    action = find_action(connection, owner, label)
    if action is None:
        action = connection.scalar(insert(actions).values(owner=owner, label=label).returning(actions.c.id))
    same = (examples.c.action_id == action) & (examples.c.checksum == record.checksum)
    existing = connection.scalar(select(examples.c.id).where(same))
    if existing is not None:
        return int(existing), False
    row = insert(examples).values(action_id=action, **asdict(record))
    return int(connection.execute(row.returning(examples.c.id)).scalar_one()), True


def insert_calibration(connection: Connection, owner: str, records: Iterable[Record], keep: int) -> None:
    """Insert records that are new, then delete all of the owner but the newest ``keep``."""
    is_own = calibration.c.owner == owner
    for record in records:
        same = select(calibration.c.id).where(is_own, calibration.c.checksum == record.checksum)
        if connection.scalar(same) is None:
            connection.execute(insert(calibration).values(owner=owner, **asdict(record)))
    newest = select(calibration.c.id).where(is_own).order_by(calibration.c.id.desc()).limit(keep)
    newest_ids = connection.scalars(newest).all()
    connection.execute(delete(calibration).where(is_own, calibration.c.id.not_in(newest_ids)))


def merge_actions(connection: Connection, action: int, other: int) -> None:
    """Move the examples of ``action`` to ``other`` and delete ``action``. Duplicates stay with ``other``."""
    existing = select(examples.c.checksum).where(examples.c.action_id == other).scalar_subquery()
    connection.execute(
        update(examples)
        .where(examples.c.action_id == action, examples.c.checksum.not_in(existing))
        .values(action_id=other)
    )
    connection.execute(delete(examples).where(examples.c.action_id == action))
    connection.execute(delete(actions).where(actions.c.id == action))


def delete_action_if_empty(connection: Connection, action: int) -> None:
    """Delete an action without examples."""
    remaining = select(examples.c.id).where(examples.c.action_id == action).exists()
    connection.execute(delete(actions).where(actions.c.id == action, ~remaining))


def write_setting(connection: Connection, owner: str, key: str, text: str) -> None:
    """Set the value of a key, replacing an old value."""
    connection.execute(delete(settings).where(settings.c.owner == owner, settings.c.key == key))
    connection.execute(insert(settings).values(owner=owner, key=key, value=text))
