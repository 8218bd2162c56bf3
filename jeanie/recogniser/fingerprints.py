"""Fingerprints: they identify the model that a library or a feature cache belongs to."""

import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from torch import Tensor

from jeanie._internal.digest import hash_bytes
from jeanie.errors import DataError
from jeanie.fewshot import FewShotModel

__all__ = ["ModelFingerprints", "compute_earlier_fingerprint", "fingerprint"]

# Names of options, tensors and kinds in the fingerprints of earlier versions
_EARLIER_OPTIONS = {"mirror_penalty": "reflection", "components": "beside", "hubness": "hubs"}
_EARLIER_TENSORS = (("comparison.", ""), ("components.", "beside."), ("hubness_correction.", "usual."))
_EARLIER_DEFAULTS = (
    ("kind", "graph"),
    ("kind", "euler"),
    ("method", "jeanie"),
)  # not part of the fingerprint


def fingerprint(model: FewShotModel) -> str:
    """Return 32 hex digits that identify a model: a hash of its configuration and of all weights.

    Default values of the configuration do not count, so a new option does not change the fingerprint of a model.
    """
    return _hash_model(model.config.changed_values(), model.state_dict())


def compute_earlier_fingerprint(model: FewShotModel) -> str:
    """Return the fingerprint that earlier versions, with other names of options and tensors, gave to this model."""
    tensors = {}
    for name, tensor in model.state_dict().items():
        for current, earlier in _EARLIER_TENSORS:
            name = name.replace(current, earlier)
        tensors[name] = tensor
    return _hash_model(_use_earlier_names(model.config.changed_values()), tensors)


def _hash_model(config: dict[str, Any], tensors: Mapping[str, Tensor]) -> str:
    parts = (
        f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode()
        + np.ascontiguousarray(tensor.detach().cpu().numpy()).tobytes()
        for name, tensor in sorted(tensors.items())
    )
    return hash_bytes(json.dumps(config, sort_keys=True), *parts)[:32]


def _use_earlier_names(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            _EARLIER_OPTIONS.get(key, key): _use_earlier_names(inner)
            for key, inner in value.items()
            if (key, inner) not in _EARLIER_DEFAULTS
        }
    if isinstance(value, list | tuple):
        return [_use_earlier_names(inner) for inner in value]
    return "normal" if value == "canonical" else value


class ModelFingerprints:
    """Fingerprints under which a library may have stored a model."""

    def __init__(self, model: FewShotModel) -> None:
        self.model, self.current = model, fingerprint(model)

    @cached_property
    def earlier(self) -> str:
        """The fingerprint that earlier versions gave to the model."""
        return compute_earlier_fingerprint(self.model)

    def accept(self, known: object) -> bool:
        """Return whether a library with this stored fingerprint can be used with the model."""
        return known in (None, self.current) or known == self.earlier

    def check(self, known: object, place: str, *, migrate: bool = False) -> None:
        """Raise DataError if a library belongs to another model and ``migrate`` does not allow that."""
        if not migrate and not self.accept(known):
            raise DataError(
                f"{place}: made with another model ({str(known)[:8]}..., this one is {self.current[:8]}...); to use "
                "its recordings with this model, with new distances and confidences, give migrate=True or --migrate"
            )
