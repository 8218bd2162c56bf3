"""Calibration recordings: unlabelled motions of the user's own sensor, cut and reduced for the library."""

from collections.abc import Iterable

import numpy as np

from jeanie.errors import DataError
from jeanie.recogniser.library.library import MAX_CALIBRATION
from jeanie.skeleton import LAYOUTS, Motion
from jeanie.skeleton.canonical_body import sample_core_joints

__all__ = ["cut_recordings", "reduce_recording"]

_WINDOW_SECONDS = 3.0  # length of a window of a long recording
_LONG_SECONDS = 6.0  # longer recordings are cut
_RATE = 30.0  # of recordings that do not say theirs
_MOMENTS = 64


def cut_recordings(motions: Iterable[Motion]) -> list[Motion]:
    """Return motions of a few seconds: windows of long recordings, evenly spaced, and short recordings as they are.

    Frames without a visible joint at the ends of a recording do not count. At most ``MAX_CALIBRATION`` windows come
    from one recording. Windows in which nobody is visible for half of the time are left out.
    """
    cut: list[Motion] = []
    for motion in motions:
        visible = motion.valid.flatten(1).any(1).nonzero()[:, 0]
        if not len(visible):
            raise DataError(
                f"{motion.name or 'a recording'}: no joint is visible in any of {len(motion)} frames"
            )
        motion = motion[int(visible[0]) : int(visible[-1]) + 1]
        rate = motion.rate or _RATE
        window = max(2, round(_WINDOW_SECONDS * rate))
        if len(motion) <= _LONG_SECONDS * rate:
            cut.append(motion)
            continue
        count = min(MAX_CALIBRATION, len(motion) // window)
        starts = np.linspace(0, len(motion) - window, count).astype(int).tolist()
        is_seen = motion.valid.flatten(1).any(1)
        seen = [int(is_seen[start : start + window].sum()) for start in starts]
        least = min(window / 2, max(seen))
        cut += [motion[at : at + window] for at, frames in zip(starts, seen, strict=True) if frames >= least]
    return cut


def reduce_recording(motion: Motion) -> Motion:
    """Return a motion as 15 core joints at 64 moments, without tags: 12 kilobytes per person."""
    joints, present = sample_core_joints(motion, _MOMENTS)
    valid = present.expand(_MOMENTS, *present.shape)
    return Motion(joints.transpose(0, 1), LAYOUTS["core15"], valid=valid, rate=None)
