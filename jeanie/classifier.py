"""JeanieClassifier: nearest-example classification of motions with the interface of scikit-learn."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils import assert_all_finite
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d
except ImportError as error:  # the extra "sklearn" is optional
    raise ImportError(
        "JeanieClassifier needs scikit-learn; install it with: pip install 'jeanie[sklearn]'"
    ) from error

from jeanie.errors import ConfigError, ShapeError
from jeanie.fewshot.batching import encode_batches, encode_groups, evaluation_mode
from jeanie.fewshot.config import RAWS
from jeanie.fewshot.inputs import find_layout
from jeanie.fewshot.model import FewShotModel
from jeanie.skeleton.layout import Layout
from jeanie.skeleton.motion import Motion

__all__ = ["JeanieClassifier"]


class JeanieClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classify motions by their distance to examples, as a scikit-learn estimator.

    ``fit`` stores the examples; nothing is trained. One example per class is enough. Samples are Motions, or arrays
    [frame, joint, 3] (missing joints: NaN) of the joints of ``layout``; their lengths may differ.

    Args:
        model: The model that measures distances: "shipped", a raw model ("reference" or "dtw"), a model folder, or a
            FewShotModel.
        layout: Joints of samples that are arrays: a Layout or its name, for example "mediapipe33".
        rate: Frames per second of samples that are arrays.
        n_neighbors: Examples per class whose mean distance counts; a class with fewer examples uses all of them.
        temperature: Sharpness of ``predict_proba``: distances count in units of ``temperature`` times the median
            distance between examples.

    Attributes:
        classes_: The class labels.
        n_samples_fit_: Number of examples.
        model_: The model.

    >>> import jeanie
    >>> motions = jeanie.open_dataset("synthetic").motions[:40:4]
    >>> labels = [motion.label for motion in motions]
    >>> classifier = JeanieClassifier(model="dtw").fit(motions, labels)
    >>> classifier.score(motions, labels)
    1.0
    """

    def __init__(
        self,
        model: Any = "shipped",
        *,
        layout: Any = None,
        rate: float | None = None,
        n_neighbors: int = 1,
        temperature: float = 0.1,
    ) -> None:
        self.model = model
        self.layout = layout
        self.rate = rate
        self.n_neighbors = n_neighbors
        self.temperature = temperature

    def fit(self, X: Any, y: Any) -> "JeanieClassifier":
        """Store the examples ``X`` with their labels ``y``.

        Raises:
            ConfigError: A parameter is out of range, or arrays have no layout.
            ShapeError: A sample is neither a Motion nor an array [frame, joint, 3].
        """
        if self.n_neighbors < 1 or not self.temperature > 0:
            raise ConfigError(
                f"n_neighbors is 1 or more and temperature above 0, got {self.n_neighbors} and {self.temperature}"
            )
        motions = self._read_samples(X)
        labels = column_or_1d(y, warn=True)
        check_consistent_length(motions, labels)
        if labels.dtype.kind == "f":
            assert_all_finite(labels, input_name="y")
        check_classification_targets(labels)
        self.model_ = _load_model(self.model)
        self.classes_, self._index = np.unique(labels, return_inverse=True)
        self._examples = motions
        self.n_samples_fit_ = len(motions)
        table = self._compute_distances(motions)
        off_diagonal = table[~np.eye(len(table), dtype=bool)]
        self._scale = float(np.median(off_diagonal)) if len(off_diagonal) else 1.0
        return self

    def predict(self, X: Any) -> Any:
        """Return the class with the smallest distance for each sample."""
        distances = self._class_distances(X)
        return self.classes_[distances.argmin(1)]

    def predict_proba(self, X: Any) -> Any:
        """Return softmax(-distance / scale) over the classes.

        The values rank classes. They are not calibrated, and an unknown movement gets a class too: the confidence of
        ``jeanie.Recogniser`` is calibrated and detects unknown movements.
        """
        logits = -self._class_distances(X) / max(self.temperature * self._scale, 1e-12)
        weights = np.exp(logits - logits.max(1, keepdims=True))
        return weights / weights.sum(1, keepdims=True)

    def kneighbors(self, X: Any = None, n_neighbors: int | None = None, return_distance: bool = True) -> Any:
        """Return the distances and the indices of the nearest examples, nearest first.

        Args:
            X: Samples. None finds the neighbours of the examples, each without itself.
            n_neighbors: Number of neighbours (default: the parameter of this name).
            return_distance: Whether to return (distances, indices), or indices alone.
        """
        check_is_fitted(self, "model_")
        table = self._compute_distances(self._examples if X is None else self._read_samples(X))
        if X is None:
            np.fill_diagonal(table, np.inf)
        count, limit = n_neighbors or self.n_neighbors, table.shape[1] - (X is None)
        if not 1 <= count <= limit:
            raise ConfigError(
                f"n_neighbors is 1 to {limit}, as there are {table.shape[1]} examples, got {count}"
            )
        index = np.argsort(table, axis=1, kind="stable")[:, :count]
        return (np.take_along_axis(table, index, 1), index) if return_distance else index

    def _class_distances(self, X: Any) -> Any:
        """Return the mean distance of each sample to the nearest examples of each class."""
        check_is_fitted(self, "model_")
        table = self._compute_distances(self._read_samples(X))
        columns = (np.sort(table[:, self._index == number], axis=1) for number in range(len(self.classes_)))
        return np.stack([class_columns[:, : self.n_neighbors].mean(1) for class_columns in columns], 1)

    def _compute_distances(self, motions: Sequence[Motion]) -> Any:
        """Return the distance of each motion to each example, in float64."""
        model: FewShotModel = self.model_
        queries, examples = model.store(motions), model.store(self._examples)
        table = np.zeros((len(motions), len(self._examples)))
        with evaluation_mode(model):
            for clips, supports in encode_groups(model, examples, torch.arange(len(self._examples))):
                for rows, features in encode_batches(model, queries, torch.arange(len(motions)), "query"):
                    part: Tensor = model.compare(features, supports)
                    table[rows, clips[0] : clips[-1] + 1] = part.cpu().double().numpy()
        return table

    def _read_samples(self, X: Any) -> list[Motion]:
        if isinstance(X, Motion | str) or not hasattr(X, "__len__"):
            raise ShapeError(
                f"X is a sequence of motions, got {type(X).__name__}; for one motion use [motion]"
            )
        if not len(X):
            raise ShapeError("X has 0 sample(s), expected a minimum of 1 is required")
        layout = find_layout(self.layout) if isinstance(self.layout, str) else self.layout
        return [self._read_sample(X[number], number, layout) for number in range(len(X))]

    def _read_sample(self, sample: Any, number: int, layout: Layout | None) -> Motion:
        if isinstance(sample, Motion):
            return sample
        joints = np.asarray(sample, dtype=np.float32) if not isinstance(sample, Tensor) else sample
        if joints.ndim not in (3, 4) or joints.shape[-1] != 3:
            raise ShapeError(
                f"sample {number} needs shape [frame, joint, 3] or [frame, person, joint, 3], got "
                f"{tuple(joints.shape)}; read files with jeanie.read_motion"
            )
        if layout is None:
            raise ConfigError(
                "samples that are arrays need the layout of their joints: JeanieClassifier(layout='mediapipe33')"
            )
        return Motion(joints, layout, rate=self.rate, name=f"sample {number}")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = True
        return tags


def _load_model(model: Any) -> FewShotModel:
    """Return the model of the parameter ``model``."""
    if isinstance(model, FewShotModel):
        return model
    if model in RAWS:
        return FewShotModel.raw(model)
    if model == "shipped":
        return FewShotModel.load()
    if isinstance(model, str | Path):
        return FewShotModel.load(model)
    raise ConfigError(
        f"model needs 'shipped', one of {', '.join(RAWS)}, a model folder or a FewShotModel, got {model!r}"
    )
