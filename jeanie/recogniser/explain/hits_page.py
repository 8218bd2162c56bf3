"""Results as one HTML page: animated, sortable, with a threshold slider and tick boxes that export a CSV."""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from jeanie._internal.files import write_atomically
from jeanie._internal.html_page import fill_page
from jeanie.errors import DataError
from jeanie.recogniser.explain.bodies import compute_bodies
from jeanie.recogniser.explain.page import apply_height, describe_stage, encode_poses
from jeanie.skeleton.motion import Motion

__all__ = ["ANIMATED", "write_hits_page"]

ANIMATED = 300
"""Largest number of animated results; more would make the page slow."""

_POSES = 32  # per result
_RATE = 30.0  # of recordings without a frame rate


def write_hits_page(
    path: Path,
    rows: Sequence[Mapping[str, Any]],
    motions: Sequence[Motion],
    *,
    title: str,
    kind: str,
    threshold: float = 0.0,
) -> Path:
    """Write the page of results; names from files are escaped.

    Args:
        path: The file to write.
        rows: Results with ``file``, ``start_s``, ``end_s``, ``label``, ``confidence`` and ``distance``.
        motions: The motion of each row; rows after the first ``ANIMATED`` have none.
        title: Title of the page.
        kind: What the results are, such as "Search results"; it stands above the title.
        threshold: Confidence that the threshold slider starts at.
    """
    scenes = [_build_scene(motion) for motion in motions[:ANIMATED]]
    visible = [body for body, _ in scenes if body is not None]
    persons = max((body.shape[1] for body in visible), default=1)
    keys = ("file", "start_s", "end_s", "label", "confidence", "distance")
    hits = [
        {key: row.get(key) for key in keys} | (scenes[number][1] if number < len(scenes) else {})
        for number, row in enumerate(rows)
    ]
    page = fill_page(
        "jeanie.recogniser.explain",
        "hits.html",
        style=("page.css", "hits.css"),
        script=("stage.js", "hits.js"),
        data={"scene": describe_stage(visible, persons), "hits": hits, "threshold": threshold},
        title=escape(title),
        kind=escape(kind),
        more=_describe_rest(len(rows)),
    )
    write_atomically(path, page.encode())
    return path


def _describe_rest(count: int) -> str:
    return f"The first {ANIMATED} of {count} results are animated." if count > ANIMATED else ""


def _build_scene(motion: Motion) -> tuple[Any, dict[str, Any]]:
    """Return the bodies of a motion and what the script plays; nothing if no body is visible."""
    try:
        bodies = compute_bodies(motion)
    except DataError:
        return None, {}
    shown_joints = apply_height(bodies)
    poses = encode_poses(shown_joints, bodies, _POSES)
    return shown_joints, {"poses": poses, "seconds": round(len(motion) / (motion.rate or _RATE), 3)}
