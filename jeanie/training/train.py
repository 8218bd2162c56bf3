"""Train a model on the splits of a protocol."""

import copy
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import torch

from jeanie._internal.digest import hash_bytes
from jeanie._internal.memory import keep_freed_memory
from jeanie._internal.seeds import use_seed
from jeanie.compute.cancellation import is_stop_requested
from jeanie.compute.distributed import World, join_process_group
from jeanie.datasets import Dataset
from jeanie.errors import ConfigError
from jeanie.evaluation.protocols import Protocol, get_protocol
from jeanie.evaluation.protocols.splits import Split
from jeanie.fewshot.config import ModelConfig
from jeanie.fewshot.model import FewShotModel
from jeanie.fewshot.parts import EncoderPart, MetricPart
from jeanie.training.augment import DatasetWithMirrors, add_mirrored_classes
from jeanie.training.cameras import place_cameras
from jeanie.training.config import TrainConfig
from jeanie.training.recipes import Recipe
from jeanie.training.run import Run, open_run, record_hidden_joints
from jeanie.training.split_training import ProgressCallback, SplitTraining, TrainingProgress
from jeanie.training.step import check_has_weights

__all__ = ["ProgressCallback", "TrainingProgress", "train"]

_WEIGHTS = 0  # seed key of the initial weights


def train(
    model: FewShotModel | ModelConfig,
    protocol: Protocol | str,
    *,
    config: TrainConfig | None = None,
    out: str | Path,
    dataset: Dataset | None = None,
    split: str | int | Split | Sequence[Split] | None = None,
    way: int | None = None,
    shot: int | None = None,
    train_classes: int | None = None,
    validation: float | int | None = None,
    resume: bool = False,
    progress: ProgressCallback | None = None,
    device: str | None = None,
    encoder: EncoderPart = None,
    metric: MetricPart = None,
) -> Run:
    """Train a model on every split of a protocol, or on one, and write a run folder.

    Each split holds out some training classes for validation, which selects the weights to keep. Ctrl-C stops
    after the current step and writes a checkpoint. Processes that ``torchrun`` started share the episodes. On the
    CPU, the process keeps memory that it has freed.

    Args:
        model: Initial model, which is not changed, or a configuration, which starts from random weights.
        protocol: Protocol or its name.
        config: Training options. With ``margin``, the initial model is validated too, and kept unless training beats
            it by this many points.
        out: Run folder.
        dataset: Motions; by default the protocol opens its data set.
        split: Name or number of a split, or splits; by default all splits of the protocol.
        way: Classes per validation and test episode (default: that of the protocol). Training episodes have the
            same way, unless ``config.way`` is set, and at most as many classes as there are to train on.
        shot: Supports per class (default: that of the protocol).
        train_classes: Number of training classes; see the protocol.
        validation: Share or number of training classes to hold out. 0 holds out none and keeps the last weights.
        resume: Whether to continue the run in ``out``. The result has the same bits as an uninterrupted run.
        progress: Called after every step.
        device: Device; by default that of the model, or CUDA if available.
        encoder, metric: Parts from outside of a model that is given as a configuration; see ``FewShotModel``.

    Returns:
        The run.

    Raises:
        ConfigError: The options do not fit together, or ``out`` contains another run.
        KeyboardInterrupt: Training was stopped; the checkpoint is written.

    >>> from jeanie import RECIPES
    >>> recipe = RECIPES["default"]
    >>> train(recipe.model, "synthetic", config=recipe.train, out="runs/synthetic")  # doctest: +SKIP
    """
    config = TrainConfig() if config is None else config
    protocol = get_protocol(protocol) if isinstance(protocol, str) else protocol
    if device is None and isinstance(model, FewShotModel):
        device = str(model.device)
    with join_process_group(device) as world, _catch_stop_signals() as stop_requested:
        dataset = protocol.open() if dataset is None else dataset
        splits = _select_splits(
            protocol, dataset, split, way=way, shot=shot, train_classes=train_classes, validation=validation
        )
        _check_margin(splits, config)
        initial = _make_initial_model(model, dataset, config, world, encoder, metric)
        pool: Dataset = DatasetWithMirrors(dataset) if config.mirror else dataset
        episodes = [
            (add_mirrored_classes(selected_split) if config.mirror else selected_split).training_episodes(
                pool,
                way=config.way,
                shot=config.shot,
                queries=config.queries,
                query_classes=config.query_classes,
                count=config.episodes,
                seed=config.seed,
            )
            for selected_split in splits
        ]
        run = open_run(
            Path(out),
            protocol=protocol.name,
            dataset=protocol.dataset,
            recipe=Recipe(model=initial.config, train=config),
            splits=splits,
            start=_hash_weights(model) if isinstance(model, FewShotModel) else None,
            resume=resume,
            world=world,
        )
        if world.device.type == "cpu":
            keep_freed_memory()
        store = initial.store(pool.motions)
        for number, selected_split in enumerate(splits):
            SplitTraining(
                run,
                number,
                len(splits),
                selected_split,
                episodes[number],
                initial,
                store,
                world,
                stop_requested,
                progress,
            ).train()
        run = record_hidden_joints(run, initial.hidden_joints, world)
    return run


