"""Archives: exact to the bit, slices of one mapping, quick to open, and never half written."""

import json
import os
import pickle
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from same_motion import assert_same

from jeanie._internal import files
from jeanie.datasets.archive.reader import ROW, format_header, is_archive, open_archive
from jeanie.datasets.archive.writer import ArchiveWriter, make_record, write_archive
from jeanie.errors import ConfigError, DataError
from jeanie.skeleton.layout import LAYOUTS
from jeanie.skeleton.motion import Motion

TAG = st.none() | st.integers(-5, 2**40) | st.text(max_size=6)


def make_motion(seed=0, frames=6, persons=1, layout="core15", missing=0.0, **tags):
    random = np.random.default_rng(seed)
    joints = random.normal(size=(frames, persons, len(LAYOUTS[layout]), 3)).astype(np.float32)
    joints[random.random(joints.shape[:3]) < missing] = np.nan
    joints[0, 0, 0] = (1e-40, -0.0, 3e38)
    return Motion(joints, LAYOUTS[layout], **tags)


def make_motions(count, **tags):
    return [
        make_motion(at, name=f"clip {at}", label=at % 3, subject=f"s{at % 2}", **tags) for at in range(count)
    ]


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_round_trip_is_exact_to_the_bit(tmp_path_factory, data):
    motions = [
        make_motion(
            data.draw(st.integers(0, 99)),
            frames=data.draw(st.integers(1, 9)),
            persons=data.draw(st.integers(1, 3)),
            layout=data.draw(st.sampled_from(["core15", "ntu25"])),
            missing=data.draw(st.sampled_from([0.0, 0.4])),
            label=data.draw(TAG),
            subject=data.draw(TAG),
            view=data.draw(TAG),
            rate=data.draw(st.none() | st.just(29.97)),
            name=data.draw(st.none() | st.text(max_size=6)),
            setup=data.draw(st.none() | st.integers(-9, 9)),
            take=data.draw(st.none() | st.integers(-(2**62), 2**62)),
        )
        for _ in range(data.draw(st.integers(1, 5)))
    ]
    out = tmp_path_factory.mktemp("archive") / "a"
    write_archive(motions, out, name="mine")
    archive = open_archive(out)
    assert len(archive) == len(motions)
    for one, other in zip(archive, motions, strict=True):
        assert_same(one, other)
    assert list(archive.labels) == [motion.label for motion in motions]
    assert list(archive.subjects) == [motion.subject for motion in motions]
    assert list(archive.views) == [motion.view for motion in motions]
    assert archive.lengths.tolist() == [len(motion) for motion in motions]
    assert archive.find_damaged() == []
    assert sorted(os.listdir(out.parent)) == ["a"]


def test_a_clip_is_a_slice_of_the_mapping(tmp_path):
    write_archive([*make_motions(3), make_motion(3, missing=0.5)], tmp_path / "a", name="mine")
    archive = open_archive(tmp_path / "a")
    start, size = archive.joints.ctypes.data, archive.joints.nbytes
    for index in range(4):
        assert np.shares_memory(archive.get_joints(index).numpy(), archive.joints)
    for index in range(3):
        motion = archive[index]
        assert start <= motion.joints.data_ptr() < start + size
        assert np.shares_memory(motion.joints.numpy(), archive.joints)
    assert archive.get_joints(1).data_ptr() == start + 4 * 6 * 15 * 3


def test_writing_into_a_slice_changes_neither_the_file_nor_another_mapping(tmp_path):
    write_archive(make_motions(2), tmp_path / "a", name="mine")
    one, other = open_archive(tmp_path / "a"), open_archive(tmp_path / "a")
    before = (tmp_path / "a" / "joints.npy").read_bytes()
    one.get_joints(0).fill_(7)
    assert not bool((other.get_joints(0) == 7).any())
    assert (tmp_path / "a" / "joints.npy").read_bytes() == before


