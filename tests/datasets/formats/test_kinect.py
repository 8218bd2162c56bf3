"""MSRAction3D, 3D Action Pairs, Northwestern-UCLA and SBU, against hand-parsed files and published counts."""

import json
import os
from collections import Counter
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from jeanie.datasets.formats.kinect import (
    open_action_pairs,
    open_msraction3d,
    open_nw_ucla,
    open_sbu,
    read_action_pairs,
    read_msr_screen,
    read_msr_world,
    read_nw_ucla,
    read_sbu,
)
from jeanie.errors import DataError
from jeanie.skeleton.layout import LAYOUTS

DATA = Path(os.environ.get("JEANIE_DATA", "/nonexistent"))


def recordings(name):
    return pytest.mark.skipif(
        not (DATA / name).is_dir(), reason=f"needs the recordings {name} in $JEANIE_DATA"
    )


def write(folder, name, text):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def numbers(path, separator=None):
    """Rows of a text file, parsed one number at a time."""
    return [
        [float(cell) for cell in line.split(separator)]
        for line in path.read_text().splitlines()
        if line.strip()
    ]


def rows(count, width=4, start=0.0, separator=" "):
    return "".join(
        separator.join(f"{start + row + column / 16}" for column in range(width)) + "\n"
        for row in range(count)
    )


# --- MSRAction3D


