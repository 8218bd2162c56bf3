"""Single statements on the tables of a library, inside a transaction of the caller."""

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import asdict, fields

from sqlalchemy import Connection, delete, insert, select, update

from jeanie.errors import ConfigError
from jeanie.recogniser.library.codec import Record
from jeanie.recogniser.library.schema import MAX_NAME, actions, calibration, examples, settings

__all__ = [
    "SELECT_CALIBRATION",
    "SELECT_EXAMPLES",
    "batch_by_size",
    "delete_action_if_empty",
    "insert_calibration",
    "insert_example",
    "merge_actions",
    "normalise_name",
    "write_setting",
]

_BATCH_BYTES = 2**22  # bytes of joints per batch; a larger example is a batch of its own
# columns: id, label, then the fields of Record in their order
SELECT_EXAMPLES = select(
    examples.c.id, actions.c.label, *(examples.c[field.name] for field in fields(Record))
).join(actions)

# columns: id, then the fields of Record in their order; oldest first
SELECT_CALIBRATION = select(
    calibration.c.id, *(calibration.c[field.name] for field in fields(Record))
).order_by(calibration.c.id)


def normalise_name(name: str, what: str = "a label") -> str:
    """Return a label or key in normal form (trimmed, NFC); raise ConfigError if it is not a valid name."""
    if not isinstance(name, str):
        raise ConfigError(f"{what} is text, got {name!r}")
    trimmed = unicodedata.normalize("NFC", name.strip())
    if not 0 < len(trimmed) <= MAX_NAME:
        raise ConfigError(f"{what} has 1 to {MAX_NAME} characters, got {len(trimmed)}: {trimmed[:40]!r}")
    if any(unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") for letter in trimmed):
        raise ConfigError(f"{what} has no control characters or line breaks, got {trimmed[:60]!r}")
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


def insert_example(connection: Connection, label: str, record: Record) -> tuple[int, bool]:
    """Insert a record unless the action has it already. Returns its id and whether it is new."""
    action = connection.scalar(select(actions.c.id).where(actions.c.label == label))
    if action is None:
        action = connection.scalar(insert(actions).values(label=label).returning(actions.c.id))
    same = (examples.c.action_id == action) & (examples.c.checksum == record.checksum)
    existing = connection.scalar(select(examples.c.id).where(same))
    if existing is not None:
        return int(existing), False
    row = insert(examples).values(action_id=action, **asdict(record))
    return int(connection.execute(row.returning(examples.c.id)).scalar_one()), True


def insert_calibration(connection: Connection, records: Iterable[Record], keep: int) -> None:
    """Insert records that are new, then delete all but the newest ``keep``."""
    for record in records:
        if (
            connection.scalar(select(calibration.c.id).where(calibration.c.checksum == record.checksum))
            is None
        ):
            connection.execute(insert(calibration).values(**asdict(record)))
    newest = select(calibration.c.id).order_by(calibration.c.id.desc()).limit(keep)
    newest_ids = connection.scalars(newest).all()
    connection.execute(delete(calibration).where(calibration.c.id.not_in(newest_ids)))


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


def write_setting(connection: Connection, key: str, text: str) -> None:
    """Set the value of a key, replacing an old value."""
    connection.execute(delete(settings).where(settings.c.key == key))
    connection.execute(insert(settings).values(key=key, value=text))
