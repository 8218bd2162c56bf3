"""From 2-D key points to 3-D joints by a small network, after Martinez et al. (2017).

The network sees one person in one frame: 15 core joints in the image, and gives them in space relative to the
torso. It learns from any 3-D motions, which cameras in random places look at.
"""

import json
import math
import os
from collections.abc import Iterable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor, nn

from jeanie.datasets.dataset import Clip, Clips
from jeanie.errors import ConfigError, DataError, ShapeError
from jeanie.skeleton.conversion import convert
from jeanie.skeleton.layout import LAYOUTS
from jeanie.skeleton.motion import Motion

__all__ = ["Lifter", "lifted", "train_lifter"]

CORE = LAYOUTS["core15"]
FORMAT = "jeanie-lifter-1"
MAX_BYTES = 2**28
LEAST_JOINTS = 6  # fewer key points than this say too little about a body
AZIMUTH, ALTITUDE, ROLL = math.pi, math.radians(30), math.radians(5)  # cameras turn by up to this much
DISTANCES = (2.0, 8.0)  # metres from the camera to the torso
NOISE = 0.02  # of a body's size, on each key point
UNSEEN = 0.1  # share of key points that is hidden


class Lifter(nn.Module):
    """Linear layers with batch norm, ReLU and dropout: one, residual blocks of two, and a plain one at last.

    Beyond the original, key points may be missing: each joint enters as (x, y, seen), 0 where it is not seen.
    Key points are centred on their mean and divided by their root mean square distance from it, frame by
    frame, so that neither the camera's focal length nor the distance matters.
    """

    def __init__(
        self,
        *,
        width: int = 512,
        blocks: int = 2,
        dropout: float = 0.25,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if not (1 <= width <= 8192 and 0 <= blocks <= 16 and 0 <= dropout < 1):
            raise ConfigError(
                "a lifter has width 1 to 8192, 0 to 16 blocks and dropout below 1, "
                f"got {width}, {blocks} and {dropout}"
            )
        self.config = {"width": width, "blocks": blocks, "dropout": dropout}
        sizes = [3 * len(CORE)] + [width] * (1 + 2 * blocks)
        self.layers = nn.ModuleList(_linear(a, b, math.sqrt(2 / a), generator) for a, b in pairwise(sizes))
        self.norms = nn.ModuleList(nn.BatchNorm1d(size) for size in sizes[1:])
        self.last = _linear(width, 3 * len(CORE), 0.1 / math.sqrt(width), generator)  # small: metres

    def forward(
        self,
        points: Float[Tensor, "body joint 2"],
        seen: Bool[Tensor, "body joint"],
        generator: torch.Generator | None = None,
    ) -> Float[Tensor, "body joint 3"]:
        """Core joints in metres relative to the torso, +y up, +z away from the camera. ``points`` have y up.

        ``generator`` draws what dropout leaves out, in training only.
        """
        hidden = self._step(0, _features(points, seen), generator)
        for block in range(1, len(self.layers), 2):
            inner = self._step(block, hidden, generator)
            hidden = hidden + self._step(block + 1, inner, generator)
        joints: Tensor = self.last(hidden).unflatten(-1, (len(CORE), 3))
        return joints - joints[:, CORE.torso, None]

    def _step(
        self, at: int, x: Float[Tensor, "body in"], generator: torch.Generator | None
    ) -> Float[Tensor, "body out"]:
        x = self.norms[at](self.layers[at](x)).relu()
        rate = self.config["dropout"]
        if not self.training or not rate:
            return x
        kept = torch.rand(x.shape, generator=generator, device=x.device, dtype=x.dtype) >= rate
        return x * kept / (1 - rate)

    def lift(self, motion: Motion) -> Motion:
        """A motion of key points as one of core joints in metres, relative to the torso: its path is lost.

        A person with fewer than ``LEAST_JOINTS`` core joints in a frame is missing there; else all joints are
        given, also those that were not seen.
        """
        if motion.layout.dims != 2:
            raise ShapeError(f"{motion.name or 'a motion'} has 3-D joints already; lift key points of images")
        core = convert(motion, CORE)
        there = core.valid.sum(-1) >= LEAST_JOINTS
        if not there.any():
            raise DataError(
                f"{motion.name or 'a motion'}: fewer than {LEAST_JOINTS} key points in every frame"
            )
        was, device = self.training, self.last.weight.device
        with torch.inference_mode():
            points, seen = core.joints[there][..., :2], core.valid[there]
            joints = self.eval()(points.to(device), seen.to(device)).to(core.joints.device)
        self.train(was)
        placed = torch.zeros_like(core.joints)
        placed[there] = joints.clone()
        return core.replace(joints=placed, valid=there[..., None].expand(core.valid.shape), layout=CORE)

    def save(self, path: str | Path) -> None:
        """Write the weights as safetensors; an old file is replaced at once."""
        path = Path(path)
        weights = {key: value.detach().cpu().contiguous() for key, value in self.state_dict().items()}
        data = save(weights, metadata={"format": FORMAT, "config": json.dumps(self.config)})
        part = path.with_name(f".{path.name}.{os.getpid()}")
        part.write_bytes(data)
        os.replace(part, path)

    @classmethod
    def load(cls, path: str | Path) -> "Lifter":
        """A lifter from a file that ``save`` wrote."""
        path = Path(path)
        try:
            if path.stat().st_size > MAX_BYTES:
                raise DataError(f"{path}: more than {MAX_BYTES} bytes, too large for a lifter")
            with safe_open(path, "pt") as file:
                about = file.metadata() or {}
                if about.get("format") != FORMAT:
                    raise DataError(
                        f"{path}: expected weights of format {FORMAT}, got {about.get('format')!r}"
                    )
                lifter = cls(**json.loads(about.get("config", "{}")))
                lifter.load_state_dict({key: file.get_tensor(key) for key in file.keys()})  # noqa: SIM118
        except DataError:
            raise
        except Exception as error:
            raise DataError(f"{path}: not the weights of a lifter: {str(error)[:200]}") from None
        return lifter.eval()


def _linear(before: int, after: int, std: float, generator: torch.Generator | None) -> nn.Linear:
    """A linear layer with normal weights and bias 0; nothing is drawn but from ``generator``."""
    layer = nn.Linear(before, after, device="meta").to_empty(device="cpu")
    nn.init.normal_(layer.weight, std=std, generator=generator)
    nn.init.zeros_(layer.bias)
    return layer


def _features(
    points: Float[Tensor, "body joint 2"], seen: Bool[Tensor, "body joint"]
) -> Float[Tensor, "body 3*joint"]:
    there = seen[..., None].to(points.dtype)
    count = there.sum(1, keepdim=True).clamp_min(1)
    centred = (points - (points * there).sum(1, keepdim=True) / count) * there
    size = (centred.square().sum((1, 2), keepdim=True) / count).sqrt()
    return torch.cat([centred / size.clamp_min(1e-12), there], dim=-1).flatten(1)


def train_lifter(
    motions: Iterable[Motion],
    *,
    generator: torch.Generator,
    steps: int = 20_000,
    batch: int = 512,
    rate: float = 1e-3,
    width: int = 512,
    blocks: int = 2,
    dropout: float = 0.25,
) -> Lifter:
    """A lifter that has learnt from 3-D motions in metres, of any layout that reaches the core joints.

    Every step draws poses and for each a camera (azimuth all round, altitude and roll a little, distance),
    projects x / z and y / z, disturbs the key points and hides some. Loss: squared distance of the joints
    relative to the torso. Adam, the rate falling to 0 along a cosine.
    """
    poses = _poses(motions)
    lifter = Lifter(width=width, blocks=blocks, dropout=dropout, generator=generator).train()
    optimiser = torch.optim.Adam(lifter.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    for _ in range(steps):
        chosen = torch.randint(len(poses), (batch,), generator=generator)
        joints, points, seen = _photographed(poses[chosen], generator)
        loss = (lifter(points, seen, generator) - joints).square().sum(-1).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    return lifter.eval()


def _poses(motions: Iterable[Motion]) -> Float[Tensor, "pose joint 3"]:
    """All complete bodies of some motions as core joints relative to the torso."""
    found = []
    for motion in motions:
        if motion.layout.dims != 3 or motion.layout.unit != "m":
            raise ShapeError(f"{motion.name or 'a motion'}: a lifter learns from 3-D joints in metres")
        core = convert(motion, CORE)
        found.append(core.joints[core.valid.all(-1)])
    poses = torch.cat(found) if found else torch.empty(0, len(CORE), 3)
    if len(poses) < 2:
        raise DataError("a lifter learns from motions with all 15 core joints in some frames, found none")
    return poses - poses[:, CORE.torso, None]


def _photographed(
    poses: Float[Tensor, "body joint 3"], generator: torch.Generator
) -> tuple[Float[Tensor, "body joint 3"], Float[Tensor, "body joint 2"], Bool[Tensor, "body joint"]]:
    """Poses as cameras in random places see them: joints in camera space, key points, and which are seen."""
    count = len(poses)

    def uniform(*shape: int) -> Tensor:
        return 2 * torch.rand(*shape, generator=generator) - 1

    turn = (
        _about(2, ROLL * uniform(count))
        @ _about(0, ALTITUDE * uniform(count))
        @ _about(1, AZIMUTH * uniform(count))
    )
    joints = poses @ turn.mT
    nearest, farthest = DISTANCES
    depth = nearest + (farthest - nearest) * torch.rand(count, 1, generator=generator)
    points = joints[..., :2] / (joints[..., 2] + depth).clamp_min(0.2)[..., None]
    size = points.std(dim=1, keepdim=True).mean(-1, keepdim=True)
    points = points + NOISE * size * torch.randn(points.shape, generator=generator)
    return joints, points, torch.rand(count, len(CORE), generator=generator) >= UNSEEN


def _about(axis: int, angle_rad: Float[Tensor, " body"]) -> Float[Tensor, "body 3 3"]:
    """Rotations about a coordinate axis, right-handed, for column vectors."""
    first, second = (axis + 1) % 3, (axis + 2) % 3
    turn = torch.zeros(len(angle_rad), 3, 3)
    turn[:, axis, axis] = 1
    turn[:, first, first] = turn[:, second, second] = angle_rad.cos()
    turn[:, second, first] = angle_rad.sin()
    turn[:, first, second] = -angle_rad.sin()
    return turn


def lifted(dataset: Clips, lifter: Lifter) -> Clips:
    """A data set of key points in which every motion is lifted to 3-D when it is read."""
    read: Any = partial(_lift, dataset.read, lifter)
    return Clips(f"{dataset.name}-3d", CORE, dataset.clips, read, dataset.dropped)


def _lift(read: Any, lifter: Lifter, clip: Clip) -> Motion:
    return lifter.lift(read(clip))
