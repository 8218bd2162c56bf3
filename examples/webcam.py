"""A camera for jeanie: MediaPipe finds the body, this program tells `jeanie watch -` where its joints are.

    python examples/webcam.py record wave.json --seconds 4 --model pose_landmarker_full.task
    jeanie enrol wave wave.json
    python examples/webcam.py stream --model pose_landmarker_full.task | jeanie watch -

Needs `pip install 'jeanie[camera]'` (mediapipe and opencv) and a model file of MediaPipe's Pose Landmarker. It was
written against the interface of mediapipe 1.2 (`mediapipe.tasks`, the same since 0.10) and tried without a camera:
the forms it writes are tested, the camera itself is not.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

SEEN = 0.3  # visibility below which a joint is not told


def joints_of(landmarks: Iterable[Any]) -> list[list[float] | None]:
    """World landmarks of one person in jeanie's camera space: metres, y up, z away from the camera, x to the left.

    MediaPipe has x to the right and y down; z grows away from the camera in both.
    """
    return [
        None if point.visibility is not None and point.visibility < SEEN else [-point.x, -point.y, point.z]
        for point in landmarks
    ]


def line_of(people: Iterable[Iterable[Any]], seconds: float) -> str:
    """A frame as a JSON line for `jeanie watch -`; nobody is an empty list."""
    joints = next((joints_of(person) for person in people), [])
    return json.dumps({"t": round(seconds, 4), "layout": "mediapipe33", "joints": joints})


def frame_of(people: Iterable[Iterable[Any]]) -> dict[str, Any]:
    """A frame as `jeanie enrol` reads it from a file of MediaPipe results."""
    points = next(([[point.x, point.y, point.z] for point in person] for person in people), [])
    return {"pose_world_landmarks": points}


def poses(model: Path, camera: int) -> Iterator[tuple[float, Any]]:
    """Time in seconds, and the persons, of every picture of a camera."""
    import cv2  # noqa: PLC0415  an extra
    import mediapipe  # noqa: PLC0415  an extra

    vision = mediapipe.tasks.vision
    options = vision.PoseLandmarkerOptions(
        base_options=mediapipe.tasks.BaseOptions(model_asset_path=str(model)),
        running_mode=vision.RunningMode.VIDEO,
    )
    pictures = cv2.VideoCapture(camera)
    if not pictures.isOpened():
        sys.exit(f"camera {camera} cannot be opened")
    start = time.monotonic()
    try:
        with vision.PoseLandmarker.create_from_options(options) as landmarker:
            while True:
                there, picture = pictures.read()
                if not there:
                    return
                seconds = time.monotonic() - start
                image = mediapipe.Image(
                    image_format=mediapipe.ImageFormat.SRGB, data=cv2.cvtColor(picture, cv2.COLOR_BGR2RGB)
                )
                yield seconds, landmarker.detect_for_video(image, round(1000 * seconds)).pose_world_landmarks
    finally:
        pictures.release()


def stream(model: Path, camera: int) -> None:
    """Print a line a picture until the reader goes away."""
    try:
        for seconds, people in poses(model, camera):
            print(line_of(people, seconds), flush=True)
    except (BrokenPipeError, KeyboardInterrupt):
        return


def record(path: Path, length: float, model: Path, camera: int) -> None:
    """Write some seconds, after three to get ready, to a file that `jeanie enrol` reads."""
    print("in three seconds ...", file=sys.stderr)
    frames, times = [], []
    for seconds, people in poses(model, camera):
        if seconds > 3 + length:
            break
        if seconds > 3:
            frames.append(frame_of(people))
            times.append(seconds)
    if len(times) < 2:
        sys.exit("the camera gave no pictures")
    rate = (len(times) - 1) / (times[-1] - times[0])
    path.write_text(json.dumps({"fps": round(rate, 3), "frames": frames}))
    print(f"{path}: {len(frames)} frames, {rate:.1f} a second", file=sys.stderr)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="A camera for jeanie.")
    parser.add_argument("what", choices=["stream", "record"])
    parser.add_argument("path", nargs="?", type=Path, help="file to record into")
    parser.add_argument("--model", type=Path, required=True, help="a pose_landmarker .task file")
    parser.add_argument("--camera", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=4.0)
    given = parser.parse_args()
    if given.what == "stream":
        stream(given.model, given.camera)
    elif given.path is None:
        parser.error("record needs the path of a file")
    else:
        record(given.path, given.seconds, given.model, given.camera)


if __name__ == "__main__":
    main()
