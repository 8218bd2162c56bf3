"""A camera, or a video file, for jeanie: MediaPipe finds the body, this program tells `jeanie watch -` where it is.

    python examples/webcam.py record wave.json --seconds 4 --model pose_landmarker_full.task
    jeanie enrol wave wave.json
    python examples/webcam.py stream --model pose_landmarker_full.task | jeanie watch -

With `--video FILE` the pictures come from a recorded video in place of the camera, at the video's own times.

Needs `pip install 'jeanie[camera]'` (mediapipe and opencv) and a model file of MediaPipe's Pose Landmarker. It was
written against the interface of mediapipe 1.2 (`mediapipe.tasks`, the same since 0.10). Reading videos and what is
written are tested; with a model file and with a camera it was never run.
"""

import argparse
import importlib
import json
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

SEEN = 0.3  # visibility below which a joint is not told
READY = 3.0  # seconds before a recording from a camera begins
USUAL_RATE = 30.0  # frames a second of a video that does not tell


def is_hidden(point: Any) -> bool:
    """Whether MediaPipe guesses a landmark more than it sees it."""
    return point.visibility is not None and point.visibility < SEEN


def convert_landmarks(landmarks: Iterable[Any]) -> list[list[float] | None]:
    """World landmarks of one person in jeanie's camera space: metres, y up, z away from the camera, x to the left.

    MediaPipe has x to the right and y down; z grows away from the camera in both.
    """
    return [None if is_hidden(point) else [-point.x, -point.y, point.z] for point in landmarks]


def format_line(people: Iterable[Iterable[Any]], seconds: float) -> str:
    """A frame as a JSON line for `jeanie watch -`; nobody is an empty list."""
    joints = next((convert_landmarks(person) for person in people), [])
    return json.dumps({"t": round(seconds, 4), "layout": "mediapipe33", "joints": joints})


def format_frame(people: Iterable[Iterable[Any]]) -> dict[str, Any]:
    """A frame as `jeanie enrol` reads it from a file of MediaPipe results, where zeros stand for a missing joint."""
    person = next(iter(people), ())
    points = [[0.0, 0.0, 0.0] if is_hidden(point) else [point.x, point.y, point.z] for point in person]
    return {"pose_world_landmarks": points}


def read_pictures(source: int | Path) -> Iterator[tuple[float, Any]]:
    """Time in seconds, and the picture, of everything that a camera or a video file shows."""
    cv2 = import_package("cv2")
    capture = cv2.VideoCapture(source if isinstance(source, int) else str(source))
    if not capture.isOpened():
        sys.exit(f"{f'camera {source}' if isinstance(source, int) else source}: cannot be opened")
    rate = capture.get(cv2.CAP_PROP_FPS) or USUAL_RATE
    start, number = time.monotonic(), 0
    try:
        while True:
            is_read, picture = capture.read()
            if not is_read:
                return
            yield time.monotonic() - start if isinstance(source, int) else number / rate, picture
            number += 1
    finally:
        capture.release()


def detect_poses(model: Path, source: int | Path) -> Iterator[tuple[float, Any]]:
    """Time in seconds, and the persons, of every picture."""
    cv2, mediapipe = import_package("cv2"), import_package("mediapipe")
    vision = mediapipe.tasks.vision
    options = vision.PoseLandmarkerOptions(
        base_options=mediapipe.tasks.BaseOptions(model_asset_path=str(model)),
        running_mode=vision.RunningMode.VIDEO,
    )
    try:
        landmarker = vision.PoseLandmarker.create_from_options(options)
    except (RuntimeError, ValueError, OSError) as error:
        sys.exit(f"{model}: not a model of MediaPipe's Pose Landmarker: {error}")
    last = -1
    with landmarker:
        for seconds, picture in read_pictures(source):
            last = max(last + 1, round(1000 * seconds))  # MediaPipe wants every time to be later
            image = mediapipe.Image(
                image_format=mediapipe.ImageFormat.SRGB, data=cv2.cvtColor(picture, cv2.COLOR_BGR2RGB)
            )
            yield seconds, landmarker.detect_for_video(image, last).pose_world_landmarks


def import_package(name: str) -> Any:
    """A package of the extra ``camera``."""
    try:
        return importlib.import_module(name)
    except ImportError:
        sys.exit(f"needs {name}: pip install 'jeanie[camera]'")


def stream(model: Path, source: int | Path) -> None:
    """Print a line a picture until the reader goes away."""
    try:
        for seconds, people in detect_poses(model, source):
            print(format_line(people, seconds), flush=True)
    except (BrokenPipeError, KeyboardInterrupt):
        return


def record(path: Path, results: Iterable[tuple[float, Any]], start: float, length: float) -> None:
    """Write what is seen from ``start`` on for ``length`` seconds to a file that `jeanie enrol` reads."""
    frames, times = [], []
    for seconds, people in results:
        if seconds > start + length:
            break
        if seconds >= start:
            frames.append(format_frame(people))
            times.append(seconds)
    if len(times) < 2:
        sys.exit("there were no pictures")
    rate = (len(times) - 1) / (times[-1] - times[0])
    path.write_text(json.dumps({"fps": round(rate, 3), "frames": frames}))
    print(f"{path}: {len(frames)} frames, {rate:.1f} a second", file=sys.stderr)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="A camera or a video file for jeanie.")
    parser.add_argument("what", choices=["stream", "record"])
    parser.add_argument("path", nargs="?", type=Path, help="file to record into")
    parser.add_argument("--model", type=Path, required=True, help="a pose_landmarker .task file")
    parser.add_argument("--camera", type=int, default=0)
    parser.add_argument("--video", type=Path, help="a video file in place of the camera")
    parser.add_argument("--seconds", type=float, help="of a recording; 4 from a camera, all of a video")
    options = parser.parse_args()
    source = options.camera if options.video is None else options.video
    if options.what == "stream":
        stream(options.model, source)
    elif options.path is None:
        parser.error("record needs the path of a file")
    elif options.video is not None:
        record(options.path, detect_poses(options.model, source), 0.0, options.seconds or float("inf"))
    else:
        print(f"in {READY:.0f} seconds ...", file=sys.stderr)
        record(options.path, detect_poses(options.model, source), READY, options.seconds or 4.0)


if __name__ == "__main__":
    main()
