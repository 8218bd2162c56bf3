"""Streams: movements found where they were performed, in whatever portions, at a cost that does not grow."""

import itertools
import os
import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from movements import combine_persons, cut_to_movement, join_clips, open_clip, score_events

from jeanie.datasets import open_dataset
from jeanie.errors import ConfigError, ShapeError
from jeanie.recogniser.recogniser import Recogniser
from jeanie.recogniser.recognition import NO_MATCH
from jeanie.recogniser.stream.pose_sampler import PoseSampler
from jeanie.recogniser.stream.stream import Stream, StreamConfig
from jeanie.recogniser.stream.subsequence import Templates, measure_progress
from jeanie.skeleton import LAYOUTS

DATA = os.environ.get("JEANIE_DATA")
recordings = pytest.mark.skipif(DATA is None, reason="the recordings are not here: set JEANIE_DATA")
ACTIONS = ("wave", "squat", "kick_forward", "clap")
NTU = LAYOUTS["ntu25"]


@pytest.fixture(scope="module")
def taught():
    """A recogniser that has seen one performer do each action twice."""
    with Recogniser.load() as recogniser:
        for action in ACTIONS:
            recogniser.enrol(action, [open_clip(action, 0, take=take, noise=1.0) for take in (0, 1)])
        yield recogniser


@pytest.fixture(scope="module")
def show():
    """Another performer: joints, and what is performed when."""
    return join_clips([open_clip(action, 2, noise=1.0) for action in (*ACTIONS, "squat", "wave")], pause=1.2)


def events_of(recogniser, joints, step=None, **options):
    stream = Stream(recogniser, options.pop("layout", NTU), rate=options.pop("rate", 30), **options)
    step = step or len(joints)
    events = [event for at in range(0, len(joints), step) for event in stream.push(joints[at : at + step])]
    return events + stream.finish()


def test_movements_are_found_where_they_were_performed(taught, show):
    joints, truth = show
    events = events_of(taught, joints)
    recall, precision, right = score_events(events, truth)
    assert recall >= 0.8
    assert precision >= 0.8
    named = [event for event in events if event.label is not None]
    assert len(named) >= 3
    assert score_events(named, truth)[2] >= 0.9
    assert right > 0.5
    assert all(event.seconds == (event.start / 30, event.end / 30) for event in events)
    assert all(one.end <= other.start for one, other in itertools.pairwise(events))


@pytest.mark.parametrize("step", [1, 7, 100])
def test_portions_do_not_matter(taught, show, step):
    joints, _ = show
    joints = joints[:400]
    whole, parts = events_of(taught, joints), events_of(taught, joints, step)
    assert [(event.start, event.end, event.label) for event in parts] == [
        (event.start, event.end, event.label) for event in whole
    ]
    assert [event.confidence for event in parts] == pytest.approx(
        [event.confidence for event in whole], abs=1e-3
    )
    assert whole


def test_an_event_comes_soon_after_its_end(taught, show):
    joints, truth = show
    stream = Stream(taught, NTU, rate=30)
    for frame in range(len(joints)):
        events = stream.push(joints[frame : frame + 1])
        if events:
            break
    assert frame < truth[0][1] + 45
    assert events[0].end <= frame + 1


def test_who_rests_makes_no_event(taught):
    """A minute of standing, seen by a sensor that shakes."""
    pose = open_clip("wave").joints[:1]
    shaking = pose + 0.01 * torch.randn(1800, 1, 25, 3, generator=torch.Generator().manual_seed(0))
    assert events_of(taught, shaking) == []


def test_a_movement_that_never_pauses_is_cut_by_its_examples(taught):
    """Kicks without rest, over and over: the leg never stops, and still each is one event."""
    kick = cut_to_movement(open_clip("kick_forward", 1))
    joints, truth = join_clips([kick] * 7, pause=0.0, blend=0.1)
    speeds = PoseSampler(NTU, 1, 30).push(joints, torch.ones(joints.shape[:3], dtype=torch.bool)).speeds
    slow = (speeds[8:, 0] < StreamConfig().stop_speed).tolist()
    assert "1" * round(15 * StreamConfig().quiet) not in "".join(str(int(one)) for one in slow)
    stream = Stream(taught, NTU, rate=30, config=StreamConfig(longest=5.0))
    early = stream.push(joints)
    assert len(early) >= 4  # while the movement goes on
    recall, precision, right = score_events(early + stream.finish(), truth)
    assert recall >= 0.8
    assert precision >= 0.8
    assert right == 1


