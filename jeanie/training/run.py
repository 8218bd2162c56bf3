"""The folder of a training run: settings, versions, metrics, checkpoints and models.

run.json        protocol, settings with the camera positions, splits, sessions with versions and devices, and
                how many joints simulated cameras did not see
config.json     the settings alone; `jeanie train --config` takes it
SPLIT/metrics.jsonl   one line per step
SPLIT/model/    the best weights by validation
SPLIT/last/     the last checkpoint
SPLIT/events/   scalars for TensorBoard, if it is installed
"""

import json
import platform
import re
import secrets
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any

from jeanie._internal.digest import hash_bytes
from jeanie._internal.files import write_atomically
from jeanie._internal.provenance import get_commit, get_versions
from jeanie.compute.distributed import World
from jeanie.errors import ConfigError, DataError, JeanieError
from jeanie.evaluation.protocols.splits import Split
from jeanie.fewshot.cameras import HiddenJoints
from jeanie.fewshot.model import FewShotModel
from jeanie.fewshot.parts import EncoderPart, MetricPart
from jeanie.training.recipes import Recipe

__all__ = ["Metrics", "Run", "TrainingReplaced", "check_attempt", "open_run", "record_hidden_joints"]

FORMAT = 1
_RUN = "run.json"


class TrainingReplaced(JeanieError):
    """Another process has continued this training, for example because this host lost its network."""


