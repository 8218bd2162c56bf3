"""The folder of a training run: what was trained, on what, with which versions, how it went, and the models.

run.json        protocol, settings, splits, sessions with versions and devices
config.json     the settings alone; `jeanie train --config` takes it
SPLIT/metrics.jsonl   a line a step
SPLIT/model/    the best weights by validation
SPLIT/last/     the checkpoint that a resumed run goes on from
SPLIT/events/   scalars for TensorBoard, where it is installed
"""

import hashlib
import json
import platform
import re
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any

from jeanie.errors import ConfigError, DataError
from jeanie.experiments.learning.distributed import World
from jeanie.experiments.protocols.splits import Split
from jeanie.experiments.provenance import commit, versions
from jeanie.experiments.recipes import Recipe
from jeanie.fewshot.model import FewShotModel
from jeanie.fewshot.saving import write_atomically

__all__ = ["Metrics", "Run", "opened"]

FORMAT = 1
_RUN = "run.json"


@dataclass(frozen=True)
class Run:
    """A training run on disk."""

    path: Path
    facts: dict[str, Any]

    @classmethod
    def load(cls, path: str | Path) -> "Run":
        """The run in a folder."""
        path = Path(path)
        try:
            facts = json.loads((path / _RUN).read_bytes())
            known = facts["format"] == FORMAT
        except OSError as error:
            raise DataError(
                f"{path}: no training run ({_RUN}: {error.strerror}); give the folder that training wrote"
            ) from None
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path / _RUN}: not the description of a run: {error}") from None
        if not known:
            raise DataError(f"{path / _RUN}: format {facts['format']!r}, this version reads {FORMAT}")
        return cls(path, facts)

    @property
    def protocol(self) -> str:
        """Name of the protocol."""
        return str(self.facts["protocol"])

    @property
    def recipe(self) -> Recipe:
        """Model and training as they were asked for."""
        return Recipe(**self.facts["config"])

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits that were begun."""
        return tuple(split["name"] for split in self.facts["splits"])

    def folder(self, split: str | None = None) -> Path:
        """Where a split's files lie; without a name, those of the only split."""
        if split is None and len(self.splits) == 1:
            split = self.splits[0]
        for known in self.facts["splits"]:
            if known["name"] == split:
                return self.path / str(known["folder"])
        raise ConfigError(f"{self.path}: no split {split!r}; it has {', '.join(map(repr, self.splits))}")

    def model(self, split: str | None = None) -> FewShotModel:
        """The best model of a split, by validation."""
        folder = self.folder(split) / "model"
        if not folder.exists():
            raise DataError(f"{folder}: not there yet; training has not come to its first validation")
        return FewShotModel.load(folder)

    def __call__(self, split: Split) -> FewShotModel:
        """The model of a split: a run can be given to ``evaluate``."""
        return self.model(split.name)

    def metrics(self, split: str | None = None) -> list[dict[str, Any]]:
        """What was written down at every step of a split."""
        path = self.folder(split) / "metrics.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def summary(self) -> list[dict[str, Any]]:
        """For every split how far it came, and the validation that chose its model."""
        rows = []
        for split in self.splits:
            path = self.folder(split) / "last" / "state.json"
            state = json.loads(path.read_bytes()) if path.exists() else {}
            best = state.get("best")
            rows.append(
                {
                    "split": split,
                    "episodes": state.get("episode", 0),
                    "finished": state.get("finished"),
                    "best_episode": state.get("best_episode"),
                    "validation": None if best is None else {"accuracy": best[0], "ci95": best[1]},
                    "seconds": round(state.get("seconds", 0.0), 3),
                }
            )
        return rows


def opened(
    out: Path,
    *,
    protocol: str,
    recipe: Recipe,
    splits: Sequence[Split],
    start: str | None,
    resume: bool,
    world: World,
) -> Run:
    """The run at ``out``: made anew, or gone on with where ``resume`` says so and the settings are the same."""
    wanted = {
        "format": FORMAT,
        "protocol": protocol,
        "config": recipe.model_dump(mode="json"),
        "seed": recipe.train.seed,
        "start": start,
    }
    facts = json.loads(world.told(lambda: _begun(out, wanted, splits, resume, world)))
    if world.first:
        out.mkdir(parents=True, exist_ok=True)
        write_atomically(out / _RUN, (json.dumps(facts, indent=1) + "\n").encode())
        write_atomically(out / "config.json", (recipe.model_dump_json(indent=1) + "\n").encode())
    return Run(out, facts)


