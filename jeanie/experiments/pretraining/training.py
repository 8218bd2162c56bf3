"""Pretraining on pairs: of the distances to all motions of a batch, the partner's is to be the least."""

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from pydantic import Field
from safetensors.torch import load, save
from torch import Generator, Tensor, nn
from torch.nn import functional

from jeanie.config import Config
from jeanie.datasets import Dataset
from jeanie.encoders import EncoderConfig
from jeanie.errors import ConfigError, DataError, JeanieError
from jeanie.experiments.learning.averaging import average
from jeanie.experiments.pretraining.augment import HARSH, Manner, augment, dropped, mirrored, retimed
from jeanie.experiments.pretraining.gestures import KINDS, Kinds
from jeanie.experiments.pretraining.pairs import Windows, gesture_pairs
from jeanie.experiments.processes import orphaned, together
from jeanie.fewshot.config import AlignConfig, ModelConfig, ViewConfig
from jeanie.fewshot.inputs import NORMAL_FRAMES, Batch, InputConfig, PrepareConfig
from jeanie.fewshot.model import FewShotModel
from jeanie.fewshot.saving import write_atomically
from jeanie.skeleton import LAYOUTS, convert
from jeanie.skeleton.normal import BODY, normalise, turned, with_path

__all__ = [
    "PRETRAINED",
    "SHIPPED_RECIPE",
    "PretrainConfig",
    "Progress",
    "batches",
    "finished",
    "motion_capture",
    "pair_loss",
    "pretrain",
    "pretrain_member",
]

PRETRAINED = ModelConfig(
    inputs=InputConfig(
        prepare=PrepareConfig(body="normal", frames=32),
        scale="none",
        streams=("joints", "deviation", "velocity"),
        gains=(1.0, 1.0, 4.0),
        block=1,
        stride=1.0,
    ),
    views=ViewConfig(kind="none"),
    encoder=EncoderConfig(
        kind="temporal", width=128, features=64, strides=(1, 1, 2), dropout=0.0, init="torch"
    ),
    align=AlignConfig(metric="sqeuclidean", gamma=0.0, normalise="length", persons="matched"),
)
"""The model that is pretrained: convolutions along 32 moments of a normal body, aligned by DTW."""


class PretrainConfig(Config):
    """What is pretrained, how long, and on what."""

    model: ModelConfig = PRETRAINED
    steps: int = Field(default=1200, ge=1, description="steps of the optimiser for each member")
    members: int = Field(default=3, ge=1, description="networks side by side, each with a seed of its own")
    others: int = Field(
        default=0, ge=0, description="further networks beside them, trained with other settings"
    )
    other: dict[str, Any] = Field(default_factory=dict, description="what others change, by dotted names")
    positions: float = Field(
        default=0.0,
        ge=0,
        description="gain of the joints' positions beside the features of the finished model",
    )
    reflection: float | None = Field(
        default=None,
        ge=1,
        description="factor of distances in a mirror in the finished model; none: no mirror",
    )
    seed: int = Field(default=1, ge=0, description="of the first member; the others follow")
    windows: int = Field(default=80, ge=0, description="pairs of motion capture in a batch")
    gestures: int = Field(default=64, ge=0, description="pairs of procedural gestures in a batch")
    misses: float = Field(
        default=0.2, ge=0, le=1, description="share of gestures that almost resemble another"
    )
    kinds: Kinds = Field(
        default=KINDS,
        description="shares of gestures of one hand, both alike, both apart, a foot, the trunk, everything",
    )
    near: float = Field(default=1.0, ge=0, description="distance of two windows of a clip, in their lengths")
    yaw_rad: float = Field(default=0.6, ge=0, description="error of the facing direction, at most")
    still: float = Field(default=0.3, ge=0, le=1, description="share of pairs whose path is not shown")
    rate: float = Field(default=3e-3, gt=0, description="largest learning rate of one cycle")
    decay: float = Field(default=1e-4, ge=0, description="pull of the weights towards 0")
    clip: float = Field(default=1.0, gt=0, description="largest norm of the gradient")
    gamma: float = Field(
        default=0.05, ge=0, description="softmin of the alignment; base distances lie in 0 to 4"
    )
    sharpness: float | None = Field(
        default=20.0, gt=0, description="of the first step; none: one over the deviation of its distances"
    )
    average: float = Field(default=0.995, ge=0, lt=1, description="of the weights over steps")
    manner: Manner = Manner()

    def __init__(self, **values: object) -> None:
        super().__init__(**values)
        if self.model.inputs.prepare.body != "normal":
            raise ConfigError("pretraining shows normal bodies: set model.inputs.prepare.body to 'normal'")
        if self.members + self.others > 1 and self.model.encoder.kind != "temporal":
            raise ConfigError(
                f"only encoders of kind 'temporal' stand side by side, got {self.members + self.others} members of "
                f"kind {self.model.encoder.kind!r}; set members to 1 and others to 0"
            )

    @property
    def networks(self) -> "list[tuple[PretrainConfig, int]]":
        """Settings and seed of every network: of the members, then of the others, whose seeds begin anew."""
        own = self.but(members=1, others=0, other={}, positions=0.0, reflection=None, seed=0)
        changed = own.but(self.other) if self.others else own
        counts = ((own, self.members), (changed, self.others))
        return [(settings, self.seed + turn) for settings, count in counts for turn in range(count)]


