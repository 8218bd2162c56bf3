"""Training: a model, split by split of a protocol, from its first episode or from where it was stopped."""

import copy
import hashlib
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from types import FrameType
from typing import Any

import torch

from jeanie.datasets import Dataset
from jeanie.errors import ConfigError
from jeanie.experiments.learning.augment import Mirrored, mirrored_split
from jeanie.experiments.learning.checkpoints import State, read_checkpoint, restore, write_checkpoint
from jeanie.experiments.learning.choosing import choose, kinds
from jeanie.experiments.learning.distributed import World, joined
from jeanie.experiments.learning.fusion import Fusion
from jeanie.experiments.learning.learner import Learner, Step, check_learns
from jeanie.experiments.learning.memory import keep_freed_memory
from jeanie.experiments.learning.settings import TrainConfig
from jeanie.experiments.predictions import evaluating, feature_batches, predict
from jeanie.experiments.protocols import Protocol
from jeanie.experiments.protocols import protocol as protocol_of
from jeanie.experiments.protocols.splits import Split, with_rivals
from jeanie.experiments.recipes import Recipe
from jeanie.experiments.reports.report import estimate
from jeanie.experiments.reports.statistics import Estimate
from jeanie.experiments.runs import Metrics, Run, opened
from jeanie.experiments.seeds import seeded
from jeanie.fewshot.config import ModelConfig
from jeanie.fewshot.episodes import Episode
from jeanie.fewshot.inputs import Store
from jeanie.fewshot.model import FewShotModel

__all__ = ["Moment", "train"]

_WEIGHTS = 0  # key of the draws of the first weights


@dataclass(frozen=True)
class Moment:
    """How training stands after a step, for whoever watches; accuracies in percent."""

    split: str
    number: int
    splits: int
    episode: int
    episodes: int
    loss: float
    accuracy: float
    validation: Estimate | None
    best: tuple[float, float] | None


Watcher = Callable[[Moment], Any]


def train(
    model: FewShotModel | ModelConfig,
    protocol: Protocol | str,
    *,
    config: TrainConfig | None = None,
    out: str | Path,
    dataset: Dataset | None = None,
    split: str | int | Split | Sequence[Split] | None = None,
    train_classes: int | None = None,
    validation: float | int | None = None,
    resume: bool = False,
    progress: Watcher | None = None,
    device: str | None = None,
) -> Run:
    """Train a model on every split of a protocol, or on one, into the folder ``out``.

    A ``FewShotModel`` is where each split starts from and stays as it is; a ``ModelConfig`` starts from drawn
    weights. Validation classes, which a split holds out of its training classes, choose the weights that are
    kept; with ``validation=0`` none is held out and the last weights are kept. With ``config.margin`` the start
    is validated too and kept unless training beats it by so many points. Ctrl-C ends after the step at
    hand with a checkpoint; ``resume`` goes on from there, to the same bits. In processes that ``torchrun``
    started, each takes its share of the episodes. On the CPU the process keeps memory that it has freed.
    """
    config = TrainConfig() if config is None else config
    chosen = protocol_of(protocol) if isinstance(protocol, str) else protocol
    with joined(_device_of(model, device)) as world, _stoppable() as stopped:
        dataset = chosen.open() if dataset is None else dataset
        splits = _splits(chosen, dataset, split, train_classes, validation)
        _check_guarded(splits, config)
        start = check_learns(_start(model, dataset, config, world))
        pool: Dataset = Mirrored(dataset) if config.mirror else dataset
        tasks = [_Task(one, _episodes(one, pool, config)) for one in splits]
        run = opened(
            Path(out),
            protocol=chosen.name,
            recipe=Recipe(model=start.config, train=config),
            splits=splits,
            start=_digest(model) if isinstance(model, FewShotModel) else None,
            resume=resume,
            world=world,
        )
        if world.device.type == "cpu":
            keep_freed_memory()
        store = start.store(pool.motions)
        for number, task in enumerate(tasks):
            tell = _watching(progress, task.split, number, len(tasks))
            _Training(run, task, start, store, world, stopped, tell).run_on()
    return run


@dataclass(frozen=True)
class _Task:
    split: Split
    episodes: Sequence[Episode]


def _device_of(model: FewShotModel | ModelConfig, device: str | None) -> str | None:
    """The device that is asked for, or that of the model."""
    return str(model.device) if device is None and isinstance(model, FewShotModel) else device


