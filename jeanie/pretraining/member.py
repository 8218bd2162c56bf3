"""Pretraining of one ensemble member: each motion of a batch must be closest to its partner."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn
from torch.nn import functional

from jeanie.fewshot.inputs import CANONICAL_FRAMES, Batch
from jeanie.fewshot.model import FewShotModel
from jeanie.pretraining.augment import augment, draw_present_joints, mirror_motions, retime
from jeanie.pretraining.config import PretrainConfig
from jeanie.pretraining.pairs import Windows, draw_gesture_pairs
from jeanie.skeleton.canonical_body import BODY, append_path, normalise_bodies, rotate_about_y
from jeanie.training.averaging import update_average

__all__ = ["Progress", "draw_batches", "pair_loss", "pretrain_member"]


@dataclass(frozen=True)
class Progress:
    """Progress of one member, counted from 1; ``loss`` and ``accuracy`` (0 to 1) are running means."""

    member: int
    step: int
    steps: int
    loss: float
    accuracy: float


def draw_batches(
    windows: Windows, config: PretrainConfig, generator: Generator
) -> Iterator[tuple[Batch, Batch]]:
    """Yield batches of pairs without end: canonical bodies of both sides, motion capture first."""
    count = config.windows + config.gestures
    frames = config.model.inputs.prepare.frames or CANONICAL_FRAMES
    while True:
        parts = []
        if config.windows:
            parts.append(windows.draw_pairs(config.windows, generator, distance=config.window_distance))
        if config.gestures:
            parts.append(
                draw_gesture_pairs(
                    config.gestures, generator, near_misses=config.near_misses, shares=config.gesture_shares
                )
            )
        both = torch.cat(parts).flatten(0, 1)
        flip = (torch.rand(count, generator=generator) < 0.5).repeat_interleave(2)
        both = retime(mirror_motions(both, flip), config.augmentation, generator, frames)
        both = augment(both, config.augmentation, generator)
        present = draw_present_joints(count, config.augmentation, generator).flatten(0, 1)
        body, path = normalise_bodies(both, present)
        moving = (torch.rand(count, generator=generator) >= config.hidden_path).repeat_interleave(2)
        joints, valid = append_path(body, path * moving[:, None, None], present)
        yaw_rad = config.yaw_rad * (2 * torch.rand(2 * count, generator=generator) - 1)
        joints = rotate_about_y(joints, yaw_rad)[:, None]  # one person
        valid = valid[:, None, None].expand(joints.shape[:-1])
        lengths = torch.full((count,), frames)
        yield (
            Batch(joints[0::2], valid[0::2], lengths, BODY),
            Batch(joints[1::2], valid[1::2], lengths, BODY),
        )


def pair_loss(
    table: Float[Tensor, "pair pair"], sharpness: Float[Tensor, ""]
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Return the cross-entropy of finding each partner, averaged over both sides, and the share of partners found.

    Args:
        table: Distances of all left motions to all right motions; partners are on the diagonal.
        sharpness: Logarithm of the factor of the distances.
    """
    scores = -sharpness.exp() * table
    partner = torch.arange(len(table))
    loss = (functional.cross_entropy(scores, partner) + functional.cross_entropy(scores.mT, partner)) / 2
    return loss, (scores.argmax(1) == partner).float().mean()


def pretrain_member(
    windows: Windows,
    config: PretrainConfig,
    seed: int,
    progress: Callable[[Progress], None] | None = None,
    every: int = 100,
    on_model: Callable[[int, FewShotModel], None] | None = None,
) -> FewShotModel:
    """Train one member and return it with the moving average of its weights.

    Distances go through the views and the alignment of the model. ``config.gamma`` replaces the gamma of the model,
    so that a model that is used with the hard minimum is trained with a soft one.

    Args:
        windows: Motion capture.
        config: Settings. Ensemble settings are ignored.
        seed: Seed of the weights and the batches.
        progress: Called with the progress every ``every`` steps.
        every: Steps between two calls of ``progress`` and ``on_model``.
        on_model: Called with the step and the averaged model every ``every`` steps.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = FewShotModel(config.model.with_values({"align.gamma": config.gamma}))
    averaged = FewShotModel(config.model)
    averaged.load_state_dict(model.state_dict())
    batches = draw_batches(windows, config, torch.Generator().manual_seed(seed))
    first = next(batches)
    sharpness = nn.Parameter(_get_initial_sharpness(model, first, config))
    groups = [
        {"params": model.parameters(), "weight_decay": config.weight_decay},
        {"params": [sharpness], "weight_decay": 0.0},
    ]
    optimiser = torch.optim.AdamW(groups, lr=config.rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, config.rate, total_steps=config.steps + 1, pct_start=0.15
    )
    recent = torch.zeros(2)
    for step, pairs in zip(range(1, config.steps + 1), chain([first], batches), strict=False):
        loss, accuracy = pair_loss(model(*pairs), sharpness)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), config.clip)
        optimiser.step()
        schedule.step()
        update_average(averaged, model, min(config.ema_decay, 1 - 10 / (10 + step)))
        now = torch.stack([loss.detach(), accuracy])
        recent = now if step == 1 else 0.95 * recent + 0.05 * now
        if step % every == 0 or step == config.steps:
            if progress:
                progress(Progress(1, step, config.steps, recent[0].item(), recent[1].item()))
            if on_model:
                on_model(step, averaged.eval())
    return averaged.eval()


@torch.no_grad()
def _get_initial_sharpness(model: FewShotModel, pairs: tuple[Batch, Batch], config: PretrainConfig) -> Tensor:
    """Return the logarithm of the configured factor, or of the one that gives the first distances deviation 1."""
    if config.sharpness is not None:
        return torch.tensor(math.log(config.sharpness))
    table: Tensor = model(*pairs)
    return -table.std().log()