def _begun(out: Path, wanted: dict[str, Any], splits: Sequence[Split], resume: bool, world: World) -> bytes:
    """All facts of a run that begins or goes on, as JSON."""
    sessions, known = [], []
    if (out / _RUN).exists():
        if not resume:
            raise ConfigError(
                f"{out}: holds a run; go on with it by resume (--resume), or give another place"
            )
        before = Run.load(out).facts
        _check_same(out, before, wanted)
        sessions, known = before["sessions"], before["splits"]
    elif out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"{out}: exists and is no run; give another place")
    rows = {row["name"]: row for row in known}
    for split in splits:
        row = _row(split)
        if rows.setdefault(split.name, row) != row:
            raise ConfigError(
                f"{out}: split {split.name!r} was begun with other classes; use the same --train-classes and "
                "--validation, or give another place"
            )
    return json.dumps(
        {**wanted, "splits": list(rows.values()), "sessions": [*sessions, _session(world)]}
    ).encode()


def _check_same(out: Path, before: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Raise where a run was begun with other settings than it is to go on with."""
    if before == {**before, **wanted}:
        return
    changes = [
        f"{name}: {old!r} there, {new!r} now"
        for name, old, new in _differences(before, wanted, "")
        if old != new
    ]
    raise ConfigError(
        f"{out}: was begun with other settings, so it cannot be resumed with these ({'; '.join(changes[:5])}); "
        "use the same ones, or give another place"
    )


def _differences(before: Any, wanted: Any, name: str) -> list[tuple[str, Any, Any]]:
    if not isinstance(before, dict) or not isinstance(wanted, dict):
        return [(name, before, wanted)]
    return [
        row
        for key in wanted
        for row in _differences(before.get(key), wanted[key], f"{name}.{key}" if name else key)
    ]


def _row(split: Split) -> dict[str, Any]:
    plain = re.sub(r"[^a-z0-9]+", "-", split.name.lower()).strip("-") or "all"
    if plain != split.name:  # two names may look alike without their signs
        plain += "-" + hashlib.sha256(split.name.encode()).hexdigest()[:6]
    return {
        "name": split.name,
        "folder": plain,
        "train_classes": list(split.train_classes),
        "validation_classes": list(split.validation_classes),
        "test_classes": list(split.test_classes),
    }


def _session(world: World) -> dict[str, Any]:
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        "platform": platform.platform(),
        "commit": commit(),
        "device": str(world.device),
        "processes": world.size,
    }


class Metrics:
    """Lines of numbers, one a step, in metrics.jsonl and, where TensorBoard is installed, in its files.

    A resumed run drops the lines after the checkpoint that it goes on from. Writes in the first process only.
    """

    def __init__(self, folder: Path, episode: int, world: World) -> None:
        self._stack = ExitStack()
        self._file, self._board = None, None
        if not world.first:
            return
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "metrics.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        kept = [line for line in lines if _episode_of(line) <= episode]
        write_atomically(path, "".join(line + "\n" for line in kept).encode())
        self._file = self._stack.enter_context(path.open("a"))
        self._board = _board(folder / "events", episode)
        if self._board is not None:
            self._stack.callback(self._board.close)

    def write(self, values: dict[str, Any]) -> None:
        """One line; ``values["episode"]`` says when."""
        if self._file is None:
            return
        self._file.write(json.dumps(values) + "\n")
        self._file.flush()
        if self._board is not None:
            for name, value in values.items():
                if isinstance(value, int | float) and name != "episode":
                    self._board.add_scalar(name, value, values["episode"])

    def __enter__(self) -> "Metrics":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()


def _episode_of(line: str) -> float:
    """Episode of a line of metrics; infinite for one that a crash cut off."""
    try:
        return float(json.loads(line)["episode"])
    except (ValueError, KeyError, TypeError):
        return float("inf")


def _board(folder: Path, episode: int) -> Any:
    """TensorBoard's writer; None where it is not installed."""
    try:
        writer = import_module("torch.utils.tensorboard").SummaryWriter
    except ImportError:
        return None
    return writer(str(folder), purge_step=episode + 1)
