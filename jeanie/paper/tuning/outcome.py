"""The result of a search: the best recipe as files for training, importances, and an HTML page."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from jeanie._internal.files import write_atomically
from jeanie.errors import ConfigError
from jeanie.evaluation.protocols import get_protocol
from jeanie.evaluation.report.page import build_page, build_section, build_table
from jeanie.paper.tuning.space import apply_changes
from jeanie.paper.tuning.study import Tuning, silence_optuna
from jeanie.training.recipes import Recipe, get_recipe

__all__ = ["Outcome", "find_outcome", "format_toml"]

_WIDTH = 640.0


@dataclass(frozen=True)
class Outcome:
    """The best trial of a study; accuracies are validation accuracies in percent.

    ``start`` is the accuracy of the recipe without changes.
    """

    tuning: Tuning
    number: int
    accuracy: float
    start: float | None
    recipe: Recipe
    changes: Mapping[str, Any]
    importances: Mapping[str, float]
    trials: tuple[dict[str, Any], ...]

    def json(self) -> dict[str, Any]:
        """Return the outcome as plain values."""
        states = [trial["state"] for trial in self.trials]
        return {
            "protocol": self.tuning.protocol,
            "study": self.tuning.study,
            "best": {"trial": self.number, "validation": self.accuracy, "values": dict(self.changes)},
            "start": self.start,
            "importances": dict(self.importances),
            "states": {state: states.count(state) for state in sorted(set(states))},
            "trials": list(self.trials),
        }

    def write(self, out: Path, recipe: str) -> dict[str, Path]:
        """Write best.toml (differences from the named recipe), best.json (the whole recipe) and tuning.html."""
        out.mkdir(parents=True, exist_ok=True)
        base = get_recipe(recipe, get_protocol(self.tuning.protocol).dataset)
        head = (
            f"# Validation {self.accuracy:.2f} % on {self.tuning.protocol}, trial {self.number} of study "
            f"{self.tuning.study}.\n# jeanie train {self.tuning.protocol} --recipe {recipe} --config best.toml\n"
        )
        texts = {
            "toml": ("best.toml", head + format_toml(self.recipe, base)),
            "json": ("best.json", self.recipe.model_dump_json(indent=1) + "\n"),
            "html": ("tuning.html", _render_page(self)),
        }
        for name, text in texts.values():
            write_atomically(out / name, text.encode())
        return {kind: out / name for kind, (name, _) in texts.items()}


def find_outcome(study: Any, tuning: Tuning) -> Outcome:
    """Return the best trial of a study so far.

    Raises:
        ConfigError: The study has no finished trial.
    """
    with silence_optuna() as library:
        trials = study.get_trials(deepcopy=False)
        completed = [trial for trial in trials if trial.state.name == "COMPLETE"]
        if not completed:
            errors = [trial.user_attrs["error"] for trial in trials if "error" in trial.user_attrs]
            raise ConfigError(
                f"study {tuning.study!r} has no finished trial"
                + (f"; the first failure: {errors[0]}" if errors else "; continue the search")
            )
        best = max(completed, key=lambda trial: trial.value)
        importances: dict[str, float] = {}
        if len({trial.value for trial in completed}) > 1:
            evaluator = library.importance.PedAnovaImportanceEvaluator()
            importances = library.importance.get_param_importances(study, evaluator=evaluator)
    recipe = apply_changes(tuning.recipe, best.params)
    return Outcome(
        tuning=tuning,
        number=best.number,
        accuracy=best.value,
        start=next((trial.value for trial in completed if trial.number == 0), None),
        recipe=recipe,
        changes=best.params,
        importances=dict(sorted(importances.items(), key=lambda item: -item[1])),
        trials=tuple(
            {
                "number": trial.number,
                "state": trial.state.name.lower(),
                "validation": trial.value if trial.state.name == "COMPLETE" else _get_last_validation(trial),
                "values": trial.params,
                "error": trial.user_attrs.get("error"),
            }
            for trial in trials
        ),
    )


def _get_last_validation(trial: Any) -> float | None:
    """Return the last validation accuracy that a trial reported."""
    steps = trial.intermediate_values
    return steps[max(steps)] if steps else None


def format_toml(recipe: Recipe, base: Recipe) -> str:
    """Format the differences between two recipes as TOML that ``Recipe.with_file`` reads.

    TOML has no null: an option without a value becomes a comment for ``--set``.

    >>> default = get_recipe("default")
    >>> print(format_toml(default.with_values({"align.gamma": 0.5, "loss.kind": "similarity"}), default))
    model.align.gamma = 0.5
    train.loss.kind = "similarity"
    <BLANKLINE>
    """
    lines = []
    for name, value in _find_differences(recipe.model_dump(mode="json"), base.model_dump(mode="json"), ""):
        lines.append(f"# --set {name}=null" if value is None else f"{name} = {_format_value(value)}")
    return "\n".join(lines) + "\n"


def _find_differences(new: Mapping[str, Any], old: Mapping[str, Any], prefix: str) -> list[tuple[str, Any]]:
    differences: list[tuple[str, Any]] = []
    for key, value in new.items():
        name, before = f"{prefix}{key}", old.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            differences += _find_differences(value, before, f"{name}.")
        elif value != before:
            differences.append((name, value))
    return differences


def _format_value(value: Any) -> str:
    """Format a value in TOML; tables inside lists leave out options without a value."""
    if isinstance(value, dict):
        return (
            "{ "
            + ", ".join(f"{key} = {_format_value(item)}" for key, item in value.items() if item is not None)
            + " }"
        )
    if isinstance(value, list):
        return "[" + ", ".join(map(_format_value, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _render_page(outcome: Outcome) -> str:
    start = (
        "" if outcome.start is None else f" Accuracy of the recipe without changes: {outcome.start:.2f} %."
    )
    best = (
        f"Best validation accuracy {outcome.accuracy:.2f} %, trial {outcome.number} of {len(outcome.trials)}."
    )
    values = [(escape(name), escape(str(value))) for name, value in outcome.changes.items()]
    shares = [
        (escape(name), f"{100 * share:.0f} %", _draw_bar(share))
        for name, share in outcome.importances.items()
    ]
    importances = build_table(("option", "share", ""), shares) if shares else ""
    history = "Validation accuracy in percent per trial; small dots: stopped early."
    return build_page(
        f"Search on {outcome.tuning.protocol}",
        eyebrow="Search",
        lead=best + start,
        sections=[
            build_section("Best values", "", build_table(("option", "value"), values)),
            build_section(
                "Importance of each option", "" if shares else "Too few finished trials.", importances
            ),
            build_section("Trials", history, _draw_history(outcome.trials)),
        ],
        notes=["The search uses validation classes only. It never reads test episodes."],
    )


def _draw_bar(share: float) -> str:
    return (
        f'<svg viewBox="0 0 300 12" width="300" height="12" role="img" aria-label="{100 * share:.0f} %">'
        f'<rect width="300" height="12" rx="6" class="track"/>'
        f'<rect width="{300 * share:.1f}" height="12" rx="6" class="fill c0"/></svg>'
    )


def _draw_history(trials: Sequence[Mapping[str, Any]]) -> str:
    """Draw the validation accuracy of every trial; dots of pruned trials are small."""
    height, left = 220.0, 34.0
    parts = []
    for tick in range(0, 101, 20):
        y = 10 + (height - 30) * (1 - tick / 100)
        parts.append(f'<line x1="{left}" y1="{y:.1f}" x2="{_WIDTH}" y2="{y:.1f}" class="grid"/>')
        parts.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end" class="tick">{tick}</text>')
    for number, trial in enumerate(trials):
        if trial["validation"] is not None:
            x = left + 8 + (_WIDTH - left - 16) * number / max(1, len(trials) - 1)
            y = 10 + (height - 30) * (1 - trial["validation"] / 100)
            kind, size = ("c0", 5) if trial["state"] == "complete" else ("c1", 3)
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size}" class="dot {kind}"/>')
    return f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="trials">{"".join(parts)}</svg>'
