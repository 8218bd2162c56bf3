"""CMU motion capture at 30 frames a second: 2,425 clips in one npz file, with a description for each."""

import functools
import zipfile
from pathlib import Path

import numpy as np

from jeanie.datasets.dataset import Clip, Clips
from jeanie.datasets.names import Tags
from jeanie.datasets.naming import CMU_SUBSET
from jeanie.datasets.npz import BROKEN, member
from jeanie.datasets.text import expect, make_motion, read_json
from jeanie.errors import DataError
from jeanie.skeleton.layout import LAYOUTS
from jeanie.skeleton.motion import Motion

__all__ = ["cmu_descriptions", "open_cmu"]

ARRAYS, TABLE = "cmu_30fps_mm.npz", "cmu_30fps.json"
_MAX_FRAMES = 2**19  # almost five hours


def open_cmu(root: str | Path) -> Clips:
    """All clips in the order of the table; ``label`` is None for those without a clean one.

    Subjects are CMU's numbers and takes the second half of a clip's name (``02_03`` is subject 2, take 3). It
    holds millimetres as differences between frames; positions are their running sums, in metres, +y up.
    """
    root = Path(root)
    table = expect(root / TABLE, read_json(root / TABLE), dict, "the table")
    if table.get("joints") != list(CMU_SUBSET):
        raise DataError(
            f"{root / TABLE}: expected CMU's 22 joints in 'joints', got {str(table.get('joints'))[:200]}"
        )
    rows = expect(root / TABLE, table.get("clips"), list, "'clips'")
    clips = tuple(_clip(root, row) for row in rows)
    return Clips("cmu", LAYOUTS["cmu22"], clips, _read)


def cmu_descriptions(root: str | Path) -> dict[str, str]:
    """The free-text description of each clip, by its name."""
    path = Path(root) / TABLE
    rows = expect(path, expect(path, read_json(path), dict, "the table").get("clips"), list, "'clips'")
    return {str(row.get("id")): str(row.get("text")) for row in rows if isinstance(row, dict)}


def _clip(root: Path, row: object) -> Clip:
    path = root / TABLE
    about = expect(path, row, dict, "a clip")
    name, label = about.get("id"), about.get("label")
    parts = name.split("_") if isinstance(name, str) else []
    if len(parts) != 2 or not all(part.isdecimal() and len(part) < 6 for part in parts):
        raise DataError(f"{path}: a clip's id is such as '02_03', got {str(name)[:40]!r}")
    if label is not None:
        expect(path, label, str, f"the label of {name}")
    subject, take = map(int, parts)
    return Clip(str(name), root / ARRAYS, Tags(label=label, subject=subject, take=take))


def _read(clip: Clip) -> Motion:
    path = clip.source
    steps = member(_opened(path, path.stat().st_mtime_ns if path.is_file() else 0), f"{clip.name}.npy", path)
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
def _opened(path: Path, changed: int) -> zipfile.ZipFile:
    """The npz file, opened once in each process: its directory of 2,425 names takes 20 ms to read."""
    try:
        return zipfile.ZipFile(path)
    except BROKEN as error:
        raise DataError(f"{path}: not a readable npz file: {error}") from None
