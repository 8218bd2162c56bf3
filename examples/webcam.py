"""Send the poses of a camera or a video file to jeanie. MediaPipe finds the poses.

    python examples/webcam.py record wave.json --seconds 4
    jeanie enrol wave wave.json
    python examples/webcam.py stream | jeanie watch -

With `--video FILE` the pictures come from a video instead of the camera, with the times of the video.

Needs `pip install 'jeanie[camera]'` (mediapipe and opencv). The model is that of the page of `jeanie serve`; `--model`
takes another file of MediaPipe's Pose Landmarker. `jeanie record` does the same as `record`.
"""

import argparse
import importlib
import json
import sys
import time
from collections.abc import Iterable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

MIN_VISIBILITY = 0.3  # joints with a lower visibility are missing
DELAY = 3.0  # seconds before a recording from a camera starts
DEFAULT_RATE = 30.0  # frames per second of a video without a rate


def is_hidden(point: Any) -> bool:
    """Return whether the visibility of a landmark is too low."""
    return point.visibility is not None and point.visibility < MIN_VISIBILITY


def convert_landmarks(landmarks: Iterable[Any]) -> list[list[float] | None]:
    """Return the world landmarks of one person in jeanie's camera space: metres, y up, z away from the camera, x left.

    MediaPipe has x to the right and y down; z points away from the camera in both.
    """
    return [None if is_hidden(point) else [-point.x, -point.y, point.z] for point in landmarks]


def format_line(people: Iterable[Iterable[Any]], seconds: float) -> str:
    """Return a frame as a JSON line for `jeanie watch -`; without a person the list is empty."""
    joints = next((convert_landmarks(person) for person in people), [])
    return json.dumps({"t": round(seconds, 4), "layout": "mediapipe33", "joints": joints})


def format_frame(people: Iterable[Iterable[Any]]) -> dict[str, Any]:
    """Return a frame for a file of MediaPipe results, as `jeanie enrol` reads it; a missing joint has zeros."""
    person = next(iter(people), ())
    points = [[0.0, 0.0, 0.0] if is_hidden(point) else [point.x, point.y, point.z] for point in person]
    return {"pose_world_landmarks": points}


def read_pictures(source: int | Path) -> Iterator[tuple[float, Any]]:
    """Yield the time in seconds and the picture of every frame of a camera or a video file."""
    cv2 = import_package("cv2")
    capture = cv2.VideoCapture(source if isinstance(source, int) else str(source))
    if not capture.isOpened():
        sys.exit(f"{f'camera {source}' if isinstance(source, int) else source}: cannot be opened")
    rate = capture.get(cv2.CAP_PROP_FPS) or DEFAULT_RATE
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
    """Yield the time in seconds and the landmarks of all persons of every picture."""
    cv2, mediapipe = import_package("cv2"), import_package("mediapipe")
    vision = mediapipe.tasks.vision
    options = vision.PoseLandmarkerOptions(
        base_options=mediapipe.tasks.BaseOptions(model_asset_path=str(model)),
        running_mode=vision.RunningMode.VIDEO,
    )
    try:
        landmarker = vision.PoseLandmarker.create_from_options(options)
    except (RuntimeError, ValueError, OSError) as error:
        sys.exit(f"{model}: not a model file of MediaPipe's Pose Landmarker: {error}")
    last = -1
    with landmarker:
        for seconds, picture in read_pictures(source):
            last = max(last + 1, round(1000 * seconds))  # MediaPipe requires increasing times
            image = mediapipe.Image(
                image_format=mediapipe.ImageFormat.SRGB, data=cv2.cvtColor(picture, cv2.COLOR_BGR2RGB)
            )
            yield seconds, landmarker.detect_for_video(image, last).pose_world_landmarks


def find_model() -> Path:
    """Return the pose model of the page of ``jeanie serve``."""
    return Path(str(files("jeanie"))) / "serve/static/vendor/pose_landmarker_full.task"


def import_package(name: str) -> Any:
    """Import a package of the extra ``camera``."""
    try:
        return importlib.import_module(name)
    except ImportError:
        sys.exit(f"needs {name}: pip install 'jeanie[camera]'")


def stream(model: Path, source: int | Path) -> None:
    """Print one line per picture until the reader closes the pipe."""
    try:
        for seconds, people in detect_poses(model, source):
            print(format_line(people, seconds), flush=True)
    except (BrokenPipeError, KeyboardInterrupt):
        return


def record(path: Path, results: Iterable[tuple[float, Any]], start: float, length: float) -> None:
    """Write the poses of ``length`` seconds, from ``start`` on, to a file that `jeanie enrol` reads."""
    frames, times = [], []
    for seconds, people in results:
        if seconds > start + length:
            break
        if seconds >= start:
            frames.append(format_frame(people))
            times.append(seconds)
    if len(times) < 2:
        sys.exit("the camera or video has fewer than two pictures in this time")
    rate = (len(times) - 1) / (times[-1] - times[0])
    path.write_text(json.dumps({"fps": round(rate, 3), "frames": frames}))
    print(f"{path}: {len(frames)} frames, {rate:.1f} per second", file=sys.stderr)


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["stream", "record"], help="print frames, or record a file")
    parser.add_argument("path", nargs="?", type=Path, help="file to write with record")
    parser.add_argument(
        "--model",
        type=Path,
        default=find_model(),
        help="a pose_landmarker .task file (default: that of the page)",
    )
    parser.add_argument("--camera", type=int, default=0, help="number of the camera (default: 0)")
    parser.add_argument("--video", type=Path, help="video file to use instead of the camera")
    parser.add_argument(
        "--seconds", type=float, help="length of a recording (default: 4 from a camera, the whole video)"
    )
    options = parser.parse_args()
    source = options.camera if options.video is None else options.video
    if options.what == "stream":
        stream(options.model, source)
    elif options.path is None:
        parser.error("record needs the path of a file")
    elif options.video is not None:
        record(options.path, detect_poses(options.model, source), 0.0, options.seconds or float("inf"))
    else:
        print(f"recording starts in {DELAY:.0f} seconds", file=sys.stderr)
        record(options.path, detect_poses(options.model, source), DELAY, options.seconds or 4.0)


if __name__ == "__main__":
    main()
