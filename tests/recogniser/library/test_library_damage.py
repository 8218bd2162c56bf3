"""Damaged libraries and exports: every change of a file ends in DataError or changes nothing that matters."""

import contextlib
import random
import sqlite3

import pytest
from library_cases import make_example, make_motion

from jeanie.errors import ConfigError, DataError
from jeanie.recogniser.library.library import Library

COLUMNS = {
    "actions": ["label"],
    "examples": ["action_id", "checksum", "layout", "tags", "frames", "persons", "joints", "valid"],
    "calibration": ["checksum", "layout", "tags", "frames", "persons", "joints", "valid"],
    "settings": ["key", "value"],
    "revision": ["number"],
    "jeanie_library_version": ["version_num"],
}
VALUES = [None, b"\xff\xfe", "", "[", -1, 2**62, 1.5]


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """The bytes of a library file and of its export."""
    folder = tmp_path_factory.mktemp("originals")
    with Library(folder / "library.db") as library:
        library.add_many([make_example(number) for number in range(4)])
        library.set("model", "abc")
        library.add_calibration([make_motion(5), make_motion(6)])
        library.export(folder / "library.zip")
    return (folder / "library.db").read_bytes(), (folder / "library.zip").read_bytes()


def use(path):
    """Call every method of a library; each may raise ConfigError for a lost label, or DataError that names the file."""
    with Library(path) as library:
        calls = [
            lambda: library.revision,
            lambda: library.labels,
            lambda: library.index(),
            lambda: library.get("model"),
            lambda: list(library.examples()),
            lambda: library.find_damaged(),
            lambda: library.calibration_ids(),
            lambda: library.calibration(),
            lambda: library.add_calibration([make_motion(7)]),
            lambda: library.export(path.with_name("again.zip")),
            lambda: library.add("new", make_motion(77)),
            lambda: library.rename("action 1", "other"),
            lambda: library.remove("action 2"),
            lambda: library.set("key", 1),
        ]
        for call in calls:
            with contextlib.suppress(ConfigError), check_that_errors_name(path):
                call()


@contextlib.contextmanager
def check_that_errors_name(path):
    """Accept a DataError that names the file; let every other error through."""
    try:
        yield
    except DataError as error:
        if str(path) not in str(error):
            raise AssertionError(f"the message does not name the file: {error}") from error


def change_bytes(content, draw):
    """Cut the content, overwrite a range, or flip a few bits; half of the changes are in the first page."""
    kind = draw.random()
    if kind < 0.2:
        return content[: draw.randrange(len(content))]
    changed = bytearray(content)
    if kind < 0.4:
        start = draw.randrange(len(content))
        stop = min(len(content), start + draw.choice([1, 8, 64, 512]))
        changed[start:stop] = draw.randbytes(stop - start)
        return bytes(changed)
    for _ in range(draw.choice([1, 1, 3, 20])):
        changed[draw.randrange(len(content) if draw.random() < 0.5 else 4096)] ^= 1 << draw.randrange(8)
    return bytes(changed)


def test_changed_bytes_of_a_library_raise_only_data_errors(originals, tmp_path):
    draw = random.Random(0)
    for number in range(60):
        path = tmp_path / f"{number}.db"
        path.write_bytes(change_bytes(originals[0], draw))
        with check_that_errors_name(path):
            use(path)


def test_changed_bytes_of_an_export_raise_only_data_errors(originals, tmp_path):
    draw = random.Random(0)
    path = tmp_path / "changed.zip"
    with Library(tmp_path / "library.db") as library:
        for _ in range(200):
            path.write_bytes(change_bytes(originals[1], draw))
            with check_that_errors_name(path):
                library.import_from(path)


@pytest.mark.errors
@pytest.mark.parametrize("value", VALUES, ids=repr)
@pytest.mark.parametrize(("table", "column"), [(table, name) for table in COLUMNS for name in COLUMNS[table]])
def test_a_wrong_value_in_any_column_raises_only_data_errors(originals, tmp_path, table, column, value):
    path = tmp_path / "library.db"
    path.write_bytes(originals[0])
    raw = sqlite3.connect(path, isolation_level=None)
    raw.execute("PRAGMA writable_schema = ON")
    raw.execute("UPDATE sqlite_master SET sql = replace(sql, 'NOT NULL', '')")
    raw.close()
    raw = sqlite3.connect(path, isolation_level=None)
    raw.execute(f"UPDATE OR REPLACE {table} SET {column} = ?", (value,))
    raw.close()
    with check_that_errors_name(path):
        use(path)


@pytest.mark.parametrize("table", COLUMNS)
@pytest.mark.parametrize("statement", ["DROP TABLE {}", "DELETE FROM {}", "ALTER TABLE {} RENAME TO other"])
def test_a_missing_table_raises_only_data_errors(originals, tmp_path, table, statement):
    path = tmp_path / "library.db"
    path.write_bytes(originals[0])
    raw = sqlite3.connect(path, isolation_level=None)
    raw.execute(statement.format(table))
    raw.close()
    with check_that_errors_name(path):
        use(path)
