"""Kinetics-skeleton, OpenPose and MediaPipe JSON: hand-made files with hand-computed positions."""

import json

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from jeanie.datasets.formats.keypoints import convert_image_points, select_best_two
from jeanie.datasets.formats.kinetics import open_kinetics, read_kinetics
from jeanie.datasets.formats.landmarks import make_landmark_motion
from jeanie.datasets.formats.mediapipe import read_mediapipe
from jeanie.datasets.formats.openpose import read_openpose
from jeanie.errors import DataError
from jeanie.skeleton.layout import LAYOUTS


def write(folder, name, value):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def test_an_image_is_rotated_by_half_a_turn_so_that_left_stays_left():
    """A person who faces an ordinary camera has the left hand on the right of the image, at a large u."""
    left, right = convert_image_points(np.array([[300.0, 40.0], [20.0, 200.0]]), (340.0, 256.0))
    assert left.tolist() == [170 - 300, 128 - 40, 0]
    assert right.tolist() == [170 - 20, 128 - 200, 0]
    assert left[0] < right[0]  # as in Kinect's camera space
    assert left[1] > right[1]  # y up


# --- who is who


def test_the_best_two_are_tracked_when_their_scores_change():
    """Two still persons and a weak third one; the first two take turns in being the surest."""
    frames, joints = 6, 4
    places = np.array([[10.0, 10.0], [50.0, 10.0], [90.0, 10.0]])
    points = np.broadcast_to(places[None, :, None], (frames, 3, joints, 2)).copy()
    score = np.tile(np.array([0.9, 0.8, 0.1])[None, :, None], (frames, 1, joints))
    score[2:4, 0] = 0.7
    kept, kept_score = select_best_two(points, score)
    assert kept[:, 0, 0, 0].tolist() == [10.0] * frames
    assert kept[:, 1, 0, 0].tolist() == [50.0] * frames
    assert kept_score[:, 0, 0].tolist() == [0.9, 0.9, 0.7, 0.7, 0.9, 0.9]


def test_a_single_person_keeps_the_index_of_the_nearer_one():
    points = np.full((3, 2, 1, 2), np.nan)
    points[0] = [[[0.0, 0.0]], [[100.0, 0.0]]]
    points[1, 0] = [[99.0, 0.0]]  # only the second person is left, in the first place
    points[2, 0] = [[98.0, 0.0]]
    score = np.nan_to_num(points[..., 0] + 1) / 200
    score[0] = [[0.9], [0.8]]
    kept, _ = select_best_two(points, score)
    assert np.isnan(kept[1:, 0]).all()
    assert kept[:, 1, 0, 0].tolist() == [100.0, 99.0, 98.0]


def test_infinite_points_do_not_spoil_the_order():
    points = np.zeros((4, 2, 3, 2))
    points[:, 1] = 10.0
    points[1, 0, 0] = [np.inf, 1e308]
    with np.errstate(all="raise"):
        kept, _ = select_best_two(points, np.ones((4, 2, 3)) * [[[0.9], [0.5]]])
    assert kept[:, 1, 1, 0].tolist() == [10.0] * 4


# --- Kinetics


def person(u=0.25, v=0.5, score=0.9):
    return {"pose": [u, v] * 18, "score": [score] * 18}


def kinetics(*frames, label="playing harmonica", first=1):
    data = [{"frame_index": first + at, "skeleton": list(people)} for at, people in enumerate(frames)]
    return {"data": data, "label": label, "label_index": 211}


def test_kinetics_is_pixels_from_the_centre_of_a_340_x_256_image(tmp_path):
    lame = person(0.75, 0.25, 0.5)
    lame["pose"][4:6], lame["score"][3] = [0, 0], 0
    motion = read_kinetics(write(tmp_path, "abc.json", kinetics([person(), lame], [], [lame])))
    assert motion.joints.shape == (3, 2, 18, 3)
    assert_close(motion.joints[0, 0, 0], torch.tensor([0.25 * 340, 0.0, 0.0]))
    assert_close(motion.joints[0, 1, 0], torch.tensor([-0.25 * 340, 0.25 * 256, 0.0]))
    assert motion.valid[0, 1].nonzero().flatten().tolist() == [0, 1, *range(4, 18)]
    assert not motion.valid[1].any()
    assert (motion.label, motion.name, motion.rate) == ("playing harmonica", "abc", 30.0)
    assert motion.layout == LAYOUTS["openpose18"]


