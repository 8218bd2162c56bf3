"""Report: what a method reached on a protocol, with its interval and with every single prediction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import torch
from jaxtyping import Int
from torch import Tensor

from jeanie.errors import ConfigError
from jeanie.experiments.predictions import Predictions
from jeanie.experiments.reports.statistics import Estimate, mean_of, share_of
from jeanie.fewshot.episodes import Tag

__all__ = ["UNITS", "Part", "Report", "Unit", "cell", "estimate", "pooled", "unit_means", "unit_of"]

Unit = Literal["splits", "seeds", "episodes", "queries"]

UNITS: Mapping[Unit, str] = {
    "splits": "Student's t over the splits",
    "seeds": "Student's t over the seeds",
    "episodes": "Student's t over the episodes",
    "queries": "Wilson's score interval over the queries",
}
"""What an interval is taken over, and how."""


@dataclass(frozen=True)
class Part:
    """Accuracy of a split, in percent, and how many queries it had."""

    name: str
    accuracy: float
    queries: int


def unit_of(predictions: Predictions) -> Unit:
    """What was drawn independently: splits where there are several, then seeds, episodes, queries."""
    columns: tuple[tuple[Unit, Tensor], ...] = (
        ("splits", predictions.split),
        ("seeds", predictions.seed),
        ("episodes", predictions.episode),
    )
    return next((unit for unit, column in columns if len(torch.unique(column)) > 1), "queries")


def unit_means(predictions: Predictions, unit: Unit) -> list[float]:
    """Share of right answers in each unit, in the order of their numbers."""
    right = predictions.right.double()
    if unit == "queries":
        return right.tolist()
    column = {"splits": predictions.split, "seeds": predictions.seed, "episodes": predictions.episode}[unit]
    _, place = torch.unique(column, return_inverse=True)
    hits = torch.zeros(int(place.max()) + 1, dtype=torch.float64).index_add(0, place, right)
    return (hits / torch.bincount(place)).tolist()


def estimate(predictions: Predictions) -> tuple[Estimate, Unit]:
    """Accuracy in percent with its 95 % interval, and what the interval is taken over.

    Within a split all queries count alike, and over several splits or episodes all of those do.
    """
    unit = unit_of(predictions)
    if unit == "queries":
        return share_of(int(predictions.right.sum()), len(predictions)).times(100), unit
    return mean_of(unit_means(predictions, unit))[0].times(100), unit


@dataclass(frozen=True, eq=False)
class Report:
    """What a method reached on a protocol.

    ``classes`` are those that predictions count by, ``names`` those of the splits. ``variants`` are other
    test episodes of the same splits by name, such as those without the exemplars among the queries.
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

    @cached_property
    def _estimate(self) -> tuple[Estimate, Unit]:
        return estimate(self.predictions)

    @property
    def accuracy(self) -> float:
        """In percent: the mean over ``over``."""
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
        """What the interval is taken over."""
        return self._estimate[1]

    @property
    def queries(self) -> int:
        """Number of queries, those of one seed."""
        return len(self.predictions) // max(1, len(torch.unique(self.predictions.seed)))

    @cached_property
    def splits(self) -> tuple[Part, ...]:
        """Accuracy of each split."""
        present = torch.unique(self.predictions.split).tolist()
        counts = torch.bincount(self.predictions.split)
        seeds = max(1, len(torch.unique(self.predictions.seed)))
        means = unit_means(self.predictions, "splits")
        return tuple(
            Part(self.names[at], 100 * mean, int(counts[at]) // seeds)
            for at, mean in zip(present, means, strict=True)
        )

    @cached_property
    def confusion(self) -> Int[Tensor, "truth predicted"]:
        """How often a query of one class was said to be of another, over all seeds and splits."""
        count = len(self.classes)
        codes = self.predictions.truth * count + self.predictions.predicted
        return torch.bincount(codes, minlength=count * count).view(count, count)

    @cached_property
    def per_class(self) -> dict[str, float]:
        """Share of each class's queries that were right, in percent; classes without a query are left out."""
        hits, total = self.confusion.diagonal().tolist(), self.confusion.sum(1).tolist()
        return {
            str(tag): 100 * hit / count
            for tag, hit, count in zip(self.classes, hits, total, strict=True)
            if count
        }

    def json(self) -> dict[str, Any]:
        """The report in plain values, without the single predictions."""
        variants = {name: estimate(rows) for name, rows in self.variants.items()}
        return {
            "protocol": self.protocol,
            "method": self.method,
            "accuracy": _round(self.accuracy),
            "ci95": _round(self.ci95),
            "interval": [_round(end) for end in self.interval],
            "over": self.over,
            "way": self.way,
            "shot": self.shot,
            "rule": self.rule,
            "seeds": list(self.seeds),
            "queries": self.queries,
            "per_class": {name: _round(value) for name, value in self.per_class.items()},
            "confusion": {"classes": [str(tag) for tag in self.classes], "counts": self.confusion.tolist()},
            "splits": [
                {"name": part.name, "accuracy": _round(part.accuracy), "queries": part.queries}
                for part in self.splits
            ],
            "variants": {
                name: {
                    "accuracy": _round(found.value),
                    "ci95": _round(found.half),
                    "interval": [_round(found.low), _round(found.high)],
                    "over": unit,
                    "queries": len(self.variants[name]) // max(1, len(self.seeds)),
                }
                for name, (found, unit) in variants.items()
            },
            "commit": self.commit,
            "versions": dict(self.versions),
            "date": self.date,
        }

    def markdown(self) -> str:
        """The report as a page of tables."""
        lines = [
            f"## {cell(self.method)} on {cell(self.protocol)}",
            "",
            f"**{self.accuracy:.1f} ± {self.ci95:.1f} %** (95 %, {UNITS[self.over]}; "
            f"{self.queries:,} queries, {self.way}-way {self.shot}-shot, chance {100 / self.way:.1f} %).",
            *_described(self),
        ]
        for name, rows in self.variants.items():
            found, _ = estimate(rows)
            lines += ["", f"{cell(name).capitalize()}: {found.value:.1f} ± {found.half:.1f} %."]
        if len(self.splits) > 1:
            lines += ["", "| split | accuracy | queries |", "|---|---|---|"]
            lines += [
                f"| {cell(part.name)} | {part.accuracy:.1f} | {part.queries:,} |" for part in self.splits
            ]
        lines += ["", "| class | accuracy |", "|---|---|"]
        lines += [f"| {cell(name)} | {value:.1f} |" for name, value in self.per_class.items()]
        return "\n".join(lines) + "\n"


def _described(report: Report) -> list[str]:
    """Seeds, commit and versions as one sentence, where known."""
    parts = []
    if report.seeds:
        parts.append(f"seeds {', '.join(map(str, report.seeds))}")
    if report.commit:
        parts.append(f"commit {report.commit[:10]}{'+' * report.commit.endswith('+')}")
    parts += [f"{name} {number}" for name, number in report.versions.items()]
    parts += [report.date] if report.date else []
    return ["", "; ".join(parts) + "."] if parts else []


def cell(text: object) -> str:
    """Text that a table of Markdown shows as it is: labels come from files."""
    plain = " ".join(str(text).split())
    for sign in "\\`*_[]<>|":
        plain = plain.replace(sign, f"\\{sign}")
    return plain


def _round(value: float) -> float:
    return round(value, 6)


def pooled(reports: Sequence[Report]) -> Report:
    """Reports of one method under several seeds as one: accuracies are means over the seeds.

    The interval is taken over splits where there are several, else over the seeds.
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
                f"the reports on {first.protocol} have other queries; evaluate the same episodes"
            )
    return replace(
        first,
        predictions=_stacked([report.predictions for report in reports]),
        variants={name: _stacked([report.variants[name] for report in reports]) for name in first.variants},
        seeds=tuple(seed for report in reports for seed in report.seeds),
    )


def _stacked(parts: Sequence[Predictions]) -> Predictions:
    return Predictions.joined([part.at(seed=number) for number, part in enumerate(parts)])