def _start(
    model: FewShotModel | ModelConfig, dataset: Dataset, config: TrainConfig, world: World
) -> FewShotModel:
    """The model that every split starts from."""
    if isinstance(model, FewShotModel):
        return copy.deepcopy(model).to(world.device)
    with seeded(config.seed, _WEIGHTS):
        return FewShotModel(model, dataset.layout).to(world.device)


def _splits(
    protocol: Protocol,
    dataset: Dataset,
    split: str | int | Split | Sequence[Split] | None,
    train_classes: int | None,
    validation: float | int | None,
) -> Sequence[Split]:
    """The splits to train on: all, one by name or number, or those that are given."""
    if isinstance(split, Split):
        return (split,)
    if split is not None and not isinstance(split, str | int):
        return split
    part = None if validation is None else float(validation)
    known = protocol.splits(dataset, train_classes=train_classes, validation=part)
    if split is None:
        return known
    names = [one.name for one in known]
    if isinstance(split, str) and split in names:
        return (known[names.index(split)],)
    if str(split).isdecimal() and int(split) < len(known):
        return (known[int(split)],)
    raise ConfigError(
        f"{protocol.name} has no split {split!r}; they are 0 to {len(known) - 1}, or by name {', '.join(names)}"
    )


def _check_guarded(splits: Sequence[Split], config: TrainConfig) -> None:
    """Raise where the start is to be kept unless it is beaten, and nothing is held out that could tell."""
    open_ended = [split.name for split in splits if not len(split.validation)]
    if config.margin is not None and open_ended:
        raise ConfigError(
            f"split {open_ended[0]!r} holds no class out, so nothing can tell whether training beats its start; give "
            "validation (--validation), such as 0.4, or let the last weights count: margin=None (--set margin=null)"
        )


def _episodes(split: Split, pool: Dataset, config: TrainConfig) -> Sequence[Episode]:
    source = mirrored_split(split) if config.mirror else split
    return source.training(
        pool,
        way=config.way,
        shot=config.shot,
        queries=config.queries,
        count=config.episodes,
        seed=config.seed,
    )


def _digest(model: FewShotModel) -> str:
    """A short name for the weights that training starts from."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


@contextmanager
def _stoppable() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C or a request to terminate has come; a second one interrupts at once."""
    raised: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        if raised:
            raise KeyboardInterrupt
        raised.append(number)

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(raised)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _watching(
    progress: Watcher | None, split: Split, number: int, count: int
) -> Callable[[Step, State, int, Estimate | None], None]:
    def tell(step: Step, state: State, episodes: int, found: Estimate | None) -> None:
        if progress is not None:
            progress(
                Moment(
                    split=split.name,
                    number=number,
                    splits=count,
                    episode=state.episode,
                    episodes=episodes,
                    loss=step.loss,
                    accuracy=100 * step.accuracy,
                    validation=found,
                    best=state.best,
                )
            )

    return tell


