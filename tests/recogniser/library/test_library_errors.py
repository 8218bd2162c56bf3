"""Errors of the library: damaged examples, foreign files, missing servers, wrong labels and values."""

import json
import socket
import sqlite3
import sys

import pytest
from library_cases import make_example, make_motion, open_as_other_user
from same_motion import assert_same

from jeanie.errors import ConfigError, DataError
from jeanie.recogniser.library import codec, database, schema
from jeanie.recogniser.library.library import Library


@pytest.mark.errors
@pytest.mark.processes
def test_a_writer_that_waits_too_long_raises_an_error(place, monkeypatch):
    monkeypatch.setattr(database, "WAIT_SECONDS", 0.2)
    held = pytest.raises(DataError, match=r"lock.*; another program holds the lock")
    with Library(place) as library, Library(place) as other, other._writing(), held:
        library.add("wave", make_motion())


def damage(file, number, **columns):
    with sqlite3.connect(file) as raw:
        for column, value in columns.items():
            raw.execute(f"UPDATE examples SET {column} = ? WHERE id = ?", (value, number))
    raw.close()


@pytest.mark.errors
def test_an_error_names_the_damaged_example_and_the_others_stay_readable(file):
    with Library(file) as library:
        ids = library.add_many([make_example(number) for number in range(9)]).ids
        record = codec.encode(make_example(0)[1])
        flipped = bytes([record.joints[0] ^ 1]) + record.joints[1:]
        damage(file, ids[1], joints=flipped)
        damage(file, ids[2], joints=record.joints[:-4])
        damage(file, ids[3], layout="{")
        damage(file, ids[4], tags=json.dumps({"label": [1]}))
        damage(file, ids[5], frames=3)
        damage(file, ids[6], valid="text")
        damage(file, ids[7], checksum="0" * 64)
        assert list(library.find_damaged()) == list(ids[1:8])
        with pytest.raises(
            DataError, match=rf"example {ids[1]} of 'action 1' is damaged.*remove_example\({ids[1]}"
        ):
            list(library.examples())
        with pytest.raises(DataError, match=f"example {ids[3]} "):
            library.example(ids[3])
        assert [one.id for one in library.examples(after=ids[7])] == [ids[8]]
        assert_same(library.example(ids[0]).motion, make_example(0)[1])
        assert sum(library.actions().values()) == 9
        for number in ids[1:8]:
            library.remove_example(number)
        assert library.find_damaged() == {}


@pytest.mark.errors
def test_a_file_that_is_no_library_is_refused_and_not_changed(tmp_path):
    text = tmp_path / "text.db"
    text.write_text("This is a letter, not a database. " * 50)
    foreign = tmp_path / "foreign.db"
    with sqlite3.connect(foreign) as raw:
        raw.execute("CREATE TABLE cats (name TEXT)")
    raw.close()
    for path, message in (
        (text, "not a database; give another file"),
        (foreign, "holds cats, but no library"),
        (tmp_path, "this is a folder"),
        (tmp_path / "none" / "library.db", "its folder must exist"),
    ):
        before = path.read_bytes() if path.is_file() else None
        with pytest.raises(DataError, match=message):
            Library(path)
        assert (path.read_bytes() if path.is_file() else None) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["foreign.db", "text.db"]


@pytest.mark.errors
@pytest.mark.processes
def test_missing_permission_is_an_error(tmp_path, processes):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    here, there = processes.Pipe(duplex=False)
    process = processes.Process(target=open_as_other_user, args=(closed / "b.db", tmp_path / "a.db", there))
    process.start()
    there.close()
    message = here.recv()
    process.join()
    assert message.endswith(
        "unable to open database file; its folder must exist and be writable for this user"
    )


@pytest.mark.errors
def test_a_library_of_a_newer_version_is_refused(place):
    Library(place).close()
    engine = database.open_engine(database.parse_database_url(place))
    with engine.connect() as connection, connection.begin():
        connection.exec_driver_sql(f"UPDATE {schema.VERSION_TABLE} SET version_num = '999'")
    engine.dispose()
    with pytest.raises(DataError, match="version 999, this jeanie knows up to 3; install a newer jeanie"):
        Library(place)


