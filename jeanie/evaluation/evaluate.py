"""Evaluate a model, or one model per split, on the test episodes of a protocol."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from jeanie._internal.provenance import get_commit, get_versions
from jeanie.compute.cancellation import raise_if_stopped
from jeanie.compute.tasks import map_tasks
from jeanie.datasets import Dataset
from jeanie.datasets.class_names import get_class_name
from jeanie.errors import ConfigError
from jeanie.evaluation.custom_method import DistanceMethod
from jeanie.evaluation.predict import Predictions, predict
from jeanie.evaluation.protocols import Protocol, get_protocol
from jeanie.evaluation.protocols.splits import Split
from jeanie.evaluation.report.report import Report
from jeanie.fewshot.batching import Progress
from jeanie.fewshot.classes import Rule
from jeanie.fewshot.config import REFERENCE, ModelConfig
from jeanie.fewshot.episodes import Episode, Tag, limit_episodes, sort_tags
from jeanie.fewshot.model import FewShotModel

__all__ = ["Models", "evaluate", "get_model_of_split", "method_name"]

Method = FewShotModel | DistanceMethod
Models = Method | Mapping[str, Method] | Callable[[Split], Method]


def evaluate(
    model: Models,
    protocol: Protocol | str,
    *,
    dataset: Dataset | None = None,
    way: int | None = None,
    shot: int | None = None,
    train_classes: int | None = None,
    splits: Sequence[Split] | None = None,
    method: str | None = None,
    rule: Rule = "nearest",
    seeds: Sequence[int] = (),
    limit: int | None = None,
    jobs: int = 1,
    cluster: str | None = None,
    progress: Progress | None = None,
) -> Report:
    """Evaluate a model on the test episodes of a protocol.

    With several processes (torch.distributed) each process takes a share of the queries; all return the same report.

    Args:
        model: One model for all splits, a mapping from split names to models, or a function of the split. A model is a
            FewShotModel or any object with ``distances(queries, supports)``.
        protocol: A protocol or its name.
        dataset: The data set (default: that of the protocol, in ``$JEANIE_DATA``).
        way: Classes per episode (default: that of the protocol).
        shot: Supports per class (default: that of the protocol).
        train_classes: Number of training classes of the splits (default: that of the protocol).
        splits: Splits to test (default: all of the protocol).
        method: Name in the report (default: derived from the model).
        rule: A query gets the class of its "nearest" support, or the class with the smallest "mean" distance.
        seeds: Seeds that the model was trained with, for the report; `pool_seeds` combines reports of seeds.
        limit: Test episodes per split, or queries per class of fixed exemplars (default: all).
        jobs: Number of worker processes with one thread each. A task is one model on all of its splits, so this helps
            if there is one model per split.
        cluster: Address of a Dask scheduler whose workers do so. They need the data under the same paths.
        progress: Called with (pairs done, pairs in total), separately for each model; with several workers, with
            (models done, models in total).

    Returns:
        The report.

    Raises:
        ConfigError: There is no split, or a split has no model.

    >>> report = evaluate(FewShotModel.raw("dtw"), "synthetic", limit=1)
    >>> report.method, report.way, report.shot
    ('raw DTW', 10, 1)
    """
    protocol = get_protocol(protocol) if isinstance(protocol, str) else protocol
    dataset = protocol.open() if dataset is None else dataset
    if splits is None:
        splits = protocol.splits(dataset, way=way, shot=shot, train_classes=train_classes)
    if not splits:
        raise ConfigError(f"{protocol.name}: no split to evaluate on; give at least one")
    tests = [_select_tests(split, limit) for split in splits]
    classes = sort_tags([tag for split in splits for tag in split.test_classes])
    parts: dict[str, list[Predictions]] = {}
    hidden: Counter[str] = Counter()
    groups = [range(len(splits))] if isinstance(model, DistanceMethod) else _list_single_splits(splits)
    is_alone = jobs == 1 and cluster is None
    work = _Evaluation(model, splits, dataset, tests, classes, rule, progress if is_alone else None)
    results = map_tasks(
        _predict_group, groups, shared=(work,), jobs=jobs, cluster=cluster, ordered=True,
        progress=None if is_alone else progress,
    )  # fmt: skip
    for _, (rows_by_split, counts) in results:
        for variant, rows in rows_by_split:
            parts.setdefault(variant, []).append(rows)
        hidden.update(counts)
    return Report(
        protocol=protocol.name,
        method=method or _get_name(model),
        classes=classes,
        names=tuple(split.name for split in splits),
        predictions=Predictions.concatenate(parts.pop("")),
        way=max(split.way for split in splits),
        shot=max(split.shot for split in splits),
        rule=rule,
        seeds=tuple(seeds),
        variants={variant: Predictions.concatenate(rows) for variant, rows in parts.items()},
        commit=get_commit(),
        versions=get_versions(),
        date=datetime.now(UTC).strftime("%Y-%m-%d"),
        class_names=tuple(get_class_name(protocol.dataset, tag) for tag in classes),
        hidden_joints=dict(hidden) if hidden["valid"] else {},
    )


_METHOD_NAMES = {
    "jeanie": "JEANIE",
    "fvm": "FVM",
    "pool": "mean features",
    "pool-time": "mean features, best view",
    "pool-views": "soft-DTW of mean views",
    "udtw": "uDTW",
}
_CLASS_NAMES = {"prototype": "Prototypical Net", "attention": "Matching Nets"}


def method_name(config: ModelConfig) -> str:
    """Return a short name for a model: how it aligns, and "raw" if nothing is learnt.

    >>> method_name(FewShotModel.raw("dtw").config)
    'raw DTW'
    """
    if config == REFERENCE:
        return "raw reference"
    align = config.align
    name = _METHOD_NAMES[align.method]
    if align.method in ("jeanie", "fvm") and config.views.kind == "none":
        name = "soft-DTW" if align.gamma else "DTW"
    if align.method in ("pool", "pool-time"):
        name = _CLASS_NAMES.get(align.classes, name)
    return f"raw {name}" if config.encoder.kind == "raw" else name


def _get_name(models: Models) -> str:
    """Return the name of a method: from its configuration, its attribute ``name``, or its class."""
    if isinstance(models, FewShotModel):
        return method_name(models.config)
    if isinstance(models, DistanceMethod):
        return str(getattr(models, "name", type(models).__name__))
    return "model"


def get_model_of_split(models: Models, split: Split) -> Method:
    """Return the model that is tested on a split."""
    if isinstance(models, DistanceMethod):  # a FewShotModel is one too
        return models
    if not isinstance(models, Mapping):
        return models(split)
    if split.name not in models:
        raise ConfigError(f"no model for split {split.name!r}, only for {', '.join(sorted(models))}")
    return models[split.name]


def _count_hidden_joints(model: Method) -> dict[str, int]:
    """Return how many joints simulated cameras of a model and its components have measured, and did not see."""
    parts = model.modules() if isinstance(model, FewShotModel) else ()
    counts = [part.hidden_joints for part in parts if isinstance(part, FewShotModel)]
    return {name: sum(getattr(count, name) for count in counts) for name in ("hidden", "valid")}


def _select_tests(split: Split, limit: int | None) -> dict[str, Sequence[Episode]]:
    """Return the test episodes of a split under the name "", and its variants under their names."""
    if limit is not None and limit < 1:
        raise ConfigError(f"limit is 1 or more episodes, got {limit}")
    tests = {"": split.test, **split.test_variants}
    if limit is None:
        return tests
    return {name: limit_episodes(test, limit) for name, test in tests.items()}


def _list_single_splits(splits: Sequence[Split]) -> list[range]:
    return [range(number, number + 1) for number in range(len(splits))]


@dataclass(eq=False)
class _Evaluation:
    """The arguments that all tasks of an evaluation share. Models with equal inputs share prepared clips."""

    models: Models
    splits: Sequence[Split]
    dataset: Dataset
    tests: Sequence[dict[str, Sequence[Episode]]]
    classes: tuple[Tag, ...]
    rule: Rule
    progress: Progress | None
    prepared: tuple[object, Any] | None = None

    def prepare_clips(self, model: Method) -> Any:
        """Return the clips of the data set as a model needs them."""
        if not isinstance(model, FewShotModel):
            return self.dataset.motions
        parts = [part for part in model.modules() if isinstance(part, FewShotModel)]
        inputs = [(part.dtype, part.config.inputs.prepare, part.config.views) for part in parts]
        if self.prepared is None or self.prepared[0] != inputs:
            self.prepared = inputs, model.store(self.dataset.motions)
        return self.prepared[1]


def _predict_group(work: _Evaluation, group: range) -> tuple[list[tuple[str, Predictions]], Counter[str]]:
    """Test the model of some splits; return (variant, predictions) per split, and counts of hidden joints."""
    model = get_model_of_split(work.models, work.splits[group.start])
    named = [(number, name, test) for number in group for name, test in work.tests[number].items()]
    before = _count_hidden_joints(model)
    clips = work.prepare_clips(model)
    episodes = [test for *_, test in named]
    progress = work.progress or raise_if_stopped
    predictions = predict(model, clips, episodes, work.classes, rule=work.rule, progress=progress)
    counts = Counter(_count_hidden_joints(model))
    counts.subtract(before)
    rows = [
        (name, rows.with_numbers(split=number))
        for (number, name, _), rows in zip(named, predictions, strict=True)
    ]
    return rows, counts