SHIPPED_RECIPE = PretrainConfig(
    reflection=1.5,
    others=2,
    other={
        "model.encoder.strides": (2, 1, 1),
        "steps": 3000,
        "windows": 40,
        "gestures": 32,
        "kinds": (0.38, 0.13, 0.1, 0.12, 0.13, 0.14),
        "manner": HARSH.model_dump(),
    },
)
"""What the model that ships is made with: three networks that tell gestures well, two that tell postures well.

The others see more of the motion around a moment, and bodies that differ more.
"""


@dataclass(frozen=True)
class Progress:
    """Where the training of a network stands, by its number; loss and accuracy are running means."""

    network: int
    step: int
    steps: int
    loss: float
    accuracy: float


def motion_capture(dataset: Dataset, descriptions: Mapping[str, str] | None = None) -> Windows:
    """The clips of a data set as core joints, grouped by ``descriptions`` (by a clip's name) or by labels."""
    clips, texts = [], []
    for motion in dataset.motions:
        core = convert(motion, LAYOUTS["core15"])
        clips.append(core.joints[:, 0])
        known = (descriptions or {}).get(motion.name or "", motion.label)
        texts.append(str(known or ""))
    if not clips:
        raise DataError("no motion capture to learn from; give a data set with clips")
    return Windows.of(clips, texts, dataset.motions[0].rate or 30.0)


def batches(windows: Windows, config: PretrainConfig, generator: Generator) -> Iterator[tuple[Batch, Batch]]:
    """Normal bodies of pairs, one side and the other, the motion capture first; endless."""
    count = config.windows + config.gestures
    frames = config.model.inputs.prepare.frames or NORMAL_FRAMES
    while True:
        parts = []
        if config.windows:
            parts.append(windows.pairs(config.windows, generator, near=config.near))
        if config.gestures:
            parts.append(gesture_pairs(config.gestures, generator, misses=config.misses, kinds=config.kinds))
        both = torch.cat(parts).flatten(0, 1)
        flip = (torch.rand(count, generator=generator) < 0.5).repeat_interleave(2)
        both = retimed(mirrored(both, flip), config.manner, generator, frames)
        both = augment(both, config.manner, generator)
        present = dropped(count, config.manner, generator).flatten(0, 1)
        body, path = normalise(both, present)
        moving = (torch.rand(count, generator=generator) >= config.still).repeat_interleave(2)
        joints, valid = with_path(body, path * moving[:, None, None], present)
        yaw_rad = config.yaw_rad * (2 * torch.rand(2 * count, generator=generator) - 1)
        joints = turned(joints, yaw_rad)[:, None]  # one person
        valid = valid[:, None, None].expand(joints.shape[:-1])
        lengths = torch.full((count,), frames)
        yield (
            Batch(joints[0::2], valid[0::2], lengths, BODY),
            Batch(joints[1::2], valid[1::2], lengths, BODY),
        )