@dataclass(frozen=True)
class Run:
    """A training run on disk. ``evaluate`` accepts it as the models of its splits.

    Attributes:
        path: The run folder.
        facts: Protocol, settings, splits and origin of the run: the content of ``run.json``.

    >>> from jeanie import evaluate
    >>> run = Run.load("runs/synthetic")  # doctest: +SKIP
    >>> evaluate(run, run.protocol)  # doctest: +SKIP
    """

    path: Path
    facts: dict[str, Any]

    @classmethod
    def load(cls, path: str | Path) -> "Run":
        """Return the run of a folder.

        Raises:
            DataError: The folder has no run that this version can read.
        """
        path = Path(path)
        try:
            facts = json.loads((path / _RUN).read_bytes())
            is_known = facts["format"] == FORMAT
        except OSError as error:
            raise DataError(
                f"{path}: no training run ({_RUN}: {error.strerror}); give the folder that training wrote"
            ) from None
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path / _RUN}: not the description of a run: {error}") from None
        if not is_known:
            raise DataError(f"{path / _RUN}: format {facts['format']!r}, this version reads {FORMAT}")
        return cls(path, facts)

    @property
    def protocol(self) -> str:
        """Name of the protocol."""
        return str(self.facts["protocol"])

    @property
    def dataset(self) -> str | None:
        """Name or folder of the data set; None for a run that did not record it."""
        name = self.facts.get("dataset")
        return None if name is None else str(name)

    @property
    def recipe(self) -> Recipe:
        """Settings of the model and of the training."""
        return Recipe(**self.facts["config"])

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits."""
        return tuple(split["name"] for split in self.facts["splits"])

    def folder(self, split: str | None = None) -> Path:
        """Return the folder of a split; the name may be left out if there is only one split.

        Raises:
            ConfigError: There is no such split.
        """
        if split is None and len(self.splits) == 1:
            split = self.splits[0]
        for row in self.facts["splits"]:
            if row["name"] == split:
                return self.path / str(row["folder"])
        raise ConfigError(f"{self.path}: no split {split!r}; it has {', '.join(map(repr, self.splits))}")

    def model(
        self, split: str | None = None, *, encoder: EncoderPart = None, metric: MetricPart = None
    ) -> FewShotModel:
        """Return the best model of a split, by validation.

        Args:
            split: Name of the split; it may be left out if there is only one.
            encoder, metric: Parts of the model from outside jeanie; see ``FewShotModel.load``.

        Raises:
            DataError: No model is saved yet.
        """
        folder = self.folder(split) / "model"
        if not folder.exists():
            raise DataError(f"{folder}: does not exist yet; training has not reached its first validation")
        return FewShotModel.load(folder, encoder=encoder, metric=metric)

    def __call__(self, split: Split) -> FewShotModel:
        """Return the model of a split."""
        return self.model(split.name)

    def metrics(self, split: str | None = None) -> list[dict[str, Any]]:
        """Return the metrics of a split, one entry per step."""
        path = self.folder(split) / "metrics.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def curves(self) -> dict[str, list[tuple[int, float, float, float | None]]]:
        """Return (episode, loss, training accuracy, validation accuracy or None) of every step, by split."""
        return {
            split: [
                (row["episode"], row["loss"], row["accuracy"], row.get("validation"))
                for row in self.metrics(split)
            ]
            for split in self.splits
        }

    def summary(self) -> list[dict[str, Any]]:
        """Return the episodes, the best validation and the time of every split."""
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


def open_run(
    out: Path,
    *,
    protocol: str,
    dataset: str,
    recipe: Recipe,
    splits: Sequence[Split],
    start: str | None,
    resume: bool,
    world: World,
) -> Run:
    """Create the run folder ``out``, or with ``resume`` open it and check that its settings are the same.

    Raises:
        ConfigError: ``out`` contains another run or other files.
    """
    settings = {
        "format": FORMAT,
        "protocol": protocol,
        "config": recipe.model_dump(mode="json"),
        "seed": recipe.train.seed,
        "start": start,
    }
    facts = json.loads(
        world.broadcast_from_first(lambda: _describe_run(out, settings, splits, resume, world))
    )
    facts["dataset"] = dataset
    if world.is_first:
        out.mkdir(parents=True, exist_ok=True)
        _write_facts(out, facts)
        write_atomically(out / "config.json", (recipe.model_dump_json(indent=1) + "\n").encode())
    return Run(out, facts)


def check_attempt(run: Run) -> None:
    """Check that no other process has continued a run since this one opened it; call it before every write.

    Raises:
        TrainingReplaced: Another process has. The run belongs to it.
    """
    if Run.load(run.path).facts["sessions"][-1].get("attempt") != run.facts["sessions"][-1]["attempt"]:
        raise TrainingReplaced(f"{run.path}: another process continues this training; this one stops")


def record_hidden_joints(run: Run, joints: HiddenJoints, world: World) -> Run:
    """Add to the record of a run how many joints simulated cameras did not see, if they measured any.

    The counts cover every encoding of a clip in every view, in the first process and the last session.
    """
    if not joints.valid:
        return run
    facts = {**run.facts, "hidden_joints": {"hidden": joints.hidden, "valid": joints.valid}}
    if world.is_first:
        check_attempt(run)
        _write_facts(run.path, facts)
    return Run(run.path, facts)


def _write_facts(path: Path, facts: dict[str, Any]) -> None:
    write_atomically(path / _RUN, (json.dumps(facts, indent=1) + "\n").encode())


def _describe_run(
    out: Path, settings: dict[str, Any], splits: Sequence[Split], resume: bool, world: World
) -> bytes:
    """Return all facts of a new or resumed run as JSON."""
    sessions, split_rows = [], []
    if (out / _RUN).exists():
        if not resume:
            raise ConfigError(
                f"{out}: contains a run; continue it with resume (--resume), or give another folder"
            )
        before = Run.load(out).facts
        _check_same_settings(out, before, settings)
        sessions, split_rows = before["sessions"], before["splits"]
    elif out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"{out}: exists and is not a run; give another folder")
    rows = {row["name"]: row for row in split_rows}
    for split in splits:
        row = _describe_split(split)
        if {**row, **rows.setdefault(split.name, row)} != row:
            raise ConfigError(
                f"{out}: split {split.name!r} was started with other classes or episodes; use the same --way, --shot, "
                "--train-classes and --validation, or give another folder"
            )
    return json.dumps(
        {**settings, "splits": list(rows.values()), "sessions": [*sessions, _describe_session(world)]}
    ).encode()


def _check_same_settings(out: Path, before: dict[str, Any], after: dict[str, Any]) -> None:
    """Raise if the settings of a run differ from those it was started with."""
    if before == {**before, **after}:
        return
    changes = [
        f"{name}: {old!r} there, {new!r} now"
        for name, old, new in _compare_settings(before, after, "")
        if old != new
    ]
    raise ConfigError(
        f"{out}: was started with other settings, so it cannot be resumed with these ({'; '.join(changes[:5])}); "
        "use the same ones, or give another folder"
    )


def _compare_settings(before: Any, after: Any, name: str) -> list[tuple[str, Any, Any]]:
    if not isinstance(before, dict) or not isinstance(after, dict):
        return [(name, before, after)]
    return [
        row
        for key in after
        for row in _compare_settings(before.get(key), after[key], f"{name}.{key}" if name else key)
    ]


def _describe_split(split: Split) -> dict[str, Any]:
    folder = re.sub(r"[^a-z0-9]+", "-", split.name.lower()).strip("-") or "all"
    if folder != split.name:  # two names may only differ in other characters
        folder += "-" + hash_bytes(split.name)[:6]
    return {
        "name": split.name,
        "folder": folder,
        "way": split.way,
        "shot": split.shot,
        "train_classes": list(split.train_classes),
        "validation_classes": list(split.validation_classes),
        "test_classes": list(split.test_classes),
    }


def _describe_session(world: World) -> dict[str, Any]:
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": get_versions(),
        "platform": platform.platform(),
        "commit": get_commit(),
        "device": str(world.device),
        "processes": world.size,
        "attempt": secrets.token_hex(8),
    }


class Metrics:
    """Metrics of a split: one line per step in metrics.jsonl, and TensorBoard files if it is installed.

    A resumed run drops the lines after its checkpoint. Only the first process writes.
    """

    def __init__(self, folder: Path, episode: int, world: World) -> None:
        self._stack = ExitStack()
        self._file, self._board = None, None
        if not world.is_first:
            return
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "metrics.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        earlier = [line for line in lines if _parse_episode(line) <= episode]
        write_atomically(path, "".join(line + "\n" for line in earlier).encode())
        self._file = self._stack.enter_context(path.open("a"))
        self._board = _open_tensorboard(folder / "events", episode)
        if self._board is not None:
            self._stack.callback(self._board.close)

    def write(self, values: dict[str, Any]) -> None:
        """Write one line; ``values["episode"]`` is its step."""
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


def _parse_episode(line: str) -> float:
    """Return the episode of a line of metrics; infinity for a line that a crash cut off."""
    try:
        return float(json.loads(line)["episode"])
    except (ValueError, KeyError, TypeError):
        return float("inf")


def _open_tensorboard(folder: Path, episode: int) -> Any:
    """Return a TensorBoard writer, or None if TensorBoard is not installed."""
    try:
        writer = import_module("torch.utils.tensorboard").SummaryWriter
    except ImportError:
        return None
    return writer(str(folder), purge_step=episode + 1)
