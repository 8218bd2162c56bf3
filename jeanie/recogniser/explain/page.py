"""An explanation as one self-contained HTML page that plays both bodies in step."""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from jeanie._internal.files import write_atomically
from jeanie._internal.html_page import fill_page
from jeanie.recogniser.explain.bodies import HEIGHT, Bodies
from jeanie.skeleton.canonical_body import BODY

__all__ = ["apply_height", "describe_stage", "encode_poses", "render_page", "write_page"]

_SCALE = 1000  # poses are written in whole thousandths
_POSES = 300  # largest number per movement
_PATH = BODY.index("path")
_SMOOTH = 3  # steps of the path that are averaged: a path of blocks has the form of stairs
_SPACING = 1.25  # between persons, in the unit of canonical bodies


def write_page(path: Path, explanation: Mapping[str, Any], bodies: tuple[Bodies, Bodies]) -> Path:
    """Write the page of an explanation (in plain values) and its bodies; ``chips`` in it replaces the distance."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, render_page(explanation, bodies).encode())
    return path


def render_page(explanation: Mapping[str, Any], bodies: tuple[Bodies, Bodies]) -> str:
    """Return the page as text. Names from files are escaped."""
    titles = _choose_titles(explanation)
    data = {
        "query": _list_time_facts(explanation["query"]),
        "support": _list_time_facts(explanation["support"]),
        "scene": _build_scene(explanation, bodies, titles),
    }
    head, _, details = str(explanation["text"]).partition("; ")
    return fill_page(
        "jeanie.recogniser.explain",
        "page.html",
        style="page.css",
        script=("stage.js", "page.js"),
        data=data,
        title=escape(f"{titles[0]} and {titles[1]}"),
        headline=escape(_to_sentence(head)),
        lead=escape(_to_sentence(details)),
        chips=_render_chips(explanation),
        query=escape(titles[0]),
        support=escape(titles[1]),
        unit=" in centimetres" if _is_metric(explanation) else ", in percent of the body height",
        joints=_render_joints(explanation),
        parts=_render_parts(explanation),
        notes=escape(_write_notes(explanation)),
    )


def _to_sentence(text: str) -> str:
    return text and f"{text[:1].upper()}{text[1:]}."


def _choose_titles(explanation: Mapping[str, Any]) -> tuple[str, str]:
    query, support = (explanation[side]["name"] for side in ("query", "support"))
    example = explanation["label"] or explanation["support"]["label"]
    return query or "This movement", support or (f"Example of {example}" if example else "The example")


def _list_time_facts(side: Mapping[str, Any]) -> dict[str, Any]:
    return {"frames": side["frames"], "rate": side["rate"]}


def _build_scene(
    explanation: Mapping[str, Any], bodies: tuple[Bodies, Bodies], titles: Sequence[str]
) -> dict[str, Any]:
    """Return what the script draws: poses of both, the smoothed path, and the space that they take."""
    poses = [apply_height(side) for side in bodies]
    seconds = [
        side["frames"] / (side["rate"] or 30) for side in (explanation["query"], explanation["support"])
    ]
    path = _smooth_path(explanation)
    worst = min((joint["worst"] for joint in explanation["joints"][:1]), default=0.0)
    persons = bodies[0].joints.shape[1]
    return describe_stage(poses, persons) | {
        "query": encode_poses(poses[0], bodies[0]),
        "support": encode_poses(poses[1], bodies[1]),
        "path": path,
        "titles": list(titles),
        "seconds": round(max(seconds), 3),
        "worst": _locate_on_path(path, worst),
    }


def describe_stage(
    bodies_per_view: Sequence[Float[Tensor, "_frame _person 15 3"]], persons: int
) -> dict[str, Any]:
    """Return what the script needs to draw bodies on one stage that is large enough for all of them."""
    return {
        "bones": [list(bone) for bone in BODY.bones],
        "names": [name.replace("_", " ") for name in BODY.joints[:_PATH]],
        "head": BODY.index("head"),
        "neck": BODY.index("neck"),
        "scale": _SCALE,
        "height": HEIGHT,
        "reach": max([0.55, *(float(bodies[..., 1].amax()) + 0.12 for bodies in bodies_per_view)]),
        "floor": max([0.5, *(-float(bodies[..., 1].amin()) + 0.14 for bodies in bodies_per_view)]),
        "spread": _SPACING * (persons - 1),
    }


def apply_height(side: Bodies) -> Float[Tensor, "frame person 15 3"]:
    """Return bodies that move up and down as recorded; only the height of the centre's path is shown."""
    way = side.joints[:, :, _PATH:] * side.joints.new_tensor([0.0, 1.0, 0.0])
    is_present = side.present[:, :_PATH, None]
    return torch.where(is_present, side.joints[:, :, :_PATH] + way, 0.0)


