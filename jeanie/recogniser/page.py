"""An explanation as one HTML page with both bodies moving in step: no network, no library, opened from a file."""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from jeanie.fewshot.saving import write_atomically
from jeanie.recogniser.bodies import HEIGHT, Bodies
from jeanie.skeleton.normal import BODY

__all__ = ["page", "write_page"]

_SCALE = 1000  # poses are told in whole thousandths
_POSES = 300  # at most, of each movement
_PATH = BODY.index("path")
_SMOOTH = 3  # steps of the path whose mean is shown: a path of blocks goes in stairs
_AROUND = 1.25  # persons stand apart, in the unit of normal bodies


def write_page(path: Path, explanation: Mapping[str, Any], bodies: tuple[Bodies, Bodies]) -> Path:
    """Write the page of an explanation (in plain values) and the bodies it is about."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, page(explanation, bodies).encode())
    return path


def page(explanation: Mapping[str, Any], bodies: tuple[Bodies, Bodies]) -> str:
    """The page as text. Names that come from files are shown as they are and never as HTML."""
    script = _resource("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    titles = _titles(explanation)
    data = {
        "query": _times(explanation["query"]),
        "support": _times(explanation["support"]),
        "scene": _scene(explanation, bodies, titles),
    }
    head, _, rest = str(explanation["text"]).partition("; ")
    return Template(_resource("page.html")).substitute(
        title=escape(f"{titles[0]} and {titles[1]}"),
        headline=escape(_sentence(head)),
        lead=escape(_sentence(rest)),
        chips=_chips(explanation),
        query=escape(titles[0]),
        support=escape(titles[1]),
        unit=" in centimetres" if _measured(explanation) else ", in percent of the body's height",
        joints=_joints(explanation),
        parts=_parts(explanation),
        notes=escape(_notes(explanation)),
        style=_resource("page.css"),
        script=script,
        script_hash=f"sha256-{digest}",
        # "<" could end the script element early
        data=json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
    )


def _resource(name: str) -> str:
    return resources.files("jeanie.recogniser").joinpath(name).read_text(encoding="utf-8")


def _sentence(text: str) -> str:
    return text and f"{text[:1].upper()}{text[1:]}."


def _titles(explanation: Mapping[str, Any]) -> tuple[str, str]:
    one, other = (explanation[side]["name"] for side in ("query", "support"))
    example = explanation["label"] or explanation["support"]["label"]
    return one or "This movement", other or (f"Example of {example}" if example else "The example")


def _times(side: Mapping[str, Any]) -> dict[str, Any]:
    return {"frames": side["frames"], "rate": side["rate"]}


def _scene(
    explanation: Mapping[str, Any], bodies: tuple[Bodies, Bodies], titles: Sequence[str]
) -> dict[str, Any]:
    """What the script draws: poses of both, the smoothed path, and how much room they take."""
    seen = [_lifted(side) for side in bodies]
    seconds = [
        side["frames"] / (side["rate"] or 30) for side in (explanation["query"], explanation["support"])
    ]
    path = _smoothed(explanation)
    worst = min((one["worst"] for one in explanation["joints"][:1]), default=0.0)
    persons = bodies[0].joints.shape[1]
    return {
        "query": _poses(seen[0], bodies[0]),
        "support": _poses(seen[1], bodies[1]),
        "bones": [list(bone) for bone in BODY.bones],
        "names": [name.replace("_", " ") for name in BODY.joints[:_PATH]],
        "head": BODY.index("head"),
        "neck": BODY.index("neck"),
        "scale": _SCALE,
        "height": HEIGHT,
        "reach": max(0.55, *(float(one[..., 1].amax()) + 0.12 for one in seen)),
        "floor": max(0.5, *(-float(one[..., 1].amin()) + 0.14 for one in seen)),
        "spread": _AROUND * (persons - 1),
        "path": path,
        "titles": list(titles),
        "seconds": round(max(seconds), 3),
        "worst": _share(path, worst),
    }


def _lifted(side: Bodies) -> Float[Tensor, "frame person 15 3"]:
    """Bodies that go up and down as they did: of the centre's way only the height is shown."""
    way = side.joints[:, :, _PATH:] * side.joints.new_tensor([0.0, 1.0, 0.0])
    there = side.present[:, :_PATH, None]
    return torch.where(there, side.joints[:, :, :_PATH] + way, 0.0)


