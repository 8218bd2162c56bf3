"""One episode of the paper in plain torch, with loops: it uses only the encoder of jeanie."""

import itertools
import math
from collections.abc import Callable

import torch
from torch import Tensor

from jeanie.fewshot.config import ModelConfig
from jeanie.fewshot.episodes import Episode

Alignment = Callable[[Tensor, float, int], Tensor]


def rotate(joints: Tensor, azimuth: float, altitude: float) -> Tensor:
    """Return a clip [frame, joint, 3] in one view."""
    a, b = math.radians(azimuth), math.radians(altitude)
    about_y = torch.tensor([[math.cos(a), 0, -math.sin(a)], [0, 1, 0], [math.sin(a), 0, math.cos(a)]])
    about_x = torch.tensor([[1, 0, 0], [0, math.cos(b), math.sin(b)], [0, -math.sin(b), math.cos(b)]])
    return joints @ (about_x @ about_y).T


def cut_plain_blocks(joints: Tensor, length: int = 8, stride: int = 5) -> list[Tensor]:
    """Return the scaled blocks of a clip."""
    largest = joints.abs().amax((0, 1))
    joints = joints / torch.where(largest > 0, largest, 1.0)
    starts = list(range(0, max(1, len(joints) - length + 1), stride))
    if starts[-1] + length < len(joints):
        starts.append(len(joints) - length)
    short = [joints[-1:]] * max(0, length - len(joints))
    joints = torch.cat([joints, *short])
    return [joints[start : start + length] for start in starts]


def compute_plain_features(
    encoder: Callable[[Tensor], Tensor], joints: Tensor, angles: list[float]
) -> list[list[Tensor]]:
    """Return the features by view and block; the encoder is called once per block."""
    views = []
    for azimuth in angles:
        for altitude in angles:
            blocks = cut_plain_blocks(rotate(joints, azimuth, altitude))
            views.append([encoder(block[None])[0] for block in blocks])
    return views


def align_plain(cost: Tensor, gamma: float, size: int) -> Tensor:
    """Return the JEANIE distance (shift 1) of a cost [view, t, s], cell by cell; ``size`` is the width of the grid."""
    grid = list(itertools.product(range(size), repeat=2))
    near = [[i for i, (c, d) in enumerate(grid) if abs(a - c) <= 1 and abs(b - d) <= 1] for a, b in grid]
    cells = cost.unbind()
    cells = [[row.unbind() for row in view.unbind()] for view in cells]
    table: dict[tuple[int, int, int], Tensor] = {}
    for t in range(cost.shape[1]):
        for s in range(cost.shape[2]):
            steps = [(i, j) for i, j in ((t, s - 1), (t - 1, s), (t - 1, s - 1)) if i >= 0 and j >= 0]
            for v in range(len(grid)):
                value = cells[v][t][s]
                if steps:
                    before = torch.stack([table[w, i, j] for i, j in steps for w in near[v]])
                    value = value - gamma * torch.logsumexp(before / -gamma, 0)
                table[v, t, s] = value
    ends = torch.stack([table[v, cost.shape[1] - 1, cost.shape[2] - 1] for v in range(len(grid))])
    return -gamma * torch.logsumexp(ends / -gamma, 0)


def align_windowed(cost: Tensor, gamma: float, size: int) -> Tensor:
    """Return the same distance with all views of a cell at once."""
    grid = cost.reshape(size, size, *cost.shape[1:])
    turns = list(itertools.product(range(3), repeat=2))

    def window(r: Tensor) -> list[Tensor]:
        padded = torch.nn.functional.pad(r, [1, 1, 1, 1], value=math.inf)
        return [padded[a : a + size, b : b + size] for a, b in turns]

    table: dict[tuple[int, int], Tensor] = {}
    for t in range(grid.shape[2]):
        for s in range(grid.shape[3]):
            before = [window(table[i]) for i in ((t, s - 1), (t - 1, s), (t - 1, s - 1)) if i in table]
            value = grid[:, :, t, s]
            if before:
                value = value - gamma * torch.logsumexp(
                    torch.stack(list(itertools.chain(*before))) / -gamma, 0
                )
            table[t, s] = value
    return -gamma * torch.logsumexp(value.flatten() / -gamma, 0)


def compute_plain_distances(
    encoder: Callable[[Tensor], Tensor],
    queries: list[Tensor],
    supports: list[Tensor],
    model: ModelConfig,
    align: Alignment,
) -> Tensor:
    """Return the distances [query, support] of prepared clips [frame, joint, 3]."""
    angles = [-30.0, -15.0, 0.0, 15.0, 30.0]
    query_views = [compute_plain_features(encoder, clip, angles) for clip in queries]
    recorded = [compute_plain_features(encoder, clip, [0.0])[0] for clip in supports]
    rows = []
    for views in query_views:
        row = []
        for support in recorded:
            cost = torch.stack([
                torch.stack([torch.stack([(x - y).square().sum() for y in support]) for x in blocks])
                for blocks in views
            ])  # fmt: skip
            cost = 2 - 2 * torch.exp(cost / (-2 * model.align.sigma**2))
            row.append(align(cost, model.align.gamma, len(angles)))
        rows.append(torch.stack(row))
    return torch.stack(rows)


def compute_plain_loss(distances: Tensor, episode: Episode) -> Tensor:
    """Return the paper's loss with beta 1."""
    same = episode.query_labels[:, None] == episode.support_labels
    near, far = distances[same], distances[~same]
    target = far.detach().topk(distances.shape[1]).values.mean()
    return (near.mean() - near.detach().min()) ** 2 + (far.mean() - target) ** 2