@recordings("msraction3d")
def test_msr_world_files_are_read_exactly():
    path = DATA / "msraction3d/real3d_txt/a07_s03_e02_skeleton3D.txt"
    motion, truth = read_msr_world(path), numbers(path)
    assert motion.joints.shape == (len(truth) // 20, 1, 20, 3)
    for frame, joint in ((0, 0), (3, 19), (len(motion) - 1, 11)):
        assert_close(
            motion.joints[frame, 0, joint], torch.tensor(truth[20 * frame + joint][:3]), rtol=0, atol=0
        )
    assert (motion.label, motion.subject, motion.take, motion.view) == (7, 3, 2, None)
    assert (motion.name, motion.layout, motion.rate) == ("a07_s03_e02", LAYOUTS["msr20"], 15.0)


@recordings("msraction3d")
def test_msr_has_567_clips_and_one_is_empty():
    data = open_msraction3d(DATA / "msraction3d")
    assert len(data) == 566
    assert [name for name, _ in data.dropped] == ["a13_s09_e02"]
    assert len(set(data.names)) == 566
    assert set(data.labels) == set(range(1, 21))
    assert set(data.subjects) == set(range(1, 11))
    used = (DATA / "msraction3d/files_used_in_cvpr12_paper.txt").read_text().split()
    assert set(used) <= set(data.names)
    assert len(used) == 557
    lists = [DATA / f"splits/MSRAction3D_fsl_{part}.txt" for part in ("train", "test")]
    assert sorted(data.names) == sorted(name for path in lists for name in path.read_text().split())


@recordings("msraction3d")
def test_the_empty_msr_recording_is_an_error_and_zero_frames_are_missing():
    folder = DATA / "msraction3d/real3d_txt"
    with pytest.raises(DataError, match=r"a13_s09_e02_skeleton3D.*no valid joint"):
        read_msr_world(folder / "a13_s09_e02_skeleton3D.txt")
    motion = read_msr_world(folder / "a13_s09_e03_skeleton3D.txt")
    assert motion.valid[:196].all()
    assert not motion.valid[196:].any()


@recordings("msraction3d")
def test_msr_confidence_does_not_make_joints_missing():
    path = DATA / "msraction3d/real3d_txt/a01_s01_e01_skeleton3D.txt"
    assert any(row[3] == 0 for row in numbers(path))
    assert read_msr_world(path).valid.all()


@recordings("msraction3d")
def test_msr_screen_files_convert_to_the_world_files():
    """A pixel is 14 mm at 4 m; half of it, and half a depth unit of 4 mm."""
    for path in sorted((DATA / "msraction3d/skeleton_txt").glob("*.txt")):
        world = read_msr_world(DATA / "msraction3d/real3d_txt" / path.name.replace("skeleton", "skeleton3D"))
        screen = read_msr_screen(path)
        assert_close(screen.joints, world.joints, rtol=0, atol=8e-3)
        assert screen.layout == world.layout


def test_msr_screen_arithmetic(tmp_path):
    frame = (
        "  2.6000000e+002  2.0000000e+001  5.0000000e+002  1.0000000e+000\n"
        + "0 0 0 0\n" * 18
        + "160 120 250 0\n"
    )
    motion = read_msr_screen(write(tmp_path, "a01_s02_e03_skeleton.txt", frame))
    assert_close(motion.joints[0, 0, 0], torch.tensor([100 * 2 / 285.63, 100 * 2 / 285.63, 2.0]))
    assert_close(motion.joints[0, 0, 19], torch.tensor([0.0, 0.0, 1.0]))
    assert motion.valid[0, 0].tolist() == [True] + [False] * 18 + [True]


def test_msr_accepts_tabs_commas_windows_lines_and_windows_nan(tmp_path):
    lines = ["nan 1 1 1", "1e999\t1\t1 1", "-1.#IND 1 1 1", "0 0 0 1", "1.5 -2 3e0 0"] + ["1 2 3 4"] * 15
    plain = read_msr_world(write(tmp_path, "a01_s02_e03.txt", "\r\n\r\n".join(lines) + "\r\n"))
    assert plain.valid[0, 0].tolist() == [False] * 4 + [True] * 16
    assert_close(plain.joints[0, 0, 4], torch.tensor([1.5, -2.0, 3.0]))
    commas = read_msr_world(write(tmp_path, "a01_s02_e04.txt", "\n".join(["1,2,3,4"] * 20)))
    assert_close(commas.joints[0, 0, 7], torch.tensor([1.0, 2.0, 3.0]))


def test_msr_falls_back_to_screen_files_and_drops_strays(tmp_path):
    for name in ("a01_s02_e03_skeleton.txt", "deep/er/a02_s02_e03_skeleton.txt", "notes_skeleton.txt"):
        write(tmp_path, name, "160 120 250 1\n" * 20)
    write(tmp_path, "._a01_s02_e03_skeleton.txt", "rubbish")
    data = open_msraction3d(tmp_path)
    assert data.names == ("a01_s02_e03", "a02_s02_e03")
    assert data.dropped == (("notes_skeleton", "its name has no action"),)
    assert data[0].joints[0, 0, 0, 2] == 1


# --- 3D Action Pairs


def pairs(frames, joints=20):
    """A file of 3D Action Pairs, its world rows x = 100 frame + 10 body + joint / 16."""
    text = [f"{len(frames)} {joints}"]
    for frame, bodies in enumerate(frames):
        text.append(str(2 * joints * bodies))
        for body in range(bodies):
            for joint in range(joints):
                text.append(f"{100 * frame + 10 * body + joint / 16:.4f} 0.5 2.25 1")
                text.append("0.25 0.75 9000 1")
    return "\n".join(text) + "\n"


def test_action_pairs_keep_world_rows_and_frames_without_bodies(tmp_path):
    path = write(tmp_path, "skeleton/a03_s04_e02_skeleton.txt", pairs([1, 0, 2, 1]))
    motion = read_action_pairs(path)
    assert motion.joints.shape == (4, 2, 20, 3)
    assert motion.valid[..., 0].tolist() == [[True, False], [False, False], [True, True], [True, False]]
    assert_close(motion.joints[2, 1, 16], torch.tensor([211.0, 0.5, 2.25]))
    assert (motion.label, motion.subject, motion.take) == (3, 4, 2)
    data = open_action_pairs(tmp_path)
    assert (data.name, data.names, data[0].layout.name) == ("action-pairs", ("a03_s04_e02",), "kinect20")


# --- Northwestern-UCLA


@recordings("nw-ucla")
def test_nw_ucla_has_its_1484_clips_and_numbers():
    data = open_nw_ucla(DATA / "nw-ucla")
    assert len(data) == 1484
    assert set(data.labels) == {1, 2, 3, 4, 5, 6, 8, 9, 11, 12}
    assert (set(data.subjects), set(data.views)) == (set(range(1, 11)), {1, 2, 3})
    triples = Counter(zip(data.labels, data.subjects, data.takes, strict=True))
    assert sum(count == 3 for count in triples.values()) == 433
    at = data.names.index("a08_s04_e03_v02")
    truth = json.loads((DATA / "nw-ucla/all_sqe/a08_s04_e03_v02.json").read_text())
    motion = data[at]
    assert len(motion) == len(truth["skeletons"])
    assert_close(motion.joints[5, 0, 11], torch.tensor(truth["skeletons"][5][11]), rtol=0, atol=0)
    assert (motion.label, motion.subject, motion.take, motion.view) == (8, 4, 3, 2)
    assert (motion.joints[:, 0, 3, 1] > motion.joints[:, 0, 15, 1]).all()  # the head above the foot


@recordings("nw-ucla")
def test_every_nw_ucla_clip_can_be_read():
    lengths = Counter(len(motion) for motion in open_nw_ucla(DATA / "nw-ucla").motions)
    assert lengths[1] == 2
    assert lengths[6] == 2
    assert sum(lengths.values()) == 1484


def test_nw_ucla_takes_tags_from_the_file_name_or_the_content(tmp_path):
    body = [[[1.0, 2.0, 3.0]] * 20] * 2
    inside = json.dumps({"file_name": "a05_s06_e01_v03", "skeletons": body, "label": 5})
    motion = read_nw_ucla(write(tmp_path, "clip.json", inside))
    assert (motion.name, motion.label, motion.subject, motion.view) == ("a05_s06_e01_v03", 5, 6, 3)
    motion = read_nw_ucla(write(tmp_path, "mine.json", json.dumps({"skeletons": body, "label": 10})))
    assert (motion.name, motion.label, motion.subject) == ("mine", 10, None)


# --- SBU


@recordings("sbu")
def test_sbu_has_two_persons_in_metres_with_y_up():
    data = open_sbu(DATA / "sbu")
    assert len(data) == 282
    assert set(data.labels) == set(range(1, 9))
    assert len(set(data.subjects)) == 21
    path = DATA / "sbu/s02s07/03/002/skeleton_pos.txt"
    motion, truth = data[data.names.index("s02s07_03_002")], numbers(path, ",")
    assert motion.joints.shape == (len(truth), 2, 15, 3)
    for frame, person, joint in ((0, 0, 0), (4, 1, 14), (len(truth) - 1, 0, 8)):
        x, y, z = truth[frame][1 + 45 * person + 3 * joint :][:3]
        millimetres = [1280 - 2560 * x, 960 - 1920 * y, z * 10000 / 7.8125]
        assert_close(motion.joints[frame, person, joint], torch.tensor(millimetres) / 1000)
    assert (motion.label, motion.subject, motion.take) == (3, "s02s07", 2)
    assert (motion.joints[..., 0, 1] > motion.joints[..., 11, 1]).float().mean() > 0.99  # heads above feet


@recordings("sbu")
def test_every_sbu_clip_can_be_read_and_its_bodies_have_human_size():
    motions = list(open_sbu(DATA / "sbu").motions)
    upper = [(m.joints[:, :, 1] - m.joints[:, :, 2]).norm(dim=-1).median() for m in motions]
    assert len(motions) == 282
    assert 0.15 < torch.stack(upper).median() < 0.4  # neck to torso in metres


def test_sbu_zero_joints_are_missing_after_conversion(tmp_path):
    cells = ["7"] + ["0.25", "0.5", "2"] * 29 + ["0", "0", "0"]
    motion = read_sbu(write(tmp_path, "s01s02/08/003/skeleton_pos.txt", ",".join(cells) + "\r\n"))
    assert_close(motion.joints[0, 1, 13], torch.tensor([0.64, 0.0, 2.56]))
    assert motion.valid.sum() == 29
    assert motion.joints[0, 1, 14].tolist() == [0, 0, 0]
    assert (motion.name, motion.subject, motion.label, motion.take) == ("s01s02_08_003", "s01s02", 8, 3)


@pytest.mark.parametrize("number", ["1e308", "-1e308", "1e39", "inf"])
def test_numbers_too_large_for_a_position_are_missing(tmp_path, number):
    sbu = ["7", number, "0.5", "2"] + ["0.25", "0.5", "2"] * 29
    assert read_sbu(write(tmp_path, "skeleton_pos.txt", ",".join(sbu))).valid.sum() == 29
    screen = f"{number} 5 1e300 1\n" + "160 120 250 1\n" * 19
    assert read_msr_screen(write(tmp_path, "a.txt", screen)).valid.sum() == 19


# --- error messages

BODY = [[[1.0, 2.0, 3.0]] * 20]
WRONG = {
    "a row too short": (
        read_msr_world,
        rows(19) + "1 2 3\n",
        r"clip\.txt, line 20: expected 4 numbers, got 3",
    ),
    "a word": (read_msr_world, rows(7) + "1 x 3 4\n" + rows(12), r"clip\.txt, line 8: 'x' is not a number"),
    "digits of Python": (read_msr_world, "1_0 2 3 4\n" * 20, r"line 1: '1_0' is not a number"),
    "half a frame": (read_msr_world, rows(30), r"ends after 10 of the 20 rows of frame 1"),
    "the wrong width": (read_msr_world, "\n1 2\n", r"line 2: expected 4 numbers in a row, got 2"),
    "nothing": (read_msr_world, "", r"clip\.txt: contains no numbers"),
    "bytes": (read_msr_world, bytes(range(256)), r"clip\.txt, line 1"),
    "screen without depth": (read_msr_screen, "5 5 0 1\n" * 20, r"no valid joint"),
    "no header": (read_action_pairs, "", r"clip\.txt: empty"),
    "a float as count": (read_action_pairs, "1.5 20\n", r"line 1: expected the numbers of frames and joints"),
    "no joints": (read_action_pairs, "1 0\n", r"line 1: 0 joints"),
    "half a body": (read_action_pairs, "1 20\n20\n" + rows(20), r"line 2: a frame of 20 rows"),
    "a claim of frames": (
        read_action_pairs,
        "1000000000 20\n40\n" + rows(40),
        r"1000000000 frames x 1 persons x 20 joints is more than",
    ),
    "a claim of rows": (read_action_pairs, "1 20\n4000000000\n" + rows(40), r"ends in frame 1"),
    "a cut row": (read_action_pairs, pairs([1, 1])[:-20], r"frames declared|expected 4 numbers"),
    "no body": (read_action_pairs, pairs([0, 0]), r"no valid joint"),
    "no JSON": (read_nw_ucla, '{"skeletons": [1,\n2', r"clip\.txt, line 2, column 2: not JSON"),
    "a list": (read_nw_ucla, "[]", r"the file must be a dict, got list"),
    "no key": (read_nw_ucla, "{}", r"no key 'skeletons'"),
    "ragged": (
        read_nw_ucla,
        json.dumps({"skeletons": [*BODY, [[1, 2, 3]]]}),
        r"skeletons must be any x any x 3",
    ),
    "19 joints": (
        read_nw_ucla,
        json.dumps({"skeletons": [BODY[0][:19]]}),
        r"19 joints, layout 'kinect20' has 20",
    ),
    "deep": (read_nw_ucla, "[" * 200_000, r"nested too deeply"),
    "a huge integer": (read_nw_ucla, '{"skeletons": ' + "9" * 5000 + "}", r"not JSON"),
    "a large integer": (read_nw_ucla, '{"skeletons": [[[' + "9" * 400 + ",1,1]]]}", r"skeletons must be"),
    "no frames": (read_nw_ucla, '{"skeletons": []}', r"skeletons must be"),
    "columns": (read_sbu, "1,2,3\n", r"line 1: expected 91 numbers in a row, got 3"),
    "a later row": (read_sbu, ",".join("1" * 91) + "\n" + ",".join("1" * 90) + "\n", r"line 2: expected 91"),
}


@pytest.mark.errors
@pytest.mark.parametrize(("read", "content", "message"), WRONG.values(), ids=WRONG)
def test_wrong_files_name_line_and_cause(tmp_path, read, content, message):
    with pytest.raises(DataError, match=message):
        read(write(tmp_path, "clip.txt", content))


@pytest.mark.errors
def test_missing_folders_and_files_are_data_errors(tmp_path):
    for opener in (open_msraction3d, open_action_pairs, open_nw_ucla, open_sbu):
        with pytest.raises(DataError, match="no such folder"):
            opener(tmp_path / "absent")
        with pytest.raises(DataError, match="is this where"):
            opener(tmp_path)
    with pytest.raises(DataError, match="cannot be read: No such file"):
        read_msr_world(tmp_path / "absent.txt")
    with pytest.raises(DataError, match="not a regular file"):
        read_msr_world(tmp_path)
