"""NTU RGB+D: ten real samples against a parser that goes line by line, and hand-made files."""

import os
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from jeanie.datasets.clip_names import Tags, parse_clip_name, parse_tags
from jeanie.datasets.formats.ntu import open_ntu60, open_ntu120, read_missing_samples, read_ntu
from jeanie.errors import DataError

SAMPLES = Path(os.environ.get("JEANIE_DATA", "/nonexistent")) / "ntu-samples"
recordings = pytest.mark.skipif(
    not SAMPLES.is_dir(), reason="needs the recordings ntu-samples in $JEANIE_DATA"
)
NAME = "S001C002P003R002A050"


def read_line_by_line(path):
    """For every frame {body id: [[x, y, z]] * 25}, one line at a time."""
    lines = iter(path.read_text().splitlines())
    frames = []
    for _ in range(int(next(lines))):
        bodies = {}
        for _ in range(int(next(lines))):
            body = next(lines).split()[0]
            bodies[body] = [[float(v) for v in next(lines).split()[:3]] for _ in range(int(next(lines)))]
        frames.append(bodies)
    assert list(lines) == []
    return frames


def skeleton(*frames, shift=0.0):
    """A file with bodies given by id in each frame; joint j of the n-th body lies at (j, n, frame + 1)."""
    text = [str(len(frames))]
    for frame, bodies in enumerate(frames):
        text.append(str(len(bodies)))
        for number, body in enumerate(bodies):
            text += [f"{body} 0 1 1 1 1 0 0.01 -0.2 2", "25"]
            text += [f"{j + shift} {number} {frame + 1} 9 9 9 9 0 0 0 0 2" for j in range(25)]
    return "\n".join(text) + "\n"


def write(folder, text, name=NAME + ".skeleton"):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@recordings
def test_ten_samples_are_read_exactly():
    data = open_ntu60(SAMPLES)
    assert len(data) == 10
    for clip, motion in zip(data.clips, data.motions, strict=True):
        truth = read_line_by_line(clip.source)
        ids = list(dict.fromkeys(body for bodies in truth for body in bodies))
        expected = torch.full((len(truth), len(ids), 25, 3), torch.nan)
        for frame, bodies in enumerate(truth):
            for body, joints in bodies.items():
                expected[frame, ids.index(body)] = torch.tensor(joints)
        assert_close(motion.joints, expected.nan_to_num(), rtol=0, atol=0)
        assert_close(motion.valid, ~expected.isnan().any(-1))


@recordings
def test_samples_have_the_tags_in_their_names():
    data = open_ntu60(SAMPLES)
    assert data.labels == (1, 50, 33, 34, 35, 36, 37, 38, 39, 40)
    assert set(data.views) == set(data.setups) == set(data.subjects) == {1}
    assert data.takes[:3] == (1, 1, 2)
    two = data[1]
    assert (two.name, two.persons, len(two), two.rate) == ("S001C001P001R001A050", 2, 74, 30.0)
    assert (two.label, two.subject, two.view, two.setup, two.take) == (50, 1, 1, 1, 1)


def test_bodies_are_tracked_by_their_id(tmp_path):
    """Ids beyond 2^53 that differ in the last digit only, in changing order, with an empty frame."""
    near, far = "72057594037932185", "72057594037932186"
    motion = read_ntu(write(tmp_path, skeleton([near], [far, near], [], [far])))
    assert motion.joints.shape == (4, 2, 25, 3)
    assert motion.valid[..., 0].tolist() == [[True, False], [True, True], [False, False], [False, True]]
    assert motion.joints[1, 0, 7].tolist() == [7, 1, 2]  # near is the second body of that frame
    assert motion.joints[1, 1, 7].tolist() == [7, 0, 2]


def test_nan_zero_and_windows_numbers_are_missing(tmp_path):
    text = skeleton(["5"], shift=1.0)
    text = text.replace("\n1.0 0 1 ", "\nnan 0 1 ").replace("\n2.0 0 1 ", "\n-1.#IND 0 1 ")
    text = text.replace("\n3.0 0 1 ", "\n0 0 0 ").replace("\n4.0 0 1 ", "\n1e999 0 1 ")
    motion = read_ntu(write(tmp_path, text))
    assert motion.valid[0, 0].tolist() == [False] * 4 + [True] * 21


def test_windows_line_ends_and_blank_lines_do_not_matter(tmp_path):
    plain = read_ntu(write(tmp_path, skeleton(["5"], ["5"])))
    other = read_ntu(write(tmp_path, skeleton(["5"], ["5"]).replace("\n", "\r\n\r\n")))
    assert_close(plain.joints, other.joints)


def test_a_data_set_keeps_the_two_bodies_that_move_most(tmp_path):
    frames = [["1", "2", "3"], ["3", "2", "1"], ["1", "2", "3"]]  # 1 and 3 change their places, 2 stays
    path = write(tmp_path, skeleton(*frames))
    assert read_ntu(path).persons == 3
    motion = open_ntu120(tmp_path)[0]
    assert motion.persons == 2
    assert motion.joints[:, :, 0, 1].std(dim=0).min() > 0.5