def test_kinetics_frames_are_placed_by_their_numbers(tmp_path):
    value = kinetics([person()], [person(0.3)], first=5)
    value["data"][1]["frame_index"] = 8
    motion = read_kinetics(write(tmp_path, "abc.json", value))
    assert motion.valid[:, 0, 0].tolist() == [True, False, False, True]
    value["data"].reverse()
    assert_close(read_kinetics(write(tmp_path, "abc.json", value)).joints, motion.joints)


def test_kinetics_reads_five_persons_and_keeps_two(tmp_path):
    people = [person(0.1 * n, 0.5, 0.1 * n) for n in range(1, 7)]
    motion = read_kinetics(write(tmp_path, "abc.json", kinetics(people)))
    assert_close(motion.joints[0, :, 0, 0], torch.tensor([0.0, 0.1 * 340]))  # the fifth and the fourth


def test_a_kinetics_folder_takes_labels_from_its_lists_or_from_the_files(tmp_path):
    for name in ("kinetics_train/one", "kinetics_train/two", "kinetics_val/three", "kinetics_val/four"):
        write(tmp_path, f"{name}.json", kinetics([person()], label=f"in {name[-3:]}"))
    listed = {
        "one": {"has_skeleton": True, "label": "juggling", "label_index": 1},
        "two": {"has_skeleton": False, "label": "juggling", "label_index": 1},
    }
    write(tmp_path, "kinetics_train_label.json", listed)
    data = open_kinetics(tmp_path)
    assert dict(zip(data.names, data.labels, strict=True)) == {
        "one": "juggling",
        "three": "in ree",
        "four": "in our",
    }
    assert data.dropped == (("two", "listed as having no skeleton"),)
    assert data[data.names.index("one")].label == "juggling"


# --- OpenPose


def openpose(*people, ids=None):
    ids = ids or [[-1]] * len(people)
    return {
        "version": 1.3,
        "people": [{"person_id": i, "pose_keypoints_2d": p} for i, p in zip(ids, people, strict=True)],
    }


def body(u, v, joints=25, confidence=0.8):
    return [u, v, confidence] * joints


@pytest.mark.parametrize("joints", [18, 25])
def test_openpose_reads_one_frame_in_pixels(tmp_path, joints):
    points = body(100.0, 40.0, joints)
    points[3:6] = [0, 0, 0]
    motion = read_openpose(write(tmp_path, "clip_000000000000_keypoints.json", openpose(points)))
    assert motion.joints.shape == (1, 1, joints, 3)
    assert motion.joints[0, 0, 0].tolist() == [-100, -40, 0]
    assert motion.valid[0, 0].tolist() == [True, False] + [True] * (joints - 2)
    assert motion.layout == LAYOUTS[f"openpose{joints}"]


def test_a_folder_of_frames_is_ordered_by_number(tmp_path):
    for frame in (0, 1, 2, 10):
        write(tmp_path, f"walk/frame_{frame}_keypoints.json", openpose(body(float(frame + 1), 5.0)))
    motion = read_openpose(tmp_path / "walk")
    seen = motion.valid[:, 0, 0]
    assert seen.nonzero().flatten().tolist() == [0, 1, 2, 10]  # frames 3 to 9 are missing
    assert motion.joints[seen, 0, 0, 0].tolist() == [-1, -2, -3, -11]
    assert motion.name == "walk"


def test_openpose_persons_are_tracked_by_id_if_every_person_has_one(tmp_path):
    frames = [
        openpose(body(1.0, 5.0), body(100.0, 5.0), body(200.0, 5.0), ids=[[4], [7], [9]]),
        openpose(body(101.0, 5.0), body(2.0, 5.0), ids=[[7], [4]]),
    ]
    motion = read_openpose(write(tmp_path, "all.json", frames))
    assert motion.persons == 3
    assert motion.joints[:, :, 0, 0].tolist() == [[-1, -100, -200], [-2, -101, 0]]
    without = [openpose(*[p["pose_keypoints_2d"] for p in frame["people"]]) for frame in frames]
    guessed = read_openpose(write(tmp_path, "all.json", without))
    assert guessed.joints[:, :, 0, 0].tolist() == [[-1, -100], [-2, -101]]


