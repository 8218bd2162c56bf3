"""Skeletons and their recordings: layouts, motions, preprocessing, temporal blocks, facing."""

from jeanie.skeleton.blocks import block_counts, blocks, starts, stride_of
from jeanie.skeleton.conversion import Mapping, convert, mapping
from jeanie.skeleton.facing import face
from jeanie.skeleton.layout import LAYOUTS, Layout
from jeanie.skeleton.motion import Motion
from jeanie.skeleton.preprocess import centre, scale, streams

__all__ = [
    "LAYOUTS",
    "Layout",
    "Mapping",
    "Motion",
    "block_counts",
    "blocks",
    "centre",
    "convert",
    "face",
    "mapping",
    "scale",
    "starts",
    "streams",
    "stride_of",
]
