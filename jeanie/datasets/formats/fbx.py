"""FBX files, which are not read: the format is not documented, and programs that write it also write BVH or glTF."""

from pathlib import Path
from typing import NoReturn

from jeanie.errors import DataError
from jeanie.skeleton.layout import Layout

__all__ = ["read_fbx"]


def read_fbx(path: str | Path, *, layout: Layout | None = None) -> NoReturn:
    """Raise a DataError that says how to convert the file."""
    raise DataError(
        f"{path}: FBX files are not read; export BVH or glTF instead. In Blender: File > Import > FBX, then "
        "File > Export > Motion Capture (.bvh); MotionBuilder and Maya export BVH, too"
    )
