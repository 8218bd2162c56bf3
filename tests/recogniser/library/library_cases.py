"""Motions to enrol, each known by a number, and the functions that test processes run."""

import os

import numpy as np

from jeanie.errors import DataError
from jeanie.recogniser.library.library import Library
from jeanie.skeleton import LAYOUTS, Motion


def make_motion(seed=0, frames=6, persons=1, layout=LAYOUTS["core15"], missing=0.0, **tags):
    """Return a motion with fragile numbers: tiny, huge, minus zero, a valid joint at the origin."""
    random = np.random.default_rng(seed)
    joints = random.normal(size=(frames, persons, len(layout), 3)).astype(np.float32)
    valid = random.random(joints.shape[:3]) >= missing
    valid[0, 0, :2] = True
    joints[0, 0, 0] = (1e-40, -0.0, 3e38)
    joints[0, 0, 1] = 0
    return Motion(joints, layout, valid=valid, **tags)


def make_example(number, shared=False):
    """Return the label and the motion of a number."""
    return f"action {number % 7}", make_motion(
        number, name=f"{number}", take=number, label="shared" if shared else None
    )


def enrol_until_killed(place, numbers, acknowledged):
    """Enrol motions one by one, and acknowledge each."""
    with Library(place) as library:
        for number in numbers:
            library.add(*make_example(number))
            acknowledged.send_bytes(number.to_bytes(4, "little"))


def enrol_with_others(place, own, shared, start, results):
    """Open the library at the same moment as other processes, enrol own and shared motions, send what was new."""
    start.wait(120)
    with Library(place) as library:
        added = [library.add_many([make_example(number)]) for number in own]
        common = [library.add_many([make_example(number, shared=True)]) for number in shared]
        results.send(
            ([one.ids[0] for one in added], [one.new[0] for one in added], [one.new[0] for one in common])
        )


def open_as_other_user(place, ours, results):
    """Open a library as a user without permission (root has every permission).

    Opening a library of our own first imports all modules: the other user may not be able to read Python's files.
    """
    Library(ours).close()
    if os.geteuid() == 0:
        os.seteuid(65534)
    try:
        Library(place)
        results.send("opened")
    except DataError as error:
        results.send(str(error))
