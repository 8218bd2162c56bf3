"""The bank: background motions that were never enrolled, by which a distance is known to be small or large."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from jeanie.datasets import open_dataset
from jeanie.errors import DataError
from jeanie.fewshot import Features, FewShotModel
from jeanie.fewshot.model import SHIPPED
from jeanie.fewshot.saving import write_atomically
from jeanie.skeleton import Motion

__all__ = ["BANK_FILE", "Bank", "fingerprint", "log_distance"]

BANK_FILE = SHIPPED / "background.safetensors"
MAX_BYTES = 2**25
_SMALLEST = 1e-9  # distance that a logarithm is taken of
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
    """Features of background motions, as queries and as supports (the same where no views are simulated)."""

    query: Features
    support: Features

    def __len__(self) -> int:
        return len(self.support)

    @classmethod
    def of(cls, model: FewShotModel, motions: Sequence[Motion]) -> "Bank":
        """The bank of some motions."""
        with torch.no_grad():
            batch = model.collate(motions)
            support = model.features(batch, "support")
            query = support if model.views is None else model.features(batch, "query")
        return cls(query, support)

    @classmethod
    def for_model(cls, model: FewShotModel, path: Path = BANK_FILE) -> "Bank":
        """The shipped bank, where it was made with this very model; else one of generated motions."""
        if path.is_file():
            made_with, bank = cls.read(path, model)
            if made_with == fingerprint(model):
                return bank
        return cls.of(model, generated(GENERATED))

    @classmethod
    def read(cls, path: Path, model: FewShotModel) -> "tuple[str, Bank]":
        """The fingerprint of the model that the bank in a file was made with, and the bank."""
        try:
            if path.stat().st_size > MAX_BYTES:
                raise DataError(f"{path}: over {MAX_BYTES} bytes; this is no bank of ours")
            with safe_open(path, framework="pt") as file:
                made_with = (file.metadata() or {}).get("model", "")
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            support = _features(tensors, "support", model)
            query = _features(tensors, "query", model) if "query.values" in tensors else support
        except (OSError, SafetensorError, KeyError) as error:
            raise DataError(f"{path}: not a bank of background motions: {error}") from None
        return made_with, cls(query, support)

    def write(self, path: Path, model: FewShotModel) -> None:
        """Write the bank in half precision, with the fingerprint of the model it was made with."""
        tensors = dict(_tensors(self.support, "support"))
        if self.query is not self.support:
            tensors |= _tensors(self.query, "query")
        write_atomically(path, save(tensors, {"model": fingerprint(model)}))

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


def _tensors(features: Features, name: str) -> Iterator[tuple[str, Tensor]]:
    """Tensors of features under dotted names; of second persons only those who are there."""
    yield f"{name}.values", features.values.half().contiguous()
    yield f"{name}.counts", features.counts.int()
    if features.second is not None and features.paired is not None:
        yield f"{name}.second", features.second[features.paired].half().contiguous()
        yield f"{name}.paired", features.paired
    if features.factor is not None:
        yield f"{name}.factor", features.factor
    for number, part in enumerate(features.beside):
        yield from _tensors(part, f"{name}.beside.{number}")


def _features(tensors: dict[str, Any], name: str, model: FewShotModel) -> Features:
    values = tensors[f"{name}.values"].to(model.device, model.dtype)
    second, paired = None, None
    if f"{name}.paired" in tensors:
        paired = tensors[f"{name}.paired"].to(model.device)
        second = values.clone()  # of a person alone it stands for nobody and is never compared
        second[paired] = tensors[f"{name}.second"].to(values)
    beside: list[Features] = []
    while f"{name}.beside.{len(beside)}.values" in tensors:
        beside.append(_features(tensors, f"{name}.beside.{len(beside)}", model))
    counts = tensors[f"{name}.counts"].to(model.device, torch.long)
    factor = tensors.get(f"{name}.factor")
    factor = None if factor is None else factor.to(values)
    return Features(values, counts, tuple(beside), second, paired, factor)
