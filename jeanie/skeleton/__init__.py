"""Skeletons and their recordings: layouts, motions, normalisation, temporal blocks."""

from jeanie.skeleton.blocks import compute_stride, count_blocks, list_block_starts
from jeanie.skeleton.convert import JointMapping, map_joints
from jeanie.skeleton.facing import face
from jeanie.skeleton.layout import LAYOUTS, Layout
from jeanie.skeleton.motion import Motion
from jeanie.skeleton.normalise import centre, scale
from jeanie.skeleton.streams import compute_streams

__all__ = [
    "LAYOUTS",
    "JointMapping",
    "Layout",
    "Motion",
    "centre",
    "compute_streams",
    "compute_stride",
    "count_blocks",
    "face",
    "list_block_starts",
    "map_joints",
    "scale",
]
