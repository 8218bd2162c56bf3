"""Movements that follow each other without rest: each is an event, soon after its end."""

import pytest
from movements import compute_overlap, cut_to_movement, join_clips, open_clip

from jeanie.recogniser.recogniser import Recogniser
from jeanie.recogniser.stream.stream import Stream
from jeanie.skeleton import LAYOUTS

ACTIONS = ("kick_forward", "golf_swing", "punch")
LATEST = 20  # frames from the end of a movement to its event, at 30 frames per second


@pytest.fixture(scope="module")
def arrivals():
    """Return (frame of arrival, event) of a stream of another performer, and what was performed when."""
    clips = [cut_to_movement(open_clip(action, 1)) for action in ACTIONS * 3]
    joints, truth = join_clips(clips, pause=0.0, blend=0.1)
    with Recogniser.load() as recogniser:
        for action in ACTIONS:
            recogniser.enrol(action, open_clip(action, 0))
        stream = Stream(recogniser, LAYOUTS["ntu25"], rate=30)
        rows = []
        for frame in range(0, len(joints), 2):
            rows += [(frame + 2, event) for event in stream.push(joints[frame : frame + 2])]
        rows += [(len(joints), event) for event in stream.finish()]
    return rows, truth


def test_every_movement_is_an_event_in_place(arrivals):
    rows, truth = arrivals
    found = [
        max(compute_overlap((event.start, event.end), (start, end)) for _, event in rows)
        for start, end, _ in truth
    ]
    assert sum(share >= 0.5 for share in found) >= len(truth) - 1
    assert len(rows) <= len(truth) + 1


def test_names_are_right(arrivals):
    rows, truth = arrivals
    named = [event for _, event in rows if event.label is not None]
    assert len(named) >= len(truth) // 2
    for event in named:
        best = max(truth, key=lambda row: compute_overlap((event.start, event.end), row[:2]))
        assert event.label == best[2]


def test_events_come_soon_once_the_movement_is_longer_than_one_action(arrivals):
    rows, _ = arrivals
    first = rows[0][0]
    late = [frame - event.end for frame, event in rows if event.end > first]
    assert late
    assert max(late) <= LATEST
