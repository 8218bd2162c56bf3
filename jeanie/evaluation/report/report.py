"""The result of a method on a protocol: accuracy with its interval, and every single prediction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import torch
from jaxtyping import Int
from torch import Tensor

from jeanie.errors import ConfigError
from jeanie.evaluation.predict import Predictions
from jeanie.evaluation.report.markdown import escape_markdown, format_table
from jeanie.evaluation.statistics import Estimate, estimate_mean, estimate_share
from jeanie.fewshot.episodes import Tag

__all__ = [
    "UNITS",
    "Report",
    "SplitAccuracy",
    "Unit",
    "compute_unit_means",
    "estimate_accuracy",
    "find_unit",
    "pool_seeds",
]

Unit = Literal["splits", "seeds", "episodes", "queries"]

UNITS: Mapping[Unit, str] = {
    "splits": "Student's t over the splits",
    "seeds": "Student's t over the seeds",
    "episodes": "Student's t over the episodes",
    "queries": "Wilson's score interval over the queries",
}
"""The units that an interval is computed over, and the method."""


_FEW: Mapping[Unit, int] = {"splits": 3, "seeds": 3, "episodes": 10, "queries": 20}
"""Units below which an interval is not reliable: Student's t with one degree of freedom has 12.7 standard errors."""


@dataclass(frozen=True)
class SplitAccuracy:
    """Accuracy on a split in percent, and its number of queries."""

    name: str
    accuracy: float
    queries: int


def find_unit(predictions: Predictions) -> Unit:
    """Return the largest unit with several independent members: splits, else seeds, episodes, queries."""
    columns: tuple[tuple[Unit, Tensor], ...] = (
        ("splits", predictions.split),
        ("seeds", predictions.seed),
        ("episodes", predictions.episode),
    )
    return next((unit for unit, column in columns if len(torch.unique(column)) > 1), "queries")


def compute_unit_means(predictions: Predictions, unit: Unit) -> list[float]:
    """Return the share of correct predictions per unit, in the order of the unit numbers."""
    correct = predictions.is_correct.double()
    if unit == "queries":
        return correct.tolist()
    column = {"splits": predictions.split, "seeds": predictions.seed, "episodes": predictions.episode}[unit]
    _, unit_index = torch.unique(column, return_inverse=True)
    counts = torch.bincount(unit_index)
    hits = torch.zeros(len(counts), dtype=torch.float64).index_add(0, unit_index, correct)
    return (hits / counts).tolist()


def estimate_accuracy(predictions: Predictions) -> tuple[Estimate, Unit]:
    """Estimate the accuracy in percent with its 95 % interval.

    Queries of one split have equal weight; several splits or episodes have equal weight too.

    Returns:
        The estimate, and the unit that the interval is computed over.
    """
    unit = find_unit(predictions)
    if unit == "queries":
        return estimate_share(int(predictions.is_correct.sum()), len(predictions)).times(100), unit
    return estimate_mean(compute_unit_means(predictions, unit))[0].limit(0, 1).times(100), unit