THREE_DIMENSIONS = (
    '{"version":1.3,"people":[{"person_id":[-1],"pose_keypoints_2d":['
    + ",".join(["7,8,0.9"] * 25)
    + '],"pose_keypoints_3d":['
    + ",".join(["0.25,-1.5,3,1", "0,0,0,0", "-0.5,0.125,2.75,1", "4,4,4,0", *["1,2,3,1"] * 21])
    + '],"face_keypoints_3d":[]},{"person_id":[-1],"pose_keypoints_2d":[],"pose_keypoints_3d":[]}]}'
)


def test_openpose_prefers_3d_points(tmp_path):
    """As OpenPose --3d writes it: x, y, z and whether it worked; y down and z away, which is turned half."""
    path = tmp_path / "clip_000000000000_keypoints.json"
    path.write_bytes(THREE_DIMENSIONS.encode())
    motion = read_openpose(path)
    assert motion.joints.shape == (1, 1, 25, 3)
    assert motion.joints[0, 0, :5].tolist() == [
        [-0.25, 1.5, 3],
        [0, 0, 0],
        [0.5, -0.125, 2.75],
        [0, 0, 0],
        [-1, -2, 3],
    ]
    assert motion.valid[0, 0].tolist() == [True, False, True, False] + [True] * 21
    assert (motion.layout.dims, motion.layout.unit) == (3, "relative")
    assert motion.layout.joints == LAYOUTS["openpose25"].joints


def test_persons_with_3d_points_are_tracked_by_id_and_by_position(tmp_path):
    def frame(*persons):
        return {"people": [{"person_id": [i], "pose_keypoints_3d": [x, 1, 2, 1] * 18} for i, x in persons]}

    frames = [frame((3, 1.0), (5, 9.0)), frame((5, 9.5), (3, 1.5)), {"people": []}]
    for given in (frames, json.loads(json.dumps(frames).replace("[3]", "[-1]"))):
        motion = read_openpose(write(tmp_path, "all.json", given))
        assert motion.joints[:, :, 0, 0].tolist() == [[-1, -9], [-1.5, -9.5], [0, 0]]
        assert motion.joints[0, 0, 0].tolist() == [-1, -1, 2]


# --- MediaPipe


def landmarks(shift=0.0, bare=False):
    points = [[shift + j / 100, 0.5, -0.25] for j in range(33)]
    return (
        [[*p, 0.9] for p in points]
        if bare
        else [{"x": x, "y": y, "z": z, "visibility": 0.9} for x, y, z in points]
    )


