"""Checkpoints of training: tensors as safetensors, everything else as JSON, consistent at every moment.

``last/state.json`` has the name and the checksum of its tensor file. The tensors are written first, under a new name.
Then the JSON file is replaced atomically, and old tensor files are deleted.
"""

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from jeanie._internal.digest import hash_bytes
from jeanie._internal.files import write_atomically
from jeanie.errors import DataError
from jeanie.training.step import Learner

__all__ = ["TrainingState", "read_checkpoint", "restore_checkpoint", "write_checkpoint"]

FORMAT = 2
_STATE = "state.json"


@dataclass(frozen=True)
class TrainingState:
    """State of training besides the tensors.

    Args:
        episode: Episodes done.
        best: Best validation accuracy in percent, and half its 95 % interval.
        best_episode: Episodes done at the best validation.
        waited: Validations since the best one.
        seconds: Time spent.
        finished: Why training ended; None if it has not.
    """

    episode: int = 0
    best: tuple[float, float] | None = None
    best_episode: int | None = None
    waited: int = 0
    seconds: float = 0.0
    finished: str | None = None


def write_checkpoint(folder: Path, learner: Learner, state: TrainingState) -> None:
    """Write a checkpoint to a folder, in place of the old one."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors, numbers = _collect_state(learner)
    content = save(tensors)
    name = f"episode-{state.episode}.safetensors"
    described = {
        "format": FORMAT,
        **asdict(state),
        "tensors": name,
        "sha256": hash_bytes(content),
        "optimiser": numbers,
    }
    write_atomically(folder / name, content)
    write_atomically(folder / _STATE, (json.dumps(described, indent=1) + "\n").encode())
    for old in folder.glob("episode-*.safetensors"):
        if old.name != name:
            old.unlink()


def read_checkpoint(folder: Path) -> bytes:
    """Return the checkpoint of a folder: a line of JSON, then the tensors; empty if there is no checkpoint.

    Raises:
        DataError: The checkpoint is damaged.
    """
    path = folder / _STATE
    if not path.exists():
        return b""
    try:
        described = json.loads(path.read_bytes())
        content = (folder / Path(described["tensors"]).name).read_bytes()
        is_whole = described["format"] == FORMAT and hash_bytes(content) == described["sha256"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{path}: the checkpoint cannot be read ({error}); start again in another folder"
        ) from None
    if not is_whole:
        raise DataError(f"{path}: the tensors of the checkpoint were changed; start again in another folder")
    return json.dumps(described).encode() + b"\n" + content


def restore_checkpoint(learner: Learner, checkpoint: bytes) -> TrainingState:
    """Restore weights, loss and optimiser bit by bit, and return the state.

    Raises:
        DataError: The checkpoint belongs to another model.
    """
    description, _, content = checkpoint.partition(b"\n")
    described = json.loads(description)
    try:
        tensors = load(content)
        learner.model.load_state_dict(_select_prefix(tensors, "model."))
        if learner.averaged is not learner.model:
            learner.averaged.load_state_dict(_select_prefix(tensors, "averaged."))
        learner.loss.load_state_dict(_select_prefix(tensors, "loss."))
        learner.restore_scaler(_select_prefix(tensors, "scaler."))
        optimiser = learner.optimiser.state_dict()
        optimiser["state"] = _parse_optimiser(_select_prefix(tensors, "optimiser."), described["optimiser"])
        learner.optimiser.load_state_dict(optimiser)
        values = {field.name: described[field.name] for field in fields(TrainingState)}
    except (SafetensorError, RuntimeError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"the checkpoint does not belong to this model: {error}") from None
    best = values.pop("best")
    return TrainingState(best=None if best is None else tuple(best), **values)


def _collect_state(learner: Learner) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return all tensors by name, and the plain numbers of the optimiser's state."""
    tensors = {f"model.{name}": tensor for name, tensor in learner.model.state_dict().items()}
    if learner.averaged is not learner.model:
        tensors |= {f"averaged.{name}": tensor for name, tensor in learner.averaged.state_dict().items()}
    tensors |= {f"loss.{name}": tensor for name, tensor in learner.loss.state_dict().items()}
    tensors |= {f"scaler.{name}": tensor for name, tensor in learner.scaler_tensors().items()}
    numbers: dict[str, Any] = {}
    for weight, values in learner.optimiser.state_dict()["state"].items():
        for key, value in values.items():
            if isinstance(value, Tensor):
                tensors[f"optimiser.{weight}.{key}"] = value
            else:
                numbers[f"{weight}.{key}"] = value
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, numbers


def _select_prefix(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _parse_optimiser(tensors: dict[str, Tensor], numbers: dict[str, Any]) -> dict[int, dict[str, Any]]:
    state: dict[int, dict[str, Any]] = {}
    for name, value in {**tensors, **numbers}.items():
        weight, key = name.split(".", 1)
        state.setdefault(int(weight), {})[key] = value
    return state
