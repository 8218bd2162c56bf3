"""How far the limbs of two aligned bodies differ, joint by joint, in degrees."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from jeanie.skeleton.layout import LAYOUTS

__all__ = ["JOINTS", "compute_deviations", "compute_directions", "list_known_joints"]

CORE = LAYOUTS["core15"]

# Joint: the limb that it moves, from one joint to the next, and the joint whose deviation it inherits.
_LIMBS: dict[str, tuple[str, str, str | None]] = {
    "trunk": ("hips", "neck", None),
    "neck": ("neck", "head", "trunk"),
    **{
        f"{side}_{joint}": (f"{side}_{start}", f"{side}_{end}", inherited)
        for side in ("left", "right")
        for joint, start, end, inherited in (
            ("shoulder", "shoulder", "elbow", "trunk"),
            ("elbow", "elbow", "hand", f"{side}_shoulder"),
            ("hip", "hip", "knee", "trunk"),
            ("knee", "knee", "foot", f"{side}_hip"),
        )
    },
}

JOINTS = tuple(_LIMBS)
"""Names of the joints, in the order of ``compute_deviations``."""

_POINTS = (*CORE.joints, "hips")
_HIPS = [CORE.index("left_hip"), CORE.index("right_hip")]
_FROM = [_POINTS.index(start) for start, _, _ in _LIMBS.values()]
_TO = [_POINTS.index(end) for _, end, _ in _LIMBS.values()]
_PARENTS = [JOINTS.index(parent) if parent else -1 for _, _, parent in _LIMBS.values()]


def compute_directions(bodies: Float[Tensor, "*batch 15 3"]) -> Float[Tensor, "*batch 10 3"]:
    """Return the direction of the limb that each joint moves, as a unit vector."""
    points = torch.cat([bodies, bodies[..., _HIPS, :].mean(-2, keepdim=True)], -2)
    return torch.nn.functional.normalize(points[..., _TO, :] - points[..., _FROM, :], dim=-1)


def list_known_joints(present: Bool[Tensor, " 15"]) -> Bool[Tensor, " 10"]:
    """Return which joints have both ends of their limb."""
    is_known = torch.cat([present, present[_HIPS].all()[None]])
    return is_known[_FROM] & is_known[_TO]


def compute_deviations(
    query: Float[Tensor, "*batch 10 3"], support: Float[Tensor, "*batch 10 3"]
) -> Float[Tensor, "*batch 10"]:
    """Return the angle in degrees between the limbs of two bodies, without what they inherit.

    A forearm is compared after the smallest rotation that brings the upper arms together. So an elbow that is bent as
    in the support deviates by 0, wherever the upper arm points. Upper arms, thighs and the head inherit from the trunk.
    """
    parents = torch.tensor(_PARENTS)
    inherits = (parents >= 0)[:, None]
    moved, fixed = (side[..., parents.clamp_min(0), :] for side in (query, support))
    turned = torch.where(inherits, _rotate_along(query, moved, fixed), query)
    across = torch.linalg.cross(turned, support).norm(dim=-1)
    return torch.rad2deg(torch.atan2(across, (turned * support).sum(-1)))


def _rotate_along(vectors: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """Rotate vectors by the smallest rotation from ``start`` to ``end``, all of unit length.

    With w = start x end and c = start . end: v + w x v + w x (w x v) / (1 + c) (Rodrigues). Opposite directions have
    no smallest rotation; 1 + c is then kept above 0.
    """
    axis = torch.linalg.cross(start, end)
    cosine = (start * end).sum(-1, keepdim=True)
    once = torch.linalg.cross(axis, vectors)
    rotated: Tensor = vectors + once + torch.linalg.cross(axis, once) / (1 + cosine).clamp_min(1e-6)
    return rotated