def _make_initial_model(
    model: FewShotModel | ModelConfig,
    dataset: Dataset,
    config: TrainConfig,
    world: World,
    encoder: EncoderPart,
    metric: MetricPart,
) -> FewShotModel:
    """Return the model that every split starts from."""
    settings = place_cameras(model.config if isinstance(model, FewShotModel) else model, dataset)
    if isinstance(model, FewShotModel):
        if encoder is not None or metric is not None:
            raise ConfigError("encoder and metric belong to a configuration; this model has its own")
        initial = copy.deepcopy(model)
        if settings != model.config:
            initial = initial.with_config(views=settings.views, components=settings.components)
    else:
        with use_seed(config.seed, _WEIGHTS):
            initial = FewShotModel(settings, dataset.layout, encoder=encoder, metric=metric)
    check_has_weights(initial)
    return initial.to(world.device)


def _select_splits(
    protocol: Protocol,
    dataset: Dataset,
    split: str | int | Split | Sequence[Split] | None,
    *,
    way: int | None,
    shot: int | None,
    train_classes: int | None,
    validation: float | int | None,
) -> Sequence[Split]:
    """Return the splits to train on: all, one by name or number, or the given ones."""
    if isinstance(split, Split):
        return (split,)
    if split is not None and not isinstance(split, str | int):
        return split
    held_out = None if validation is None else float(validation)
    splits = protocol.splits(dataset, way=way, shot=shot, train_classes=train_classes, validation=held_out)
    if split is None:
        return splits
    names = [candidate.name for candidate in splits]
    if isinstance(split, str) and split in names:
        return (splits[names.index(split)],)
    if str(split).isdecimal() and int(split) < len(splits):
        return (splits[int(split)],)
    raise ConfigError(
        f"{protocol.name} has no split {split!r}; they are 0 to {len(splits) - 1}, or by name {', '.join(names)}"
    )


def _check_margin(splits: Sequence[Split], config: TrainConfig) -> None:
    """Raise if training has to beat the initial model and a split has no validation classes."""
    names = [split.name for split in splits if not len(split.validation)]
    if config.margin is not None and names:
        raise ConfigError(
            f"split {names[0]!r} holds out no class, so training cannot be compared with the initial model; give "
            "validation (--validation), such as 0.4, or let the last weights count: margin=None (--set margin=null)"
        )


def _hash_weights(model: FewShotModel) -> str:
    """Return a short hash of the initial weights."""
    tensors = (
        name.encode() + tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()
        for name, tensor in sorted(model.state_dict().items())
    )
    return hash_bytes(*tensors)[:16]


@contextmanager
def _catch_stop_signals() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether training has to stop: SIGINT or SIGTERM has come, or a cluster says so.

    A second signal interrupts at once.
    """
    received: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)

    if threading.current_thread() is not threading.main_thread():
        yield is_stop_requested
        return
    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(received) or is_stop_requested()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
