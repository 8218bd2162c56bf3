"""Sheets that list recordings: CSV, TSV or Excel with the columns file, label, subject, camera, take, start, end."""

import csv
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from jeanie.datasets.clip_names import Tags
from jeanie.datasets.formats.csv_header import has_point_titles, normalise_title
from jeanie.datasets.formats.npz import ZIP_ERRORS
from jeanie.datasets.formats.rows import open_lines
from jeanie.datasets.formats.safe_xml import parse_xml
from jeanie.errors import DataError

__all__ = ["SHEET_ENDINGS", "SheetRow", "has_file_column", "is_sheet", "read_sheet"]

SHEET_ENDINGS = (".csv", ".tsv", ".xlsx")
MAX_ROWS = 2**20
MAX_SHEETS = 50
MAX_SHEET_BYTES = 2**27
MAX_TITLE_ROWS = 20  # rows before the titles of the columns
# column -> titles that people give it, in snake case
_TITLES = {
    "file": ("file", "path", "filename", "file_name", "file_path", "filepath", "recording", "datei", "dateiname"),
    "label": ("label", "action", "class", "category", "movement", "klasse", "bewegung"),
    "subject": ("subject", "person", "participant", "subject_id", "proband"),
    "camera": ("camera", "view", "kamera"),
    "take": ("take", "trial", "repetition"),
    "start": ("start", "start_s", "start_time", "begin", "from"),
    "end": ("end", "end_s", "end_time", "stop", "to"),
}  # fmt: skip
_COLUMNS = {title: column for column, titles in _TITLES.items() for title in titles}


@dataclass(frozen=True)
class SheetRow:
    """One recording of a sheet: its file, its tags, and start and end in seconds, None for those of the file."""

    file: str
    tags: Tags
    cut: tuple[float | None, float | None]


def read_sheet(path: str | Path) -> list[SheetRow]:
    """Read a sheet. An empty cell is unknown.

    Raises:
        DataError: The sheet cannot be read, has no column file, or a cell is invalid; the message names the row.
    """
    path = Path(path)
    rows = _read_excel(path) if path.suffix.lower() == ".xlsx" else _read_csv(path)
    title_row, titles = _find_titles(path, rows)
    sheet_rows = []
    for number, row in enumerate(rows, title_row + 1):
        cells = {
            title: cell.strip() for title, cell in zip(titles, row, strict=False) if title and cell.strip()
        }
        if not cells:
            continue
        if "file" not in cells:
            raise DataError(f"{path}, row {number}: no file")
        sheet_rows.append(_parse_row(f"{path}, row {number}", cells))
    if not sheet_rows:
        raise DataError(f"{path}: lists no recordings")
    return sheet_rows


def is_sheet(path: str | Path) -> bool:
    """Return whether a file lists recordings: a table with a column ``file``, or an Excel sheet."""
    path = Path(path)
    if not path.is_file() or not path.name.lower().endswith(SHEET_ENDINGS):
        return False
    if path.suffix.lower() == ".xlsx":
        return True
    try:
        with open_lines(path) as lines:
            if has_point_titles(path, lines):  # a recording, whose facts may name its file
                return False
        return any(has_file_column(row) for row in islice(_read_csv(path), MAX_TITLE_ROWS))
    except DataError:
        return False


def has_file_column(titles: Sequence[str]) -> bool:
    """Return whether one of the titles names the files of a sheet.

    >>> has_file_column(["Datei", "Klasse"]), has_file_column(["head_x", "head_y"])
    (True, False)
    """
    return "file" in _name_columns(titles)


def _name_columns(titles: Sequence[str]) -> list[str]:
    """Return the column that each title stands for, "" for another; only the first of two is used."""
    names = [_COLUMNS.get(normalise_title(title)[0], "") for title in titles]
    return [name if name not in names[:at] else "" for at, name in enumerate(names)]


def _find_titles(path: Path, rows: Iterator[list[str]]) -> tuple[int, list[str]]:
    """Return the number of the row with the titles of the columns, and the column of each."""
    first: list[str] = []
    for number, row in enumerate(islice(rows, MAX_TITLE_ROWS), 1):
        if has_file_column(row):
            return number, _name_columns(row)
        first = first or [cell for cell in row if cell.strip()]
    raise DataError(
        f"{path}: a sheet needs a column file; its columns are file, label, subject, camera, take, start, end; this "
        f"one starts with {', '.join(first)[:99] or 'nothing'}"
    )


