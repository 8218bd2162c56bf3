"""``jeanie record``: record the poses of a camera or a video with the pose model of the page of ``jeanie serve``."""

import importlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from jeanie._internal.files import write_atomically
from jeanie.cli.terminal import AsJson, exit_on_error, print_report
from jeanie.errors import ConfigError, DataError

__all__ = ["record"]

VENDOR = Path(__file__).resolve().parents[1] / "serve" / "static" / "vendor"
_MIN_VISIBILITY = 0.3  # joints with a lower visibility are missing; as on the page
_RATE = 30.0  # frames per second of a video without a rate
_MAX_FRAMES = 36_000


def record(
    out: Annotated[Path, typer.Argument(help="File to write, such as wave.json; jeanie enrol reads it.")],
    camera: Annotated[int, typer.Option(min=0, help="Number of the camera.")] = 0,
    video: Annotated[Path | None, typer.Option(help="Video file to read instead of the camera.")] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0.1, help="Length of the recording (default: 4, or the whole video).")
    ] = None,
    delay: Annotated[
        float, typer.Option(min=0, help="Seconds before a recording of the camera starts.")
    ] = 3.0,
    pose_model: Annotated[
        Literal["lite", "full"], typer.Option(help="Pose model: lite is faster, full is more exact.")
    ] = "full",
    as_json: AsJson = False,
) -> None:
    """Record the poses of a person from a camera or a video, with the same pose model as the page of jeanie serve."""
    with exit_on_error(as_json):
        if not out.parent.is_dir():
            raise ConfigError(f"{out.parent}: no such folder; create it first")
        model = VENDOR / f"pose_landmarker_{pose_model}.task"
        if not model.is_file():
            raise ConfigError(f"{model.name} is not part of this installation; in a checkout, run: make web")
        start, length = (0.0, seconds or float("inf")) if video is not None else (delay, seconds or 4.0)
        if video is None and not as_json:
            typer.echo(f"recording starts in {delay:g} seconds", err=True)
        times: list[float] = []
        frames: list[dict[str, Any]] = []
        for moment, points in _find_poses(model, camera if video is None else video):
            if moment > start + length or len(frames) >= _MAX_FRAMES:
                break
            if moment >= start:
                times.append(moment)
                frames.append({"pose_world_landmarks": points})
        visible_count = sum(bool(frame["pose_world_landmarks"]) for frame in frames)
        if visible_count < 2:
            raise DataError(
                f"{video or f'camera {camera}'}: a person is visible in {visible_count} of {len(frames)} pictures; "
                "step back until the whole body is in the picture"
            )
        rate = (len(times) - 1) / (times[-1] - times[0])
        write_atomically(out, json.dumps({"fps": round(rate, 3), "frames": frames}).encode())
        facts = {"file": str(out), "frames": len(frames), "seen": visible_count, "rate": round(rate, 2)}
        text = (
            f"{out}: {len(frames)} frames, {rate:.1f} per second, a person in {visible_count}; "
            f"next: jeanie enrol LABEL {out}"
        )
        print_report(facts, [text], as_json)


def _find_poses(model: Path, source: int | Path) -> Iterator[tuple[float, list[list[float]]]]:
    """Yield time and world landmarks of every picture; a landmark that is not visible has zeros."""
    cv2, mediapipe = _import_package("cv2"), _import_package("mediapipe")
    vision = mediapipe.tasks.vision
    options = vision.PoseLandmarkerOptions(
        base_options=mediapipe.tasks.BaseOptions(model_asset_buffer=model.read_bytes()),
        running_mode=vision.RunningMode.VIDEO,
    )
    capture = cv2.VideoCapture(source if isinstance(source, int) else str(source))
    if not capture.isOpened():
        name = f"camera {source}" if isinstance(source, int) else str(source)
        raise DataError(f"{name}: cannot be opened; give another --camera or --video")
    rate, begin, last = capture.get(cv2.CAP_PROP_FPS) or _RATE, time.monotonic(), -1
    try:
        with vision.PoseLandmarker.create_from_options(options) as landmarker:
            number = 0
            while (result := capture.read())[0]:
                moment = time.monotonic() - begin if isinstance(source, int) else number / rate
                number, last = number + 1, max(last + 1, round(1000 * moment))  # times must increase
                picture = mediapipe.Image(
                    image_format=mediapipe.ImageFormat.SRGB, data=cv2.cvtColor(result[1], cv2.COLOR_BGR2RGB)
                )
                people = landmarker.detect_for_video(picture, last).pose_world_landmarks
                yield moment, [_convert(point) for point in people[0]] if people else []
    finally:
        capture.release()


def _convert(point: Any) -> list[float]:
    is_hidden = point.visibility is not None and point.visibility < _MIN_VISIBILITY
    return [0.0, 0.0, 0.0] if is_hidden else [round(float(value), 5) for value in (point.x, point.y, point.z)]


def _import_package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        raise ConfigError(
            f"jeanie record needs {name}; install it with: pip install 'jeanie[camera]'"
        ) from None