def pair_loss(
    table: Float[Tensor, "pair pair"], sharpness: Float[Tensor, ""]
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Cross-entropy of finding each motion's partner by its distance, both ways; and how often it is found."""
    scores = -sharpness.exp() * table
    partner = torch.arange(len(table))
    loss = (functional.cross_entropy(scores, partner) + functional.cross_entropy(scores.mT, partner)) / 2
    return loss, (scores.argmax(1) == partner).float().mean()


def pretrain_member(
    windows: Windows,
    config: PretrainConfig,
    seed: int,
    report: Callable[[Progress], None] | None = None,
    every: int = 100,
    see: Callable[[int, FewShotModel], None] | None = None,
) -> FewShotModel:
    """One model after training, with weights averaged over the last steps.

    ``report`` hears of the progress ``every`` so many steps, ``see`` is then shown the step and the averaged model.

    Distances are the model's own, through its views and its alignment, with ``config.gamma`` in place of its
    gamma, so that a model that is used with the hard minimum learns with a soft one.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = FewShotModel(config.model.but({"align.gamma": config.gamma}))
    averaged = FewShotModel(config.model)
    averaged.load_state_dict(model.state_dict())
    generator = torch.Generator().manual_seed(seed)
    source = batches(windows, config, generator)
    first = next(source)
    sharpness = nn.Parameter(_log_sharpness(model, first, config))
    groups = [
        {"params": model.parameters(), "weight_decay": config.decay},
        {"params": [sharpness], "weight_decay": 0.0},
    ]
    optimiser = torch.optim.AdamW(groups, lr=config.rate)
    cycle = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, config.rate, total_steps=config.steps + 1, pct_start=0.15
    )
    recent = torch.zeros(2)
    for step, pairs in zip(range(1, config.steps + 1), chain([first], source), strict=False):
        loss, found = pair_loss(model(*pairs), sharpness)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), config.clip)
        optimiser.step()
        cycle.step()
        average(averaged, model, min(config.average, 1 - 10 / (10 + step)))
        now = torch.stack([loss.detach(), found])
        recent = now if step == 1 else 0.95 * recent + 0.05 * now
        if step % every == 0 or step == config.steps:
            if report:
                report(Progress(1, step, config.steps, recent[0].item(), recent[1].item()))
            if see:
                see(step, averaged.eval())
    return averaged.eval()


@torch.no_grad()
def _log_sharpness(model: FewShotModel, pairs: tuple[Batch, Batch], config: PretrainConfig) -> Tensor:
    """Where the factor of distances starts: as configured, or so that the first ones deviate by 1."""
    if config.sharpness is not None:
        return torch.tensor(math.log(config.sharpness))
    table: Tensor = model(*pairs)
    return -table.std().log()


def pretrain(
    windows: Windows,
    config: PretrainConfig,
    out: str | Path,
    *,
    jobs: int = 1,
    report: Callable[[Progress], None] | None = None,
) -> FewShotModel:
    """Train all members and save them side by side as one model in the folder ``out``, in 16 bits a weight.

    A member that is done is kept in ``out/members`` under its seed and settings, with its loss along the way
    (``.jsonl``), so that a stopped run goes on with the next one. With several ``jobs`` members train in processes
    of their own, to the same bits; ``report`` is then called there, and has to be a function that can be sent to
    them.
    """
    out = Path(out)
    (out / "members").mkdir(parents=True, exist_ok=True)
    networks = config.networks
    numbered = [(number, *one) for number, one in enumerate(networks, 1)]
    waiting = [one for one in numbered if not _place(out, *one[1:]).exists()]
    jobs = min(jobs, len(waiting))
    if jobs > 1:
        shares = [(windows, waiting[job::jobs], out, report) for job in range(jobs)]
        if together(_train_share, shares, watch=lambda: None):
            raise JeanieError(
                f"members failed, as was said above; those that are done are kept in {out / 'members'}"
            )
    else:
        for network in waiting:
            _train_one(windows, *network, out, report)
    model = FewShotModel(finished(config))
    weights = model.state_dict()
    for member, one in enumerate(networks):
        for name, tensor in load(_place(out, *one).read_bytes()).items():
            weights[name.replace("members.0.", f"members.{member}.")] = tensor
    model.load_state_dict(weights)
    model.save(out, half=True)
    return FewShotModel.load(out)


def finished(config: PretrainConfig) -> ModelConfig:
    """The model of all members as it is used: with an output for every moment, mirror and positions where wanted.

    Members learn without these: half as many outputs cost a quarter of the alignments, and a mirror image is to be
    told apart.
    """
    model = config.model.but(reflection=config.reflection)
    if config.model.encoder.kind != "temporal":
        return model
    used: dict[str, Any] = {"positions": config.positions, "dense": True}
    used["members"] = config.members + config.others
    if config.others:
        used["scales"] = tuple(settings.model.encoder.strides for settings, _ in config.networks)
    return model.but({f"encoder.{name}": value for name, value in used.items()})


def _place(out: Path, settings: PretrainConfig, seed: int) -> Path:
    """File of a network: its seed, and a digest of what it was trained with."""
    what = json.dumps(settings.model_dump(), sort_keys=True)
    return out / "members" / f"{seed}-{hashlib.sha256(what.encode()).hexdigest()[:12]}.safetensors"


def _train_share(
    windows: Windows,
    networks: list[tuple[int, PretrainConfig, int]],
    out: Path,
    report: Callable[[Progress], None] | None,
) -> None:
    """Members one after another in a process of their own, which ends with the one that started it."""
    gone = orphaned()

    def watched(now: Progress) -> None:
        if gone():
            raise KeyboardInterrupt
        if report:
            report(now)

    for network in networks:
        _train_one(windows, *network, out, watched)


def _train_one(
    windows: Windows,
    number: int,
    config: PretrainConfig,
    seed: int,
    out: Path,
    report: Callable[[Progress], None] | None = None,
) -> None:
    place, curve = _place(out, config, seed), []

    def noted(now: Progress) -> None:
        curve.append(json.dumps({"step": now.step, "loss": now.loss, "accuracy": now.accuracy}) + "\n")
        if report:
            report(replace(now, network=number))

    model = pretrain_member(windows, config, seed, noted)
    write_atomically(place.with_suffix(".jsonl"), "".join(curve).encode())
    write_atomically(place, save(dict(model.state_dict())))