def _parse_row(where: str, cells: dict[str, str]) -> SheetRow:
    take = cells.get("take")
    if take is not None and not re.fullmatch(r"\d{1,9}(?:\.0*)?", take):
        raise DataError(f"{where}: take is a number, got {take[:40]!r}")
    tags = Tags(
        label=cells.get("label"),
        subject=cells.get("subject"),
        view=cells.get("camera"),
        take=None if take is None else int(float(take)),
    )
    return SheetRow(
        cells["file"], tags, (_parse_seconds(where, cells, "start"), _parse_seconds(where, cells, "end"))
    )


def _parse_seconds(where: str, cells: dict[str, str], key: str) -> float | None:
    if key not in cells:
        return None
    try:
        value = float(cells[key].replace(",", "."))
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e9:
        raise DataError(f"{where}: {key} is in seconds, got {cells[key][:40]!r}")
    return value


def _read_csv(path: Path) -> Iterator[list[str]]:
    with open_lines(path) as lines:
        head = list(islice(lines, MAX_TITLE_ROWS))
        delimiter = max(",;\t", key=lambda sign: max((line.count(sign) for line in head), default=0))
        try:
            for number, row in enumerate(csv.reader(chain(head, lines), delimiter=delimiter)):
                if number > MAX_ROWS:
                    raise DataError(f"{path}: more than {MAX_ROWS} rows")
                yield row
        except csv.Error as error:
            raise DataError(f"{path}: {error}") from None


def _read_excel(path: Path) -> Iterator[list[str]]:
    """Yield the rows of the first sheet of an Excel file that has a column of files, as text."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            sheets = sorted(name for name in names if re.fullmatch(r"xl/worksheets/sheet\d+\.xml", name))
            if not sheets:
                raise DataError(f"{path}: not an Excel file: it has no sheet")
            sheets.sort(key=lambda name: int(re.sub(r"\D", "", name)))
            has_texts = "xl/sharedStrings.xml" in names
            texts = _parse_shared_texts(path, archive) if has_texts else []
            tables = (_parse_sheet(path, archive, sheet, texts) for sheet in sheets[:MAX_SHEETS])
            first = next(tables)
            yield from next(
                (
                    table
                    for table in chain((first,), tables)
                    if any(map(has_file_column, table[:MAX_TITLE_ROWS]))
                ),
                first,
            )
    except ZIP_ERRORS as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path}: not a readable Excel file: {str(error)[:120]}") from None


def _parse_shared_texts(path: Path, archive: zipfile.ZipFile) -> list[str]:
    texts: list[str] = []

    def start(name: str, attributes: dict[str, str]) -> bool:
        if name == "si":
            texts.append("")
        return name == "t"

    def end(name: str, text: str) -> None:
        if texts:
            texts[-1] += text

    _parse_member(path, archive, "xl/sharedStrings.xml", start, end)
    return texts


def _parse_sheet(path: Path, archive: zipfile.ZipFile, member: str, texts: list[str]) -> list[list[str]]:
    rows: list[list[str]] = []
    place: dict[str, Any] = {"column": 0, "kind": ""}

    def start(name: str, attributes: dict[str, str]) -> bool:
        if name == "row":
            rows.append([])
        elif name == "c":
            letters = re.sub(r"[^A-Z]", "", attributes.get("r", ""))[:3]
            column = 0
            for letter in letters:
                column = 26 * column + ord(letter) - 64
            place.update(
                column=column - 1 if letters else len(rows[-1]) if rows else 0, kind=attributes.get("t", "n")
            )
        return name in ("v", "t")

    def end(name: str, text: str) -> None:
        column = int(place["column"])
        if not rows or column > 255:
            return
        if place["kind"] == "s" and name == "v":
            text = texts[int(text)] if text.isdecimal() and int(text) < len(texts) else ""
        rows[-1] += [""] * (column + 1 - len(rows[-1]))
        rows[-1][column] += text

    _parse_member(path, archive, member, start, end)
    return rows


def _parse_member(
    path: Path,
    archive: zipfile.ZipFile,
    member: str,
    start: Callable[[str, dict[str, str]], bool],
    end: Callable[[str, str], None],
) -> None:
    with archive.open(member) as file:
        parse_xml(
            path, file, on_start=start, on_end=end, max_bytes=MAX_SHEET_BYTES, max_elements=8 * MAX_ROWS
        )
