"""Owners of a library see only their own actions, users prove who they are by tokens, and old libraries open."""

import json
import sqlite3

import pytest
from alembic import command
from hypothesis import given
from hypothesis import strategies as st
from library_cases import make_motion
from same_motion import assert_same
from sqlalchemy import create_engine, inspect, text
from typer.testing import CliRunner

from jeanie.cli.app import app as commands
from jeanie.errors import ConfigError
from jeanie.recogniser.library import database, schema
from jeanie.recogniser.library.library import Library
from jeanie.recogniser.library.users import Users


def open_all(place, *owners):
    library = Library(place)
    return [library.with_owner(owner) for owner in owners]


def list_contents(library):
    """Return all that an owner can see."""
    return {
        "actions": library.actions(),
        "index": library.index(),
        "examples": [one.id for one in library.examples()],
        "calibration": library.calibration_ids(),
        "setting": library.get("threshold"),
        "damaged": library.find_damaged(),
    }


def test_owners_do_not_see_each_other(place, tmp_path):
    ann, bob, nobody = open_all(place, "ann", "bob", "")
    number = ann.add("wave", make_motion(1))
    ann.add_calibration([make_motion(2)])
    ann.set("threshold", 0.3)
    empty = {"actions": {}, "index": {}, "examples": [], "calibration": (), "setting": None, "damaged": {}}
    for other in (bob, nobody):
        assert list_contents(other) == empty
        for attempt in (
            lambda other=other: other.example(number),
            lambda other=other: other.remove_example(number),
            lambda other=other: other.remove("wave"),
            lambda other=other: other.rename("wave", "mine"),
            lambda other=other: other.examples("wave"),
        ):
            with pytest.raises(ConfigError) as error:
                attempt()
            assert "'wave'; nearest" not in str(error.value)
        assert other.export(tmp_path / "other.zip") == 0
    assert ann.actions() == {"wave": 1}
    ann.close()


def test_owners_may_use_the_same_label_recording_and_setting(place, tmp_path):
    ann, bob = open_all(place, "ann", "bob")
    for library in (ann, bob):
        library.add("wave", make_motion(1))
        library.add_calibration([make_motion(2)])
    ann.set("threshold", 0.3)
    bob.set("threshold", 0.6)
    bob.rename("wave", "hello")
    bob.add_calibration([make_motion(3)], replace=True)
    assert (ann.actions(), bob.actions()) == ({"wave": 1}, {"hello": 1})
    assert (ann.get("threshold"), bob.get("threshold")) == (0.3, 0.6)
    assert (len(ann.calibration()), len(bob.calibration())) == (1, 1)
    assert_same(ann.calibration()[0], make_motion(2))
    ann.export(tmp_path / "ann.zip")
    bob.import_from(tmp_path / "ann.zip")
    assert bob.actions() == {"hello": 1, "wave": 1}
    bob.remove("hello")
    assert ann.actions() == {"wave": 1}
    ann.close()


def test_a_revision_counts_the_writes_of_its_owner(place):
    ann, bob = open_all(place, "ann", "bob")
    assert (ann.revision, bob.revision) == (0, 0)
    ann.add("wave", make_motion(1))
    ann.set("threshold", 0.3)
    assert (ann.revision, bob.revision) == (2, 0)
    ann.close()


def test_only_a_salted_hash_of_a_token_is_stored(place):
    with Library(place) as library:
        users = Users(library)
        assert users.is_empty()
        tokens = [users.add(name) for name in ("ann", "bob")]
        assert not users.is_empty()
        with library.engine.connect() as connection:
            rows = connection.execute(text("SELECT token_id, salt, hash FROM users")).all()
        for token, row in zip(tokens, rows, strict=True):
            secret = token.split("_", 2)[2]
            assert len(secret) >= 43
            assert secret not in repr(rows)
            assert row.token_id in token
        assert rows[0].salt != rows[1].salt
        assert [users.find_by_token(token).user for token in tokens] == ["ann", "bob"]


def test_a_revoked_token_is_invalid_at_once_and_the_examples_stay(place):
    with Library(place) as library:
        users = Users(library)
        old = users.add("ann")
        library.with_owner("ann").add("wave", make_motion(1))
        with pytest.raises(ConfigError, match="has a token already"):
            users.add("ann")
        users.revoke("ann")
        assert users.find_by_token(old) is None
        assert not users.is_empty()
        new = users.add("ann")
        assert users.find_by_token(old) is None
        assert users.find_by_token(new).user == "ann"
        assert library.with_owner("ann").actions() == {"wave": 1}
        with pytest.raises(ConfigError, match="no user 'bob'; known are: ann"):
            users.revoke("bob")


