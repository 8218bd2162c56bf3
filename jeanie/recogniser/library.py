"""The library of enrolled actions: examples in a database that many programs may use at once.

A file of SQLite by default, a database of PostgreSQL by URL. What a call has returned is on the disk: it
survives the end of the program, of the system, and of the power.
"""

import difflib
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from sqlalchemy import Connection, Row, Select, delete, func, select, update

from jeanie.errors import ConfigError, DataError, JeanieError
from jeanie.recogniser.codec import MAX_TEXT, Record, as_json, decode, encode
from jeanie.recogniser.exchange import read_export, write_export
from jeanie.recogniser.opening import began, opened, place_of, told
from jeanie.recogniser.rows import (
    WHOLE,
    batches,
    checked_name,
    drop_if_empty,
    insert_example,
    merge_actions,
    put_setting,
    record_of,
)
from jeanie.recogniser.schema import actions, examples, revision, settings
from jeanie.skeleton import Motion

__all__ = ["Added", "Example", "Imported", "Library"]

_PAGE = 256  # examples looked up at a time


@dataclass(frozen=True, eq=False)
class Example:
    """An enrolled example: its number, the label of its action, and the recording."""

    id: int
    label: str
    motion: Motion


@dataclass(frozen=True)
class Added:
    """What became of motions that were to be added: their numbers in order, and which were new."""

    ids: tuple[int, ...]
    new: tuple[bool, ...]


@dataclass(frozen=True)
class Imported:
    """How many examples of an export were new, and how many were here already."""

    new: int
    already: int


