"""What happens before a camera beside actions: nothing of it may be named. Events carry their motion."""

import json

import pytest
import torch
from movements import combine_persons, open_clip, view_from

from jeanie.errors import ConfigError
from jeanie.recogniser.recogniser import Recogniser
from jeanie.recogniser.stream.frames import read_frames
from jeanie.recogniser.stream.stream import Stream
from jeanie.skeleton import LAYOUTS, Motion

NTU = LAYOUTS["ntu25"]
ACTIONS = ("wave", "squat", "kick_forward", "clap")


@pytest.fixture(scope="module")
def taught():
    """A recogniser with one example per action."""
    with Recogniser.load() as recogniser:
        for action in ACTIONS:
            recogniser.enrol(action, open_clip(action, 0))
        yield recogniser


def labels_of(recogniser, joints, rate=30, persons="together", valid=None):
    stream = Stream(recogniser, NTU, rate=rate, persons=persons)
    events = stream.push(joints, valid) + stream.finish()
    return [event.label for event in events if event.label is not None]


def make_standing_person(frames, noise=0.005):
    pose = open_clip("wave", 1).fill_gaps(1000).joints[:1]
    return pose + noise * torch.randn(frames, *pose.shape[1:], generator=torch.Generator().manual_seed(0))


def make_walking_person(subject):
    """Somebody who walks across the picture."""
    return view_from(open_clip("walk", subject), 90).fill_gaps(1000)


def test_a_still_person_is_no_action(taught):
    assert labels_of(taught, make_standing_person(900)) == []


@pytest.mark.parametrize("persons", ["together", "each"])
def test_who_walks_past_does_no_action(taught, persons):
    assert labels_of(taught, make_walking_person(2).joints, persons=persons) == []


def test_a_lost_and_found_person_does_no_action(taught):
    joints = make_standing_person(300)
    random = torch.Generator().manual_seed(1)
    valid = torch.rand(300, 1, 25, generator=random) > 0.4
    valid[100:130] = False
    valid[200:203] = False
    assert labels_of(taught, joints, valid=valid) == []


def test_two_people_who_cross_do_no_action(taught):
    crossing = combine_persons(make_walking_person(2), view_from(make_walking_person(3), 180))
    joints = crossing.joints.clone()
    half = len(joints) // 2
    joints[half:] = joints[half:].flip(1)  # the tracker exchanges them
    for persons in ("together", "each"):
        assert labels_of(taught, joints, persons=persons) == []


def test_one_frame_is_no_action(taught):
    assert labels_of(taught, make_standing_person(1)) == []


def test_times_of_ten_thousand_frames_per_second_give_no_action(taught):
    wave = open_clip("wave", 1).fill_gaps(1000).joints[:, 0]
    lines = [
        json.dumps({"t": frame / 10_000, "layout": "ntu25", "joints": pose})
        for frame, pose in enumerate(wave.tolist())
    ]
    arrived = list(read_frames(lines))
    assert arrived
    assert labels_of(taught, torch.cat([one.joints for one in arrived]), rate=arrived[0].rate) == []


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize(
    "value", [1e30, float("inf"), float("nan")], ids=["huge", "infinite", "not a number"]
)
def test_a_frame_that_cannot_be_computed_with_changes_no_answer(taught, value):
    kick = open_clip("kick_forward", 1).fill_gaps(1000)
    joints = torch.cat([kick.joints, kick.joints[-1:].expand(45, -1, -1, -1)])
    assert labels_of(taught, joints) == ["kick_forward"]
    broken = joints.clone()
    broken[30] = value
    assert labels_of(taught, broken) == ["kick_forward"]
    assert labels_of(taught, torch.full_like(joints, value)) == []


def test_a_stream_takes_the_name_of_a_layout(taught):
    joints = make_standing_person(30)
    assert Stream(taught, "ntu25", rate=30).push(joints) == []
    assert len(Motion(joints, "ntu25")) == 30
    with pytest.raises(ConfigError, match="no layout 'ntu26'"):
        taught.stream("ntu26")


def test_an_event_carries_its_motion(taught):
    kick = open_clip("kick_forward", 1).fill_gaps(1000)
    rest = kick.joints[-1:].expand(45, -1, -1, -1)
    stream = Stream(taught, NTU, rate=30)
    events = stream.push(torch.cat([kick.joints, rest])) + stream.finish()
    event = max(events, key=lambda one: one.confidence)
    assert len(event.motion) == event.end - event.start
    assert event.motion.rate == 30
    assert taught.recognise(event.motion).distance == pytest.approx(event.distance)
    assert "motion" not in repr(event)