def encode_poses(
    view_poses: Float[Tensor, "frame person 15 3"], side: Bodies, most: int = _POSES
) -> dict[str, Any]:
    """Return at most ``most`` moments: frames, and joints in thousandths, None for a joint that was never seen."""
    count = min(len(view_poses), most)
    rows = torch.linspace(0, len(view_poses) - 1, count).round().long()
    values = (view_poses[rows] * _SCALE).round().long().tolist()
    is_present = side.present[:, :_PATH].tolist()
    poses = [
        [
            [point if ok else None for point, ok in zip(body, present, strict=True)]
            for body, present in zip(moment, is_present, strict=True)
        ]
        for moment in values
    ]
    return {"frames": side.frames[rows].tolist(), "poses": poses}


def _smooth_path(explanation: Mapping[str, Any]) -> list[list[float]]:
    """Return the path from the first frames to the last, each point averaged with its neighbours."""
    ends = [explanation[side]["frames"] - 1.0 for side in ("query", "support")]
    steps = [[step["query"], step["support"]] for step in explanation["steps"]]
    points = torch.tensor([[0.0, 0.0], *steps, ends], dtype=torch.float64)
    half = _SMOOTH // 2
    padded = torch.cat([points[:1].expand(half, 2), points, points[-1:].expand(half, 2)])
    means = padded.unfold(0, _SMOOTH, 1).mean(-1)
    means[0], means[-1] = points[0], points[-1]
    return [[round(value, 2) for value in point] for point in means.tolist()]


def _locate_on_path(path: Sequence[Sequence[float]], frame: float) -> float:
    """Return how far along the path a frame of the query lies, from 0 to 1."""
    nearest = min(range(len(path)), key=lambda index: abs(path[index][0] - frame))
    return round(nearest / max(1, len(path) - 1), 4)


def _render_chips(explanation: Mapping[str, Any]) -> str:
    turn, tempo = explanation["turn"], explanation["tempo"]
    chips = list(explanation.get("chips", {"distance": f"{explanation['distance']:.3g}"}).items())
    chips.append(("tempo", f"{tempo:.2f} times as long"))
    if turn is not None:
        side = "" if abs(turn) < 1 else " to the person's left" if turn > 0 else " to the person's right"
        chips.append(("camera", f"{abs(turn):.0f} degrees{side}"))
    if max(explanation[side]["persons"] for side in ("query", "support")) > 1:
        pairs = ", ".join(f"{q + 1} with {s + 1}" for q, s in explanation["persons"])
        chips.append(("persons", pairs))
    chips.append(("joints that differ most", f"{explanation['difference']:.1f} % of the height"))
    return "".join(f"<li><span>{escape(name)}</span> <b>{escape(value)}</b></li>" for name, value in chips)


def _is_metric(explanation: Mapping[str, Any]) -> bool:
    return all(joint["centimetres"] is not None for joint in explanation["joints"])


def _render_joints(explanation: Mapping[str, Any]) -> str:
    """Return one bar per joint, longest first."""
    key, unit = ("centimetres", "cm") if _is_metric(explanation) else ("percent", "%")
    joints = explanation["joints"]
    largest = max((joint[key] for joint in joints), default=0.0)
    persons = explanation["persons"]
    rows = []
    for joint in joints:
        name = "whole body" if joint["joint"] == "path" else joint["joint"].replace("_", " ")
        words = joint["words"].removeprefix(name).strip()
        name = f"{name} ({persons[joint['person']][0] + 1})" if len(persons) > 1 else name
        width = 100 * joint[key] / max(largest, 1e-9)
        rows.append(
            f'<div class="joint" tabindex="0" data-joint="{BODY.index(joint["joint"])}" '
            f'data-person="{joint["person"]}"><span>{escape(name)}</span>'
            f'<span class="bar"><i style="width:{width:.1f}%"></i></span>'
            f'<span class="much">{joint[key]:.1f} {unit}</span>'
            + (f'<span class="words">{escape(words)}</span>' if words and joint["percent"] >= 2.5 else "")
            + "</div>"
        )
    return "".join(rows)


def _render_parts(explanation: Mapping[str, Any]) -> str:
    rows = [
        ("whole", explanation["tempo"]),
        *((part["name"], part["tempo"]) for part in explanation["parts"]),
    ]
    return "".join(
        f"<tr><th>{escape(name)}</th><td>{_describe_tempo(tempo)}</td></tr>" for name, tempo in rows
    )


def _describe_tempo(tempo: float) -> str:
    if 0.95 < tempo < 1.05:
        return "same speed"
    if tempo <= 0:
        return "skipped"
    return f"{tempo:.2f} times slower" if tempo > 1 else f"{1 / tempo:.2f} times faster"


def _write_notes(explanation: Mapping[str, Any]) -> str:
    timed = "" if explanation["timed"] else " The frame rate is unknown, so the tempo counts frames."
    mirror = (
        " This movement is shown as a mirror image: left and right are those of the example."
        * explanation["reflected"]
    )
    return (
        "Bodies are centred between shoulders and hips, scaled to one size and turned to face the camera. "
        f"Percentages refer to the body height.{timed}{mirror}"
    )
