"""Training of one split: steps, validation, checkpoints, and the model to keep."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import torch

from jeanie.compute.distributed import World
from jeanie.encoders import TemporalEncoderConfig
from jeanie.evaluation.predict import predict
from jeanie.evaluation.protocols.splits import Split, add_distractors
from jeanie.evaluation.report.report import estimate_accuracy
from jeanie.evaluation.statistics import Estimate
from jeanie.fewshot.batching import encode_batches, evaluation_mode
from jeanie.fewshot.episodes import Episode
from jeanie.fewshot.inputs import Store
from jeanie.fewshot.model import FewShotModel
from jeanie.training.checkpoint import TrainingState, read_checkpoint, restore_checkpoint, write_checkpoint
from jeanie.training.fusion import Fusion
from jeanie.training.member_selection import list_member_shares, select_members
from jeanie.training.run import Metrics, Run, check_attempt
from jeanie.training.step import Learner, Step

__all__ = ["ProgressCallback", "SplitTraining", "TrainingProgress"]


@dataclass(frozen=True)
class TrainingProgress:
    """Progress after a training step; accuracies in percent.

    Args:
        split: Name of the split.
        number: Number of the split, from 0.
        splits: Number of splits.
        episode: Episodes done in this split.
        episodes: Episodes of this split in total.
        loss: Loss of the step.
        accuracy: Training accuracy of the step.
        validation: Validation accuracy, if this step was validated.
        best: Best validation accuracy so far, with half its 95 % interval.
    """

    split: str
    number: int
    splits: int
    episode: int
    episodes: int
    loss: float
    accuracy: float
    validation: Estimate | None
    best: tuple[float, float] | None


ProgressCallback = Callable[[TrainingProgress], Any]


class SplitTraining:
    """Training of one split, from its checkpoint or from the initial model.

    Args:
        run: The run that the split belongs to.
        number: Number of the split among ``splits``, from 0.
        splits: Number of splits.
        split: The split.
        episodes: Its training episodes.
        initial: The initial model; it is not changed.
        store: Prepared clips.
        world: The processes that train together.
        stop_requested: Whether training has to stop after the current step.
        progress: Called after every step.
    """

    def __init__(
        self,
        run: Run,
        number: int,
        splits: int,
        split: Split,
        episodes: Sequence[Episode],
        initial: FewShotModel,
        store: Store,
        world: World,
        stop_requested: Callable[[], bool],
        progress: ProgressCallback | None,
    ) -> None:
        self.run, self.number, self.splits, self.split, self.store = run, number, splits, split, store
        self.world, self.stop_requested, self.progress = world, stop_requested, progress
        self.config, self.folder = run.recipe.train, run.folder(split.name)
        model = self._select_variant(initial)
        self.fusion = None
        if len(initial.components) and self.config.fuse == "after":
            self.fusion = Fusion(model, store, episodes, world)
            model, store = self.fusion.branch, self.fusion.branch_store
        self.learner = Learner(model, self.config, episodes, store, world)
        self.validation, self.validation_classes = split.validation, split.validation_classes
        if len(self.validation) and self.config.distractors:
            self.validation = add_distractors(split)
            self.validation_classes = (*self.validation_classes, *split.train_classes)

    def _select_variant(self, initial: FewShotModel) -> FewShotModel:
        """Return a copy of the initial model with the member shares to train, and set ``self.hubness``.

        With a margin, the training classes select shares and hubness. The copy has no hubness correction, because
        learnt motions would not follow the weights.
        """
        config, encoder = self.config, initial.config.encoder
        initial_shares = encoder.shares if isinstance(encoder, TemporalEncoderConfig) else ()
        shares, self.hubness = initial_shares, config.hubness if config.margin is None else 0.0
        candidates = list_member_shares(initial) if config.select_members else [initial_shares]
        powers = sorted({0.0, config.hubness})
        if config.margin is not None and len(candidates) + len(powers) > 2:
            held_out = {
                int(clip)
                for episode in self.split.validation
                for clip in torch.cat([episode.support, episode.query])
            }
            clips = sorted(held_out.union(self.split.train))
            labels = [self.split.columns.labels[clip] for clip in clips]
            choice = select_members(
                initial, self.store, clips, labels,
                shares=candidates, hubness=powers, margin=config.margin, seed=config.seed,
            )  # fmt: skip
            if choice is not None:
                shares, self.hubness = choice.shares, choice.hubness
        if shares == initial_shares and not initial.config.hubness:
            return copy.deepcopy(initial)
        changes = {} if shares == initial_shares else {"encoder.shares": shares}
        return initial.with_config(changes, hubness=0.0)

    def train(self) -> None:
        """Train until all episodes are done, validation stops improving, or a stop is requested.

        Raises:
            KeyboardInterrupt: A stop was requested; the checkpoint is written.
        """
        state = self._initial_state()
        if state.finished is not None:
            return
        with Metrics(self.folder, state.episode, self.world) as metrics:
            while state.finished is None:
                state = self._train_step(state, metrics)

    def _initial_state(self) -> TrainingState:
        """Restore the checkpoint; without one, validate the initial model if there is a margin."""
        checkpoint = self.world.broadcast_from_first(lambda: read_checkpoint(self.folder / "last"))
        if checkpoint:
            return restore_checkpoint(self.learner, checkpoint)
        if self.config.margin is None:
            return TrainingState()
        started = perf_counter()
        state, _ = self._validate(TrainingState())
        return replace(state, seconds=perf_counter() - started)

    def _train_step(self, state: TrainingState, metrics: Metrics) -> TrainingState:
        """Make one step, validate and write a checkpoint if they are due, and report the progress."""
        config, before, started = self.config, state.episode, perf_counter()
        step = self.learner.step(before // config.batch)
        is_last = step.episode >= config.episodes
        state = replace(state, episode=step.episode, finished="all episodes" if is_last else None)
        accuracy = None
        if len(self.validation) and (is_last or _is_due(config.validate_every, before, step.episode)):
            state, accuracy = self._validate(state)
        state = replace(state, seconds=state.seconds + perf_counter() - started)
        if self.world.is_first:
            metrics.write(_describe_step(step, state, accuracy))
        stop = self.world.is_any(self.stop_requested())
        if stop or state.finished is not None or _is_due(config.checkpoint_every, before, step.episode):
            self._write_checkpoint(state)
        if self.progress is not None:
            self.progress(
                TrainingProgress(
                    self.split.name, self.number, self.splits, state.episode, config.episodes,
                    step.loss, 100 * step.accuracy, accuracy, state.best,
                )
            )  # fmt: skip
        if stop and state.finished is None:
            raise KeyboardInterrupt(
                f"stopped at episode {state.episode} of {config.episodes} of split {self.split.name!r}; "
                f"{self.run.path} has the checkpoint: continue with the same command and --resume"
            )
        return state

    def _validate(self, state: TrainingState) -> tuple[TrainingState, Estimate]:
        """Measure the validation accuracy in percent, and save the model if it is the best so far.

        The initial model is episode 0. Training has to beat it by the margin.
        """
        model = self._final_model()
        (rows,) = predict(model, self.store, [self.validation], self.validation_classes)
        accuracy = estimate_accuracy(rows)[0]
        margin = self.config.margin or 0.0 if state.best_episode == 0 else 0.0
        if state.best is None or accuracy.value > state.best[0] + margin:
            if self.world.is_first:
                check_attempt(self.run)
                model.save(self.folder / "model")
            best = (accuracy.value, accuracy.half)
            return replace(state, best=best, best_episode=state.episode, waited=0), accuracy
        waited = state.waited + 1
        is_over = self.config.patience is not None and waited >= self.config.patience
        finished = state.finished or ("no better" if is_over else None)
        return replace(state, waited=waited, finished=finished), accuracy

    def _final_model(self) -> FewShotModel:
        """Return the model to use: with averaged weights, components, and the hubness of the training motions."""
        model = self.learner.averaged
        if self.fusion is not None:
            model = self.fusion.combine(model)
        if not self.hubness:
            return model
        corrected = model.with_config(hubness=self.hubness)
        assert corrected.hubness_correction is not None
        with evaluation_mode(model):
            clips = torch.tensor(self.split.train)
            corrected.hubness_correction.learn(
                features for _, features in encode_batches(model, self.store, clips, "support")
            )
        return corrected

    def _write_checkpoint(self, state: TrainingState) -> None:
        model = None if len(self.validation) else self._final_model()  # every process takes part
        if not self.world.is_first:
            return
        check_attempt(self.run)
        if model is not None:
            model.save(self.folder / "model")
        write_checkpoint(self.folder / "last", self.learner, state)


def _is_due(interval: int, before: int, now: int) -> bool:
    """Return whether a multiple of ``every`` lies after ``before`` and not after ``now``."""
    return now // interval > before // interval


def _describe_step(step: Step, state: TrainingState, accuracy: Estimate | None) -> dict[str, Any]:
    """Return the values of a step for the metrics file."""
    values = {
        "episode": step.episode,
        "loss": step.loss,
        "accuracy": 100 * step.accuracy,
        "rate": step.rate,
        "temperature": step.temperature,
        "gradient": step.gradient,
        "seconds": round(state.seconds, 3),
    }
    if accuracy is not None:
        values |= {"validation": accuracy.value, "validation_ci95": accuracy.half}
    return values
