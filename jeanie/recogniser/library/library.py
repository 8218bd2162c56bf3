"""The library of enrolled actions: examples in a database that many programs can use at the same time.

A library is an SQLite file by default, or a PostgreSQL database given by its URL. When a call returns, its changes are
on the disk and survive a crash of the program, the system or the power supply.
"""

import difflib
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from sqlalchemy import Connection, Row, delete, func, select, update

from jeanie.errors import ConfigError, DataError
from jeanie.recogniser.library.codec import MAX_TEXT, Record, decode, encode, to_json
from jeanie.recogniser.library.database import database_errors, open_engine, parse_database_url, transaction
from jeanie.recogniser.library.export import file_errors, read_export, write_export
from jeanie.recogniser.library.rows import (
    batch_by_size,
    count_write,
    delete_action_if_empty,
    find_action,
    insert_calibration,
    insert_example,
    merge_actions,
    normalise_name,
    select_calibration,
    select_examples,
    write_setting,
)
from jeanie.recogniser.library.schema import actions, calibration, examples, revision, settings
from jeanie.skeleton import Motion

__all__ = ["AddResult", "Example", "ImportResult", "Library"]

MAX_CALIBRATION = 64  # calibration recordings that a library keeps
_PAGE = 256  # ids per query


@dataclass(frozen=True, eq=False)
class Example:
    """An enrolled example: its id, the label of its action, and the recording."""

    id: int
    label: str
    motion: Motion


@dataclass(frozen=True)
class AddResult:
    """Ids of added motions in their order, and which of them are new."""

    ids: tuple[int, ...]
    new: tuple[bool, ...]


@dataclass(frozen=True)
class ImportResult:
    """Number of imported examples that are new, and of those that the library already had."""

    new: int
    already: int


