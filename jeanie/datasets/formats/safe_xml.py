"""XML from untrusted files: no document types, so no entities, and limits on depth, elements and text."""

from collections.abc import Callable
from io import BufferedIOBase
from pathlib import Path
from typing import IO
from xml.parsers import expat

from jeanie.datasets.formats.files import read_chunks
from jeanie.errors import DataError

__all__ = ["parse_xml"]

MAX_DEPTH = 64
MAX_TEXT = 2**20  # characters of one element


def parse_xml(
    path: Path,
    file: IO[bytes] | BufferedIOBase,
    *,
    on_start: Callable[[str, dict[str, str]], bool],
    on_end: Callable[[str, str], None],
    max_bytes: int,
    max_elements: int,
) -> None:
    """Parse an XML file; names of elements come without their name space.

    Args:
        path: The file, for error messages.
        file: Its content.
        on_start: Called with name and attributes of every element; returns whether its text is wanted.
        on_end: Called with name and text at the end of the elements whose text is wanted.
        max_bytes: Largest size of the content.
        max_elements: Largest number of elements.

    Raises:
        DataError: The file is not XML, declares a document type, or exceeds a limit.
    """
    open_elements: list[list[str] | None] = []
    sizes: list[int] = []
    count = 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1
        if count > max_elements or len(open_elements) >= MAX_DEPTH:
            raise DataError(f"{path}: more than {max_elements} elements, or more than {MAX_DEPTH} levels")
        open_elements.append([] if on_start(name.rpartition(" ")[2], attributes) else None)
        sizes.append(0)

    def end(name: str) -> None:
        text = open_elements.pop()
        sizes.pop()
        if text is not None:
            on_end(name.rpartition(" ")[2], "".join(text))

    def add_text(text: str) -> None:
        parts = open_elements[-1] if open_elements else None
        if parts is not None:
            sizes[-1] += len(text)
            if sizes[-1] > MAX_TEXT:
                raise DataError(f"{path}: more than {MAX_TEXT} characters in one element")
            parts.append(text)

    def refuse(*_: object) -> None:
        raise DataError(
            f"{path}: declares a document type, which a recording does not need; remove <!DOCTYPE ...>"
        )

    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = add_text, refuse
    try:
        too_large = f"{path}: larger than {max_bytes} bytes, too much for one recording; cut it into clips"
        for chunk in read_chunks(file.read, max_bytes, too_large):
            parser.Parse(chunk, False)
        parser.Parse(b"", True)
    except (expat.ExpatError, ValueError, LookupError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path}, line {parser.CurrentLineNumber}: not XML: {str(error)[:120]}") from None