FRAMES = {
    "one pose in snake case": {"pose_world_landmarks": landmarks()},
    "a list of poses": {"pose_world_landmarks": [landmarks()], "pose_landmarks": [landmarks(7)]},
    "JavaScript": {"worldLandmarks": [landmarks()], "landmarks": [landmarks(7)]},
    "a protobuf": {"poseWorldLandmarks": {"landmark": landmarks()}},
    "bare numbers": {"world_landmarks": landmarks(bare=True)},
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_world_landmarks_are_metres_rotated_by_half_a_turn(tmp_path, frame):
    motion = read_mediapipe(write(tmp_path, "me.json", {"fps": 25, "frames": [frame, {}, None, frame]}))
    assert motion.joints.shape == (4, 1, 33, 3)
    assert_close(motion.joints[0, 0, 20], torch.tensor([-0.2, -0.5, -0.25]))
    assert motion.valid[:, 0].all(-1).tolist() == [True, False, False, True]
    assert (motion.layout, motion.rate) == (LAYOUTS["mediapipe33"], 25.0)


def test_image_landmarks_are_relative_to_the_width(tmp_path):
    frames = [{"pose_landmarks": landmarks()}]
    motion = read_mediapipe(write(tmp_path, "me.json", {"width": 640, "height": 480, "frames": frames}))
    assert_close(motion.joints[0, 0, 20], torch.tensor([-0.2, -0.375, -0.25]))
    assert (motion.layout.unit, motion.layout.joints) == ("relative", LAYOUTS["mediapipe33"].joints)
    plain = read_mediapipe(write(tmp_path, "me.json", [landmarks(bare=True), []]))
    assert_close(plain.joints[0, 0, 20], torch.tensor([-0.2, -0.5, -0.25]))


def test_several_poses_keep_their_order(tmp_path):
    frames = [
        {"pose_world_landmarks": [landmarks(), landmarks(1.0)]},
        {"pose_world_landmarks": [landmarks()]},
    ]
    motion = read_mediapipe(write(tmp_path, "me.json", frames))
    assert motion.persons == 2
    assert_close(motion.joints[0, 1, 0], torch.tensor([-1.0, -0.5, -0.25]))
    assert not motion.valid[1, 1].any()


# --- error messages


def change(value, **changes):
    return {**value, **changes}


ONE = kinetics([person()])
WRONG = {
    "no data": (read_kinetics, {}, "data must be a list, got NoneType"),
    "no frames": (read_kinetics, {"data": []}, "no frames in data"),
    "a frame that is a number": (read_kinetics, {"data": [1]}, "a frame must be a dict"),
    "no skeleton": (read_kinetics, {"data": [{"frame_index": 1}]}, "skeleton must be a list"),
    "a frame number too many": (
        read_kinetics,
        {"data": [{"frame_index": 0, "skeleton": []}, {"frame_index": 10**9, "skeleton": [person()]}]},
        "more than one motion may hold",
    ),
    "a frame number twice": (read_kinetics, {"data": ONE["data"] * 2}, "the same frame_index"),
    "a negative frame number": (read_kinetics, kinetics([person()], first=-1), "a whole number from 0"),
    "35 numbers": (
        read_kinetics,
        kinetics([change(person(), pose=[0.5] * 35)]),
        "pose of the persons must be any x 36",
    ),
    "text": (read_kinetics, kinetics([change(person(), pose=["a"] * 36)]), "pose of the persons must be"),
    "no score": (read_kinetics, kinetics([{"pose": [0.5] * 36}]), "score of the persons must be"),
    "nobody": (read_kinetics, kinetics([], []), "no valid joint"),
    "people missing": (read_openpose, {"version": 1.3}, "people must be a list"),
    "nobody at all": (read_openpose, {"people": []}, "nobody in any of its 1 frames"),
    "53 numbers": (read_openpose, openpose([1.0] * 53), "53 numbers per person"),
    "19 points": (read_openpose, openpose(body(1.0, 1.0, 19)), "expected 3 x 18 or 3 x 25, or give a layout"),
    "different lengths": (read_openpose, openpose(body(1, 1, 18), body(1, 1, 25)), "pose_keypoints_2d"),
    "not a frame": (read_openpose, [[1]], "a frame must be a dict"),
    "no landmarks": (read_mediapipe, {"frames": [{}, None]}, "no landmarks in any of its 2 frames"),
    "32 landmarks": (
        read_mediapipe,
        [landmarks()[:32]],
        "a person with 32 landmarks, expected 33 as in mediapipe33",
    ),
    "a landmark without y": (read_mediapipe, [[[1]] * 33], "any x 33 x 3"),
    "numbers for landmarks": (read_mediapipe, [[1] * 33], "any x 33 x 3"),
    "no list": (read_mediapipe, {"frames": 3}, "the list of frames must be a list"),
    "landmarks in a number": (read_mediapipe, [{"landmarks": 5}], "must be a list, got int"),
    "deep": (read_mediapipe, "[" * 100_000, "nested too deeply"),
}


@pytest.mark.errors
@pytest.mark.parametrize(("read", "value", "message"), WRONG.values(), ids=WRONG)
def test_wrong_files_name_the_cause(tmp_path, read, value, message):
    with pytest.raises(DataError, match=rf"clip\.json.*{message}"):
        read(write(tmp_path, "clip.json", value))


@pytest.mark.errors
def test_an_empty_folder_and_a_damaged_label_are_data_errors(tmp_path):
    with pytest.raises(DataError, match="one JSON file per frame"):
        read_openpose(tmp_path)
    write(tmp_path, "kinetics_val_label.json", "[1]")
    write(tmp_path, "a.json", kinetics([person()]))
    with pytest.raises(DataError, match="list of labels must be a dict"):
        open_kinetics(tmp_path)


def test_landmarks_without_a_depth_are_missing(tmp_path):
    points = landmarks()
    points[3]["z"] = None
    motion = read_mediapipe(write(tmp_path, "me.json", [{"pose_world_landmarks": points}]))
    assert motion.valid[0, 0].nonzero().flatten().tolist() == [j for j in range(33) if j != 3]


@pytest.mark.parametrize("shape", [(0, 1, 33, 3), (4, 0, 33, 3)])
def test_landmarks_without_frames_or_persons_are_an_error(tmp_path, shape):
    with pytest.raises(DataError, match=r"a\.json: has no frame with a person"):
        make_landmark_motion(tmp_path / "a.json", np.zeros(shape))
