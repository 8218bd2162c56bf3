"""Recordings to search, and results to compare."""

from movements import join_clips, open_clip

from jeanie.skeleton import LAYOUTS, Motion


def make_recording(actions, subject, name):
    """Actions one after another as one recording."""
    joints, _ = join_clips([open_clip(action, subject, noise=1.0) for action in actions], pause=0.6)
    return Motion(joints, LAYOUTS["ntu25"], rate=30.0, name=name)


def list_rows(found):
    return [(match.clip, match.start, match.end, match.distance) for match in found]
