"""The bank: background motions that were never enrolled, by which a distance is known to be small or large."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from jeanie.datasets import open_dataset
from jeanie.errors import DataError
from jeanie.fewshot import Features, FewShotModel
from jeanie.fewshot.model import SHIPPED
from jeanie.fewshot.saving import write_atomically
from jeanie.skeleton import LAYOUTS, Motion
from jeanie.skeleton.normal import sampled

__all__ = ["BANK_FILE", "Bank", "fingerprint", "log_distance", "read_motions", "write_motions"]

BANK_FILE = SHIPPED / "background.safetensors"
MAX_BYTES = 2**25
_SMALLEST = 1e-9  # distance that a logarithm is taken of
MOMENTS = 64  # of a motion in a file: twice as many as a model looks at
GENERATED = 75  # motions in the bank of a model that none is shipped for


def fingerprint(model: FewShotModel) -> str:
    """32 hex digits that tell a model from every other: its configuration and every bit of its weights.

    Values that are the default are left out, so that an option that is added later changes no model.
    """
    chosen = model.config.model_dump(mode="json", exclude_defaults=True)
    digest = hashlib.sha256(json.dumps(chosen, sort_keys=True).encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(np.ascontiguousarray(tensor.detach().cpu().numpy()).tobytes())
    return digest.hexdigest()[:32]


def log_distance(distances: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
    """The logarithm of distances; that of 0 is about -21."""
    return distances.clamp_min(_SMALLEST).log()


@dataclass(frozen=True)
class Bank:
    """Features of background motions, as queries and as supports."""

    query: Features
    support: Features

    def __len__(self) -> int:
        return len(self.support)

    @classmethod
    @torch.no_grad()
    def of(cls, model: FewShotModel, motions: Sequence[Motion]) -> "Bank":
        """The bank of some motions."""
        batch = model.collate(motions)
        query = model.features(batch, "query")
        if model.views is not None:
            return cls(query, model.features(batch, "support"))
        return cls(query, replace(query, reflected=None))  # without views a query is a support

    @classmethod
    def for_model(cls, model: FewShotModel, path: Path = BANK_FILE) -> "Bank":
        """The bank of the shipped motions, where a model sees normal bodies; else of generated ones."""
        normal = model.config.inputs.prepare.body == "normal"
        return cls.of(model, read_motions(path) if normal and path.is_file() else generated(GENERATED))

    def around_supports(
        self, model: FewShotModel, supports: Features
    ) -> tuple[Float[Tensor, " support"], Float[Tensor, " support"]]:
        """Mean and spread, for every support, of the logarithms of the bank's distances to it."""
        return spread(model.compare(self.query, supports).T)


def spread(
    distances: Float[Tensor, "row motion"],
) -> tuple[Float[Tensor, " row"], Float[Tensor, " row"]]:
    """Mean and standard deviation of the logarithms of every row's distances to the bank."""
    logs = log_distance(distances)
    return logs.mean(1), logs.std(1, correction=0).clamp_min(1e-3)


def generated(count: int) -> list[Motion]:
    """Motions of the embedded data set, spread evenly over its actions, subjects and cameras."""
    clips = open_dataset("synthetic")
    return [clips[int(at)] for at in np.linspace(0, len(clips) - 1, count)]


def write_motions(path: Path, motions: Sequence[Motion]) -> None:
    """Write motions as 15 core joints at ``MOMENTS`` moments in half precision: a few kilobytes each."""
    bodies = [sampled(motion, MOMENTS) for motion in motions]
    tensors = {
        "persons": torch.tensor([len(joints) for joints, _ in bodies]),
        "joints": torch.cat([_centred(joints) for joints, _ in bodies]).half(),
        "present": torch.cat([present for _, present in bodies]),
    }
    write_atomically(path, save(tensors))


def read_motions(path: Path) -> list[Motion]:
    """The motions in a file that ``write_motions`` wrote."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise DataError(f"{path}: over {MAX_BYTES} bytes; this is no bank of ours")
        tensors = load(path.read_bytes())
        persons = tensors["persons"].tolist()
        joints, present = (tensors[name].split(persons) for name in ("joints", "present"))
        return [_motion(*both) for both in zip(joints, present, strict=True)]
    except (OSError, SafetensorError, KeyError, RuntimeError) as error:
        raise DataError(f"{path}: not a bank of background motions: {error}") from None


def _centred(joints: Float[Tensor, "person moment 15 3"]) -> Float[Tensor, "person moment 15 3"]:
    """About the origin, where half precision is the finest."""
    return joints - joints.mean((0, 1, 2))


def _motion(joints: Float[Tensor, "person moment 15 3"], present: Bool[Tensor, "person 15"]) -> Motion:
    valid = present.expand(joints.shape[1], *present.shape)
    return Motion(joints.float().transpose(0, 1), LAYOUTS["core15"], valid=valid)