@pytest.fixture(scope="module")
def known_users(tmp_path_factory):
    with Library(tmp_path_factory.mktemp("users") / "library.db") as library:
        users = Users(library)
        yield users, users.add("ann")


@given(st.data())
def test_no_other_text_is_a_token(known_users, data):
    users, token = known_users
    place = data.draw(st.integers(0, len(token) - 1))
    letters = st.characters(codec=None)
    changed = data.draw(
        st.one_of(
            st.text(letters, max_size=300),
            letters.map(lambda letter: token[:place] + letter + token[place + 1 :]),
            st.text(letters, max_size=3).map(lambda more: token + more),
            st.just(token[:place]),
        )
    )
    found = users.find_by_token(changed)
    assert (found is not None) == (changed == token)


def make_old_library(url):
    """Create a library of version 2 with one example, as an earlier jeanie would; ids above 1 were deleted."""
    engine = create_engine(url)
    config = database.Config()
    config.set_main_option("script_location", "jeanie.recogniser.library:migrations")
    record = database_record(make_motion(1))
    columns, values = ", ".join(record), ", ".join(f":{name}" for name in record)
    with engine.connect() as connection, connection.begin():
        config.attributes["connection"] = connection
        command.upgrade(config, "2")
        connection.execute(text("INSERT INTO actions (label) VALUES ('wave')"))
        for action in (1, 1):
            insert = text(f"INSERT INTO examples (action_id, {columns}) VALUES ({action}, {values})")
            connection.execute(insert, record)
            connection.execute(text("DELETE FROM examples WHERE id > 1"))
            record = record | {"checksum": "x"}
        record = database_record(make_motion(2))
        connection.execute(text(f"INSERT INTO calibration ({columns}) VALUES ({values})"), record)
        connection.execute(text("INSERT INTO settings (key, value) VALUES ('threshold', '0.4')"))
        connection.execute(text("UPDATE revision SET number = 7"))
    engine.dispose()


def database_record(motion):
    from dataclasses import asdict

    from jeanie.recogniser.library.codec import encode

    return asdict(encode(motion))


def test_an_old_library_opens_with_everything_in_it(place):
    make_old_library(database.parse_database_url(place))
    with Library(place) as library:
        assert library.actions() == {"wave": 1}
        (example,) = library.examples()
        assert_same(example.motion, make_motion(1))
        assert_same(library.calibration()[0], make_motion(2))
        assert library.get("threshold") == 0.4
        assert library.revision == 7
        assert library.add("wave", make_motion(3)) == 3  # the ids of deleted examples are not used again
        assert library.with_owner("ann").actions() == {}
        assert library.with_owner("ann").add("wave", make_motion(3)) == 4
        tables = set(inspect(library.engine).get_table_names())
    assert tables == {*schema.metadata.tables, schema.VERSION_TABLE}


def test_foreign_keys_are_enforced_after_a_migration(tmp_path):
    make_old_library(f"sqlite:///{tmp_path / 'library.db'}")
    with Library(tmp_path / "library.db") as library:
        with library.engine.connect() as connection:
            assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar_one() == 1
            assert connection.exec_driver_sql("PRAGMA foreign_key_check").all() == []
        library.remove("wave")
    with sqlite3.connect(tmp_path / "library.db") as connection:
        assert connection.execute("SELECT count(*) FROM examples").fetchone() == (0,)


def run_command(*arguments):
    result = CliRunner().invoke(commands, ["user", *arguments, "--json"])
    return result.exit_code, json.loads(result.stdout)


def test_the_commands_add_list_and_revoke_users(tmp_path):
    library = ["--library", str(tmp_path / "library.db")]
    code, added = run_command("add", "ann", *library)
    assert (code, added["user"]) == (0, "ann")
    assert run_command("add", "ann", *library)[0] == 2
    assert [one["has_token"] for one in run_command("list", *library)[1]["users"]] == [True]
    assert added["token"].split("_", 2)[2] not in json.dumps(run_command("list", *library)[1])
    assert run_command("revoke", "ann", *library)[0] == 0
    assert [one["has_token"] for one in run_command("list", *library)[1]["users"]] == [False]
    code, problem = run_command("revoke", "bob", *library)
    assert code == 2
    assert "no user 'bob'" in problem["error"]
