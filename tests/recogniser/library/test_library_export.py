"""Exports: complete, equal for equal libraries; a damaged export changes nothing."""

import io
import json
import random
import zipfile

import numpy as np
import pytest
from library_cases import make_example, make_motion
from same_motion import assert_same

from jeanie.errors import ConfigError, DataError
from jeanie.recogniser.library.library import ImportResult, Library


@pytest.fixture
def fresh(tmp_path):
    with Library(tmp_path / "fresh.db") as library:
        yield library


@pytest.fixture(scope="module")
def export(tmp_path_factory):
    """An export of three examples and a setting."""
    folder = tmp_path_factory.mktemp("export")
    with Library(folder / "library.db") as library:
        library.add_many(
            [
                ("wave", make_motion(1)),
                ("clap", make_motion(2, missing=0.4, name="two")),
                ("clap", make_motion(3)),
            ]
        )
        library.set("model", "abc")
        library.export(folder / "library.zip")
    return folder / "library.zip"


def rewrite(path, change, compression=zipfile.ZIP_STORED):
    """Write a copy of an export after ``change`` has modified the dictionary of its members; return its path."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    out = path.with_name("changed.zip")
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out


def changed_json(name, **changes):
    def change(members):
        members[name] = json.dumps(json.loads(members[name]) | changes).encode()

    return change


def test_an_export_holds_everything_and_is_imported_once(library, fresh, tmp_path):
    library.add_many([make_example(number) for number in range(9)])
    library.add("ünder", make_motion(5, persons=2, missing=0.4, rate=29.97, subject=4))
    library.set("model", {"fingerprint": "ab"})
    assert library.export(tmp_path / "one.zip") == 10
    assert fresh.import_from(tmp_path / "one.zip") == ImportResult(new=10, already=0)
    assert fresh.import_from(tmp_path / "one.zip") == ImportResult(new=0, already=10)
    assert fresh.actions() == library.actions()
    assert fresh.get("model") == {"fingerprint": "ab"}
    ours = {(one.label, one.motion.name): one.motion for one in library.examples()}
    for one in fresh.examples():
        assert_same(one.motion, ours.pop((one.label, one.motion.name)))
    assert ours == {}


def test_an_import_adds_to_the_library_and_keeps_its_settings(library, export):
    library.add("clap", make_motion(3))
    library.set("model", "ours")
    export = rewrite(export, changed_json("library.json", settings={"model": 1, " model ": 2, "other": 3}))
    assert library.import_from(export) == ImportResult(new=2, already=1)
    assert library.actions() == {"clap": 2, "wave": 1}
    assert (library.get("model"), library.get("other")) == ("ours", 3)


def test_calibration_recordings_travel_with_an_export(library, fresh, tmp_path):
    motions = [make_motion(seed) for seed in (31, 32, 33)]
    assert library.add_calibration([*motions, motions[0]]) == 3
    library.export(tmp_path / "calibrated.jeanie")
    fresh.import_from(tmp_path / "calibrated.jeanie")
    fresh.import_from(tmp_path / "calibrated.jeanie")
    joints = [sorted(one.joints.sum().item() for one in kept.calibration()) for kept in (library, fresh)]
    assert joints[0] == joints[1]
    assert len(fresh.calibration_ids()) == 3
    assert library.add_calibration([make_motion(34)], replace=True) == 1


def test_equal_libraries_export_equal_bytes(library, fresh, tmp_path):
    pairs = [make_example(number) for number in range(12)]
    library.add_many(pairs)
    fresh.add("gone", make_motion())
    for pair in reversed(pairs):
        fresh.add(*pair)
    fresh.remove("gone")
    library.export(tmp_path / "one.zip")
    fresh.export(tmp_path / "two.zip")
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()


def test_numpy_reads_an_export_without_jeanie(export):
    with zipfile.ZipFile(export) as archive:
        assert archive.testzip() is None
        about = json.loads(archive.read("1.json"))
        joints = np.load(io.BytesIO(archive.read("1.joints.npy")), allow_pickle=False)
        bits = np.load(io.BytesIO(archive.read("1.valid.npy")), allow_pickle=False)
    motion = (
        make_motion(2, missing=0.4, name="two")
        if about["label"] == "clap" and "two" in about["tags"]
        else make_motion(3)
    )
    assert joints.tobytes() == motion.joints.numpy().tobytes()
    assert np.array_equal(np.unpackbits(bits, count=motion.valid.numel()), motion.valid.numpy().ravel())


def test_a_failed_export_leaves_the_old_file_and_no_other(fresh, tmp_path, monkeypatch):
    out = tmp_path / "exports" / "library.zip"
    out.parent.mkdir()
    fresh.add("wave", make_motion())
    fresh.export(out)
    before = out.read_bytes()
    fresh.add("wave", make_motion(2))
    monkeypatch.setattr(
        "jeanie._internal.files.os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "full"))
    )
    with pytest.raises(DataError, match="cannot be written: full"):
        fresh.export(out)
    assert out.read_bytes() == before
    assert [path.name for path in out.parent.iterdir()] == ["library.zip"]


def test_a_changed_byte_anywhere_is_refused_or_changes_nothing(fresh, export, tmp_path):
    whole = export.read_bytes()
    draw = random.Random(7)
    bad = tmp_path / "bad.zip"
    refused = 0
    expected = [make_motion(2, missing=0.4, name="two"), make_motion(3), make_motion(1)]
    before = fresh.revision
    for at in [*draw.sample(range(len(whole)), 120), *range(len(whole) - 120, len(whole))]:
        bad.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << draw.randrange(8))]) + whole[at + 1 :])
        try:
            fresh.import_from(bad)
        except DataError:
            refused += 1
            assert (fresh.index(), fresh.revision) == ({}, before)
        else:
            found = {one.motion.joints.numpy().tobytes(): one.motion for one in fresh.examples()}
            for motion in expected:
                assert_same(found.pop(motion.joints.numpy().tobytes()), motion)
            assert found == {}
            for label in fresh.labels:
                fresh.remove(label)
            before = fresh.revision
    assert refused > 150


def test_a_cut_file_is_refused(fresh, export, tmp_path):
    whole = export.read_bytes()
    bad = tmp_path / "bad.zip"
    for length in [0, 1, 100, len(whole) // 2, len(whole) - 30, len(whole) - 1]:
        bad.write_bytes(whole[:length])
        with pytest.raises(DataError, match="not a readable export"):
            fresh.import_from(bad)


@pytest.mark.errors
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            changed_json("library.json", version=2),
            "expected jeanie-library version 1, got jeanie-library version 2",
        ),
        (changed_json("library.json", format="other"), "expected jeanie-library"),
        (changed_json("library.json", examples=2), "10 members for 2 examples"),
        (changed_json("library.json", examples="3"), "needs a number of examples"),
        (changed_json("library.json", settings={"a\nb": 1}), "its settings: a setting's key"),
        (changed_json("library.json", settings={"a": float("nan")}), "its settings: "),
        (changed_json("3.json", label="a\nb"), "example 3: a label has no control"),
        (changed_json("3.json", label=[1]), "example 3: a label is text"),
        (changed_json("3.json", frames=5), "example 3 is damaged: its checksum"),
        (changed_json("3.json", frames=-1), "example 3 is damaged: its checksum"),
        (changed_json("3.json", layout=None), "example 3 is damaged"),
        (changed_json("3.json", extra=1), "example 3: .*extra"),
        (lambda members: members.update({"3.json": b"[" * 100_000}), "nested too deeply"),
        (lambda members: members.update({"3.json": b"[]"}), "is not a table"),
        (lambda members: members.update({"3.json": b" " * 2**22}), "at most"),
        (lambda members: members.update({"3.joints.npy": members["2.joints.npy"]}), "example 3 is damaged"),
        (
            lambda members: members.update({"3.joints.npy": members["3.joints.npy"][:-3]}),
            "not a flat npy array",
        ),
        (lambda members: members.update({"3.valid.npy": b""}), "not a flat npy array"),
        (lambda members: members.pop("library.json"), "not a readable export"),
        (lambda members: members.update({"4.json": members.pop("3.json")}), "example 3"),
    ],
)
def test_an_export_with_a_wrong_member_is_refused_and_changes_nothing(fresh, export, change, message):
    before = fresh.revision
    with pytest.raises(DataError, match=message):
        fresh.import_from(rewrite(export, change))
    assert (fresh.index(), fresh.get("model"), fresh.revision) == ({}, None, before)


@pytest.mark.errors
def test_a_compressed_export_is_refused(fresh, export):
    bomb = rewrite(export, lambda members: members.update({"3.json": b" " * 2**25}), zipfile.ZIP_DEFLATED)
    assert bomb.stat().st_size < 2**18
    with pytest.raises(DataError, match="compressed members, an export has none"):
        fresh.import_from(bomb)


@pytest.mark.errors
def test_members_that_share_their_bytes_are_refused(fresh, export):
    """Many directory entries point at one member, and each claims all its bytes."""
    data = rewrite(export, lambda members: members.update({"3.json": b" " * 2**20}))
    with zipfile.ZipFile(data, "a") as archive:
        archive.NameToInfo.clear()
        large = next(info for info in archive.filelist if info.filename == "3.json")
        archive.filelist += [large] * 50
        archive._didModify = True
    with pytest.raises(DataError, match="claim more bytes than the file has"):
        fresh.import_from(data)


@pytest.mark.errors
def test_errors_name_wrong_paths(fresh, tmp_path):
    (tmp_path / "text.zip").write_text("no zip")
    with pytest.raises(DataError, match=r"text\.zip: not a readable export: File is not a zip file"):
        fresh.import_from(tmp_path / "text.zip")
    with pytest.raises(DataError, match=r"none\.zip: not a readable export"):
        fresh.import_from(tmp_path / "none.zip")
    with pytest.raises(DataError, match="cannot be written: No such file"):
        fresh.export(tmp_path / "none" / "library.zip")
    fresh.close()
    with pytest.raises(ConfigError, match="was closed"):
        fresh.export(tmp_path / "library.zip")
