"""Store a motion as plain values for a database or a file: bit-exact, with a checksum."""

import json
import math
import numbers
from dataclasses import dataclass
from typing import Any

import numpy as np

from jeanie._internal.digest import hash_fields
from jeanie.errors import DataError, JeanieError
from jeanie.skeleton import Layout, Motion

__all__ = ["MAX_JOINT_BYTES", "MAX_TEXT", "Record", "decode", "encode", "to_json"]

MAX_JOINT_BYTES = 2**26  # 5.6 million joint positions: two people with 25 joints for an hour at 30 Hz
MAX_TEXT = 2**20  # characters of a layout, and of the tags, as JSON
_TAG_TYPES: dict[str, tuple[type, ...]] = {
    "label": (str, int),
    "subject": (str, int),
    "view": (str, int),
    "rate": (float,),
    "name": (str,),
    "setup": (int,),
    "take": (int,),
}


@dataclass(frozen=True)
class Record:
    """A stored motion. ``joints`` are float32, little-endian, in C order; ``valid`` is packed to bits.

    ``layout`` and ``tags`` (label, subject, view, rate, name, setup, take) are ASCII JSON with sorted keys, so equal
    motions have equal records. ``checksum`` is the SHA-256 of all other fields.
    """

    checksum: str
    layout: str
    tags: str
    frames: int
    persons: int
    joints: bytes
    valid: bytes


def encode(motion: Motion) -> Record:
    """Return the record of a motion; raise DataError if it is too large or a tag has the wrong type."""
    name = motion.name or "a motion"
    size = 4 * motion.joints.numel()
    if size > MAX_JOINT_BYTES:
        raise DataError(
            f"{name}: {size} bytes of joints, an example may have {MAX_JOINT_BYTES}; enrol only the part "
            "that shows the action: motion[a:b]"
        )
    values = {key: _to_python(motion, key, name) for key in _TAG_TYPES}
    try:
        layout, tags = to_json(motion.layout.to_dict(), MAX_TEXT), to_json(values, MAX_TEXT)
        is_exact = Layout.from_dict(json.loads(layout)) == motion.layout
    except (JeanieError, TypeError, ValueError) as error:
        raise DataError(f"{name}: its layout or tags cannot be stored: {error}") from None
    if not is_exact:
        raise DataError(f"{name}: layout {motion.layout.name!r} changes when it is stored and read again")
    joints = np.ascontiguousarray(motion.joints.cpu().numpy(), dtype="<f4").tobytes()
    valid = np.packbits(motion.valid.cpu().numpy()).tobytes()
    parts = (layout, tags, len(motion), motion.persons, joints, valid)
    return Record(_compute_checksum(*parts), *parts)


def decode(record: Record, source: str) -> Motion:
    """Return the motion of a record.

    Raises:
        DataError: the record is damaged; the message begins with ``source``.
    """
    try:
        checksum = _compute_checksum(
            record.layout, record.tags, record.frames, record.persons, record.joints, record.valid
        )
        if checksum != record.checksum:
            raise DataError(f"its checksum is {checksum[:12]}..., expected {str(record.checksum)[:12]}...")
        layout = Layout.from_dict(json.loads(record.layout))
        shape = (record.frames, record.persons, len(layout))
        joints = np.frombuffer(record.joints, "<f4").reshape(*shape, 3)
        bits = np.frombuffer(record.valid, np.uint8)
        if len(bits) != (math.prod(shape) + 7) // 8:
            raise DataError(f"{len(bits)} bytes of mask for shape {shape}")
        valid = np.unpackbits(bits, count=math.prod(shape)).astype(np.bool_).reshape(shape)
        tags = json.loads(record.tags)
        if tags.keys() != _TAG_TYPES.keys() or not all(_is_valid_tag(*tag) for tag in tags.items()):
            raise DataError(f"unexpected tags {record.tags[:80]}")
        return Motion(joints, layout, valid=valid, **tags)
    except (
        JeanieError, TypeError, ValueError, AttributeError, LookupError, OverflowError, RecursionError
    ) as error:  # fmt: skip
        raise DataError(f"{source} is damaged: {error}") from None


def to_json(value: Any, limit: int) -> str:
    """Return a value as ASCII JSON with sorted keys.

    Raises:
        TypeError: JSON cannot represent the value.
        ValueError: JSON cannot represent the value, or its text is longer than ``limit``.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    if len(text) > limit:
        raise ValueError(f"{len(text)} characters of JSON, the limit is {limit}")
    return text


def _to_python(motion: Motion, key: str, name: str) -> Any:
    """Return a tag as Python text or number, also if numpy made it."""
    value = getattr(motion, key)
    if isinstance(value, str):
        value = str(value)
    elif isinstance(value, numbers.Integral):
        value = int(value)
    if not _is_valid_tag(key, value):
        types = " or ".join(kind.__name__ for kind in _TAG_TYPES[key])
        raise DataError(f"{name}: {key} is {types} or None, got {value!r}; use motion.replace({key}=...)")
    return value


def _is_valid_tag(key: str, value: Any) -> bool:
    return value is None or type(value) in _TAG_TYPES[key]


def _compute_checksum(layout: str, tags: str, frames: int, persons: int, joints: bytes, valid: bytes) -> str:
    return hash_fields((layout.encode(), tags.encode(), f"{frames} {persons}".encode(), joints, valid))
