"""Models on disk: a folder with ``model.safetensors`` (weights) and ``model.json`` (configuration and layout)."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from jeanie._internal.digest import hash_bytes
from jeanie._internal.files import write_atomically
from jeanie.errors import ConfigError, DataError, JeanieError
from jeanie.skeleton.layout import Layout

__all__ = ["is_measured", "load_weights", "read_model", "write_model"]

WEIGHTS, DESCRIPTION = "model.safetensors", "model.json"
FORMAT = 1
MAX_DESCRIPTION, MAX_WEIGHTS = 2**20, 2**31


def is_measured(name: str) -> bool:
    """Return whether a tensor of a model is a measurement and not a weight."""
    return name.endswith(("cost_scale", "hubness_correction.course", "hubness_correction.spread"))


def load_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Load all weights of another model; measurements may be missing.

    Raises:
        ConfigError: If the weights do not fit the model.
    """
    try:
        missing, unknown = model.load_state_dict(weights, strict=False)
    except RuntimeError as error:
        raise ConfigError(f"the weights do not fit the network of these settings: {error}") from None
    missing, unknown = ([name for name in names if not is_measured(name)] for names in (missing, unknown))
    if missing or unknown:
        raise ConfigError(
            f"these settings need another network: weights {missing[:3]} are missing, {unknown[:3]} are not used; "
            "only views, alignment and components can change without training"
        )


def write_model(
    path: Path,
    config: Mapping[str, Any],
    layout: Layout | None,
    weights: Mapping[str, Tensor],
    *,
    half: bool = False,
) -> None:
    """Write the weights, then the description with their checksum; ``read_model`` detects files that do not match.

    Args:
        path: The folder; it is created.
        config: Configuration of the model.
        layout: Layout of the model.
        weights: Weights and measurements by name.
        half: Whether weights are written with 16 bits; measurements are not.
    """
    path.mkdir(parents=True, exist_ok=True)
    tensors = {
        name: tensor.half() if half and not is_measured(name) else tensor for name, tensor in weights.items()
    }
    content = save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})
    description = {
        "format": FORMAT,
        "config": dict(config),
        "layout": None if layout is None else layout.to_dict(),
        "weights": hash_bytes(content),
    }
    write_atomically(path / WEIGHTS, content)
    write_atomically(path / DESCRIPTION, (json.dumps(description, indent=1) + "\n").encode())


def read_model(path: Path) -> tuple[dict[str, Any], Layout | None, dict[str, Tensor]]:
    """Return configuration, layout and weights of a model folder; nothing in it is executed.

    Raises:
        DataError: If a file is missing, damaged, too large, or of another version, or if the files do not match.
    """
    description = _read_description(path / DESCRIPTION)
    content = _read_bytes(path / WEIGHTS, MAX_WEIGHTS)
    if hash_bytes(content) != description["weights"]:
        raise DataError(
            f"{path / WEIGHTS}: the checksum differs from the one in {DESCRIPTION}; copy both files of one model"
        )
    try:
        layout = None if description["layout"] is None else Layout.from_dict(description["layout"])
        return description["config"], layout, load(content)
    except (SafetensorError, JeanieError, TypeError, AttributeError) as error:
        raise DataError(f"{path}: {error}") from None


def _read_description(path: Path) -> dict[str, Any]:
    content = _read_bytes(path, MAX_DESCRIPTION)
    try:
        description = json.loads(content)
    except ValueError as error:
        raise DataError(f"{path}: not JSON: {error}") from None
    keys = {"format", "config", "layout", "weights"}
    if not isinstance(description, dict) or not keys <= description.keys():
        raise DataError(f"{path}: not the description of a model; give the folder that model.save() wrote")
    if description["format"] != FORMAT:
        raise DataError(
            f"{path}: format {description['format']!r}, this version reads {FORMAT}; install the version that wrote it"
        )
    return description


def _read_bytes(path: Path, limit: int) -> bytes:
    try:
        if path.stat().st_size > limit:
            raise DataError(
                f"{path}: a model file has at most {limit} bytes; give the folder that model.save() wrote"
            )
        return path.read_bytes()
    except OSError as error:
        raise DataError(
            f"{path}: cannot be read: {error.strerror}; give the folder that model.save() wrote"
        ) from None