class Library:
    """Actions and their examples in the file or database ``place``, made where it is not there yet.

    Threads and processes may read and write at once. Writers wait for each other; one that waited a minute
    gives up with DataError. Keep a file on a disk of this machine; to share a library between machines, use
    PostgreSQL. The same recording (joints, layout and all it says about itself) is kept once an action.
    A forked process opens the library anew.
    """

    def __init__(self, place: str | Path) -> None:
        url = place_of(place)
        self.place = str(place) if url.drivername == "sqlite" else url.render_as_string(hide_password=True)
        self._open = True
        self._engine = opened(url)

    def __enter__(self) -> "Library":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Library({self.place!r})"

    def close(self) -> None:
        """Let go of the database. Everything is saved already."""
        self._open = False
        self._engine.dispose()

    # ------------------------------------------------------------------------------------------- writing

    def add(self, label: str, motion: Motion) -> int:
        """Enrol an example; its number. A recording that is already there keeps the number it has."""
        return self.add_many([(label, motion)]).ids[0]

    def add_many(self, labelled: Iterable[tuple[str, Motion]]) -> Added:
        """Enrol (label, motion) pairs, all or none of them; says which were not there yet."""
        records = [(checked_name(label), encode(motion)) for label, motion in labelled]
        with self._writing() as connection:
            added = [insert_example(connection, label, record) for label, record in records]
        return Added(tuple(number for number, _ in added), tuple(new for _, new in added))

    def remove(self, label: str) -> int:
        """Forget an action; how many examples it had."""
        with self._writing() as connection:
            action = self._action(connection, label)
            removed = connection.execute(delete(examples).where(examples.c.action_id == action)).rowcount
            connection.execute(delete(actions).where(actions.c.id == action))
        return removed

    def remove_example(self, example: int) -> None:
        """Forget one example; with its last example an action is forgotten too."""
        with self._writing() as connection:
            of = select(examples.c.action_id).where(examples.c.id == example)
            action = connection.scalar(of)
            if action is None:
                raise ConfigError(f"{self.place}: no example {example}; index() lists those there are")
            connection.execute(delete(examples).where(examples.c.id == example))
            drop_if_empty(connection, action)

    def rename(self, old: str, new: str, *, merge: bool = False) -> None:
        """Give an action another label. One that exists takes the examples over only with ``merge``."""
        new = checked_name(new)
        with self._writing() as connection:
            action = self._action(connection, old)
            other = connection.scalar(select(actions.c.id).where(actions.c.label == new))
            if other is None:
                connection.execute(update(actions).where(actions.c.id == action).values(label=new))
            elif other != action:
                if not merge:
                    raise ConfigError(
                        f"{self.place}: there is an action {new!r} already; merge=True joins {old!r} to it"
                    )
                merge_actions(connection, action, other)

    def set(self, key: str, value: Any) -> None:
        """Keep a setting, any value that JSON has."""
        key = checked_name(key, "a setting's key")
        try:
            text = as_json(value, MAX_TEXT)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"setting {key!r}: its value needs a JSON form: {error}") from None
        with self._writing() as connection:
            put_setting(connection, key, text)

    # ------------------------------------------------------------------------------------------- reading

    @property
    def revision(self) -> int:
        """A number that grows with every write of any program: while it stays, nothing has changed."""
        with self._reading() as connection:
            return int(connection.execute(select(revision.c.number)).scalar_one())

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of all actions, sorted."""
        return tuple(self.actions())

    def actions(self) -> dict[str, int]:
        """How many examples each action has, sorted by label."""
        counted = select(actions.c.label, func.count()).join(examples).group_by(actions.c.label)
        with self._reading() as connection:
            return dict(sorted(row._tuple() for row in connection.execute(counted)))

    def index(self) -> dict[int, str]:
        """Number and label of every example, oldest first, without reading any.

        With ``revision`` and ``examples(after=...)`` a reader keeps a copy up to date: numbers are never given
        twice and new ones are always larger.
        """
        listed = select(examples.c.id, actions.c.label).join(actions).order_by(examples.c.id)
        with self._reading() as connection:
            return dict(row._tuple() for row in connection.execute(listed))

    def examples(self, label: str | None = None, after: int = 0) -> Iterator[Example]:
        """Examples of one action or all, oldest first, those with numbers above ``after``, a few at a time.

        One that is damaged raises DataError; ``examples(after=its number)`` goes on behind it.
        """
        if label is not None:
            label = checked_name(label)
            with self._reading() as connection:
                self._action(connection, label)
        return (self._decoded(row) for row in self._rows(label, after))

    def example(self, example: int) -> Example:
        """One example by its number."""
        with self._reading() as connection:
            row = connection.execute(WHOLE.where(examples.c.id == example)).one_or_none()
        if row is None:
            raise ConfigError(f"{self.place}: no example {example}; index() lists those there are")
        return self._decoded(row)

    def damaged(self) -> dict[int, str]:
        """Examples that are not as they were written, and why (reads the whole library)."""
        found: dict[int, str] = {}
        for row in self._rows(None, 0):
            try:
                self._decoded(row)
            except DataError as error:
                found[row.id] = str(error)
        return found

    def get(self, key: str, default: Any = None) -> Any:
        """A setting, or ``default`` where it was never set."""
        key = checked_name(key, "a setting's key")
        with self._reading() as connection:
            text = connection.scalar(select(settings.c.value).where(settings.c.key == key))
        return default if text is None else self._setting(key, text)

    # ------------------------------------------------------------------------------------- export, import

    def export(self, path: str | Path) -> int:
        """Write the whole library to one file, in place of one that may be there; the number of examples.

        Libraries with the same examples and settings give the same bytes.
        """
        with self._reading(snapshot=True) as connection:
            listed = select(actions.c.label, examples.c.checksum, examples.c.id).join(examples)
            order = sorted(row._tuple() for row in connection.execute(listed))
            rows = (connection.execute(WHOLE.where(examples.c.id == key)).one() for _, _, key in order)
            kept = {key: self._setting(key, text) for key, text in connection.execute(select(settings))}
            return write_export(Path(path), ((row.label, self._proven(row)) for row in rows), kept)

    def import_from(self, path: str | Path) -> Imported:
        """Add the examples of an export, and its settings where this library has none of that key.

        All or nothing: a file that is damaged anywhere changes nothing.
        """
        counts = {True: 0, False: 0}
        with read_export(Path(path)) as export, self._writing() as connection:
            for number, (label, record) in enumerate(export.examples(), start=1):
                said = f"{path}: example {number}"
                motion = decode(record, said)
                with _found_in(said):
                    _, new = insert_example(connection, checked_name(label), encode(motion))
                counts[new] += 1
            there = set(connection.scalars(select(settings.c.key)))
            with _found_in(f"{path}: its settings"):
                for key, value in export.settings.items():
                    name, text = checked_name(key, "a setting's key"), as_json(value, MAX_TEXT)
                    if name not in there:
                        put_setting(connection, name, text)
        return Imported(new=counts[True], already=counts[False])

    # -------------------------------------------------------------------------------------------- within

    @contextmanager
    def _reading(self, *, snapshot: bool = False) -> Iterator[Connection]:
        """A transaction that reads; ``snapshot``: all of it sees the library as it was at the start."""
        self._check_open()
        repeatable = snapshot and self._engine.dialect.name == "postgresql"  # SQLite's always are
        engine = (
            self._engine.execution_options(isolation_level="REPEATABLE READ") if repeatable else self._engine
        )
        with told(self.place), began(engine, write=False) as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        """A transaction that writes. It takes the revision's row first, so writers come one by one."""
        self._check_open()
        with told(self.place), began(self._engine, write=True) as connection:
            connection.execute(update(revision).values(number=revision.c.number + 1))
            yield connection

    def _check_open(self) -> None:
        if not self._open:
            raise ConfigError(f"{self.place}: this library was closed; open it again: Library(...)")

    def _rows(self, label: str | None, after: int) -> Iterator[Row[Any]]:
        """Rows of examples in batches of bounded size; between two of them no transaction is open."""
        heads: Select[Any] = select(examples.c.id, func.length(examples.c.joints)).order_by(examples.c.id)
        if label is not None:
            heads = heads.join(actions).where(actions.c.label == label)
        while True:
            with self._reading() as connection:
                page = connection.execute(heads.where(examples.c.id > after).limit(_PAGE)).all()
            for batch in batches([(row[0], row[1]) for row in page]):
                with self._reading() as connection:
                    wanted = WHOLE.where(examples.c.id.in_(batch)).order_by(examples.c.id)
                    rows = connection.execute(wanted).all()
                yield from rows
            if len(page) < _PAGE:
                return
            after = page[-1][0]

    def _decoded(self, row: Row[Any]) -> Example:
        said = f"{self.place}: example {row.id} of {row.label!r}"
        try:
            return Example(row.id, row.label, decode(record_of(row), said))
        except DataError as error:
            raise DataError(f"{error}; remove_example({row.id}) and enrol it again") from None

    def _proven(self, row: Row[Any]) -> Record:
        self._decoded(row)
        return record_of(row)

    def _action(self, connection: Connection, label: str) -> int:
        """Number of the action with a label."""
        action = connection.scalar(select(actions.c.id).where(actions.c.label == checked_name(label)))
        if action is not None:
            return int(action)
        near = difflib.get_close_matches(label, connection.scalars(select(actions.c.label)).all(), cutoff=0)
        others = f"nearest are {', '.join(map(repr, near))}" if near else "it has no actions yet"
        raise ConfigError(f"{self.place}: no action {label!r}; {others}")

    def _setting(self, key: str, text: str) -> Any:
        try:
            return json.loads(text)
        except (ValueError, TypeError, RecursionError):
            raise DataError(f"{self.place}: setting {key!r} is damaged; set it again") from None


@contextmanager
def _found_in(said: str) -> Iterator[None]:
    """What would be wrong to give us is, in a file, damage."""
    try:
        yield
    except (JeanieError, ValueError) as error:
        raise DataError(f"{said}: {error}") from None
