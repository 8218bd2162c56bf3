"""Key points of images: from pixels to camera space, and persons tracked through frames.

An image has u to the right and v down, as the camera sees it. Rotated by half a turn about the optical axis, x = -u
and y = -v, it becomes Kinect's camera space: y up, and x grows towards the right hand of a person who faces the
camera. Left and right stay what they are. 2-D key points have z = 0.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jeanie.datasets.formats.build import make_motion
from jeanie.datasets.formats.files import check_size
from jeanie.skeleton.layout import Layout
from jeanie.skeleton.motion import Motion

__all__ = [
    "MAX_PERSONS",
    "convert_image_points",
    "make_keypoint_motion",
    "place_by_id",
    "place_persons",
    "select_best_two",
]

Floats = NDArray[Any]
MAX_PERSONS = 64  # per frame


@np.errstate(over="ignore", invalid="ignore")  # an overflow is a missing joint
def convert_image_points(points: Floats, size: tuple[float, float] = (0.0, 0.0)) -> Floats:
    """Convert (u, v) or (u, v, depth) to camera space: (width / 2 - u, height / 2 - v, depth or 0)."""
    centred = np.array(size) / 2 - points[..., :2]
    depth = points[..., 2:] if points.shape[-1] > 2 else np.zeros_like(centred[..., :1])
    return np.concatenate([centred, depth], axis=-1)


@np.errstate(over="ignore", invalid="ignore")  # an overflow is a missing joint
def select_best_two(points: Floats, score: Floats) -> tuple[Floats, Floats]:
    """Select the two persons with the highest mean score in every frame, and track them through the frames.

    The two swap places from a frame to the next if that brings them closer to where they were. ``points`` is
    [frame, person, joint, axis] with NaN for a missing person, ``score`` is [frame, person, joint].
    """
    if points.shape[1] < 2:
        return points, score
    rank = np.argsort(-np.nan_to_num(score).mean(axis=2), axis=1, kind="stable")[:, :2]
    points = np.take_along_axis(points, rank[..., None, None], axis=1)
    score = np.take_along_axis(score, rank[..., None], axis=1)
    # distance [frame, person before, person after, joint]
    distance = np.linalg.norm(points[1:, None, :] - points[:-1, :, None], axis=-1)
    distance = np.where(distance < 1e30, distance, np.nan)
    stay = _average_finite(np.stack([distance[:, 0, 0], distance[:, 1, 1]], axis=1))
    swap = _average_finite(np.stack([distance[:, 0, 1], distance[:, 1, 0]], axis=1))
    swapped = np.logical_xor.accumulate(np.concatenate([[False], swap < stay]))[:, None, None]
    return np.where(swapped[..., None], points[:, ::-1], points), np.where(swapped, score[:, ::-1], score)


def _average_finite(values: Floats) -> Floats:
    """Return the mean over persons and joints of [frame, person, joint] without NaN; infinity if all are NaN."""
    finite = np.isfinite(values)
    count = finite.sum(axis=(1, 2))
    return np.where(count > 0, np.where(finite, values, 0).sum(axis=(1, 2)) / np.maximum(count, 1), np.inf)


def place_persons(
    path: Path, places: NDArray[np.int64], counts: Sequence[int], pose: Floats, score: Floats
) -> tuple[Floats, Floats]:
    """Arrange a list of persons as [frame, person, joint, axis] and [frame, person, joint].

    Args:
        path: The file, for error messages.
        places: Frame of each entry of ``counts``.
        counts: Number of persons per entry; the other places of a frame stay NaN.
        pose: Points [person, joint, axis] of all entries, one after the other.
        score: Scores [person, joint].
    """
    persons_of = np.array(counts, dtype=np.int64)
    frames, persons, joints = int(places.max()) + 1, max(1, int(persons_of.max(initial=0))), pose.shape[1]
    check_size(path, frames, persons, joints)
    points = np.full((frames, persons, joints, pose.shape[2]), np.nan)
    scores = np.zeros((frames, persons, joints))
    index = np.arange(len(pose)) - np.repeat(np.cumsum(persons_of) - persons_of, persons_of)
    points[np.repeat(places, persons_of), index] = pose
    scores[np.repeat(places, persons_of), index] = score
    return points, scores


def place_by_id(path: Path, points: Floats, counts: Sequence[int], ids: Sequence[object]) -> Floats:
    """Arrange points [body, joint, axis] as [frame, person, joint, axis]; bodies with the same id are one person.

    ``counts`` is the number of bodies per frame; the points of a person who is not in a frame are NaN.
    """
    person_of = {body: index for index, body in enumerate(dict.fromkeys(ids))}
    check_size(path, len(counts), len(person_of), points.shape[1])
    points_by_frame = np.full((len(counts), len(person_of), *points.shape[1:]), np.nan)
    frame_of = np.repeat(np.arange(len(counts)), counts)
    points_by_frame[frame_of, [person_of[body] for body in ids]] = points
    return points_by_frame


def make_keypoint_motion(
    path: Path, points: Floats, score: Floats, file_layout: Layout, size: tuple[float, float], **options: Any
) -> Motion:
    """Build a motion of points [frame, person, joint, 2 or 3] in an image of ``size``.

    A point at the origin or with score 0 is missing. Persons without a point in any frame are left out.
    ``options`` are those of ``make_motion``.
    """
    valid = np.isfinite(points).all(-1) & (points != 0).any(-1) & (score > 0)
    present = valid.any(axis=(0, 2))
    if present.any() and not present.all():
        points, valid = points[:, present], valid[:, present]
    return make_motion(path, convert_image_points(points, size), file_layout, valid=valid, **options)
