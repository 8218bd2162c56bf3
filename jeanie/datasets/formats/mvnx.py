"""Xsens MVN: MVNX files (XML) with the positions of the body's segments."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jeanie.datasets.formats.build import make_marker_motion
from jeanie.datasets.formats.files import check_size, get_point_limit, open_errors
from jeanie.datasets.formats.safe_xml import parse_xml
from jeanie.datasets.formats.units import get_metres_per_unit, rotate_to_y_up
from jeanie.datasets.joint_names import MAX_JOINTS, find_marker_layout
from jeanie.errors import DataError
from jeanie.skeleton.layout import Layout
from jeanie.skeleton.motion import Motion

__all__ = ["read_mvnx"]

MAX_MVNX_BYTES = 2**30
MAX_ELEMENTS = 2**23


def read_mvnx(
    path: str | Path,
    *,
    layout: Layout | None = None,
    unit: str | float = "m",
    up: str = "z",
    aliases: Mapping[str, str] | None = None,
) -> Motion:
    """Read the positions of the first subject: one joint per segment, at its origin.

    ``<mvnx><subject frameRate="240"><segments><segment label="Pelvis"/>...</segments><frames><frame type="normal">
    <position>x y z ...</position></frame>...``: metres, z up. Frames of calibration poses are skipped.
    """
    path = Path(path)
    content = _Content(path)
    with open_errors(path), path.open("rb") as file:
        parse_xml(
            path,
            file,
            on_start=content.start,
            on_end=content.end,
            max_bytes=MAX_MVNX_BYTES,
            max_elements=MAX_ELEMENTS,
        )
    if not content.names or not content.rows:
        raise DataError(
            f"{path}: {len(content.names)} segments and {len(content.rows)} frames with positions; export from MVN "
            "with segment positions"
        )
    file_layout, order = find_marker_layout(
        content.names, kind="mvnx", layout=layout, path=path, aliases=aliases
    )
    points = np.stack(content.rows).reshape(len(content.rows), 1, len(content.names), 3).astype(np.float64)
    return make_marker_motion(
        path, rotate_to_y_up(points, up), file_layout, order, get_metres_per_unit(unit), content.parse_rate()
    )


class _Content:
    """Segments, frame rate and positions of the first subject, collected while the file is parsed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._limit = get_point_limit(path)
        self.names: list[str] = []
        self.rows: list[NDArray[np.float32]] = []
        self._rate: str | None = None
        self._subjects = 0
        self._is_normal = False

    def start(self, name: str, attributes: dict[str, str]) -> bool:
        if name == "subject":
            self._subjects += 1
            self._rate = attributes.get("frameRate") if self._subjects == 1 else self._rate
        elif name == "segment" and self._subjects == 1:
            if len(self.names) >= MAX_JOINTS:
                raise DataError(f"{self.path}: more than {MAX_JOINTS} segments")
            self.names.append(attributes.get("label", ""))
        elif name == "frame":
            self._is_normal = self._subjects == 1 and attributes.get("type", "normal") == "normal"
        return name == "position" and self._is_normal

    def end(self, name: str, text: str) -> None:
        try:
            with np.errstate(over="ignore"):  # a value beyond float32 becomes infinite: a missing joint
                row = np.array(text.split(), np.float32)
        except ValueError as error:
            raise DataError(f"{self.path}, frame {len(self.rows) + 1}: {str(error)[:120]}") from None
        if len(row) != 3 * len(self.names):
            raise DataError(
                f"{self.path}, frame {len(self.rows) + 1}: {len(row)} numbers, expected 3 x {len(self.names)} segments"
            )
        self.rows.append(row)
        if len(self.rows) * max(8, len(self.names)) > self._limit:
            check_size(self.path, len(self.rows), 1, len(self.names))

    def parse_rate(self) -> float | None:
        try:
            rate: Any = float(self._rate or "nan")
        except ValueError:
            return None
        return rate if 0 < rate < 1e5 else None
