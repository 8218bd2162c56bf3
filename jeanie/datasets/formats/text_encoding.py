"""Encodings of text files: UTF-8, UTF-16 as Excel and Windows programs write it, and Windows-1252."""

import codecs

__all__ = ["convert_to_utf8", "detect_encoding"]

_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


def detect_encoding(head: bytes) -> str:
    """Detect the encoding of a text from its first bytes: by its mark, or by the zero bytes of UTF-16.

    Bytes that are not valid UTF-8 are taken for Windows-1252, in which old programs write umlauts and accents.

    >>> [detect_encoding("Hüfte_x,1".encode(name)) for name in ("utf-8", "utf-16-le", "utf-16-be", "cp1252")]
    ['utf-8', 'utf-16-le', 'utf-16-be', 'cp1252']
    """
    marked = next((name for mark, name in _MARKS if head.startswith(mark)), None)
    if marked is not None:
        return marked
    start = head[:256]
    even, odd = start[0::2].count(0), start[1::2].count(0)
    if odd > len(start) // 4 and not even:
        return "utf-16-le"
    if even > len(start) // 4 and not odd:
        return "utf-16-be"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return "utf-8" if 0 in head else "cp1252"
    return "utf-8"


def convert_to_utf8(data: bytes) -> bytes:
    """Return text in UTF-16 as UTF-8; remove the mark of UTF-8. Other bytes stay.

    >>> convert_to_utf8("a,b".encode("utf-16"))
    b'a,b'
    """
    encoding = detect_encoding(data[:4096])
    if encoding == "utf-8-sig":
        return data[len(codecs.BOM_UTF8) :]
    return data.decode(encoding, "replace").encode() if encoding.startswith("utf-16") else data
