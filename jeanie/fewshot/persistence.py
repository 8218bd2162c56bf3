"""Models on disk: a folder with ``model.safetensors`` (weights) and ``model.json`` (what the model is)."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from jeanie._internal.digest import hash_bytes
from jeanie._internal.files import write_atomically
from jeanie.errors import DataError, JeanieError
from jeanie.skeleton.layout import Layout

__all__ = ["is_measured", "read_model", "write_model"]

WEIGHTS, DESCRIPTION = "model.safetensors", "model.json"
FORMAT = 1
MAX_DESCRIPTION, MAX_WEIGHTS = 2**20, 2**31


def is_measured(name: str) -> bool:
    """Return whether a tensor of a model is a measurement and not a weight."""
    return name.endswith(("cost_scale", "hubness_correction.course", "hubness_correction.spread"))


def write_model(
    path: Path,
    config: Mapping[str, Any],
    layout: Layout | None,
    weights: Mapping[str, Tensor],
    *,
    half: bool = False,
) -> None:
    """Weights first, ``half`` of 16 bits, then the description with their checksum: a half-written pair is noticed."""
    path.mkdir(parents=True, exist_ok=True)
    kept = {name: one.half() if half and not is_measured(name) else one for name, one in weights.items()}
    content = save({name: tensor.detach().cpu().contiguous() for name, tensor in kept.items()})
    described = {
        "format": FORMAT,
        "config": dict(config),
        "layout": None if layout is None else layout.to_dict(),
        "weights": hash_bytes(content),
    }
    write_atomically(path / WEIGHTS, content)
    write_atomically(path / DESCRIPTION, (json.dumps(described, indent=1) + "\n").encode())


def read_model(path: Path) -> tuple[dict[str, Any], Layout | None, dict[str, Tensor]]:
    """(config, layout, weights) of a model's folder; nothing in it is executed."""
    described = _read_description(path / DESCRIPTION)
    content = _content(path / WEIGHTS, MAX_WEIGHTS)
    if hash_bytes(content) != described["weights"]:
        raise DataError(
            f"{path / WEIGHTS}: not the weights that {DESCRIPTION} belongs to; copy both files of one model"
        )
    try:
        layout = None if described["layout"] is None else Layout.from_dict(described["layout"])
        return described["config"], layout, load(content)
    except (SafetensorError, JeanieError, TypeError, AttributeError) as error:
        raise DataError(f"{path}: {error}") from None


def _read_description(path: Path) -> dict[str, Any]:
    content = _content(path, MAX_DESCRIPTION)
    try:
        described = json.loads(content)
    except ValueError as error:
        raise DataError(f"{path}: not JSON: {error}") from None
    if not isinstance(described, dict) or not {"format", "config", "layout", "weights"} <= described.keys():
        raise DataError(f"{path}: not the description of a model; give the folder that model.save() wrote")
    if described["format"] != FORMAT:
        raise DataError(
            f"{path}: format {described['format']!r}, this version reads {FORMAT}; install the version that wrote it"
        )
    return described


def _content(path: Path, limit: int) -> bytes:
    try:
        if path.stat().st_size > limit:
            raise DataError(f"{path}: over {limit} bytes; this is no model of ours")
        return path.read_bytes()
    except OSError as error:
        raise DataError(
            f"{path}: cannot be read: {error.strerror}; give the folder that model.save() wrote"
        ) from None
