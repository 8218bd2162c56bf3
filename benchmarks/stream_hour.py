"""Measure the cost and the memory of a long stream: an hour at 30 frames per second with 20 enrolled actions.

Ten minutes of MSRAction3D are repeated: clips with a second of rest, clips without rest, and jogging that never pauses,
by another subject than the examples. Prints one line per ten minutes.
"""

import argparse
import random
import resource
import time

import torch
from stream_sources import cut_to_movement, join_clips
from torch import Tensor

from jeanie.datasets import open_dataset
from jeanie.recogniser import Recogniser
from jeanie.skeleton import Motion

_TEN_MINUTES, _PORTION = 18_000, 3  # frames
_TEACHER, _PERFORMER, _JOGGING = "1", "3", "16"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", type=int, default=6, help="number of parts of ten minutes")
    given = parser.parse_args()
    torch.set_num_threads(1)
    clips = open_dataset("msraction3d")
    subjects = [str(subject) for subject in clips.subjects]
    own = [clips[row] for row, subject in enumerate(subjects) if subject == _PERFORMER]
    random.Random(5).shuffle(own)
    layout, rate = own[0].layout, own[0].rate or 15.0

    def join(parts: list[Motion], pause: float, blend: float) -> Tensor:
        joints, _ = join_clips(parts, pause, blend)
        doubled: Tensor = Motion(joints, layout, rate=rate).to_length(2 * len(joints)).joints
        return doubled

    jogging = next(clip for clip in own if str(clip.label) == _JOGGING)
    cut = [cut_to_movement(clip) for clip in own[20:45]]
    joints = torch.cat(
        [join(own[:20], 1.0, 0.3), join(cut, 0.0, 0.2), join([cut_to_movement(jogging)] * 30, 0.0, 0.2)]
    )
    joints = joints.repeat(-(-_TEN_MINUTES // len(joints)), 1, 1, 1)[:_TEN_MINUTES]
    with Recogniser.load() as recogniser:
        for row, subject in enumerate(subjects):
            if subject == _TEACHER and str(clips.labels[row]) not in recogniser.actions:
                recogniser.enrol(str(clips.labels[row]), clips[row])
        recogniser.recognise(own[0])  # encodes the examples and the background set
        stream = recogniser.stream(layout, rate=2 * rate)
        print(f"{len(recogniser.actions)} actions, {2 * rate:g} frames per second")
        for part in range(given.parts):
            start, events = time.process_time(), 0
            for frame in range(0, len(joints), _PORTION):
                events += len(stream.push(joints[frame : frame + _PORTION]))
            cpu = 1e3 * (time.process_time() - start) / len(joints)
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(
                f"minutes {10 * part} to {10 * part + 10}: {cpu:.2f} ms of CPU time per frame, {events} events, "
                f"peak memory {memory:.0f} MB",
                flush=True,
            )


if __name__ == "__main__":
    main()