def _poses(seen: Float[Tensor, "frame person 15 3"], side: Bodies) -> dict[str, Any]:
    """At most 300 moments: their frames, and the joints in thousandths, None where one was never seen."""
    count = min(len(seen), _POSES)
    kept = torch.linspace(0, len(seen) - 1, count).round().long()
    whole = (seen[kept] * _SCALE).round().long().tolist()
    there = side.present[:, :_PATH].tolist()
    poses = [
        [
            [point if ok else None for point, ok in zip(body, seen_, strict=True)]
            for body, seen_ in zip(moment, there, strict=True)
        ]
        for moment in whole
    ]
    return {"frames": side.frames[kept].tolist(), "poses": poses}


def _smoothed(explanation: Mapping[str, Any]) -> list[list[float]]:
    """The path from the first frames to the last ones, each point the mean of its neighbours."""
    ends = [explanation[side]["frames"] - 1.0 for side in ("query", "support")]
    steps = [[step["query"], step["support"]] for step in explanation["steps"]]
    points = torch.tensor([[0.0, 0.0], *steps, ends], dtype=torch.float64)
    half = _SMOOTH // 2
    padded = torch.cat([points[:1].expand(half, 2), points, points[-1:].expand(half, 2)])
    means = padded.unfold(0, _SMOOTH, 1).mean(-1)
    means[0], means[-1] = points[0], points[-1]
    return [[round(value, 2) for value in point] for point in means.tolist()]


def _share(path: Sequence[Sequence[float]], frame: float) -> float:
    """How far along the path a frame of the query lies, 0 to 1."""
    nearest = min(range(len(path)), key=lambda index: abs(path[index][0] - frame))
    return round(nearest / max(1, len(path) - 1), 4)


def _chips(explanation: Mapping[str, Any]) -> str:
    turn, tempo = explanation["turn"], explanation["tempo"]
    chips = [("distance", f"{explanation['distance']:.3g}"), ("tempo", f"{tempo:.2f} times as long")]
    if turn is not None:
        side = "" if abs(turn) < 1 else " to the person's left" if turn > 0 else " to the person's right"
        chips.append(("camera", f"{abs(turn):.0f} degrees{side}"))
    if max(explanation[side]["persons"] for side in ("query", "support")) > 1:
        met = ", ".join(f"{q + 1} with {s + 1}" for q, s in explanation["persons"])
        chips.append(("persons", met))
    chips.append(("joints that differ most", f"{explanation['difference']:.1f} % of the height"))
    return "".join(f"<li><span>{escape(name)}</span> <b>{escape(value)}</b></li>" for name, value in chips)


def _measured(explanation: Mapping[str, Any]) -> bool:
    return all(one["centimetres"] is not None for one in explanation["joints"])


def _joints(explanation: Mapping[str, Any]) -> str:
    """A bar for each joint, the longest first."""
    key, unit = ("centimetres", "cm") if _measured(explanation) else ("percent", "%")
    joints = explanation["joints"]
    most = max((one[key] for one in joints), default=0.0)
    persons = explanation["persons"]
    rows = []
    for one in joints:
        name = "whole body" if one["joint"] == "path" else one["joint"].replace("_", " ")
        said = one["words"].removeprefix(name).strip()
        name = f"{name} ({persons[one['person']][0] + 1})" if len(persons) > 1 else name
        width = 100 * one[key] / max(most, 1e-9)
        rows.append(
            f'<div class="joint" tabindex="0" data-joint="{BODY.index(one["joint"])}" '
            f'data-person="{one["person"]}"><span>{escape(name)}</span>'
            f'<span class="bar"><i style="width:{width:.1f}%"></i></span>'
            f'<span class="much">{one[key]:.1f} {unit}</span>'
            + (f'<span class="said">{escape(said)}</span>' if said and one["percent"] >= 2.5 else "")
            + "</div>"
        )
    return "".join(rows)


def _parts(explanation: Mapping[str, Any]) -> str:
    rows = [
        ("whole", explanation["tempo"]),
        *((part["name"], part["tempo"]) for part in explanation["parts"]),
    ]
    return "".join(f"<tr><th>{escape(name)}</th><td>{_pace(tempo)}</td></tr>" for name, tempo in rows)


def _pace(tempo: float) -> str:
    if 0.95 < tempo < 1.05:
        return "as fast"
    if tempo <= 0:
        return "left out"
    return f"{tempo:.2f} times slower" if tempo > 1 else f"{1 / tempo:.2f} times faster"


def _notes(explanation: Mapping[str, Any]) -> str:
    timed = "" if explanation["timed"] else " A frame rate is not known, so tempo is told in frames."
    mirror = (
        " This movement is shown in a mirror: left and right are the example's." * explanation["reflected"]
    )
    return (
        "Bodies are centred between shoulders and hips, brought to one size and turned to face the camera; "
        f"percent are of a body's height.{timed}{mirror}"
    )
