"""Lift 2-D key points to 3-D joints with a small network (Martinez et al., 2017).

The input is one person in one frame, 15 core joints in the image; the output is their 3-D positions relative to the
torso. Training data are 3-D motions, seen by cameras at random positions.
"""

import json
import math
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

from jeanie._internal.files import write_atomically
from jeanie.datasets.dataset import Clip, FileDataset
from jeanie.errors import ConfigError, DataError, ShapeError
from jeanie.skeleton.convert import convert
from jeanie.skeleton.layout import LAYOUTS
from jeanie.skeleton.motion import Motion

__all__ = ["Lifter", "lift_dataset", "train_lifter"]

CORE = LAYOUTS["core15"]
FORMAT = "jeanie-lifter-1"
MAX_BYTES = 2**28
MIN_JOINTS = 6  # fewer key points do not determine a pose
AZIMUTH, ALTITUDE, ROLL = (
    math.pi,
    math.radians(30),
    math.radians(5),
)  # largest rotation of the training cameras
DISTANCES = (2.0, 8.0)  # metres from the camera to the torso
NOISE = 0.02  # standard deviation of key points, relative to the size of the body
HIDDEN = 0.1  # fraction of hidden key points


class Lifter(nn.Module):
    """Linear layers with batch norm, ReLU and dropout: one layer, residual blocks of two, and a plain last layer.

    Unlike the original, key points may be missing: the input of a joint is (x, y, seen), or 0 if it is missing.
    The key points of each frame are centred on their mean and divided by their root mean square distance from it:
    focal length and distance of the camera do not matter.
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
                "a lifter needs a width of 1 to 8192, 0 to 16 blocks and a dropout from 0 to below 1, "
                f"got {width}, {blocks} and {dropout}"
            )
        self.config = {"width": width, "blocks": blocks, "dropout": dropout}
        sizes = [3 * len(CORE)] + [width] * (1 + 2 * blocks)
        self.layers = nn.ModuleList(
            _make_linear(a, b, math.sqrt(2 / a), generator) for a, b in pairwise(sizes)
        )
        self.norms = nn.ModuleList(nn.BatchNorm1d(size) for size in sizes[1:])
        self.last = _make_linear(width, 3 * len(CORE), 0.1 / math.sqrt(width), generator)  # small: metres

    def forward(
        self,
        points: Float[Tensor, "body joint 2"],
        seen: Bool[Tensor, "body joint"],
        generator: torch.Generator | None = None,
    ) -> Float[Tensor, "body joint 3"]:
        """Return core joints in metres relative to the torso, +y up, +z away from the camera.

        ``points`` have y up. ``generator`` draws the dropout mask in training.
        """
        hidden = self._apply_layer(0, _normalise_points(points, seen), generator)
        for block in range(1, len(self.layers), 2):
            inner = self._apply_layer(block, hidden, generator)
            hidden = hidden + self._apply_layer(block + 1, inner, generator)
        joints: Tensor = self.last(hidden).unflatten(-1, (len(CORE), 3))
        return joints - joints[:, CORE.torso, None]

    def _apply_layer(
        self, layer: int, x: Float[Tensor, "body in"], generator: torch.Generator | None
    ) -> Float[Tensor, "body out"]:
        x = self.norms[layer](self.layers[layer](x)).relu()
        rate = self.config["dropout"]
        if not self.training or not rate:
            return x
        mask = torch.rand(x.shape, generator=generator, device=x.device, dtype=x.dtype) >= rate
        return x * mask / (1 - rate)

    def lift(self, motion: Motion) -> Motion:
        """Return the core joints of a motion of key points in metres, relative to the torso. The path is lost.

        A person with fewer than ``MIN_JOINTS`` core joints in a frame is missing in it. Otherwise all joints are
        estimated, also the missing ones.
        """
        if motion.layout.dims != 2:
            raise ShapeError(f"{motion.name or 'a motion'} already has 3-D joints; lift key points of images")
        core = convert(motion, CORE)
        enough = core.valid.sum(-1) >= MIN_JOINTS
        if not enough.any():
            raise DataError(f"{motion.name or 'a motion'}: fewer than {MIN_JOINTS} key points in every frame")
        was_training, device = self.training, self.last.weight.device
        with torch.inference_mode():
            points, seen = core.joints[enough][..., :2], core.valid[enough]
            joints = self.eval()(points.to(device), seen.to(device)).to(core.joints.device)
        self.train(was_training)
        lifted = torch.zeros_like(core.joints)
        lifted[enough] = joints.clone()
        return core.replace(joints=lifted, valid=enough[..., None].expand(core.valid.shape), layout=CORE)

    def save(self, path: str | Path) -> None:
        """Write the weights as safetensors; an existing file is replaced atomically."""
        path = Path(path)
        weights = {key: value.detach().cpu().contiguous() for key, value in self.state_dict().items()}
        data = save(weights, metadata={"format": FORMAT, "config": json.dumps(self.config)})
        write_atomically(path, data)

    @classmethod
    def load(cls, path: str | Path) -> "Lifter":
        """Read a lifter from a file that ``save`` wrote."""
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


def _make_linear(before: int, after: int, std: float, generator: torch.Generator | None) -> nn.Linear:
    """Return a linear layer with normal weights from ``generator`` and bias 0."""
    layer = nn.Linear(before, after, device="meta").to_empty(device="cpu")
    nn.init.normal_(layer.weight, std=std, generator=generator)
    nn.init.zeros_(layer.bias)
    return layer


def _normalise_points(
    points: Float[Tensor, "body joint 2"], seen: Bool[Tensor, "body joint"]
) -> Float[Tensor, "body 3*joint"]:
    mask = seen[..., None].to(points.dtype)
    count = mask.sum(1, keepdim=True).clamp_min(1)
    centred = (points - (points * mask).sum(1, keepdim=True) / count) * mask
    size = (centred.square().sum((1, 2), keepdim=True) / count).sqrt()
    return torch.cat([centred / size.clamp_min(1e-12), mask], dim=-1).flatten(1)


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
    """Train a lifter on 3-D motions in metres; their layouts must convert to the core joints.

    Every step draws poses and one camera per pose (any azimuth, small altitude and roll, a distance), projects the
    joints to x / z and y / z, adds noise and hides some key points. The loss is the squared distance of the joints
    relative to the torso. Adam with a cosine schedule to 0.
    """
    poses = _collect_poses(motions)
    lifter = Lifter(width=width, blocks=blocks, dropout=dropout, generator=generator).train()
    optimiser = torch.optim.Adam(lifter.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    for _ in range(steps):
        chosen = torch.randint(len(poses), (batch,), generator=generator)
        joints, points, seen = _simulate_cameras(poses[chosen], generator)
        loss = (lifter(points, seen, generator) - joints).square().sum(-1).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    return lifter.eval()


def _collect_poses(motions: Iterable[Motion]) -> Float[Tensor, "pose joint 3"]:
    """Return all complete bodies of the motions as core joints relative to the torso."""
    bodies = []
    for motion in motions:
        if motion.layout.dims != 3 or motion.layout.unit != "m":
            raise ShapeError(f"{motion.name or 'a motion'}: a lifter learns from 3-D joints in metres")
        core = convert(motion, CORE)
        bodies.append(core.joints[core.valid.all(-1)])
    poses = torch.cat(bodies) if bodies else torch.empty(0, len(CORE), 3)
    if len(poses) < 2:
        raise DataError("a lifter learns from motions with all 15 core joints in some frames, found none")
    return poses - poses[:, CORE.torso, None]


def _simulate_cameras(
    poses: Float[Tensor, "body joint 3"], generator: torch.Generator
) -> tuple[Float[Tensor, "body joint 3"], Float[Tensor, "body joint 2"], Bool[Tensor, "body joint"]]:
    """Return poses seen by random cameras: joints in camera space, key points, and a mask of visible ones."""
    count = len(poses)

    def draw_uniform(*shape: int) -> Tensor:
        return 2 * torch.rand(*shape, generator=generator) - 1

    turn = (
        _make_rotation(2, ROLL * draw_uniform(count))
        @ _make_rotation(0, ALTITUDE * draw_uniform(count))
        @ _make_rotation(1, AZIMUTH * draw_uniform(count))
    )
    joints = poses @ turn.mT
    nearest, farthest = DISTANCES
    depth = nearest + (farthest - nearest) * torch.rand(count, 1, generator=generator)
    points = joints[..., :2] / (joints[..., 2] + depth).clamp_min(0.2)[..., None]
    size = points.std(dim=1, keepdim=True).mean(-1, keepdim=True)
    points = points + NOISE * size * torch.randn(points.shape, generator=generator)
    return joints, points, torch.rand(count, len(CORE), generator=generator) >= HIDDEN


def _make_rotation(axis: int, angle_rad: Float[Tensor, " body"]) -> Float[Tensor, "body 3 3"]:
    """Return right-handed rotations of column vectors about a coordinate axis."""
    first, second = (axis + 1) % 3, (axis + 2) % 3
    turn = torch.zeros(len(angle_rad), 3, 3)
    turn[:, axis, axis] = 1
    turn[:, first, first] = turn[:, second, second] = angle_rad.cos()
    turn[:, second, first] = angle_rad.sin()
    turn[:, first, second] = -angle_rad.sin()
    return turn


def lift_dataset(dataset: FileDataset, lifter: Lifter) -> FileDataset:
    """Return a data set of key points whose motions are lifted to 3-D when they are read."""
    read: Any = partial(_read_and_lift, dataset.read, lifter)
    return FileDataset(f"{dataset.name}-3d", CORE, dataset.clips, read, dataset.dropped)


def _read_and_lift(read: Any, lifter: Lifter, clip: Clip) -> Motion:
    return lifter.lift(read(clip))
