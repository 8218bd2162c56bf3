"""Single steps on a library's tables, within a transaction that the caller has begun."""

import unicodedata
from collections.abc import Iterator
from dataclasses import asdict, fields
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from jeanie.errors import ConfigError
from jeanie.recogniser.codec import Record
from jeanie.recogniser.schema import MAX_NAME, actions, examples, settings

__all__ = [
    "WHOLE",
    "batches",
    "checked_name",
    "drop_if_empty",
    "insert_example",
    "merge_actions",
    "put_setting",
    "record_of",
]

_BATCH_BYTES = 2**22  # of joints read at a time, or one example
_FIELDS = tuple(field.name for field in fields(Record))
# number, label and record of examples
WHOLE = select(examples.c.id, actions.c.label, *(examples.c[name] for name in _FIELDS)).join(actions)


def checked_name(name: str, what: str = "a label") -> str:
    """A label or key in its one form: trimmed, composed (NFC); ConfigError where it is no such text."""
    if not isinstance(name, str):
        raise ConfigError(f"{what} is text, got {name!r}")
    trimmed = unicodedata.normalize("NFC", name.strip())
    if not 0 < len(trimmed) <= MAX_NAME:
        raise ConfigError(f"{what} has 1 to {MAX_NAME} characters, got {len(trimmed)}: {trimmed[:40]!r}")
    if any(unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") for letter in trimmed):
        raise ConfigError(f"{what} has no control characters or line breaks, got {trimmed[:60]!r}")
    return trimmed


def record_of(row: Row[Any]) -> Record:
    return Record(**{name: getattr(row, name) for name in _FIELDS})


def batches(sizes: list[tuple[int, int]]) -> Iterator[list[int]]:
    """Numbers of (number, bytes) in order, in lists of at most ``_BATCH_BYTES`` together or one alone."""
    batch: list[int] = []
    room = _BATCH_BYTES
    for number, size in sizes:
        if batch and size > room:
            yield batch
            batch, room = [], _BATCH_BYTES
        batch.append(number)
        room -= size
    if batch:
        yield batch


def insert_example(connection: Connection, label: str, record: Record) -> tuple[int, bool]:
    """Number of the example with these contents, and whether it is new."""
    action = connection.scalar(select(actions.c.id).where(actions.c.label == label))
    if action is None:
        action = connection.scalar(insert(actions).values(label=label).returning(actions.c.id))
    same = (examples.c.action_id == action) & (examples.c.checksum == record.checksum)
    there = connection.scalar(select(examples.c.id).where(same))
    if there is not None:
        return int(there), False
    row = insert(examples).values(action_id=action, **asdict(record))
    return int(connection.execute(row.returning(examples.c.id)).scalar_one()), True


def merge_actions(connection: Connection, action: int, other: int) -> None:
    """Move the examples of ``action`` to ``other``; what both have, ``other`` keeps."""
    kept = select(examples.c.checksum).where(examples.c.action_id == other).scalar_subquery()
    connection.execute(
        update(examples)
        .where(examples.c.action_id == action, examples.c.checksum.not_in(kept))
        .values(action_id=other)
    )
    connection.execute(delete(examples).where(examples.c.action_id == action))
    connection.execute(delete(actions).where(actions.c.id == action))


def drop_if_empty(connection: Connection, action: int) -> None:
    left = select(examples.c.id).where(examples.c.action_id == action).exists()
    connection.execute(delete(actions).where(actions.c.id == action, ~left))


def put_setting(connection: Connection, key: str, text: str) -> None:
    connection.execute(delete(settings).where(settings.c.key == key))
    connection.execute(insert(settings).values(key=key, value=text))