@pytest.mark.errors
def test_a_server_that_is_not_there_is_named_without_the_password():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # without listen(), connections are refused
        port = unused.getsockname()[1]
        with pytest.raises(DataError, match=rf"u:\*\*\*@127\.0\.0\.1:{port}/x") as caught:
            Library(f"postgresql://u:secret@127.0.0.1:{port}/x")
    assert "secret" not in str(caught.value)


@pytest.mark.errors
@pytest.mark.parametrize("url", ["mysql://host/x", "sqlite://", "sqlite:///:memory:?x=1", "http://[/"])
def test_a_wrong_url_is_refused(url):
    with pytest.raises(ConfigError, match="a library is a"):
        Library(url)


@pytest.mark.errors
def test_without_psycopg_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)  # an import of it fails
    with pytest.raises(ConfigError, match=r"install it: pip install 'jeanie\[postgres\]'"):
        Library("postgresql://host/name")


@pytest.mark.errors
def test_errors_for_unknown_labels_list_similar_labels(library):
    with pytest.raises(ConfigError, match="no action 'wave'; it has no actions yet"):
        library.remove("wave")
    library.add_many(
        [
            ("waving", make_motion(1)),
            ("clapping", make_motion(2)),
            ("jump", make_motion(3)),
            ("run", make_motion(4)),
        ]
    )
    before = library.revision
    calls = [
        lambda: library.remove("wave"),
        lambda: library.rename("wave", "x"),
        lambda: library.examples("wave"),
    ]
    for call in calls:
        with pytest.raises(ConfigError, match="no action 'wave'; nearest are 'waving', "):
            call()
    for call in (library.example, library.remove_example):
        with pytest.raises(ConfigError, match="no example 99;"):
            call(99)
    assert library.revision == before


@pytest.mark.errors
@pytest.mark.parametrize(
    "label",
    [
        "",
        "  ",
        "a\nb",
        "a\x00",
        "\x7f",
        "\ud800",
        "a\u2028b",
        "\u200b \u200e",
        "a\u202eb",
        "x" * 201,
        3,
        None,
    ],
)
def test_a_wrong_label_is_refused(file, label):
    with Library(file) as library:
        with pytest.raises(ConfigError, match="a label"):
            library.add(label, make_motion())
        library.add("x" * 200, make_motion())
        assert library.actions() == {"x" * 200: 1}


@pytest.mark.errors
@pytest.mark.parametrize("is_replaced", [False, True])
def test_nothing_is_written_to_a_file_that_was_removed_or_replaced(tmp_path, is_replaced):
    file, other = tmp_path / "library.db", tmp_path / "other.db"
    Library(other).close()
    with Library(file) as library:
        library.add("wave", make_motion())
        if is_replaced:
            other.replace(file)
        else:
            file.unlink()
        for call in (lambda: library.add("bow", make_motion(1)), library.actions):
            with pytest.raises(DataError, match="removed or replaced"):
                call()


@pytest.mark.errors
def test_motions_and_settings_that_cannot_be_stored_are_refused(file, monkeypatch):
    monkeypatch.setattr(codec, "MAX_JOINT_BYTES", 180 * 5)
    with Library(file) as library:
        with pytest.raises(DataError, match=r"1080 bytes of joints.*motion\[a:b\]"):
            library.add("a", make_motion(frames=6))
        with pytest.raises(DataError, match=r"subject is str or int or None, got 1\.5"):
            library.add("a", make_motion(frames=5, subject=1.5))
        with pytest.raises(DataError, match=r"cannot be stored: .* characters of JSON"):
            library.add("a", make_motion(frames=5, name="x" * 2**20))
        with pytest.raises(ConfigError, match="'k': its value needs a JSON form"):
            library.set("k", {1, 2})
        library.close()
        with pytest.raises(ConfigError, match="was closed"):
            library.actions()
