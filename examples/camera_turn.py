"""Find the rotation between two cameras: two people wave, each in front of one of them.

Run by `make demo`. Prints the rotation that the alignment finds and writes runs/demo/alignment.png.
"""

import math
from pathlib import Path

import torch

import jeanie

# A small body: hip, chest, head, two arms, two legs; metres, y up, x to the camera's right, z away from it.
REST = torch.tensor([
    [0.0, 1.0, 0.0], [0.0, 1.4, 0.0], [0.0, 1.7, 0.0],
    [0.2, 1.4, 0.0], [0.45, 1.4, 0.0], [0.7, 1.4, 0.0], [-0.2, 1.4, 0.0], [-0.25, 1.1, 0.0], [-0.27, 0.85, 0.0],
    [0.1, 1.0, 0.0], [0.12, 0.5, 0.0], [0.12, 0.0, 0.0], [-0.1, 1.0, 0.0], [-0.12, 0.5, 0.0], [-0.12, 0.0, 0.0],
])  # fmt: skip
BONES = [
    (0, 1),
    (1, 2),
    (1, 3),
    (3, 4),
    (4, 5),
    (1, 6),
    (6, 7),
    (7, 8),
    (0, 9),
    (9, 10),
    (10, 11),
    (0, 12),
    (12, 13),
    (13, 14),
]
ANGLES = torch.arange(-75, 76, 15)
BLOCK = 6


def make_wave(frames: int, speed: float, reach: float, seed: int) -> torch.Tensor:
    """Return a person who takes a step, waves one arm and nods: [frame, joint, 3]."""
    generator = torch.Generator().manual_seed(seed)
    phase = torch.linspace(0, 1, frames).pow(speed)[:, None]
    lift, swing = math.pi / 2 * torch.sin(math.pi * phase), torch.sin(6 * math.pi * phase)
    pose = REST.repeat(frames, 1, 1)
    for joint, length in ((4, 0.25), (5, 0.5)):
        pose[:, joint, 0] = 0.2 + (length * reach * torch.cos(lift))[:, 0]
        pose[:, joint, 1] = 1.4 + (length * reach * torch.sin(lift))[:, 0]
        pose[:, joint, 2] = -(0.3 * length * reach * (1 + swing))[:, 0]
    pose[:, 2, 2] = -0.05 - 0.05 * swing[:, 0]
    pose[:, 12:, 2] -= 0.25 * torch.sin(math.pi * phase)
    return pose + 0.005 * torch.randn(pose.shape, generator=generator)


def rotate_about_vertical(motion: torch.Tensor, degrees: torch.Tensor) -> torch.Tensor:
    """Return the motion rotated about the vertical axis through the hip, for each angle: [frame, angle, joint, 3]."""
    radians = torch.deg2rad(degrees.double())
    zeros, ones = torch.zeros_like(radians), torch.ones_like(radians)
    rows = [radians.cos(), zeros, radians.sin(), zeros, ones, zeros, -radians.sin(), zeros, radians.cos()]
    rotation = torch.stack(rows, -1).view(-1, 3, 3).float()
    return torch.einsum("aij,tkj->taki", rotation, motion - motion[:, :1])


def cut_blocks(views: torch.Tensor) -> torch.Tensor:
    """Return windows of frames as feature vectors: [frame, angle, joint, 3] -> [block, angle, feature]."""
    return views.unfold(0, BLOCK, BLOCK // 2).flatten(2)


def main() -> None:
    truth = 38.0
    support = make_wave(60, speed=1.0, reach=1.0, seed=0)
    query = rotate_about_vertical(make_wave(48, speed=0.8, reach=0.9, seed=1), torch.tensor([truth]))[:, 0]

    features = cut_blocks(rotate_about_vertical(query, ANGLES))[None]  # the query in simulated views
    recorded = cut_blocks(rotate_about_vertical(support, torch.tensor([0.0])))[None, :, 0]
    plain = jeanie.distances(features[:, :, len(ANGLES) // 2], recorded, metric="sqeuclidean")
    best = jeanie.distances(features, recorded, metric="sqeuclidean")
    cost = (
        torch.cdist(features[0].flatten(0, 1), recorded[0]).square().view(-1, len(ANGLES), len(recorded[0]))
    )
    alignment = jeanie.trace(cost.transpose(1, 2)[None])[0]
    turn = -ANGLES[alignment.path[:, 2]].double().mean()

    print(f"rotation of the second camera        {truth:6.1f} degrees")
    print(f"rotation found by the alignment      {float(turn):6.1f} degrees (views in steps of 15)")
    print(f"distance without views               {float(plain):6.2f}")
    print(f"distance with views                  {float(best):6.2f}   backend: {alignment.backend}")

    figure = jeanie.make_figure(10, 6)
    top, bottom = figure.subfigures(2, 1, height_ratios=(2, 3))
    for axes, motion, colour in zip(
        top.subplots(1, 2), (support, query + REST[0]), ("C0", "C1"), strict=True
    ):
        jeanie.draw_poses(axes, motion[:: len(motion) // 6][:6], BONES, colour=colour)
    jeanie.draw_alignment(bottom, alignment, view_labels=[[f"{-a}°" for a in ANGLES.tolist()]])
    target = Path("runs/demo/alignment.png")
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=110)
    print(f"picture                              {target}")


if __name__ == "__main__":
    main()