def test_ntu60_is_a_part_of_ntu120(tmp_path):
    names = ["S001C001P001R001A060", "S001C001P001R001A061", "S018C001P001R001A001", "S017C003P015R002A002"]
    for name in names:
        write(tmp_path, skeleton(["1"]), f"nturgb+d_skeletons/{name}.skeleton")
    assert open_ntu60(tmp_path).names == (names[0], names[3])
    assert len(open_ntu120(tmp_path)) == 4


@pytest.mark.parametrize("given", [True, False], ids=["given", "found"])
def test_samples_with_missing_skeletons_are_dropped_and_listed(tmp_path, given):
    for name in ("S001C001P001R001A001", "S001C002P005R002A008"):
        write(tmp_path, skeleton(["1"]), f"{name}.skeleton")
    listed = "The missing samples:\n\nS001C002P005R002A008\r\nS001C002P006R001A008\n"
    path = write(tmp_path, listed, "mine.txt" if given else "NTU_RGBD_samples_with_missing_skeletons.txt")
    data = open_ntu60(tmp_path, missing=path) if given else open_ntu60(tmp_path)
    assert data.names == ("S001C001P001R001A001",)
    assert data.dropped == (("S001C002P005R002A008", f"listed in {path.name}"),)
    assert read_missing_samples(path) == ["S001C002P005R002A008", "S001C002P006R001A008"]


GOOD = skeleton(["1"], ["1", "2"])
WRONG = {
    "empty": (b"", r"A050\.skeleton, line 1: the file ends where the number of frames should be"),
    "no count": (b"x\n", r"line 1: expected the number of frames, got 'x'"),
    "a negative count": (b"-3\n", r"line 1: expected the number of frames"),
    "a claim of frames": (
        GOOD.replace("2\n1\n", "1000000000\n1\n", 1),
        r"line 1: expected the number of frames",
    ),
    "one frame too many": (
        GOOD.replace("2\n1\n", "3\n1\n", 1),
        r"ends where the number of bodies in frame 2",
    ),
    "one frame too few": (
        GOOD.replace("2\n1\n", "1\n1\n", 1),
        r"line 30: 1 frames declared, but the file has more",
    ),
    "a claim of bodies": (
        GOOD.replace("2\n1\n", "2\n900\n", 1),
        r"a body has 25 joints|expected the number of joints",
    ),
    "24 joints": (GOOD.replace("\n25\n", "\n24\n", 1), r"line 4: a body has 25 joints, got 24"),
    "a word": (GOOD.replace("\n7.0 0 1 ", "\n7.0 zero 1 "), r"line 12: 'zero' is not a number"),
    "digits of Python": (GOOD.replace("\n7.0 0 1 ", "\n7_0 0 1 "), r"line 12: '7_0' is not a number"),
    "cut": (GOOD[:-30], r"the file ends within frame 1 of 2"),
    "no bodies": (skeleton([], []), r"no body in any of its 2 frames"),
    "binary": (bytes(range(256)) * 9, r"line 1: expected the number of frames"),
}


@pytest.mark.errors
@pytest.mark.parametrize(("content", "message"), WRONG.values(), ids=WRONG)
def test_wrong_files_name_line_and_cause(tmp_path, content, message):
    with pytest.raises(DataError, match=message):
        read_ntu(write(tmp_path, content))


@pytest.mark.errors
def test_a_file_cut_after_any_token_is_an_error(tmp_path):
    tokens = skeleton(["1"], []).split()
    for stop in range(0, len(tokens), 7):
        with pytest.raises(DataError, match=r"line \d+: "):
            read_ntu(write(tmp_path, " ".join(tokens[:stop])))


@pytest.mark.errors
def test_many_ids_in_many_frames_do_not_fill_the_memory(tmp_path):
    """3,000 frames, each with an id of its own and one body: 3,000 x 3,000 x 25 joints are refused."""
    joint = b"1 1 1 0 0 0 0 0 0 0 0 2\n" * 25
    body = [b"1\n%d 0 0 0 0 0 0 0 0 0\n25\n%b" % (frame, joint) for frame in range(3000)]
    with pytest.raises(DataError, match="more than one motion may hold"):
        read_ntu(write(tmp_path, b"3000\n" + b"".join(body)))


@pytest.mark.errors
def test_a_list_without_names_is_an_error(tmp_path):
    with pytest.raises(DataError, match="no sample name"):
        read_missing_samples(write(tmp_path, "nothing here\n", "list.txt"))


@pytest.mark.parametrize(
    ("path", "tags", "name"),
    [
        ("x/S018C003P042R001A115_clean.skeleton", Tags(115, 42, 3, 18, 1), "S018C003P042R001A115"),
        ("a20_s10_e03_skeleton3D.txt", Tags(20, 10, None, None, 3), "a20_s10_e03"),
        ("a12_s01_e04_v03.json", Tags(12, 1, 3, None, 4), "a12_s01_e04_v03"),
        ("s07a16e01.mat", Tags(16, 7, None, None, 1), "s07a16e01"),
        ("sbu/s01s02/08/003/skeleton_pos.txt", Tags(8, "s01s02", None, None, 3), "s01s02_08_003"),
        ("a01_s01.txt", Tags(), "a01_s01"),
        ("a01_a02_e03.txt", Tags(), None),
        ("walk.v2.bvh", Tags(), "walk.v2"),
    ],
)
def test_names_contain_action_subject_camera_setup_and_take(path, tags, name):
    assert parse_tags(path) == tags
    assert name is None or parse_clip_name(path) == name
