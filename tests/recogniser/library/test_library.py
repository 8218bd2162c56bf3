"""The library of enrolled actions: exact, idempotent, ordered, and the same in SQLite and PostgreSQL."""

import sqlite3
import threading
import tracemalloc

import numpy as np
import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from hypothesis import given, settings
from hypothesis import strategies as st
from library_cases import make_example, make_motion
from same_motion import assert_same

from jeanie.errors import ConfigError, DataError
from jeanie.recogniser.library import database, schema
from jeanie.recogniser.library.library import Library
from jeanie.skeleton import LAYOUTS, Layout

ODD = Layout.from_dict(
    {
        "name": "Fühler 3 \x00 %s",
        "joints": ["tip", "left_stem", "right_stem"],
        "bones": [["tip", "right_stem"]],
        "pairs": [],
        "root": "tip",
        "torso": "left_stem",
        "centre": ["right_stem", "tip"],
        "up": "z",
        "unit": "px",
        "dims": 2,
    }
)
TAG = st.none() | st.integers(-(2**70), 2**70) | st.text(max_size=6)
NUMBER = st.none() | st.integers(-5, 2**62)


@pytest.fixture(scope="module")
def stored_library(tmp_path_factory):
    with Library(tmp_path_factory.mktemp("kept") / "library.db") as library:
        yield library


@settings(max_examples=25)
@given(st.data())
def test_a_motion_comes_back_to_the_bit(stored_library, data):
    motion = make_motion(
        data.draw(st.integers(0, 99)),
        frames=data.draw(st.integers(1, 9)),
        persons=data.draw(st.integers(1, 3)),
        layout=data.draw(st.sampled_from([*LAYOUTS.values(), ODD])),
        missing=data.draw(st.sampled_from([0.0, 0.4])),
        label=data.draw(TAG),
        subject=data.draw(TAG),
        view=data.draw(TAG),
        rate=data.draw(st.none() | st.floats(1e-300, 1e300)),
        name=data.draw(st.none() | st.text(max_size=9)),
        setup=data.draw(NUMBER),
        take=data.draw(NUMBER),
    )
    assert_same(stored_library.example(stored_library.add("wave", motion)).motion, motion)


def test_both_databases_keep_every_bit_and_every_tag(library):
    plain = make_motion(1)
    full = make_motion(
        2, 4, 2, ODD, 0.3, label=7, subject="s\x00ü", view=-1, rate=0.1, name="", setup=0, take=2**80
    )
    first, second = library.add("plain", plain), library.add("full", full)
    assert_same(library.example(first).motion, plain)
    assert_same(library.example(second).motion, full)
    assert [(one.id, one.label) for one in library.examples()] == [(first, "plain"), (second, "full")]


@pytest.mark.errors  # the hook would refuse them
def test_numpy_s_whole_numbers_and_texts_come_back_as_python_s(library):
    motion = make_motion(label=np.int64(3), subject=np.str_("ann"))
    found = library.example(library.add("wave", motion)).motion
    assert (type(found.label), found.label, type(found.subject), found.subject) == (int, 3, str, "ann")


def test_labels_are_trimmed_and_composed(library):
    library.add("  caf\u0065\u0301 ", make_motion(1))
    library.add("café", make_motion(2))
    assert library.actions() == {"café": 2}
    assert len(list(library.examples("cafe\u0301 "))) == 2


def test_an_action_keeps_the_same_recording_once(library):
    first = library.add_many([("wave", make_motion(1)), ("wave", make_motion(2)), ("clap", make_motion(1))])
    again = library.add_many([("wave", make_motion(2)), ("wave", make_motion(3)), ("wave", make_motion(3))])
    assert first.new == (True, True, True)
    assert again.new == (False, True, False)
    assert again.ids[0] == first.ids[1]
    assert again.ids[1] == again.ids[2]
    assert library.actions() == {"clap": 1, "wave": 3}


def test_a_difference_anywhere_makes_another_example(library):
    motion = make_motion(frames=2)
    joints, valid = motion.joints.clone(), motion.valid.clone()
    joints[0, 0, 0, 1], valid[1, 0, 4] = 0.0, False  # -0.0 becomes 0.0: another bit, an equal number
    changes = [{"joints": joints}, {"valid": valid}, {"rate": 30}, {"take": 1}, {"name": "a"}, {"label": 1}]
    changes += [{"label": "1"}, {"layout": Layout.from_dict({**motion.layout.to_dict(), "name": "other"})}]
    library.add("wave", motion)
    for change in changes:
        library.add("wave", motion.replace(**change))
    assert library.actions() == {"wave": 1 + len(changes)}


def test_add_many_adds_all_motions_or_none(library):
    before = library.revision
    with pytest.raises(DataError):
        library.add_many([("wave", make_motion(1)), ("wave", make_motion(2, name="x" * 2**20))])
    assert (library.actions(), library.revision) == ({}, before)


def test_actions_are_removed_completely_or_one_example_at_a_time(library):
    ids = library.add_many(
        [(label, make_motion(seed)) for seed, label in enumerate(["a", "a", "b", "b", "b"])]
    ).ids
    assert library.remove("b") == 3
    assert library.index() == {ids[0]: "a", ids[1]: "a"}
    library.remove_example(ids[0])
    assert library.index() == {ids[1]: "a"}
    library.remove_example(ids[1])
    assert (library.labels, library.index(), list(library.examples())) == ((), {}, [])


def test_ids_are_never_reused(library):
    last = library.add("a", make_motion(1))
    library.remove("a")
    assert library.add("a", make_motion(1)) > last