@dataclass(frozen=True, eq=False)
class Report:
    """The result of a method on a protocol.

    Attributes:
        protocol, method: Their names.
        classes: The classes that predictions index.
        class_names: Their names, if the classes are numbers that have names.
        names: Names of the splits.
        predictions: One row per query.
        way, shot: Classes per episode, supports per class.
        rule: How a query gets its class from its distances.
        seeds: Training seeds.
        variants: Predictions on other test episodes of the same splits, by name.
        commit, versions, date: Origin of the numbers.
        hidden_joints: Numbers of joints in simulated views: ``valid`` ones, and the ``hidden`` ones among them, over
            all encodings in the first process; empty without simulated cameras.

    >>> from jeanie import FewShotModel, evaluate
    >>> report = evaluate(FewShotModel.raw("dtw"), "synthetic", limit=1)
    >>> report.queries, report.over
    (10, 'queries')
    """

    protocol: str
    method: str
    classes: tuple[Tag, ...]
    names: tuple[str, ...]
    predictions: Predictions
    way: int
    shot: int
    rule: str = "nearest"
    seeds: tuple[int, ...] = ()
    variants: Mapping[str, Predictions] = field(default_factory=dict)
    commit: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    date: str = ""
    class_names: tuple[str, ...] = ()
    hidden_joints: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def _estimate(self) -> tuple[Estimate, Unit]:
        return estimate_accuracy(self.predictions)

    @property
    def accuracy(self) -> float:
        """Accuracy in percent: the mean over the units of ``over``."""
        return self._estimate[0].value

    @property
    def ci95(self) -> float:
        """Half the width of the 95 % interval, in points."""
        return self._estimate[0].half

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval, in percent; Wilson's is not centred on the accuracy."""
        return self._estimate[0].low, self._estimate[0].high

    @property
    def over(self) -> Unit:
        """Unit that the interval is computed over."""
        return self._estimate[1]

    @property
    def titles(self) -> tuple[str, ...]:
        """Name of each class."""
        return self.class_names or tuple(map(str, self.classes))

    @property
    def units(self) -> int:
        """Number of units that the interval is computed over."""
        return len(compute_unit_means(self.predictions, self.over))

    @property
    def caution(self) -> str:
        """A sentence about an interval over too few units, or over equal units; empty if it is reliable."""
        if self.units >= _FEW[self.over]:
            means = compute_unit_means(self.predictions, self.over)
            if self.over == "queries" or max(means) > min(means):
                return ""
            return (
                f"The accuracy is the same in all {self.units} {self.over}, so the interval has no width and does not "
                "show the uncertainty."
            )
        return (
            f"Only {self.units} {self.over}: too few for a reliable interval; "
            f"use {_FEW[self.over]} or more {self.over}."
        )

    @property
    def queries(self) -> int:
        """Number of queries of one seed."""
        return len(self.predictions) // max(1, len(torch.unique(self.predictions.seed)))

    @cached_property
    def splits(self) -> tuple[SplitAccuracy, ...]:
        """Accuracy of each split."""
        present = torch.unique(self.predictions.split).tolist()
        counts = torch.bincount(self.predictions.split)
        seeds = max(1, len(torch.unique(self.predictions.seed)))
        means = compute_unit_means(self.predictions, "splits")
        return tuple(
            SplitAccuracy(self.names[split], 100 * mean, int(counts[split]) // seeds)
            for split, mean in zip(present, means, strict=True)
        )

    @cached_property
    def confusion(self) -> Int[Tensor, "truth predicted"]:
        """Number of queries per true and predicted class, over all seeds and splits."""
        count = len(self.classes)
        codes = self.predictions.truth * count + self.predictions.predicted
        return torch.bincount(codes, minlength=count * count).view(count, count)

    @cached_property
    def per_class(self) -> dict[str, float]:
        """Accuracy of each class in percent; classes without a query are left out."""
        hits, total = self.confusion.diagonal().tolist(), self.confusion.sum(1).tolist()
        return {
            name: 100 * hit / count
            for name, hit, count in zip(self.titles, hits, total, strict=True)
            if count
        }

    def json(self) -> dict[str, Any]:
        """Return the report as plain values, without the single predictions."""
        variants = {name: estimate_accuracy(rows) for name, rows in self.variants.items()}
        return {
            "protocol": self.protocol,
            "method": self.method,
            "accuracy": _round(self.accuracy),
            "ci95": _round(self.ci95),
            "interval": [_round(end) for end in self.interval],
            "over": self.over,
            "units": self.units,
            "caution": self.caution,
            "way": self.way,
            "shot": self.shot,
            "rule": self.rule,
            "seeds": list(self.seeds),
            "queries": self.queries,
            "per_class": {name: _round(value) for name, value in self.per_class.items()},
            "confusion": {"classes": list(self.titles), "counts": self.confusion.tolist()},
            "splits": [
                {"name": part.name, "accuracy": _round(part.accuracy), "queries": part.queries}
                for part in self.splits
            ],
            "variants": {
                name: {
                    "accuracy": _round(estimate.value),
                    "ci95": _round(estimate.half),
                    "interval": [_round(estimate.low), _round(estimate.high)],
                    "over": unit,
                    "queries": len(self.variants[name]) // max(1, len(self.seeds)),
                }
                for name, (estimate, unit) in variants.items()
            },
            "commit": self.commit,
            "versions": dict(self.versions),
            "date": self.date,
            **({"hidden_joints": dict(self.hidden_joints)} if self.hidden_joints else {}),
        }

    def markdown(self) -> str:
        """Return the report as Markdown tables."""
        lines = [
            f"## {escape_markdown(self.method)} on {escape_markdown(self.protocol)}",
            "",
            f"**{self.accuracy:.1f} ± {self.ci95:.1f} %** (95 %, {UNITS[self.over]}; "
            f"{self.queries:,} queries, {self.way}-way {self.shot}-shot, chance {100 / self.way:.1f} %).",
            *_describe_origin(self),
            *(["", self.caution] if self.caution else []),
        ]
        for name, rows in self.variants.items():
            accuracy, _ = estimate_accuracy(rows)
            lines += [
                "",
                f"{escape_markdown(name).capitalize()}: {accuracy.value:.1f} ± {accuracy.half:.1f} %.",
            ]
        if len(self.splits) > 1:
            splits = [(part.name, f"{part.accuracy:.1f}", f"{part.queries:,}") for part in self.splits]
            lines += ["", *format_table(("split", "accuracy", "queries"), splits)]
        classes = [(name, f"{value:.1f}") for name, value in self.per_class.items()]
        lines += ["", *format_table(("class", "accuracy"), classes)]
        return "\n".join(lines) + "\n"


def _describe_origin(report: Report) -> list[str]:
    """Return known seeds, commit, versions and date as one sentence."""
    parts = []
    if report.seeds:
        parts.append(f"seeds {', '.join(map(str, report.seeds))}")
    if report.commit:
        parts.append(f"commit {report.commit[:10]}{'+' * report.commit.endswith('+')}")
    parts += [f"{name} {number}" for name, number in report.versions.items()]
    parts += [report.date] if report.date else []
    return ["", "; ".join(parts) + "."] if parts else []


def _round(value: float) -> float:
    return round(value, 6)


def pool_seeds(reports: Sequence[Report]) -> Report:
    """Combine the reports of one method with several seeds; accuracies are means over the seeds.

    The interval is computed over splits if there are several, otherwise over the seeds.

    Raises:
        ConfigError: The reports differ in protocol, splits or queries.
    """
    first = reports[0]
    for report in reports[1:]:
        alike = (report.protocol, report.classes, report.names, sorted(report.variants))
        if alike != (first.protocol, first.classes, first.names, sorted(first.variants)):
            raise ConfigError(
                f"reports of one method under several seeds need one protocol and its splits, got "
                f"{first.protocol} with {len(first.names)} and {report.protocol} with {len(report.names)} splits"
            )
        if not torch.equal(report.predictions.query, first.predictions.query):
            raise ConfigError(
                f"the reports on {first.protocol} have different queries; evaluate the same episodes"
            )
    return replace(
        first,
        predictions=_stack_seeds([report.predictions for report in reports]),
        variants={
            name: _stack_seeds([report.variants[name] for report in reports]) for name in first.variants
        },
        seeds=tuple(seed for report in reports for seed in report.seeds),
        hidden_joints={
            name: sum(report.hidden_joints.get(name, 0) for report in reports) for name in first.hidden_joints
        },
    )


def _stack_seeds(parts: Sequence[Predictions]) -> Predictions:
    return Predictions.concatenate([part.with_numbers(seed=number) for number, part in enumerate(parts)])
