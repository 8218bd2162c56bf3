"""The network that estimates the depth of 2-D key points (Martinez et al., 2017).

The input is one person in one frame, 15 core joints in the image; the output is their 3-D positions relative to the
torso. A lifted motion keeps the key points: x and y stay those of the image, only z comes from the network.
"""

import json
import math
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import torch
from jaxtyping import Bool, Float
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor, nn
from torch.nn.functional import linear

from jeanie._internal.files import write_atomically
from jeanie.errors import ConfigError, DataError, ShapeError
from jeanie.skeleton.convert import convert, map_joints
from jeanie.skeleton.layout import LAYOUTS, Layout
from jeanie.skeleton.motion import Motion

__all__ = ["CORE", "MIN_JOINTS", "SHIPPED_LIFTER", "Lifter"]

CORE = LAYOUTS["core15"]
SHIPPED_LIFTER = Path(__file__).parent.parent / "models" / "lifter" / "lifter.safetensors"
FORMAT = "jeanie-lifter-2"
MAX_BYTES = 2**28
MIN_JOINTS = 6  # fewer key points do not determine a pose


class Lifter(nn.Module):
    """Linear layers with batch norm, ReLU and dropout: one layer, residual blocks of two, and a plain last layer.

    The defaults are those of the original: two residual blocks, width 1024, dropout 0.5, and weights of every
    layer whose norm is at most 1. Unlike the original, key points may be missing: the input of a joint is
    (x, y, seen), or 0 if it is missing. The key points of each frame are centred on their mean and divided by their
    root mean square distance from it: focal length and distance of the camera do not matter.

    Args:
        width: Outputs of a hidden layer.
        blocks: Number of residual blocks.
        dropout: Share of hidden outputs that training sets to 0.
        max_norm: Largest norm of the weights of a layer; None disables the limit.
        generator: Draws the initial weights.
    """

    def __init__(
        self,
        *,
        width: int = 1024,
        blocks: int = 2,
        dropout: float = 0.5,
        max_norm: float | None = 1.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if not (1 <= width <= 8192 and 0 <= blocks <= 16 and 0 <= dropout < 1):
            raise ConfigError(
                "a lifter needs a width of 1 to 8192, 0 to 16 blocks and a dropout from 0 to below 1, "
                f"got {width}, {blocks} and {dropout}"
            )
        if max_norm is not None and not 0 < max_norm < math.inf:
            raise ConfigError(f"max_norm is the largest norm of a layer's weights, above 0, got {max_norm}")
        self.config = {"width": width, "blocks": blocks, "dropout": dropout, "max_norm": max_norm}
        self.dropout, self.max_norm = dropout, max_norm
        sizes = [3 * len(CORE)] + [width] * (1 + 2 * blocks)
        self.layers = nn.ModuleList(
            _make_linear(a, b, math.sqrt(2 / a), generator) for a, b in pairwise(sizes)
        )
        self.norms = nn.ModuleList(nn.BatchNorm1d(size) for size in sizes[1:])
        self.last = _make_linear(width, 3 * len(CORE), 0.1 / math.sqrt(width), generator)  # small: metres

    def forward(
        self,
        points: Float[Tensor, "body joint 2"],
        visible: Bool[Tensor, "body joint"],
        generator: torch.Generator | None = None,
    ) -> Float[Tensor, "body joint 3"]:
        """Return core joints in metres relative to the torso, +y up, +z away from the camera.

        ``points`` have y up. ``generator`` draws the dropout mask in training.
        """
        hidden = self._apply_layer(0, _normalise_points(points, visible), generator)
        for block in range(1, len(self.layers), 2):
            inner = self._apply_layer(block, hidden, generator)
            hidden = hidden + self._apply_layer(block + 1, inner, generator)
        joints: Tensor = self._apply_linear(self.last, hidden).unflatten(-1, (len(CORE), 3))
        return joints - joints[:, CORE.torso, None]

    def _apply_layer(
        self, layer: int, x: Float[Tensor, "body in"], generator: torch.Generator | None
    ) -> Float[Tensor, "body out"]:
        outputs: Tensor = self.norms[layer](self._apply_linear(self.layers[layer], x)).relu()
        if not self.training or not self.dropout:
            return outputs
        draws = torch.rand(outputs.shape, generator=generator, device=x.device, dtype=x.dtype)
        return outputs * (draws >= self.dropout) / (1 - self.dropout)

    def _apply_linear(self, layer: nn.Module, x: Float[Tensor, "body in"]) -> Float[Tensor, "body out"]:
        """Apply a layer whose weights are scaled down to ``max_norm``."""
        assert isinstance(layer, nn.Linear)
        if self.max_norm is None:
            return linear(x, layer.weight, layer.bias)
        norm = torch.linalg.vector_norm(layer.weight).clamp_min(self.max_norm)
        return linear(x, layer.weight * (self.max_norm / norm), layer.bias)

    def estimate_depth(
        self, points: Float[Tensor, "body joint 2"], visible: Bool[Tensor, "body joint"]
    ) -> Float[Tensor, "body joint"]:
        """Return the depth of core joints relative to the torso in the unit of ``points``, without gradients.

        The network works in metres. Metres become the unit of the image by the ratio of the sizes of the two bodies.
        """
        was_training, device = self.training, self.last.weight.device
        with torch.inference_mode():
            joints = self.eval()(points.to(device), visible.to(device)).to(points.device)
            ratio = _measure_size(points, visible) / _measure_size(joints[..., :2], visible).clamp_min(1e-6)
            depth: Tensor = joints[..., 2] * ratio
        self.train(was_training)
        return depth.clone()

    def lift(self, motion: Motion) -> Motion:
        """Return a motion of key points with depth: x and y stay, z is estimated, in the same unit.

        All joints of the layout stay, with their mask; z is 0 at the torso. Joints that the network does not know,
        such as eyes and ears, have the depth of the joint they hang from. A person with fewer than ``MIN_JOINTS``
        core joints in a frame is missing in it.

        Raises:
            ShapeError: The motion already has 3-D joints.
            DataError: There are fewer than ``MIN_JOINTS`` key points in every frame.
        """
        if motion.layout.dims != 2:
            raise ShapeError(f"{motion.name or 'a motion'} already has 3-D joints; lift key points of images")
        core = convert(motion, CORE)
        enough = core.valid.sum(-1) >= MIN_JOINTS
        if not enough.any():
            raise DataError(f"{motion.name or 'a motion'}: fewer than {MIN_JOINTS} key points in every frame")
        depth = self.estimate_depth(core.joints[enough][..., :2], core.valid[enough])
        joints = motion.joints.clone()
        joints[enough] = torch.cat(
            (joints[enough][..., :2], (depth @ _map_depths(motion.layout).to(depth).mT)[..., None]), -1
        )
        return motion.replace(
            joints=joints, valid=motion.valid & enough[..., None], layout=replace(motion.layout, dims=3)
        )

    def save(self, path: str | Path, *, half: bool = False) -> None:
        """Write the weights as safetensors, ``half`` with 16 bits; an existing file is replaced atomically."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        weights = {
            key: (value.half() if half and value.is_floating_point() else value).detach().cpu().contiguous()
            for key, value in self.state_dict().items()
        }
        data = save(weights, metadata={"format": FORMAT, "config": json.dumps(self.config)})
        write_atomically(path, data)

    @classmethod
    def load(cls, path: str | Path | None = None) -> "Lifter":
        """Read a lifter from a file that ``save`` wrote; by default the one that ships with jeanie."""
        path = SHIPPED_LIFTER if path is None else Path(path)
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


def _centre_points(points: Float[Tensor, "body joint 2"], mask: Float[Tensor, "body joint 1"]) -> Tensor:
    """Return key points relative to the mean of the visible ones; 0 for the others."""
    count = mask.sum(1, keepdim=True).clamp_min(1)
    return (points - (points * mask).sum(1, keepdim=True) / count) * mask


def _measure_size(
    points: Float[Tensor, "body joint 2"], visible: Bool[Tensor, "body joint"]
) -> Float[Tensor, "body 1"]:
    """Return the root mean square distance of the visible key points from their mean."""
    mask = visible[..., None].to(points.dtype)
    centred = _centre_points(points, mask)
    return (centred.square().sum((1, 2)) / mask.sum((1, 2)).clamp_min(1)).sqrt()[:, None]


def _normalise_points(
    points: Float[Tensor, "body joint 2"], visible: Bool[Tensor, "body joint"]
) -> Float[Tensor, "body 3*joint"]:
    mask = visible[..., None].to(points.dtype)
    size = _measure_size(points, visible)[..., None]
    return torch.cat([_centre_points(points, mask) / size.clamp_min(1e-12), mask], dim=-1).flatten(1)


@lru_cache(maxsize=16)
def _map_depths(layout: Layout) -> Float[Tensor, "joint core"]:
    """Return weights of core joints for the depth of every joint; unknown joints follow the one they hang from."""
    weights = map_joints(CORE, layout).weights
    known = weights.sum(-1) > 0
    parents, rows = layout.parents, []
    for joint in range(len(layout)):
        ancestor = joint
        while ancestor >= 0 and not known[ancestor]:
            ancestor = parents[ancestor]
        rows.append(ancestor)
    torso = torch.eye(len(CORE))[CORE.torso]
    return torch.stack([torso if row < 0 else weights[row] for row in rows])
