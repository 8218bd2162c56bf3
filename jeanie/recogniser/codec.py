"""A motion as plain values for a database or a file, exact to the bit, under one checksum."""

import hashlib
import json
import math
import numbers
from dataclasses import dataclass
from typing import Any

import numpy as np

from jeanie.errors import DataError, JeanieError
from jeanie.skeleton import Layout, Motion

__all__ = ["MAX_JOINT_BYTES", "MAX_TEXT", "Record", "as_json", "decode", "encode"]

MAX_JOINT_BYTES = 2**26  # 5.6 million joint positions: two persons of 25 joints for an hour at 30 Hz
MAX_TEXT = 2**20  # characters of a layout or of the tags as JSON
_KINDS: dict[str, tuple[type, ...]] = {
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
    """A motion as it is stored. ``joints`` are float32, little-endian, C order; ``valid`` is packed to bits.

    ``layout`` and ``tags`` (label, subject, view, rate, name, setup, take) are JSON with sorted keys in plain
    ASCII, so that equal motions have equal records. ``checksum`` is the SHA-256 of all the rest.
    """

    checksum: str
    layout: str
    tags: str
    frames: int
    persons: int
    joints: bytes
    valid: bytes


def encode(motion: Motion) -> Record:
    """The record of a motion."""
    said = motion.name or "a motion"
    size = 4 * motion.joints.numel()
    if size > MAX_JOINT_BYTES:
        raise DataError(
            f"{said}: {size} bytes of joints, an example may have {MAX_JOINT_BYTES}; enrol only the part "
            "that shows the action: motion[a:b]"
        )
    texts = {"layout": motion.layout.to_dict(), "tags": {key: _tag(motion, key, said) for key in _KINDS}}
    try:
        layout, tags = (as_json(value, MAX_TEXT) for value in texts.values())
        kept = Layout.from_dict(json.loads(layout)) == motion.layout
    except (JeanieError, TypeError, ValueError) as error:
        raise DataError(f"{said}: its layout or tags cannot be stored: {error}") from None
    if not kept:
        raise DataError(f"{said}: layout {motion.layout.name!r} does not survive to_dict and from_dict")
    joints = np.ascontiguousarray(motion.joints.cpu().numpy(), dtype="<f4").tobytes()
    valid = np.packbits(motion.valid.cpu().numpy()).tobytes()
    parts = (layout, tags, len(motion), motion.persons, joints, valid)
    return Record(_checksum(*parts), *parts)


def decode(record: Record, said: str) -> Motion:
    """The motion of a record. DataError that begins with ``said`` if anything is not as it was written."""
    try:
        found = _checksum(
            record.layout, record.tags, record.frames, record.persons, record.joints, record.valid
        )
        if found != record.checksum:
            raise DataError(f"its checksum is {found[:12]}..., written was {str(record.checksum)[:12]}...")
        layout = Layout.from_dict(json.loads(record.layout))
        shape = (record.frames, record.persons, len(layout))
        joints = np.frombuffer(record.joints, "<f4").reshape(*shape, 3)
        bits = np.frombuffer(record.valid, np.uint8)
        if len(bits) != (math.prod(shape) + 7) // 8:
            raise DataError(f"{len(bits)} bytes of mask for shape {shape}")
        valid = np.unpackbits(bits, count=math.prod(shape)).astype(np.bool_).reshape(shape)
        tags = json.loads(record.tags)
        if tags.keys() != _KINDS.keys() or not all(_fits(key, value) for key, value in tags.items()):
            raise DataError(f"unexpected tags {record.tags[:80]}")
        return Motion(joints, layout, valid=valid, **tags)
    except (JeanieError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise DataError(f"{said} is damaged: {error}") from None


def as_json(value: Any, bound: int) -> str:
    """A value as JSON, keys sorted, ASCII only; ValueError or TypeError where it has none within ``bound``."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    if len(text) > bound:
        raise ValueError(f"{len(text)} characters of JSON, at most {bound} are kept")
    return text


def _tag(motion: Motion, key: str, said: str) -> Any:
    """A tag as Python's own text or number, also where it was one of numpy's."""
    value = getattr(motion, key)
    if isinstance(value, str):
        value = str(value)
    elif isinstance(value, numbers.Integral):
        value = int(value)
    if not _fits(key, value):
        kinds = " or ".join(kind.__name__ for kind in _KINDS[key])
        raise DataError(f"{said}: {key} is {kinds} or None, got {value!r}; give motion.replace({key}=...)")
    return value


def _fits(key: str, value: Any) -> bool:
    return value is None or type(value) in _KINDS[key]


def _checksum(layout: str, tags: str, frames: int, persons: int, joints: bytes, valid: bytes) -> str:
    """SHA-256 of all parts, each behind its length, so that no byte can pass from one to the next."""
    digest = hashlib.sha256()
    for part in (layout.encode(), tags.encode(), f"{frames} {persons}".encode(), joints, valid):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()
