"""``jeanie info``: the contents of a recording or an archive."""

import json
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from jeanie.cli.body_facts import body_facts
from jeanie.cli.options import accept_option_groups
from jeanie.cli.terminal import AsJson, exit_on_error
from jeanie.datasets import ReadOptions
from jeanie.datasets.archive.reader import Archive, is_archive, open_archive
from jeanie.errors import ConfigError
from jeanie.skeleton.motion import Motion

__all__ = ["draw_in_terminal", "info"]


_WIDTH, _HEIGHT = 28, 14  # cells of the terminal picture, each 2 x 4 dots


_DOTS = np.array(
    [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]]
)  # bits of a Braille sign by row, column


_POSES = 5  # side by side in a picture file


@accept_option_groups
def info(
    path: Annotated[Path, typer.Argument(help="Recording in any known format, or an archive.")],
    clip: Annotated[int, typer.Option(help="Number of the clip to show, for an archive.")] = 0,
    picture: Annotated[
        Path | None, typer.Option(help="Write a picture of the skeleton to this file (PNG).")
    ] = None,
    as_json: AsJson = False,
    *,
    options: ReadOptions,
) -> None:
    """Show how a recording is read: joints, size, posture, rate, gaps, warnings and a picture; or an archive."""
    with exit_on_error(as_json):
        if is_archive(path):
            archive = open_archive(path)
            if not -len(archive) <= clip < len(archive):
                raise ConfigError(
                    f"{path}: clip {clip} of {len(archive)}; give --clip 0 to {len(archive) - 1}"
                )
            motion = archive[clip]
            facts = _describe_archive(archive) | {"clip": _describe_motion(motion)}
        else:
            motion = options.read(path)
            facts = {"kind": "motion", "file": str(path), **_describe_motion(motion)}
        if picture is not None:
            _write_picture(motion, picture)
            facts["picture"] = str(picture)
        typer.echo(json.dumps(facts) if as_json else _format_facts(facts) + "\n" + draw_in_terminal(motion))


def _describe_motion(motion: Motion) -> dict[str, Any]:
    points = motion.joints[motion.valid]
    extent = points.amax(0) - points.amin(0)
    tags = {key: getattr(motion, key) for key in ("label", "subject", "view", "setup", "take")}
    return {
        "name": motion.name,
        "layout": motion.layout.name,
        "joints": len(motion.layout),
        "unit": motion.layout.unit,
        "frames": len(motion),
        "persons": motion.persons,
        "rate": motion.rate,
        "seconds": None if motion.rate is None else round(len(motion) / motion.rate, 3),
        "missing": round(1 - motion.valid.float().mean().item(), 4),
        "extent_xyz": [round(value, 4) for value in extent.tolist()],
        **body_facts(motion),
        **{key: value for key, value in tags.items() if value is not None},
    }


def _describe_archive(archive: Archive) -> dict[str, Any]:
    frames = archive.lengths
    return {
        "kind": "archive",
        "file": str(archive.path),
        "name": archive.name,
        "clips": len(archive),
        "frames": int(frames.sum()),
        "shortest": int(frames.min()),
        "longest": int(frames.max()),
        "layouts": [layout.name for layout in archive.layouts],
        **{key: len(table) for key, table in archive.tables.items()},
        "bytes": sum(file.stat().st_size for file in archive.path.iterdir() if file.is_file()),
        "report": archive.report,
    }


def _format_facts(facts: dict[str, Any], indent: str = "") -> str:
    """Return facts with one line per value; nested values are indented."""
    lines = []
    for key, value in facts.items():
        if isinstance(value, dict):
            lines += [f"{indent}{key}", _format_facts(value, indent + "  ")]
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            lines += [f"{indent}{key}", *(indent + "  " + ": ".join(map(str, row.values())) for row in value)]
        elif key == "warnings" and value:
            lines += [f"{indent}{key}", *(f"{indent}  {text}" for text in value)]
        elif value is not None:
            lines.append(f"{indent}{key:<16} {'none' if value == [] else value}")
    return "\n".join(lines)


def _find_best_frame(motion: Motion) -> int:
    """Return the frame with most valid joints; among equals, the one nearest to the middle."""
    joint_counts = motion.valid.sum(dim=(1, 2))
    best = (joint_counts == joint_counts.max()).nonzero().flatten()
    return int(best[(best - len(motion) // 2).abs().argmin()])


def _list_lines(motion: Motion, frame: int) -> list[NDArray[np.float64]]:
    """Return the bones (or single points) of a frame as pairs of points [2, 2] in the picture plane, right and up.

    Camera space is right-handed with +z away from the camera, so the right side of the picture has negative x.
    """
    flat = motion.joints[frame].double().numpy()[..., :2]
    flat = flat * [-1, 1]
    valid = motion.valid[frame].numpy()
    bones = motion.layout.bones or [(joint, joint) for joint in range(len(motion.layout))]
    return [
        flat[person][[parent, child]]
        for person in range(motion.persons)
        for parent, child in bones
        if valid[person, parent] and valid[person, child]
    ]


def draw_in_terminal(motion: Motion) -> str:
    """Draw the skeleton of one frame in Braille characters, as seen from the camera."""
    lines = _list_lines(motion, _find_best_frame(motion))
    dots = np.zeros((_HEIGHT * 4, _WIDTH * 2), np.bool_)
    if lines:
        ends = np.stack(lines)
        low, size = ends.min((0, 1)), max(np.ptp(ends, (0, 1)).max(), 1e-9)
        along = np.linspace(0, 1, 200)[:, None, None]
        points = ends[None, :, 0] * (1 - along) + ends[None, :, 1] * along
        places = ((points - low) / size * (min(dots.shape) - 1)).round().astype(int)
        dots[dots.shape[0] - 1 - places[..., 1], places[..., 0]] = True
    cells = dots.reshape(_HEIGHT, 4, _WIDTH, 2).transpose(0, 2, 1, 3)
    signs = 0x2800 + (cells * _DOTS).sum((2, 3))
    return "\n".join("".join(map(chr, row)).rstrip("\u2800") for row in signs).strip("\n")


def _write_picture(motion: Motion, path: Path) -> None:
    """Write a picture file of poses from the first frame to the last, as seen from the camera."""
    try:
        figure = import_module("matplotlib.figure").Figure(figsize=(2.2 * _POSES, 3), layout="constrained")
    except ImportError:
        raise ConfigError("pictures need matplotlib; pip install 'jeanie[plots]'") from None
    frames = np.unique(np.linspace(0, len(motion) - 1, _POSES).round().astype(int))
    for axis, frame in zip(figure.subplots(1, _POSES, sharex=True, sharey=True), frames, strict=False):
        for ends in _list_lines(motion, int(frame)):
            axis.plot(*ends.T, color="tab:blue", marker=".", linewidth=1.5, markersize=4)
        axis.set_title(f"frame {frame}", fontsize=8)
        axis.set_aspect("equal")
    for axis in figure.axes:
        axis.set_axis_off()
    try:
        figure.savefig(path, dpi=120, bbox_inches="tight", pad_inches=0.1)
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None