def test_work_and_memory_do_not_grow_with_the_stream(taught, show):
    """Seven times the same show: every round costs as much as any other, and no more is kept."""
    joints, _ = show
    joints = joints[: len(joints) // 2 * 2 : 2]
    stream = Stream(taught, NTU, rate=15, config=StreamConfig(longest=6.0))
    work, kept = [], []
    for _ in range(7):
        before = stream.work
        stream.push(joints)
        work.append(stream.work - before)
        track = stream._segmenters[0]
        kept.append(sum(past._rows.numel() for past in (track._poses, track._joints, track._valid)))
    assert min(work) > 0
    assert max(work[1:]) <= 1.3 * min(work[1:])
    frames = 15 * (6 + 1) * 2 * (25 * 4 + 45)
    assert max(kept) <= 1.5 * frames
    assert stream.frames == 7 * len(joints)


class CountingRecogniser:
    """A recogniser that counts what it is given, and answers nothing or the same label every second time."""

    def __init__(self, recogniser):
        self._recogniser, self.calls, self.motions, self.frames = recogniser, 0, 0, 0
        self.stream_threshold = 0.5
        self.library, self.actions = recogniser.library, recogniser.actions

    def recognise_all(self, motions):
        motions = list(motions)
        self.calls += 1
        self.motions += len(motions)
        self.frames += sum(map(len, motions))
        label = next(iter(self.actions)) if self.calls % 2 else None
        scores = dict.fromkeys(self.actions, 1.0)
        answer = replace(NO_MATCH, label=label, nearest=label, confidence=0.9, distance=1.0, scores=scores)
        return [answer] * len(motions)


def count_bytes(held):
    """Bytes of all tensors and arrays that an object holds."""
    if isinstance(held, torch.Tensor):
        return held.untyped_storage().nbytes()
    if isinstance(held, np.ndarray):
        return (held if held.base is None else held.base).nbytes
    if isinstance(held, list | tuple):
        return sum(map(count_bytes, held))
    own = type(held).__module__.startswith("jeanie.recogniser.stream")
    return sum(map(count_bytes, vars(held).values())) if own and hasattr(held, "__dict__") else 0


def test_long_streams_cost_the_same_every_minute(taught, show):
    """Encoder calls, motions and frames given to it, ticks aligned with examples, and bytes in memory."""
    joints, _ = show
    part = joints[::2].repeat(5, 1, 1, 1)  # about a minute at 15 frames per second
    counting = CountingRecogniser(taught)
    stream = Stream(counting, NTU, rate=15, config=StreamConfig(longest=6.0))
    rows = []
    for _ in range(16):
        before = (counting.calls, counting.motions, counting.frames, stream.work)
        stream.push(part)
        after = (counting.calls, counting.motions, counting.frames, stream.work)
        rows.append([new - old for new, old in zip(after, before, strict=True)] + [count_bytes(stream)])
    assert stream.frames >= 15 * 60 * 14
    quarters = np.array(rows).reshape(4, 4, 5).mean(1)
    assert (quarters[:, :4] > 0).all()
    assert (quarters[1:].max(0) <= 1.02 * quarters[1:].min(0)).all()
    assert quarters[:, 4].max() < 2**20


def test_endless_movement_costs_no_more_the_longer_it_lasts(taught):
    """Nothing in it is enrolled and it never pauses."""
    jog = open_clip("jog", 1)
    ahead = jog.joints - jog.joints.mean((1, 2), keepdim=True)
    stream = Stream(taught, NTU, rate=30)
    work = []
    for _ in range(10):
        before = stream.work
        stream.push(torch.cat([ahead] * 2))
        work.append(stream.work - before)
    assert 0 < max(work[3:]) <= 1.5 * (sum(work[3:]) / len(work[3:])) + 60
    assert sum(work[6:]) <= 1.3 * sum(work[2:6])


def test_provisional_events_are_confirmed_or_withdrawn_and_change_no_final_event(taught, show):
    joints, _ = show
    joints = joints[:500]
    events = events_of(taught, joints, 5, config=StreamConfig(provisional=0.3))
    plain = events_of(taught, joints)
    assert {event.kind for event in plain} == {"final"}
    final = [event for event in events if event.kind == "final"]
    assert [(event.start, event.end, event.label) for event in final] == [
        (event.start, event.end, event.label) for event in plain
    ]
    assert any(event.kind == "provisional" for event in events)
    assert all(len(event.motion) == event.end - event.start for event in events)
    pending = None
    for event in events:
        if event.kind == "provisional":
            assert pending is None or pending.label == event.label
            assert pending is None or pending.start != event.start or event.progress >= pending.progress
            assert 0 < event.progress <= 1
            pending = event
        elif event.kind == "withdrawn":
            assert pending is not None
            assert (event.start, event.label) == (pending.start, pending.label)
            pending = None
        elif pending is not None and event.label == pending.label:
            pending = None
    assert pending is None


@pytest.mark.parametrize("share", [0.3, 0.6, 1.0])
def test_progress_is_the_share_of_the_example(share):
    """A smooth walk through random poses, with noise, at another tempo."""
    rng = np.random.default_rng(5)
    poses = torch.tensor(rng.normal(size=(40, 15, 3)).cumsum(0))
    templates = Templates.from_motions((), 15.0, 15.0)
    other = torch.tensor(rng.normal(size=(40, 45)).cumsum(0))
    templates = replace(
        templates,
        labels=("walk", "other"),
        poses=torch.stack([poses.flatten(1), other]),
        lengths=torch.tensor([40, 40]),
    )
    seen = poses[: round(share * 40)].repeat_interleave(2, 0) + 0.05 * torch.tensor(
        rng.normal(size=(2 * round(share * 40), 15, 3))
    )
    assert measure_progress(seen, templates, "walk") == pytest.approx(share, abs=0.06)
    assert measure_progress(seen, templates, "nothing") == 0


def test_an_action_that_is_enrolled_meanwhile_is_known(show):
    joints, truth = show
    with Recogniser.load() as recogniser:
        recogniser.enrol("clap", open_clip("clap", 0))
        stream = Stream(recogniser, NTU, rate=30)
        first = stream.push(joints[: truth[0][1] + 30])
        assert all(event.label in (None, "clap") for event in first)
        recogniser.enrol("squat", [open_clip("squat", 2, take=1), open_clip("squat", 0)])
        later = stream.push(joints[truth[0][1] + 30 : truth[1][1] + 30])
        assert [event.label for event in later] == ["squat"]


def test_persons_are_followed_each_alone_or_together(taught):
    one, _ = join_clips(
        [open_clip("wave", 1)[:20], open_clip("kick_forward", 1), open_clip("wave", 1)[:20]], pause=1.0
    )
    other = one[:1].expand(len(one), 1, 25, 3) + torch.tensor([1.5, 0.0, 0.0])
    both = torch.cat([other, one], 1)
    alone = events_of(taught, both, persons="each")
    assert {event.person for event in alone} == {1}
    assert "kick_forward" in {event.label for event in alone}
    assert {event.person for event in events_of(taught, both)} == {None}


def test_frames_without_anybody_are_rest(taught):
    squat = open_clip("squat", 2)
    nobody = torch.full((60, 1, 25, 3), torch.nan)
    rest = squat.joints[:1].expand(20, 1, 25, 3)
    joints = torch.cat([nobody, rest, squat.joints, rest, nobody, nobody])
    events = events_of(taught, joints)
    assert len(events) == 1
    assert events[0].start >= 60
    assert events[0].end <= 60 + 40 + len(squat)
    assert events_of(taught, nobody) == []


def test_a_movement_at_the_end_is_told_when_the_stream_ends(taught):
    squat = open_clip("squat", 2)
    stream = Stream(taught, NTU, rate=30)
    half = stream.push(squat[: 3 * len(squat) // 4])
    assert half == []
    assert len(stream.finish()) == 1


def test_motions_tell_their_layout_and_rate(taught):
    squat = open_clip("squat", 2)
    stream = taught.stream()
    events = stream.push(squat) + stream.finish()
    assert events[0].rate == 30


@recordings
def test_real_clips_one_after_another_are_found(record_property):
    """Clips of MSRAction3D by someone who was not enrolled: with pauses, and cut to the movement without any."""
    clips = open_dataset("msraction3d")
    labels, subjects = list(clips.labels), list(clips.subjects)
    rows = {"pauses": [], "none": []}
    for trial in (10, 11):
        chosen = random.Random(trial)
        actions = chosen.sample(sorted(set(labels)), 5)
        people = sorted(set(subjects))
        chosen.shuffle(people)
        with Recogniser.load() as recogniser:
            for action in actions:
                known = [i for i in range(len(clips)) if labels[i] == action and subjects[i] in people[:2]]
                recogniser.enrol(str(action), [clips[i] for i in known[:3]])
            queries = [
                clips[i] for i in range(len(clips)) if labels[i] in actions and subjects[i] == people[2]
            ]
            chosen.shuffle(queries)
            queries = queries[:10]
            for kind, parts, pause in (
                ("pauses", queries, 1.0),
                ("none", [cut_to_movement(clip) for clip in queries], 0.0),
            ):
                joints, truth = join_clips(parts, pause, blend=0.3 if pause else 0.2)
                events = events_of(recogniser, joints, layout=queries[0].layout, rate=15)
                named = [event for event in events if event.label is not None]
                rows[kind].append((*score_events(events, truth)[:2], *score_events(named, truth)))
    means = {kind: np.mean(values, 0).round(2).tolist() for kind, values in rows.items()}
    record_property("recall, precision; of named ones recall, precision, share of right labels", means)
    assert means["pauses"][0] >= 0.85
    assert means["pauses"][1] >= 0.85
    assert means["pauses"][4] >= 0.9
    assert means["none"][0] >= 0.3
    assert means["none"][3] >= 0.75
    assert means["none"][4] >= 0.8


@pytest.mark.errors
def test_wrong_frames_are_refused(taught):
    with pytest.raises(ConfigError, match="the layout of the joints is unknown"):
        Stream(taught).push(np.ones((3, 25, 3)))
    with pytest.raises(ShapeError, match=r"frames need axes .* got shape \(3, 1, 20, 3\)"):
        Stream(taught, NTU).push(np.ones((3, 20, 3)))
    with pytest.raises(ShapeError, match="valid needs one bool per joint"):
        Stream(taught, NTU).push(np.ones((3, 25, 3)), np.ones((2, 25), np.bool_))
    with pytest.raises(ConfigError, match="'together' or 'each'"):
        Stream(taught, NTU, persons="all")
    with pytest.raises(ConfigError, match="rate is frames per second"):
        Stream(taught, NTU, rate=0)
    stream = Stream(taught, NTU)
    stream.push(np.ones((3, 25, 3)))
    with pytest.raises(ShapeError, match="frames of 2 persons in a stream of 1"):
        stream.push(np.ones((3, 2, 25, 3)))
    with pytest.raises(ConfigError, match="convert and resample it"):
        stream.push(open_clip("wave").replace(rate=25))
    stream.finish()
    with pytest.raises(ConfigError, match="is finished"):
        stream.push(np.ones((3, 25, 3)))
    with pytest.raises(ConfigError, match="quiet"):
        StreamConfig(quiet=-1)


def test_fewer_persons_than_at_first_are_missing_persons(taught):
    both = combine_persons(open_clip("squat", 2), open_clip("wave", 2))
    stream = Stream(taught, NTU, rate=30, persons="each")
    stream.push(both.joints[:40])
    stream.push(both.joints[40:, :1])
    assert {event.person for event in stream.finish()} <= {0, 1}
    assert stream.frames == len(both)