def test_numpy_reads_the_files_too(tmp_path):
    motions = make_motions(3)
    write_archive(motions, tmp_path / "a", name="mine")
    flat = np.load(tmp_path / "a" / "joints.npy", mmap_mode="r", allow_pickle=False)
    rows = np.load(tmp_path / "a" / "index.npy", allow_pickle=False)
    assert flat.dtype == np.float32
    at = rows[2]["joints"]
    assert flat[at : at + 270].tobytes() == motions[2].joints.numpy().tobytes()
    assert np.load(tmp_path / "a" / "names.npy").tobytes() == b"clip 0clip 1clip 2"


def test_slices_tag_columns_and_pickles_work(tmp_path):
    write_archive(make_motions(5), tmp_path / "a", name="mine")
    archive = open_archive(tmp_path / "a")
    assert [motion.name for motion in archive.motions[1:4][::2]] == ["clip 1", "clip 3"]
    assert archive[-1].name == "clip 4"
    assert list(archive.labels[3:]) == [0, 1]
    assert archive.subjects[1] == "s1"
    assert archive.names == tuple(f"clip {at}" for at in range(5))
    again = pickle.loads(pickle.dumps(archive))  # noqa: S301
    assert_same(again[2], archive[2])
    with pytest.raises(IndexError):
        archive[5]


def test_an_archive_may_have_several_layouts(tmp_path):
    write_archive(
        [make_motion(0), make_motion(1, layout="ntu25"), make_motion(2)], tmp_path / "a", name="mine"
    )
    archive = open_archive(tmp_path / "a")
    assert [motion.layout.name for motion in archive] == ["core15", "ntu25", "core15"]
    with pytest.raises(DataError, match="2 layouts"):
        _ = archive.layout


def large_archive(folder, clips):
    """An archive of many clips that share their numbers on disk, made without the writer."""
    write_archive([make_motion(0, name="one", label=1)], folder, name="large")
    one = np.frombuffer((folder / "index.npy").read_bytes()[512:], ROW)
    rows = np.repeat(one, clips)
    (folder / "index.npy").write_bytes(format_header(ROW, clips) + rows.tobytes())
    about = json.loads((folder / "archive.json").read_text())
    (folder / "archive.json").write_text(json.dumps(about | {"clips": clips}))