class _Training:
    """One split from its checkpoint, or from the start, to its end."""

    def __init__(
        self,
        run: Run,
        task: _Task,
        start: FewShotModel,
        store: Store,
        world: World,
        stopped: Callable[[], bool],
        tell: Callable[[Step, State, int, Estimate | None], None],
    ) -> None:
        self.run, self.split, self.world, self.stopped, self.tell = run, task.split, world, stopped, tell
        self.config, self.store = run.recipe.train, store
        self.fusion = None
        shares, self.hubs = self._chosen(start)
        # what a start knows of motions would not follow the weights
        changes = shares != start.config.encoder.shares or start.config.hubs
        model = start.but({"encoder.shares": shares}, hubs=0.0) if changes else copy.deepcopy(start)
        own = store
        if len(start.beside) and self.config.fuse == "after":
            self.fusion = Fusion(model, store, task.episodes, world)
            model, own = self.fusion.branch, self.fusion.branch_store
        self.learner = Learner(model, self.config, task.episodes, own, world)
        self.folder = run.folder(task.split.name)
        self.choosing = len(task.split.validation) > 0
        self.validation, self.validation_classes = task.split.validation, task.split.validation_classes
        if self.choosing and self.config.rivals:
            self.validation = with_rivals(task.split)
            self.validation_classes = (*self.validation_classes, *task.split.train_classes)

    def _chosen(self, start: FewShotModel) -> tuple[tuple[float, ...], float]:
        """Shares of the start's networks and the power of hubs: with a margin those that training classes choose."""
        own, config = start.config.encoder.shares, self.config
        if config.margin is None:
            return own, config.hubs
        shares = kinds(start) if config.kinds else [own]
        hubs = sorted({0.0, config.hubs})
        if len(shares) == len(hubs) == 1:
            return own, 0.0
        held = {int(clip) for one in self.split.validation for clip in torch.cat([one.support, one.query])}
        clips = sorted(held.union(self.split.train))
        labels = [self.split.columns.labels[clip] for clip in clips]
        found = choose(
            start, self.store, clips, labels,
            shares=shares, hubs=hubs, lead=config.margin, seed=config.seed,
        )  # fmt: skip
        return (own, 0.0) if found is None else (found.shares, found.hubs)

    def _model(self) -> FewShotModel:
        """The model as it is to be used, with those beside it; with ``hubs`` it knows the training motions."""
        model = self.learner.kept
        if self.fusion is not None:
            model = self.fusion.joined(model)
        if not self.hubs:
            return model
        knowing = model.but(hubs=self.hubs)
        assert knowing.usual is not None
        with evaluating(model):
            clips = torch.tensor(self.split.train)
            knowing.usual.learn(part for _, part in feature_batches(model, self.store, clips, "support"))
        return knowing

    def run_on(self) -> None:
        """Train until all episodes are done, nothing gets better, or someone stops it."""
        state = self._begin()
        if state.finished is not None:
            return
        with Metrics(self.folder, state.episode, self.world) as metrics:
            while state.finished is None:
                before, began = state.episode, perf_counter()
                step = self.learner.step(before // self.config.batch)
                ended = step.episode >= self.config.episodes
                state = replace(state, episode=step.episode, finished="all episodes" if ended else None)
                found = None
                if self.choosing and (ended or _passed(self.config.validate_every, before, step.episode)):
                    model = self._model()
                    found = self._validated(model)
                    state = self._judged(state, found, model)
                state = replace(state, seconds=state.seconds + perf_counter() - began)
                if self.world.first:
                    metrics.write(_line(step, state, found))
                stopped = self.world.any(self.stopped())
                due = _passed(self.config.checkpoint_every, before, step.episode)
                if due or stopped or state.finished is not None:
                    self._keep(state)
                self.tell(step, state, self.config.episodes, found)
                if stopped and state.finished is None:
                    raise KeyboardInterrupt(
                        f"stopped at episode {state.episode} of {self.config.episodes} of split {self.split.name!r}; "
                        f"{self.run.path} keeps it: start the same command again with --resume"
                    )

    def _begin(self) -> State:
        checkpoint = self.world.told(lambda: read_checkpoint(self.folder / "last"))
        if checkpoint:
            return restore(self.learner, checkpoint)
        if self.config.margin is None:
            return State()
        began, model = perf_counter(), self._model()
        state = self._judged(State(), self._validated(model), model)
        return replace(state, seconds=perf_counter() - began)

    def _validated(self, model: FewShotModel) -> Estimate:
        """Accuracy in percent on the validation episodes."""
        (rows,) = predict(model, self.store, [self.validation], self.validation_classes)
        return estimate(rows)[0]

    def _judged(self, state: State, found: Estimate, model: FewShotModel) -> State:
        """The state after a validation: the weights are kept where they are the best so far.

        The start, where it counts, is episode 0 and has to be beaten by the margin.
        """
        lead = self.config.margin or 0.0 if state.best_episode == 0 else 0.0
        if state.best is None or found.value > state.best[0] + lead:
            if self.world.first:
                model.save(self.folder / "model")
            return replace(state, best=(found.value, found.half), best_episode=state.episode, waited=0)
        waited = state.waited + 1
        early = self.config.patience is not None and waited >= self.config.patience
        return replace(state, waited=waited, finished=state.finished or ("no better" if early else None))

    def _keep(self, state: State) -> None:
        model = None if self.choosing else self._model()
        if not self.world.first:
            return
        if model is not None:
            model.save(self.folder / "model")
        write_checkpoint(self.folder / "last", self.learner, state)


def _passed(every: int, before: int, now: int) -> bool:
    """Whether a multiple of ``every`` lies behind ``before`` and not behind ``now``."""
    return now // every > before // every


def _line(step: Step, state: State, found: Estimate | None) -> dict[str, Any]:
    line = {
        "episode": step.episode,
        "loss": step.loss,
        "accuracy": 100 * step.accuracy,
        "rate": step.rate,
        "temperature": step.temperature,
        "gradient": step.gradient,
        "seconds": round(state.seconds, 3),
    }
    return line if found is None else {**line, "validation": found.value, "validation_ci95": found.half}