class Library:
    """Actions and their examples in a file or database.

    Threads and processes may read and write at the same time. A writer waits for other writers; after a minute it
    raises DataError. Keep the file on a local disk; to share a library between machines, use PostgreSQL. An action
    contains the same recording (joints, layout and tags) only once. A forked process must open the library again.

    A library can have several owners. Each one has actions, calibration recordings and settings of its own.

    Args:
        place: SQLite file, which is created if it does not exist, or URL of a PostgreSQL database.
        owner: Name of the owner; "" is whoever uses the library without a name.

    Raises:
        ConfigError: If the URL is not supported.
        DataError: If the file is not a library, or the database cannot be opened.

    >>> import tempfile
    >>> from jeanie import open_synthetic
    >>> with tempfile.TemporaryDirectory() as folder, Library(f"{folder}/library.db") as library:
    ...     library.add("wave", open_synthetic()[0])
    1
    """

    def __init__(self, place: str | Path, owner: str = "") -> None:
        self.owner = owner and normalise_name(owner, "an owner")
        url = parse_database_url(place)
        self.place = str(place) if url.drivername == "sqlite" else url.render_as_string(hide_password=True)
        self._is_open = True
        self.engine = open_engine(url)

    def __enter__(self) -> "Library":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Library({self.place!r})"

    def with_owner(self, owner: str) -> "Library":
        """Return the library of another owner in the same database. It shares the connections with this one."""
        other = copy(self)
        other.owner = owner and normalise_name(owner, "an owner")
        return other

    def close(self) -> None:
        """Close all connections. Every change is already saved."""
        self._is_open = False
        self.engine.dispose()

    def add(self, label: str, motion: Motion) -> int:
        """Enrol an example and return its id. A recording that the action already has keeps its id."""
        return self.add_many([(label, motion)]).ids[0]

    def add_many(self, labelled: Iterable[tuple[str, Motion]]) -> AddResult:
        """Enrol (label, motion) pairs, all or none of them."""
        records = [(normalise_name(label), encode(motion)) for label, motion in labelled]
        with self._writing() as connection:
            added = [insert_example(connection, self.owner, label, record) for label, record in records]
        return AddResult(tuple(example for example, _ in added), tuple(new for _, new in added))

    def remove(self, label: str) -> int:
        """Delete an action; return how many examples it had."""
        with self._writing() as connection:
            action = self._find_action(connection, label)
            removed = connection.execute(delete(examples).where(examples.c.action_id == action)).rowcount
            connection.execute(delete(actions).where(actions.c.id == action))
        return removed

    def remove_example(self, example: int) -> None:
        """Delete one example. An action is deleted with its last example."""
        with self._writing() as connection:
            query = select_examples(self.owner, examples.c.action_id).where(examples.c.id == example)
            action = connection.scalar(query)
            if action is None:
                raise ConfigError(f"{self.place}: no example {example}; index() lists all examples")
            connection.execute(delete(examples).where(examples.c.id == example))
            delete_action_if_empty(connection, action)

    def rename(self, old: str, new: str, *, merge: bool = False) -> None:
        """Rename an action. ``merge`` allows a label that exists: that action takes the examples over."""
        new = normalise_name(new)
        with self._writing() as connection:
            action = self._find_action(connection, old)
            other = find_action(connection, self.owner, new)
            if other is None:
                connection.execute(update(actions).where(actions.c.id == action).values(label=new))
            elif other != action:
                if not merge:
                    raise ConfigError(
                        f"{self.place}: an action {new!r} exists already; merge=True adds {old!r} to it"
                    )
                merge_actions(connection, action, other)

    def add_calibration(self, motions: Iterable[Motion], *, replace: bool = False) -> int:
        """Store unlabelled recordings of the user's own sensor; return how many the library has now.

        The newest ``MAX_CALIBRATION`` stay. ``replace`` deletes the older ones first.
        """
        records = [encode(motion) for motion in motions]
        with self._writing() as connection:
            if replace:
                connection.execute(delete(calibration).where(calibration.c.owner == self.owner))
            insert_calibration(connection, self.owner, records, MAX_CALIBRATION)
            return len(connection.execute(select_calibration(self.owner, calibration.c.id)).all())

    def set(self, key: str, value: Any) -> None:
        """Store a setting: any value that JSON can represent."""
        key = normalise_name(key, "a setting's key")
        try:
            text = to_json(value, MAX_TEXT)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"setting {key!r}: its value needs a JSON form: {error}") from None
        with self._writing() as connection:
            write_setting(connection, self.owner, key, text)

    @property
    def revision(self) -> int:
        """A counter of the owner's writes by any program. Equal revisions have equal contents."""
        query = select(revision.c.number).where(revision.c.owner == self.owner)
        with self._reading() as connection:
            rows = connection.scalars(query).all()
            return int(rows[0]) if rows or not self.owner else 0

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of all actions, sorted."""
        return tuple(self.actions())

    def actions(self) -> dict[str, int]:
        """Return the number of examples per action, sorted by label."""
        query = select_examples(self.owner, actions.c.label, func.count()).group_by(actions.c.label)
        with self._reading() as connection:
            counts = [row._tuple() for row in connection.execute(query)]
        return dict(sorted((self._check_label(label), count) for label, count in counts))

    def index(self) -> dict[int, str]:
        """Return the label of every example by id, oldest first, without reading the motions.

        With ``revision`` and ``examples(after=...)`` a reader can keep a copy up to date: ids are never reused, and
        new ids are always larger.
        """
        query = select_examples(self.owner, examples.c.id, actions.c.label).order_by(examples.c.id)
        with self._reading() as connection:
            rows = [row._tuple() for row in connection.execute(query)]
        return {example: self._check_label(label) for example, label in rows}

    def examples(self, label: str | None = None, after: int = 0) -> Iterator[Example]:
        """Yield the examples with ids above ``after``, oldest first, of one action or of all.

        Few examples are in memory at a time. A damaged example raises DataError; ``examples(after=its id)`` continues
        behind it.
        """
        if label is not None:
            label = normalise_name(label)
            with self._reading() as connection:
                self._find_action(connection, label)
        return (self._decode(row) for row in self._read_rows(label, after))

    def example(self, example: int) -> Example:
        """Return one example by its id."""
        with self._reading() as connection:
            query = select_examples(self.owner).where(examples.c.id == example)
            row = connection.execute(query).one_or_none()
        if row is None:
            raise ConfigError(f"{self.place}: no example {example}; index() lists all examples")
        return self._decode(row)

    def calibration_ids(self) -> tuple[int, ...]:
        """Return the ids of the calibration recordings, oldest first; ids are never reused."""
        with self._reading() as connection:
            return tuple(connection.scalars(select_calibration(self.owner, calibration.c.id)))

    def calibration(self) -> list[Motion]:
        """Return the calibration recordings, oldest first."""
        with self._reading() as connection:
            records = self._read_calibration(connection)
        return [decode(record, self.place) for record in records]

    def find_damaged(self) -> dict[int, str]:
        """Read the whole library; return an error message per damaged example, by id."""
        errors: dict[int, str] = {}
        for row in self._read_rows(None, 0):
            try:
                self._decode(row)
            except DataError as error:
                errors[row.id] = str(error)
        return errors

    def get(self, key: str, default: Any = None) -> Any:
        """Return a setting, or ``default`` if it is not set."""
        key = normalise_name(key, "a setting's key")
        with self._reading() as connection:
            query = select(settings.c.value).where(settings.c.owner == self.owner, settings.c.key == key)
            text = connection.scalar(query)
        return default if text is None else self._parse_setting(key, text)

    def export(self, path: str | Path) -> int:
        """Write all that the owner has to one file, replacing an old one; return the number of examples.

        Libraries with the same examples and settings give the same bytes.
        """
        with self._reading(snapshot=True) as connection:
            query = select_examples(self.owner, actions.c.label, examples.c.checksum, examples.c.id)
            order = sorted(row._tuple() for row in connection.execute(query))
            example_query = select_examples(self.owner)
            rows = (connection.execute(example_query.where(examples.c.id == key)).one() for *_, key in order)
            texts = select(settings.c.key, settings.c.value).where(settings.c.owner == self.owner)
            values = {key: self._parse_setting(key, text) for key, text in connection.execute(texts)}
            verified = ((self._decode(row).label, Record(*row[2:])) for row in rows)
            recordings = sorted(self._read_calibration(connection), key=lambda record: record.checksum)
            return write_export(Path(path), verified, values, recordings)

    def import_from(self, path: str | Path) -> ImportResult:
        """Add the examples and calibration recordings of an export, and settings whose keys this library lacks.

        A damaged file changes nothing.
        """
        counts = {True: 0, False: 0}
        with read_export(Path(path)) as export, self._writing() as connection:
            for number, (label, record) in enumerate(export.examples(), start=1):
                source = f"{path}: example {number}"
                motion = decode(record, source)
                with file_errors(source):
                    _, new = insert_example(connection, self.owner, normalise_name(label), encode(motion))
                counts[new] += 1
            motions = [decode(record, f"{path}: a calibration recording") for record in export.calibration()]
            insert_calibration(connection, self.owner, map(encode, motions), MAX_CALIBRATION)
            query = select(settings.c.key).where(settings.c.owner == self.owner)
            existing = set(connection.scalars(query))
            with file_errors(f"{path}: its settings"):
                for key, value in export.settings.items():
                    name, text = normalise_name(key, "a setting's key"), to_json(value, MAX_TEXT)
                    if name not in existing:
                        write_setting(connection, self.owner, name, text)
        return ImportResult(new=counts[True], already=counts[False])

    @contextmanager
    def _reading(self, *, snapshot: bool = False) -> Iterator[Connection]:
        """Open a transaction that reads. With ``snapshot``, all queries see the library as it was at the start."""
        self._check_open()
        engine = self.engine
        if snapshot and engine.dialect.name == "postgresql":  # SQLite transactions always are snapshots
            engine = engine.execution_options(isolation_level="REPEATABLE READ")
        with database_errors(self.place), transaction(engine, write=False) as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        """Open a transaction that writes. It updates the revision first, which makes other writers wait."""
        self._check_open()
        with database_errors(self.place), transaction(self.engine, write=True) as connection:
            count_write(connection, self.owner)
            yield connection

    def _check_open(self) -> None:
        if not self._is_open:
            raise ConfigError(f"{self.place}: this library was closed; open it again: Library(...)")

    def _read_rows(self, label: str | None, after: int) -> Iterator[Row[Any]]:
        """Yield the rows of examples from batches of limited size. No transaction is open between two batches."""
        size = func.coalesce(func.length(examples.c.joints), 0)  # NULL only in a damaged file
        sizes = select_examples(self.owner, examples.c.id, size).order_by(examples.c.id)
        if label is not None:
            sizes = sizes.where(actions.c.label == label)
        while True:
            with self._reading() as connection:
                page = connection.execute(sizes.where(examples.c.id > after).limit(_PAGE)).all()
            for batch in batch_by_size(row._tuple() for row in page):
                with self._reading() as connection:
                    query = (
                        select_examples(self.owner).where(examples.c.id.in_(batch)).order_by(examples.c.id)
                    )
                    rows = connection.execute(query).all()
                yield from rows
            if len(page) < _PAGE:
                return
            after = page[-1][0]

    def _decode(self, row: Row[Any]) -> Example:
        """Return the example of a row of ``select_examples`` after verifying its checksum."""
        try:
            motion = decode(Record(*tuple(row)[2:]), f"{self.place}: example {row.id} of {row.label!r}")
        except DataError as error:
            raise DataError(f"{error}; remove_example({row.id}) and enrol it again") from None
        return Example(row.id, self._check_label(row.label), motion)

    def _read_calibration(self, connection: Connection) -> list[Record]:
        """Return the calibration recordings after verifying their checksums."""
        rows = connection.execute(select_calibration(self.owner))
        records = [Record(*tuple(row)[1:]) for row in rows]
        for number, record in enumerate(records, start=1):
            try:
                decode(record, f"{self.place}: calibration recording {number}")
            except DataError as error:
                raise DataError(f"{error}; calibrate again with replace=True") from None
        return records

    def _check_label(self, label: Any) -> str:
        if not isinstance(label, str):
            raise DataError(
                f"{self.place}: the database is damaged: a label is {label!r}; restore it from an export"
            )
        return label

    def _find_action(self, connection: Connection, label: str) -> int:
        """Return the id of an action; raise ConfigError with similar labels if it does not exist."""
        action = find_action(connection, self.owner, normalise_name(label))
        if action is not None:
            return action
        labels = connection.scalars(select(actions.c.label).where(actions.c.owner == self.owner))
        similar = difflib.get_close_matches(label, labels.all(), cutoff=0)
        others = f"nearest are {', '.join(map(repr, similar))}" if similar else "it has no actions yet"
        raise ConfigError(f"{self.place}: no action {label!r}; {others}")

    def _parse_setting(self, key: str, text: str) -> Any:
        try:
            return json.loads(text)
        except (ValueError, TypeError, RecursionError):
            raise DataError(f"{self.place}: setting {key!r} is damaged; set it again") from None
