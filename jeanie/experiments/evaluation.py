"""Evaluation: a model, or one model a split, on every test episode of a protocol."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from jeanie.datasets import Dataset
from jeanie.errors import ConfigError
from jeanie.experiments.predictions import Predictions, Progress, Rule, predict
from jeanie.experiments.protocols import Protocol
from jeanie.experiments.protocols import protocol as protocol_of
from jeanie.experiments.protocols.splits import Split
from jeanie.experiments.provenance import commit, versions
from jeanie.experiments.reports.report import Report
from jeanie.fewshot.config import REFERENCE, ModelConfig
from jeanie.fewshot.episodes import Episode, in_order
from jeanie.fewshot.inputs import Store
from jeanie.fewshot.model import FewShotModel

__all__ = ["Models", "evaluate", "method_name", "model_of"]

Models = FewShotModel | Mapping[str, FewShotModel] | Callable[[Split], FewShotModel]


def evaluate(
    model: Models,
    protocol: Protocol | str,
    *,
    dataset: Dataset | None = None,
    way: int | None = None,
    train_classes: int | None = None,
    splits: Sequence[Split] | None = None,
    method: str | None = None,
    rule: Rule = "nearest",
    seeds: Sequence[int] = (),
    limit: int | None = None,
    progress: Progress | None = None,
) -> Report:
    """What a model reaches on the test episodes of a protocol.

    ``model`` is one for all splits, one a split by its name, or a function of the split. ``splits`` are those
    of the protocol by default, ``limit`` takes only so many episodes of each. ``seeds`` are those that the
    model was trained with, for the record; `pooled` joins the reports of several seeds. ``progress`` is told
    (pairs done, pairs in all), anew for each model. In several processes (torch.distributed) each takes its
    share of the queries and all return the same report.
    """
    protocol = protocol_of(protocol) if isinstance(protocol, str) else protocol
    dataset = protocol.open() if dataset is None else dataset
    if splits is None:
        splits = protocol.splits(dataset, way=way, train_classes=train_classes)
    if not splits:
        raise ConfigError(f"{protocol.name}: no split to evaluate on; give at least one")
    tests = [_tests(split, limit) for split in splits]
    classes = in_order([tag for split in splits for tag in split.test_classes])
    parts: dict[str, list[Predictions]] = {}
    for some, at, store in _stored(model, splits, dataset):
        groups = [(number, name, test) for number in at for name, test in tests[number].items()]
        found = predict(some, store, [test for *_, test in groups], classes, rule=rule, progress=progress)
        for (number, variant, _), rows in zip(groups, found, strict=True):
            parts.setdefault(variant, []).append(rows.at(split=number))
    return Report(
        protocol=protocol.name,
        method=method or (method_name(model.config) if isinstance(model, FewShotModel) else "model"),
        classes=classes,
        names=tuple(split.name for split in splits),
        predictions=Predictions.joined(parts.pop("")),
        way=max(split.way for split in splits),
        shot=max(split.shot for split in splits),
        rule=rule,
        seeds=tuple(seeds),
        variants={variant: Predictions.joined(rows) for variant, rows in parts.items()},
        commit=commit(),
        versions=versions(),
        date=datetime.now(UTC).strftime("%Y-%m-%d"),
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
    """What a model does, in a word or two: how it aligns, and whether it has learnt anything.

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


def model_of(models: Models, split: Split) -> FewShotModel:
    """The model that is tested on a split."""
    if isinstance(models, FewShotModel):
        return models
    if not isinstance(models, Mapping):
        return models(split)
    if split.name not in models:
        raise ConfigError(f"no model for split {split.name!r}, only for {', '.join(sorted(models))}")
    return models[split.name]


def _tests(split: Split, limit: int | None) -> dict[str, Sequence[Episode]]:
    """Test episodes of a split under the name "", and its variants under theirs."""
    if limit is not None and limit < 1:
        raise ConfigError(f"limit counts episodes, 1 or more, got {limit}")
    tests = {"": split.test, **split.test_variants}
    if limit is None:
        return tests
    return {name: [test[at] for at in range(min(limit, len(test)))] for name, test in tests.items()}


def _stored(
    models: Models, splits: Sequence[Split], dataset: Dataset
) -> Iterator[tuple[FewShotModel, range, Store]]:
    """Models with the numbers of their splits and with prepared clips, which alike models share."""
    if isinstance(models, FewShotModel):
        yield models, range(len(splits)), models.store(dataset.motions)
        return
    before: tuple[object, Store] | None = None
    for number, split in enumerate(splits):
        model = model_of(models, split)
        parts = [part for part in model.modules() if isinstance(part, FewShotModel)]
        wanted = [(part.dtype, part.config.inputs.prepare) for part in parts]
        if before is None or before[0] != wanted:
            before = wanted, model.store(dataset.motions)
        yield model, range(number, number + 1), before[1]
