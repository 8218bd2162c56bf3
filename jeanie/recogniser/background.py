"""The background set: motions that are never enrolled, to judge whether a distance is small or large."""

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from jeanie._internal.files import write_atomically
from jeanie.datasets import open_dataset
from jeanie.errors import DataError
from jeanie.fewshot import Features, FewShotModel
from jeanie.fewshot.model import SHIPPED
from jeanie.recogniser.fingerprints import fingerprint
from jeanie.skeleton import LAYOUTS, Motion
from jeanie.skeleton.canonical_body import sample_core_joints

__all__ = [
    "BACKGROUND_FILE",
    "BackgroundSet",
    "CohortStatistics",
    "compute_log_statistics",
    "ignore_copies",
    "log_distance",
    "read_motions",
    "write_motions",
]

BACKGROUND_FILE = SHIPPED / "background.safetensors"
GENERATED_MOTIONS = 75  # size of the background set if the shipped one does not fit the model
COHORT_SHARE = 1 / 32  # nearest motions of a cohort that count, per motion of the background set
_MAX_BYTES = 2**25
_COPY_RATIO = 50.0  # a motion that is nearer than the nearest background motions by this factor is a copy
_MIN_DISTANCE = 1e-9  # smaller distances have the logarithm of this one
_MOMENTS = 64  # stored moments per motion: twice as many as a model reads
_KEPT_SETS = 2  # encoded background sets that a process keeps


def log_distance(distances: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
    """Return the logarithm of distances; that of 0 is about -21."""
    return distances.clamp_min(_MIN_DISTANCE).log()


def ignore_copies(
    logs: Float[Tensor, "*any"], background_nearest: Float[Tensor, "*#any"]
) -> Float[Tensor, "*any"]:
    """Return log distances in which copies of the measured motion are infinitely far.

    A recording that was given for calibration may be enrolled or recognised too. Its distance to itself does not show
    how far other movements are. The stored recording is reduced, so that this distance is small, not 0.
    """
    return logs.masked_fill(logs < background_nearest - math.log(_COPY_RATIO), torch.inf)


def compute_log_statistics(
    distances: Float[Tensor, "row motion"],
) -> tuple[Float[Tensor, " row"], Float[Tensor, " row"]]:
    """Return mean and standard deviation of the log distances in each row."""
    logs = log_distance(distances)
    return logs.mean(1), logs.std(1, correction=0).clamp_min(1e-3)


@dataclass(frozen=True)
class CohortStatistics:
    """Log distances between motions and their cohort: the background set, and own motions of other actions.

    ``mean`` and ``std`` are those of the background set, ``background_nearest`` is the mean of its smallest.
    ``nearest`` are the smallest of all, in increasing order.
    """

    mean: Float[Tensor, "*any"]
    std: Float[Tensor, "*any"]
    background_nearest: Float[Tensor, "*any"]
    nearest: Float[Tensor, "*any member"]

    @classmethod
    def from_distances(cls, distances: Float[Tensor, "row motion"]) -> "CohortStatistics":
        """Return the statistics of the distances between each row and the background set."""
        count = max(1, round(COHORT_SHARE * distances.shape[1]))
        nearest = log_distance(distances).topk(count, 1, largest=False).values
        return cls(*compute_log_statistics(distances), nearest.mean(1), nearest)

    def __getitem__(self, index: Any) -> "CohortStatistics":
        return CohortStatistics(*(getattr(self, field.name)[index] for field in fields(self)))

    @classmethod
    def cat(cls, parts: "Sequence[CohortStatistics]") -> "CohortStatistics":
        """Return the rows of several."""
        return cls(*(torch.cat([getattr(part, field.name) for part in parts]) for field in fields(cls)))

    def with_members(self, logs: Float[Tensor, "*any own"]) -> "CohortStatistics":
        """Return the statistics with own motions in the cohort; ``logs`` are their log distances, inf for none."""
        count = self.nearest.shape[-1]
        nearest = torch.cat([self.nearest, logs.to(self.nearest)], -1).topk(count, -1, largest=False).values
        return replace(self, nearest=nearest)


@dataclass(frozen=True)
class BackgroundSet:
    """Features of background motions, as queries and as supports."""

    query: Features
    support: Features

    def __len__(self) -> int:
        return len(self.support)

    @classmethod
    @torch.no_grad()
    def from_motions(cls, model: FewShotModel, motions: Sequence[Motion]) -> "BackgroundSet":
        """Encode motions as a background set."""
        batch = model.collate(motions)
        query = model.features(batch, "query")
        if model.views is not None:
            return cls(query, model.features(batch, "support"))
        return cls(
            query, replace(query, mirrored=None)
        )  # without views, queries and supports are encoded alike

    @classmethod
    def for_model(cls, model: FewShotModel, path: Path = BACKGROUND_FILE) -> "BackgroundSet":
        """Encode the motions of a file if the model uses canonical bodies, otherwise synthetic motions.

        The sets of the last two models are kept in memory: all recognisers of a process that use equal models share
        one.
        """
        device = next((str(weight.device) for weight in model.parameters()), "cpu")
        key = fingerprint(model), device, path
        with _lock:
            if key not in _encoded:
                _encoded[key] = cls.from_motions(model, _list_background_motions(model, path))
                for oldest in list(_encoded)[:-_KEPT_SETS]:
                    del _encoded[oldest]
            return _encoded[key]

    def measure_supports(self, model: FewShotModel, supports: Features) -> CohortStatistics:
        """Return the statistics of the log distances from the background set to each support."""
        return CohortStatistics.from_distances(model.compare(self.query, supports).T)


_lock = threading.Lock()
_encoded: dict[tuple[str, str, Path], BackgroundSet] = {}


def _list_background_motions(model: FewShotModel, path: Path) -> list[Motion]:
    if model.config.inputs.prepare.body == "canonical" and path.is_file():
        return read_motions(path)
    clips = open_dataset("synthetic")
    rows = np.linspace(0, len(clips) - 1, GENERATED_MOTIONS)  # covers all actions, subjects and cameras
    return [clips[int(row)] for row in rows]


def write_motions(path: Path, motions: Sequence[Motion]) -> None:
    """Write motions as 15 core joints at 64 moments in half precision: a few kilobytes per motion."""
    bodies = [sample_core_joints(motion, _MOMENTS) for motion in motions]
    # half precision is finest around the origin
    centred = [joints - joints.mean((0, 1, 2)) for joints, _ in bodies]
    tensors = {
        "persons": torch.tensor([len(joints) for joints, _ in bodies]),
        "joints": torch.cat(centred).half(),
        "present": torch.cat([present for _, present in bodies]),
    }
    write_atomically(path, save(tensors))


def read_motions(path: Path) -> list[Motion]:
    """Read the motions of a file that ``write_motions`` wrote."""
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise DataError(f"{path}: over {_MAX_BYTES} bytes, too large for a background set")
        tensors = load(path.read_bytes())
        persons = tensors["persons"].tolist()
        bodies = zip(tensors["joints"].split(persons), tensors["present"].split(persons), strict=True)
        return [
            Motion(
                joints.float().transpose(0, 1),
                LAYOUTS["core15"],
                valid=present.expand(joints.shape[1], *present.shape),
            )
            for joints, present in bodies
        ]
    except (OSError, SafetensorError, KeyError, RuntimeError) as error:
        raise DataError(f"{path}: not a background set: {error}") from None