def test_renaming_keeps_the_examples_and_merging_needs_merge(library):
    a, b, c = library.add_many(
        [("old", make_motion(1)), ("old", make_motion(2)), ("there", make_motion(2))]
    ).ids
    library.rename("old", " new ")
    assert library.index() == {a: "new", b: "new", c: "there"}
    before = library.revision
    with pytest.raises(ConfigError, match="merge=True"):
        library.rename("new", "there")
    assert (library.index(), library.revision) == ({a: "new", b: "new", c: "there"}, before)
    library.rename("new", "there", merge=True)
    assert library.index() == {a: "there", c: "there"}  # made(2) was in both
    library.rename("there", "there")
    assert library.actions() == {"there": 2}


def test_settings_are_kept_as_json(place):
    value = {"model": "sha256:ab", "thresholds": [0.1, 1e-300, None], "text": "ü\x00\ud800"}
    with Library(place) as library:
        assert library.get("format", 4) == 4
        library.set("format", value)
        library.set("format", value | {"model": None})
        library.set("none", None)
    with Library(place) as library:
        assert library.get("format") == value | {"model": None}
        assert library.get("none", 1) is None


def test_every_write_changes_the_revision_and_reading_does_not(place):
    with Library(place) as one, Library(place) as two:
        writes = [
            lambda: one.add("a", make_motion(1)),
            lambda: two.add("b", make_motion(2)),
            lambda: two.rename("a", "c"),
            lambda: one.set("key", 1),
            lambda: two.remove("b"),
            lambda: one.remove_example(one.add("d", make_motion(3))),
        ]
        seen = [one.revision]
        for write in writes:
            write()
            assert one.revision == two.revision
            seen.append(one.revision)
            assert len(list(one.examples())) == sum(one.actions().values()) == len(one.index())
            assert one.get("key") == two.get("key")
            assert one.revision == seen[-1]
        assert sorted(set(seen)) == seen


def test_a_reader_stays_up_to_date_with_ids_above_the_last(place):
    with Library(place) as writer, Library(place) as reader:
        writer.add_many([make_example(number) for number in range(5)])
        known = {one.id: one.label for one in reader.examples()}
        writer.remove("action 1")
        writer.add_many([make_example(number) for number in range(5, 9)])
        new = {one.id: one.label for one in reader.examples(after=max(known))}
        now = reader.index()
        assert len(new) == 4
        assert {key: label for key, label in {**known, **new}.items() if key in now} == now


def test_examples_of_one_action_come_in_order(library):
    library.add_many([make_example(number) for number in range(20)])
    assert [one.motion.take for one in library.examples("action 3")] == [3, 10, 17]
    assert [one.motion.take for one in library.examples("action 3", after=4)] == [10, 17]


def test_pages_and_batches_lose_nothing(library, monkeypatch):
    monkeypatch.setattr("jeanie.recogniser.library.library._PAGE", 4)
    monkeypatch.setattr("jeanie.recogniser.library.rows._BATCH_BYTES", 3000)  # core15: 180 bytes per frame
    frames = [1, 30, 2, 2, 2, 9, 9, 1, 1, 1, 1, 1]
    library.add_many([("a", make_motion(seed, count)) for seed, count in enumerate(frames)])
    assert [len(one.motion) for one in library.examples()] == frames


def test_streaming_holds_a_few_examples_at_a_time(file, monkeypatch):
    size = 2**17
    monkeypatch.setattr("jeanie.recogniser.library.rows._BATCH_BYTES", 3 * size)
    with Library(file) as library:
        library.add_many([("long", make_motion(seed, size // (4 * 3 * 15))) for seed in range(40)])
        tracemalloc.start()
        count = sum(1 for _ in library.examples())
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert count == 40
    assert peak < 12 * size


@pytest.mark.processes
def test_threads_open_and_share_a_library(place):
    def work(own):
        with Library(place) as mine:
            shared.append(mine)
            for number in own:
                shared[0].add(*make_example(number))
                mine.add(*make_example(number))
            finished.wait(120)  # a library stays open until all threads have used it

    shared, finished = [], threading.Barrier(4)
    threads = [threading.Thread(target=work, args=(range(n, 24, 4),)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with Library(place) as library:
        assert sorted(one.motion.take for one in library.examples()) == list(range(24))


def test_migrations_make_the_tables_that_the_code_expects(place):
    Library(place).close()
    engine = database.open_engine(database.parse_database_url(place))
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": schema.VERSION_TABLE})
        assert compare_metadata(context, schema.metadata) == []
    engine.dispose()


def test_a_commit_is_synced_to_the_disk(file):
    engine = database.open_engine(database.parse_database_url(file))
    with engine.connect() as connection:
        found = [
            connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        ]
    engine.dispose()
    assert found == ["wal", 3, 1, 60_000]


def test_a_file_may_be_given_as_text_or_url(file):
    with Library(file) as library:
        library.add("wave", make_motion())
    for place in (str(file), f"sqlite:///{file}"):
        with Library(place) as library:
            assert library.actions() == {"wave": 1}
    assert [path.name for path in file.parent.iterdir()] == ["library.db"]  # the log is folded in


def test_readers_do_not_wait_for_a_writer(file):
    with Library(file) as library:
        library.add("wave", make_motion())
        with sqlite3.connect(file, isolation_level=None) as other:
            other.execute("BEGIN IMMEDIATE")
            other.execute("DELETE FROM examples")
            assert library.actions() == {"wave": 1}
            other.execute("ROLLBACK")
        other.close()
