"""Frames as JSON lines: an even rate out of uneven times, and a message for every line that is none."""

import json

import numpy as np
import pytest
import torch

from jeanie.errors import DataError
from jeanie.recogniser.stream.frames import read_frames
from jeanie.skeleton import LAYOUTS


def line(time=None, joints=None, layout="core15", **others):
    pose = np.full((15, 3), 1.0 if time is None else float(time)).tolist() if joints is None else joints
    about = {} if layout is None else {"layout": layout}
    people = {} if "persons" in others else {"joints": pose}
    return json.dumps({"t": time, **people, **about, **others})


def test_even_lines_are_frames():
    found = list(read_frames([line(at / 10, layout="core15" if not at else None) for at in range(40)]))
    assert [one.rate for one in found] == pytest.approx([10] * 40)
    assert [one.is_new_stream for one in found] == [True] + [False] * 39
    joints = torch.cat([one.joints for one in found])
    assert joints.shape == (40, 1, 15, 3)
    assert joints[:, 0, 0, 0].tolist() == pytest.approx([at / 10 for at in range(40)])
    assert found[0].layout == LAYOUTS["core15"]


def test_late_frames_are_held_and_early_ones_left_out():
    times = [at / 10 for at in range(20)] + [2.3, 2.31, 2.4]
    found = list(read_frames(map(line, times)))
    values = torch.cat([one.joints for one in found])[:, 0, 0, 0].tolist()
    assert values == pytest.approx([at / 10 for at in range(20)] + [1.9] * 3 + [2.3, 2.4])


def test_after_a_pause_a_stream_begins_anew():
    times = [at / 10 for at in range(20)] + [60 + at / 10 for at in range(5)] + [3.0]
    found = list(read_frames(map(line, times)))
    assert [one.start_time for one in found if one.is_new_stream] == pytest.approx([0, 60, 3.0])
    assert sum(len(one.joints) for one in found) == 26


def test_a_given_rate_needs_no_times():
    found = list(read_frames([line(), line(), "", line()], rate=25))
    assert [one.rate for one in found] == [25] * 3
    assert sum(len(one.joints) for one in found) == 3


def test_few_lines_are_frames_as_well():
    assert sum(len(one.joints) for one in read_frames([line(0.0), line(0.1), line(0.2)])) == 3
    assert list(read_frames([])) == []


def test_missing_joints_and_nobody():
    pose = [[1.0, 2.0, 3.0], None, *([[0.5, 0.5, 0.5]] * 13)]
    found = list(read_frames([line(0.0, pose), line(0.1, [])], rate=10))
    assert found[0].joints[0, 0, 1].isnan().all()
    assert found[0].joints[0, 0, 0].tolist() == [1, 2, 3]
    assert found[1].joints.isnan().all()


def test_several_persons_have_places_of_their_own():
    pose = [[1.0, 2.0, 3.0]] * 15
    lines = [
        line(0.0, persons=[pose, pose]),
        line(0.1, persons=[pose]),
        line(0.2, persons=[]),
        line(0.3, persons=[pose] * 3),
    ]
    found = torch.cat([one.joints for one in read_frames(lines, rate=10)])
    assert found.shape == (4, 2, 15, 3)
    assert found.isfinite().all(-1).all(-1).tolist() == [
        [True, True],
        [True, False],
        [False, False],
        [True, True],
    ]


@pytest.mark.parametrize("alone", [0, 3, 30], ids=["on the first line", "among the first frames", "later"])
def test_a_second_person_who_arrives_later_starts_a_stream_of_two(alone):
    pose = [[1.0, 2.0, 3.0]] * 15
    lines = [line(at / 10, pose) for at in range(alone)]
    lines += [line((alone + at) / 10, persons=[pose, pose]) for at in range(20)]
    found = list(read_frames(lines))
    starts = [one.start_time for one in found if one.is_new_stream]
    assert starts == pytest.approx([0.0, 3.0] if alone == 30 else [0.0])
    people = [count for one in found for count in one.joints.isfinite().all(-1).all(-1).sum(1).tolist()]
    assert people == [1] * alone + [2] * 20
    assert {one.joints.shape[1] for one in found[30 if alone == 30 else 0 :]} == {2}


def test_the_times_of_a_second_stream_without_times_go_on():
    pose = [[1.0, 2.0, 3.0]] * 15
    lines = [line(None, pose)] * 20 + [line(None, persons=[pose, pose])] * 5
    found = list(read_frames(lines, rate=10))
    assert [one.start_time for one in found if one.is_new_stream] == pytest.approx([0.0, 2.0])


@pytest.mark.errors
@pytest.mark.parametrize("frames", [3, 40])
def test_times_in_milliseconds_are_refused(frames):
    with pytest.raises(
        DataError, match=r"frames so far are 33 seconds apart.*'t' is a time in seconds.*--rate"
    ):
        list(read_frames(line(33.0 * at) for at in range(frames)))


@pytest.mark.errors
@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["{"], "line 1: not JSON"),
        ([line(0.0), "[1]"], "line 2: a frame is an object"),
        (['{"t": 0}'], "line 1: a frame is an object with 'joints'"),
        ([line(0.0, layout=None)], "line 1: 'layout' is one of ntu25"),
        ([line(0.0, layout="mine")], "line 1: 'layout' is one of .* got 'mine'"),
        ([line(0.0), line(0.1, layout="ntu25")], "line 2: a stream of core15 has one layout, got 'ntu25'"),
        ([line("soon", [[0, 0, 0]] * 15)], "line 1: 't' is a time in seconds, got 'soon'"),
        ([line(None)], "line 1: needs the time 't'"),
        ([line(0.0, layout=None)], "line 1: 'layout' is one of .*, got none; name it on the first line"),
        (
            [line(1.7e12, [[0, 0, 0]] * 15)],
            "line 1: 't' is a time in seconds, got '1.*; give a number below 1e.12",
        ),
        ([line(True, [[0, 0, 0]] * 15)], "line 1: 't' is a time in seconds, got 'True'"),
        ([line(0.0, [[1, 2, 3]] * 14)], "line 1: joints are the 15 joints of core15 .*, got 14 joints"),
        ([line(0.0, [[1, 2]] * 15)], r"line 1: joints are the 15 joints .*, got \[1, 2\]"),
        ([line(0.0, False)], "line 1: joints are the 15 joints .*, got False"),
        ([line(0.0, persons=[0])], "line 1: joints are the 15 joints .*, got 0"),
        ([line(0.0, persons=5)], "line 1: 'persons' is a list of at most 8 persons, got 5"),
        ([line(0.0, [["x", 2, 3]] * 15)], "line 1: joints are the 15 joints"),
        ([line(0.0, "abc")], "line 1: joints are the 15 joints"),
        ([line(0.0, persons=[[]] * 9)], "line 1: 'persons' is a list of at most 8"),
        (["[" * 100_000], "line 1: not JSON"),
        ([" " * 2**20 + "{}"], "line 1: over 1048576 characters"),
    ],
)
def test_lines_that_are_no_frames_are_named(lines, message):
    with pytest.raises(DataError, match=message):
        list(read_frames(lines))
