"""What a search has found: the best recipe as files that training takes, importances, and a page of it all."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from jeanie.errors import ConfigError
from jeanie.experiments.recipes import RECIPES, Recipe
from jeanie.experiments.reports.page import html_table, page, section
from jeanie.experiments.tuning.space import settled
from jeanie.experiments.tuning.study import Tuning, quiet
from jeanie.fewshot.saving import write_atomically

__all__ = ["Outcome", "outcome", "toml_of"]

_WIDTH = 640.0


@dataclass(frozen=True)
class Outcome:
    """The best trial of a study; accuracies are those of validation, in percent."""

    tuning: Tuning
    number: int
    accuracy: float
    start: float | None
    recipe: Recipe
    changes: Mapping[str, Any]
    importances: Mapping[str, float]
    trials: tuple[dict[str, Any], ...]

    def json(self) -> dict[str, Any]:
        """The outcome in plain values."""
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
        """Write best.toml (what differs from the named recipe), best.json (all of it) and the page."""
        out.mkdir(parents=True, exist_ok=True)
        head = (
            f"# Validation {self.accuracy:.2f} % on {self.tuning.protocol}, trial {self.number} of study "
            f"{self.tuning.study}.\n# jeanie train {self.tuning.protocol} --recipe {recipe} --config best.toml\n"
        )
        texts = {
            "toml": ("best.toml", head + toml_of(self.recipe, RECIPES[recipe])),
            "json": ("best.json", self.recipe.model_dump_json(indent=1) + "\n"),
            "html": ("tuning.html", _page(self)),
        }
        for name, text in texts.values():
            write_atomically(out / name, text.encode())
        return {kind: out / name for kind, (name, _) in texts.items()}


def outcome(study: Any, tuning: Tuning) -> Outcome:
    """The best of a study so far."""
    with quiet() as library:
        known = study.get_trials(deepcopy=False)
        done = [one for one in known if one.state.name == "COMPLETE"]
        if not done:
            errors = [one.user_attrs["error"] for one in known if "error" in one.user_attrs]
            raise ConfigError(
                f"study {tuning.study!r} has no finished trial"
                + (f"; the first that failed: {errors[0]}" if errors else "; search on")
            )
        best = max(done, key=lambda one: one.value)
        found = {}
        if len({one.value for one in done}) > 1:
            evaluator = library.importance.PedAnovaImportanceEvaluator()
            found = library.importance.get_param_importances(study, evaluator=evaluator)
    recipe = settled(tuning.recipe, best.params)
    return Outcome(
        tuning=tuning,
        number=best.number,
        accuracy=best.value,
        start=next((one.value for one in done if one.number == 0), None),
        recipe=recipe,
        changes=best.params,
        importances=dict(sorted(found.items(), key=lambda item: -item[1])),
        trials=tuple(
            {
                "number": one.number,
                "state": one.state.name.lower(),
                "validation": one.value if one.state.name == "COMPLETE" else _last(one),
                "values": one.params,
                "error": one.user_attrs.get("error"),
            }
            for one in known
        ),
    )


def _last(trial: Any) -> float | None:
    """The last validation that a trial told."""
    steps = trial.intermediate_values
    return steps[max(steps)] if steps else None


def toml_of(recipe: Recipe, base: Recipe) -> str:
    """What differs between two recipes as TOML that ``Recipe.changed_by`` takes.

    TOML has no null: an option without a value becomes a comment, for ``--set``.

    >>> default = RECIPES["default"]
    >>> print(toml_of(default.changed({"align.gamma": 0.5, "loss.kind": "similarity"}), default))
    model.align.gamma = 0.5
    train.loss.kind = "similarity"
    <BLANKLINE>
    """
    lines = []
    for name, value in _differences(recipe.model_dump(mode="json"), base.model_dump(mode="json"), ""):
        lines.append(f"# --set {name}=null" if value is None else f"{name} = {_toml(value)}")
    return "\n".join(lines) + "\n"


def _differences(new: Mapping[str, Any], old: Mapping[str, Any], above: str) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in new.items():
        name, before = f"{above}{key}", old.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            found += _differences(value, before, f"{name}.")
        elif value != before:
            found.append((name, value))
    return found


def _toml(value: Any) -> str:
    """A value in TOML; tables inside lists leave out options without a value, whose default that is."""
    if isinstance(value, dict):
        return (
            "{ " + ", ".join(f"{key} = {_toml(one)}" for key, one in value.items() if one is not None) + " }"
        )
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _page(found: Outcome) -> str:
    """The outcome as a page."""
    start = "" if found.start is None else f" The recipe as it was: {found.start:.2f} %."
    lead = (
        f"Best validation accuracy {found.accuracy:.2f} %, trial {found.number} of {len(found.trials)}.{start} "
        "Test classes were not looked at."
    )
    values = [(escape(name), escape(str(value))) for name, value in found.changes.items()]
    shares = [
        (escape(name), f"{100 * share:.0f} %", _bar(share)) for name, share in found.importances.items()
    ]
    mattered = html_table(("option", "share", ""), shares) if shares else ""
    note = "" if shares else "Too few finished trials to tell."
    history = "Percent on validation, trial by trial; small: ended early."
    sections = [
        section("Best values", "", html_table(("option", "value"), values)),
        section("How much each option mattered", note, mattered),
        section("Trials", history, _history(found.trials)),
    ]
    return page(f"Search on {found.tuning.protocol}", eyebrow="Search", lead=lead, sections=sections)


def _bar(share: float) -> str:
    """A share of 1 as a bar."""
    return (
        f'<svg viewBox="0 0 300 12" width="300" height="12" role="img" aria-label="{100 * share:.0f} %">'
        f'<rect width="300" height="12" rx="6" class="track"/>'
        f'<rect width="{300 * share:.1f}" height="12" rx="6" class="fill c0"/></svg>'
    )


def _history(trials: Sequence[Mapping[str, Any]]) -> str:
    """Validation accuracy of every trial in their order; pruned ones are small."""
    height, left = 220.0, 34.0
    parts = []
    for tick in range(0, 101, 20):
        y = 10 + (height - 30) * (1 - tick / 100)
        parts.append(f'<line x1="{left}" y1="{y:.1f}" x2="{_WIDTH}" y2="{y:.1f}" class="grid"/>')
        parts.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end" class="tick">{tick}</text>')
    for place, trial in enumerate(trials):
        if trial["validation"] is not None:
            x = left + 8 + (_WIDTH - left - 16) * place / max(1, len(trials) - 1)
            y = 10 + (height - 30) * (1 - trial["validation"] / 100)
            kind, size = ("c0", 5) if trial["state"] == "complete" else ("c1", 3)
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size}" class="dot {kind}"/>')
    legend = "<p>Percent on validation, trial by trial; small: ended early.</p>"
    return (
        f'{legend}<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="trials">{"".join(parts)}</svg>'
    )
