"""Where training stands, on disk: tensors as safetensors, the rest as JSON, whole at every moment.

``last/state.json`` names the file of tensors that it belongs to and holds its checksum. The tensors are
written first, under a new name; the JSON takes the place of the old one in one step; then old tensors go.
"""

import hashlib
import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from jeanie.errors import DataError
from jeanie.experiments.learning.learner import Learner
from jeanie.fewshot.saving import write_atomically

__all__ = ["State", "read_checkpoint", "restore", "write_checkpoint"]

FORMAT = 1
_STATE = "state.json"


@dataclass(frozen=True)
class State:
    """What there is to know beside the tensors: episodes done, the best validation so far, the end's reason.

    ``best`` is the accuracy, in percent, and half its 95 % interval; ``waited`` counts the validations since.
    """

    episode: int = 0
    best: tuple[float, float] | None = None
    best_episode: int | None = None
    waited: int = 0
    seconds: float = 0.0
    finished: str | None = None


def write_checkpoint(folder: Path, learner: Learner, state: State) -> None:
    """Replace the checkpoint in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors, numbers = _collected(learner)
    content = save(tensors)
    name = f"episode-{state.episode}.safetensors"
    described = {
        "format": FORMAT,
        **asdict(state),
        "tensors": name,
        "sha256": hashlib.sha256(content).hexdigest(),
        "optimiser": numbers,
    }
    write_atomically(folder / name, content)
    write_atomically(folder / _STATE, (json.dumps(described, indent=1) + "\n").encode())
    for old in folder.glob("episode-*.safetensors"):
        if old.name != name:
            old.unlink()


def read_checkpoint(folder: Path) -> bytes:
    """The checkpoint in a folder, checked: a line of JSON, then the tensors; nothing where there is none."""
    path = folder / _STATE
    if not path.exists():
        return b""
    try:
        described = json.loads(path.read_bytes())
        content = (folder / Path(described["tensors"]).name).read_bytes()
        right = described["format"] == FORMAT and hashlib.sha256(content).hexdigest() == described["sha256"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{path}: no checkpoint that can be read ({error}); begin again in another place"
        ) from None
    if not right:
        raise DataError(
            f"{path}: its tensors are not those it was written with; begin again in another place"
        )
    return json.dumps(described).encode() + b"\n" + content


def restore(learner: Learner, checkpoint: bytes) -> State:
    """Put weights, loss and optimiser back to where they stood, to the last bit."""
    description, _, content = checkpoint.partition(b"\n")
    described = json.loads(description)
    try:
        tensors = load(content)
        learner.model.load_state_dict(_part(tensors, "model."))
        if learner.kept is not learner.model:
            learner.kept.load_state_dict(_part(tensors, "kept."))
        learner.loss.load_state_dict(_part(tensors, "loss."))
        known = learner.optimiser.state_dict()
        known["state"] = _optimiser_state(_part(tensors, "optimiser."), described["optimiser"])
        learner.optimiser.load_state_dict(known)
        values = {field.name: described[field.name] for field in fields(State)}
    except (SafetensorError, RuntimeError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"the checkpoint does not belong to this model: {error}") from None
    best = values.pop("best")
    return State(best=None if best is None else tuple(best), **values)


def _collected(learner: Learner) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """All tensors by name, and the numbers of the optimiser's state that are none."""
    tensors = {f"model.{name}": tensor for name, tensor in learner.model.state_dict().items()}
    if learner.kept is not learner.model:
        tensors |= {f"kept.{name}": tensor for name, tensor in learner.kept.state_dict().items()}
    tensors |= {f"loss.{name}": tensor for name, tensor in learner.loss.state_dict().items()}
    numbers: dict[str, Any] = {}
    for weight, values in learner.optimiser.state_dict()["state"].items():
        for key, value in values.items():
            if isinstance(value, Tensor):
                tensors[f"optimiser.{weight}.{key}"] = value
            else:
                numbers[f"{weight}.{key}"] = value
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, numbers


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _optimiser_state(tensors: dict[str, Tensor], numbers: dict[str, Any]) -> dict[int, dict[str, Any]]:
    state: dict[int, dict[str, Any]] = {}
    for name, value in {**tensors, **numbers}.items():
        weight, key = name.split(".", 1)
        state.setdefault(int(weight), {})[key] = value
    return state
