"""HDF5 containers of the JEANIE authors: one group per recording, parsed in a child process."""

from functools import partial
from pathlib import Path

import numpy as np

from jeanie.datasets.clip_names import parse_tags
from jeanie.datasets.dataset import Clip, FileDataset
from jeanie.datasets.formats.isolated import decode_text, is_installed, parse_isolated
from jeanie.datasets.formats.openni import get_published_name, make_openni_motion
from jeanie.errors import DataError
from jeanie.skeleton.layout import LAYOUTS, Layout
from jeanie.skeleton.motion import Motion

__all__ = ["HDF5_MAGIC", "MAX_NUMBERS", "open_hdf5", "read_hdf5"]

HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
MAX_NUMBERS = 2**23  # of one recording: 50 minutes of two persons with 25 joints
_KIND = "HDF5 file"


def read_hdf5(path: str | Path, *, layout: Layout | None = None) -> Motion:
    """Read the only recording of an HDF5 file of the JEANIE authors; use ``open_hdf5`` for several."""
    path = Path(path)
    data = open_hdf5(path, path.stem, layout or LAYOUTS["openni15"])
    if len(data) != 1:
        raise DataError(
            f"{path}: has {len(data)} recordings; open it with open_dataset('uwa3d', {path.name!r})"
        )
    return data[0]


def open_hdf5(path: str | Path, name: str, layout: Layout) -> FileDataset:
    """Open a container that has one group per recording with ``skeleton`` [joints, 3, frames].

    The joints of a second person follow those of the first; ``num_subjects`` is the number of persons.
    """
    path = Path(path)
    if not is_installed("h5py"):
        raise DataError(f"{path}: an {_KIND} is read by h5py; install it: pip install h5py")
    keys = decode_text(parse_isolated("hdf5-groups", path, _KIND)["names"])
    if not keys:
        raise DataError(f"{path}: no group with a recording in it")
    clips = tuple(
        Clip(get_published_name(Path(key), parse_tags(key), layout), path, parse_tags(key), index)
        for index, key in enumerate(keys)
    )
    return FileDataset(name, layout, clips, partial(_read_clip, tuple(keys), layout))


def _read_clip(keys: tuple[str, ...], layout: Layout, clip: Clip) -> Motion:
    key = keys[clip.index]
    arrays = parse_isolated("hdf5-skeleton", clip.source, _KIND, group=key, max_numbers=MAX_NUMBERS)
    skeleton = arrays["skeleton"]
    persons = int(arrays["persons"]) if "persons" in arrays else len(skeleton) // len(layout)
    if persons < 1 or len(skeleton) < persons * len(layout):
        raise DataError(
            f"{clip.source}: {key[:80]}/skeleton has {len(skeleton)} joints for {persons} persons "
            f"of {len(layout)}"
        )
    joints = skeleton[: persons * len(layout)].reshape(persons, len(layout), 3, -1).transpose(3, 0, 1, 2)
    return make_openni_motion(clip.source, joints.astype(np.float64), layout, tags=clip.tags, name=clip.name)
