"""CMU motion capture at 30 frames per second: 2,425 clips in one npz file, each with a description."""

import functools
import zipfile
from pathlib import Path

import numpy as np

from jeanie.datasets.clip_names import Tags
from jeanie.datasets.dataset import Clip, FileDataset
from jeanie.datasets.formats.build import make_motion
from jeanie.datasets.formats.json_files import expect_type, read_json
from jeanie.datasets.formats.npz import ZIP_ERRORS, open_zip, read_member
from jeanie.datasets.joint_names import CMU_SUBSET
from jeanie.errors import DataError
from jeanie.skeleton.layout import LAYOUTS
from jeanie.skeleton.motion import Motion

__all__ = ["open_cmu", "read_cmu_descriptions"]

ARRAYS, TABLE = "cmu_30fps_mm.npz", "cmu_30fps.json"
_MAX_FRAMES = 2**17  # 72 minutes


def open_cmu(root: str | Path) -> FileDataset:
    """Open all clips in the order of the table; ``label`` is None for clips without a reliable one.

    A clip's name has the subject and the take (``02_03`` is subject 2, take 3). The file stores differences between
    frames in millimetres; positions are their cumulative sums, in metres, +y up.
    """
    root = Path(root)
    table = expect_type(root / TABLE, read_json(root / TABLE), dict, "the table")
    if table.get("joints") != list(CMU_SUBSET):
        raise DataError(
            f"{root / TABLE}: expected CMU's 22 joints in 'joints', got {str(table.get('joints'))[:200]}"
        )
    rows = expect_type(root / TABLE, table.get("clips"), list, "'clips'")
    clips = tuple(_parse_clip(root, row) for row in rows)
    return FileDataset("cmu", LAYOUTS["cmu22"], clips, _read)


def read_cmu_descriptions(root: str | Path) -> dict[str, str]:
    """Read the free-text description of each clip, by its name."""
    path = Path(root) / TABLE
    rows = expect_type(
        path, expect_type(path, read_json(path), dict, "the table").get("clips"), list, "'clips'"
    )
    return {str(row.get("id")): str(row.get("text")) for row in rows if isinstance(row, dict)}


def _parse_clip(root: Path, row: object) -> Clip:
    path = root / TABLE
    entry = expect_type(path, row, dict, "a clip")
    name, label = entry.get("id"), entry.get("label")
    parts = name.split("_") if isinstance(name, str) else []
    if len(parts) != 2 or not all(part.isdecimal() and len(part) < 6 for part in parts):
        raise DataError(f"{path}: a clip's id must look like '02_03', got {str(name)[:40]!r}")
    if label is not None:
        expect_type(path, label, str, f"the label of {name}")
    subject, take = map(int, parts)
    return Clip(str(name), root / ARRAYS, Tags(label=label, subject=subject, take=take))


def _read(clip: Clip) -> Motion:
    path = clip.source
    steps = read_member(
        _open_container(path, path.stat().st_mtime_ns if path.is_file() else 0), f"{clip.name}.npy", path
    )
    if steps.dtype.kind != "i" or steps.ndim != 3 or steps.shape[1:] != (len(CMU_SUBSET), 3):
        raise DataError(
            f"{path}: {clip.name} needs whole numbers [frame, 22, 3], got {steps.dtype} {steps.shape}"
        )
    if len(steps) > _MAX_FRAMES:
        raise DataError(f"{path}: {clip.name} has {len(steps)} frames; a clip has at most {_MAX_FRAMES}")
    positions = np.cumsum(steps, axis=0, dtype=np.int64) / 1000
    layout = LAYOUTS["cmu22"]
    valid = np.ones((len(steps), 1, len(layout)), np.bool_)  # a joint at the origin is where the hips started
    return make_motion(
        path, positions[:, None], layout, valid=valid, rate=30.0, name=clip.name, tags=clip.tags
    )


@functools.lru_cache(maxsize=2)
def _open_container(path: Path, modified: int) -> zipfile.ZipFile:
    """Open the npz file once per process: its directory of 2,425 names takes 20 ms to read."""
    try:
        return open_zip(path)
    except ZIP_ERRORS as error:
        raise DataError(f"{path}: not a readable npz file: {error}") from None