def resident():
    """Bytes of memory that this process holds."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if statm.exists() else 0


@pytest.mark.processes
@pytest.mark.parametrize("clips", [100_000, 1_000_000])
def test_opening_takes_the_same_time_and_memory_for_any_number_of_clips(tmp_path, clips):
    large_archive(tmp_path / "a", clips)
    write_archive([make_motion(0)], tmp_path / "small", name="small")
    open_archive(tmp_path / "small")[0]  # whatever is loaded on first use
    before, seconds = resident(), []
    for _ in range(5):  # processor time, and the fastest: other processes may delay some
        start = time.process_time()
        archive = open_archive(tmp_path / "a")
        motion = archive[clips - 1]
        seconds.append(time.process_time() - start)
    assert min(seconds) < 0.2
    assert resident() - before < 2**24  # the rows of a million clips are 80 million bytes
    assert (len(archive), motion.label) == (clips, 1)


def test_an_archive_larger_than_memory_can_be_mapped(tmp_path):
    """Sparse files: the kernel must not count a private mapping as memory that is going to be used."""
    write_archive([make_motion(0, name="one")], tmp_path / "a", name="huge")
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    floats = 2 * pages // 4
    path = tmp_path / "a" / "joints.npy"
    data = path.read_bytes()[128:]
    with path.open("r+b") as file:
        file.write(format_header(np.dtype("<f4"), floats) + data)
        try:
            file.truncate(128 + 4 * floats)
        except OSError:
            pytest.skip("this file system has no sparse files of that size")
    archive, expected = open_archive(tmp_path / "a"), make_motion(0, name="one")
    assert archive.joints.nbytes > pages
    assert archive[0].joints.numpy().tobytes() == expected.joints.numpy().tobytes()
    assert archive[0].name == "one"


@pytest.mark.errors
@pytest.mark.parametrize("name", ["archive.json", "joints.npy", "valid.npy", "names.npy", "index.npy"])
@pytest.mark.parametrize("how", ["gone", "empty", "cut", "overwritten"])
def test_a_damaged_file_is_a_data_error(tmp_path, name, how):
    write_archive(make_motions(3), tmp_path / "a", name="mine")
    path = tmp_path / "a" / name
    data = path.read_bytes()
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes({"empty": b"", "cut": data[:-3], "overwritten": bytes(200) + data[200:]}[how])
    with pytest.raises(DataError, match="a"):
        open_archive(tmp_path / "a")


@pytest.mark.errors
@pytest.mark.parametrize("field", ROW.names)
@pytest.mark.parametrize("value", [-(2**31), -2, 10**6])
def test_a_damaged_index_is_a_data_error_and_never_another_clip(tmp_path, field, value):
    write_archive(make_motions(3), tmp_path / "a", name="mine")
    path = tmp_path / "a" / "index.npy"
    rows = np.frombuffer(path.read_bytes()[512:], ROW).copy()
    rows[1][field] = abs(value) if field == "checksum" else value
    path.write_bytes(format_header(ROW, 3) + rows.tobytes())
    archive = open_archive(tmp_path / "a")
    assert_same(archive[0], make_motions(1)[0])
    if field == "checksum":
        assert archive.find_damaged() == ["clip 1 (1)"]
    elif field in ("setup", "take"):
        assert getattr(archive[1], field) == value
    elif field == "rate" and value > 0:
        assert archive[1].rate == value
    elif field == "name_bytes" and value < 0:
        assert archive[1].name is None
    else:
        with pytest.raises(DataError, match=str(tmp_path)):
            archive[1]
        with pytest.raises(DataError, match=str(tmp_path)):
            archive.read_motions([0, 1])


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_clips_read_together_are_those_read_one_by_one(tmp_path, missing):
    motions = [
        make_motion(at, 1 + at, 1 + at % 2, ("core15", "ntu25")[at % 2], missing, label=at) for at in range(7)
    ]
    write_archive([*motions, make_motion(9, name="nine", rate=30.0, setup=2)], tmp_path / "a", name="mine")
    archive = open_archive(tmp_path / "a")
    for indices in ([3], [5, 0, 0, 7], list(range(8))):
        for found, index in zip(archive.read_motions(indices), indices, strict=True):
            assert_same(found, archive[index])


@pytest.mark.errors
@pytest.mark.parametrize("value", [np.nan, np.inf], ids=str)
def test_clips_read_together_have_no_damaged_numbers(tmp_path, value):
    write_archive(make_motions(3), tmp_path / "a", name="mine")
    path = tmp_path / "a" / "joints.npy"
    numbers = np.frombuffer(path.read_bytes()[128:], np.float32).copy()
    numbers[300] = value
    path.write_bytes(path.read_bytes()[:128] + numbers.tobytes())
    for found, expected in zip(
        open_archive(tmp_path / "a").read_motions([0, 1, 2]), open_archive(tmp_path / "a"), strict=True
    ):
        assert bool(found.joints.isfinite().all())
        assert_same(found, expected)


def test_flipped_bits_are_found(tmp_path):
    write_archive(make_motions(4), tmp_path / "a", name="mine")
    with (tmp_path / "a" / "joints.npy").open("r+b") as file:
        file.seek(128 + 4 * (270 + 100))
        file.write(b"\x55")
    assert open_archive(tmp_path / "a").find_damaged() == ["clip 1 (1)"]


def test_the_old_archive_stays_until_the_new_one_is_there(tmp_path):
    out = tmp_path / "a"
    write_archive(make_motions(2), out, name="old")
    held = open_archive(out)
    with ArchiveWriter(out, "new") as writer:
        writer.resume((), keep_dropped=False)
        for motion in make_motions(4):
            writer.add("x", make_record(motion))
        writer.sync()
        assert open_archive(out).name == "old"
        writer.commit({"kept": 4})
    assert (open_archive(out).name, len(open_archive(out))) == ("new", 4)
    assert_same(held[1], make_motions(2)[1])  # an open archive goes on showing what it showed
    assert os.listdir(tmp_path) == ["a"]


def test_files_of_the_user_in_the_folder_survive_a_new_archive(tmp_path):
    out = tmp_path / "a"
    write_archive(make_motions(2), out, name="old")
    (out / "setups.csv").write_text("setup,height,distance\n18,1.7,3.5\n")
    (out / "notes" / "deep").mkdir(parents=True)
    (out / "notes" / "deep" / "readme").write_text("mine")
    (out / "nowhere").symlink_to(tmp_path / "missing")
    for name in ("new", "newer"):
        write_archive(make_motions(3), out, name=name)
        assert (open_archive(out).name, len(open_archive(out))) == (name, 3)
        assert (out / "setups.csv").read_text().endswith("18,1.7,3.5\n")
        assert (out / "notes" / "deep" / "readme").read_text() == "mine"
    assert os.listdir(tmp_path) == ["a"]


def test_a_system_without_folder_swap_keeps_a_backup(tmp_path, monkeypatch):
    out = tmp_path / "a"
    write_archive(make_motions(2), out, name="old")
    monkeypatch.setattr(files, "_swap", lambda first, second: False)
    write_archive(make_motions(3), out, name="new")
    assert (open_archive(out).name, os.listdir(tmp_path)) == ("new", ["a"])
    out.rename(files.get_backup_path(out))  # as if it had been killed between the two steps
    assert is_archive(out)
    assert open_archive(out).name == "new"
    write_archive(make_motions(1), out, name="newest")
    assert (open_archive(out).name, os.listdir(tmp_path)) == ("newest", ["a"])


def test_a_writer_resumes_after_the_last_synced_clip(tmp_path):
    motions, stamps = make_motions(6), [f"stamp {at}" for at in range(6)]
    with ArchiveWriter(tmp_path / "a", "mine") as writer:
        assert writer.resume(stamps, keep_dropped=True) == 0
        for at in (0, 1):
            writer.add(stamps[at], make_record(motions[at]))
        writer.drop(stamps[2], "clip 2", "no good")
        writer.add(stamps[3], make_record(motions[3]))
    assert not (tmp_path / "a").exists()
    with ArchiveWriter(tmp_path / "a", "mine") as writer:
        assert writer.resume(stamps, keep_dropped=False) == 2
    with ArchiveWriter(tmp_path / "a", "mine") as writer:
        assert writer.resume(stamps, keep_dropped=True) == 2
        for at in range(2, 6):
            writer.add(stamps[at], make_record(motions[at]))
    with ArchiveWriter(tmp_path / "a", "mine") as writer:
        assert writer.resume([*stamps[:4], "changed", stamps[5]], keep_dropped=True) == 4
    with ArchiveWriter(tmp_path / "a", "another") as writer:
        assert writer.resume(stamps, keep_dropped=True) == 0


@pytest.mark.parametrize(("array", "left"), [("joints", 2), ("valid", 3), ("names", 1)])
def test_a_journal_counts_only_as_far_as_the_arrays_reach(tmp_path, array, left):
    stamps = ["0", "1", "2", "3"]
    with ArchiveWriter(tmp_path / "a", "mine") as writer:
        writer.resume(stamps, keep_dropped=True)
        for stamp, motion in zip(stamps, make_motions(4), strict=True):
            writer.add(stamp, make_record(motion))
    sizes = {"joints": 4 * 270, "valid": 12, "names": 6}
    os.truncate(tmp_path / ".a.partial" / f"{array}.npy", 128 + left * sizes[array] + 2)
    with ArchiveWriter(tmp_path / "a", "mine") as writer:
        assert writer.resume(stamps, keep_dropped=True) == left


@pytest.mark.errors
def test_two_processes_do_not_write_one_archive(tmp_path):
    with (
        ArchiveWriter(tmp_path / "a", "mine"),
        pytest.raises(DataError, match="another process"),
        ArchiveWriter(tmp_path / "a", "mine"),
    ):
        pass


@pytest.mark.errors
def test_a_folder_that_is_not_an_archive_is_not_changed(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter").write_text("dear")
    with pytest.raises(ConfigError, match="not an archive"):
        write_archive(make_motions(1), tmp_path / "home", name="mine")
    assert (tmp_path / "home" / "letter").read_text() == "dear"
    (tmp_path / "empty").mkdir()
    write_archive(make_motions(1), tmp_path / "empty", name="mine")
    assert is_archive(tmp_path / "empty")
