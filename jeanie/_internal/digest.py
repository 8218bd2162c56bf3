"""Content digests. Files, libraries and caches store these values: never change how they are computed."""

import base64
import hashlib
import json
import zlib
from collections.abc import Iterable
from typing import Any

__all__ = ["compute_crc32", "hash_bytes", "hash_fields", "hash_json", "hash_script"]


def hash_bytes(*parts: bytes | str) -> str:
    """Return the SHA-256 of the concatenated parts in 64 hex digits; text counts as UTF-8.

    >>> hash_bytes(b"ab", "c") == hash_bytes("abc")
    True
    """
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode() if isinstance(part, str) else part)
    return digest.hexdigest()


def hash_fields(fields: Iterable[bytes]) -> str:
    """Return the SHA-256 of fields, each after its length: ("ab", "c") and ("a", "bc") differ."""
    return hash_bytes(*(part for field in fields for part in (len(field).to_bytes(8, "little"), field)))


def hash_json(value: Any) -> str:
    """Return the SHA-256 of a value as JSON with sorted keys."""
    return hash_bytes(json.dumps(value, sort_keys=True))


def hash_script(text: str) -> str:
    """Return the hash of an inline script as a Content-Security-Policy expects it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def compute_crc32(*parts: bytes | memoryview) -> int:
    """Return the CRC-32 of the concatenated parts."""
    value = 0
    for part in parts:
        value = zlib.crc32(part, value)
    return value
