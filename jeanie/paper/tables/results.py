"""Stored measurements: the predictions as tensors, and a description that is written last and atomically."""

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save

from jeanie._internal.files import write_atomically
from jeanie.errors import DataError
from jeanie.evaluation.predict import Predictions
from jeanie.evaluation.report.report import Report
from jeanie.paper.tables.cells import Cell

__all__ = [
    "Failure",
    "Result",
    "describe_machine",
    "get_cell_folder",
    "is_stored",
    "read_failure",
    "read_result",
    "write_failure",
    "write_result",
]

FORMAT = 1
_RESULT, _PREDICTIONS, _FAILURE = "result.json", "predictions.safetensors", "failure.json"
_REPORT_FIELDS = (
    "protocol",
    "method",
    "classes",
    "names",
    "way",
    "shot",
    "rule",
    "seeds",
    "commit",
    "versions",
    "date",
    "class_names",
)


@dataclass(frozen=True)
class Result:
    """A report, the seconds of search, training and testing, the machine, and the searched values."""

    report: Report
    seconds: float
    machine: Mapping[str, Any]
    searched: Mapping[str, Any]


@dataclass(frozen=True)
class Failure:
    """The reason why a measurement failed."""

    reason: str


def get_cell_folder(out: Path, cell: Cell) -> Path:
    """Return the folder of a measurement."""
    return out / "cells" / cell.key


def is_stored(out: Path, cell: Cell) -> bool:
    """Return whether a measurement is stored."""
    return (get_cell_folder(out, cell) / _RESULT).exists()


def describe_machine() -> dict[str, Any]:
    """Return processor, cores and system of this machine, but not its name."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(errors="replace").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def write_result(
    out: Path, cell: Cell, report: Report, seconds: float, searched: Mapping[str, Any] | None = None
) -> None:
    """Store a measurement and remove a stored failure."""
    folder = get_cell_folder(out, cell)
    folder.mkdir(parents=True, exist_ok=True)
    groups = {"": report.predictions, **report.variants}
    tensors = {
        f"{number}.{field.name}": getattr(rows, field.name).contiguous()
        for number, rows in enumerate(groups.values())
        for field in fields(Predictions)
    }
    description = {
        "format": FORMAT,
        "cell": cell.model_dump(mode="json"),
        "report": {name: _to_json(getattr(report, name)) for name in _REPORT_FIELDS},
        "variants": list(report.variants),
        "accuracy": report.accuracy,
        "ci95": report.ci95,
        "seconds": round(seconds, 3),
        "machine": describe_machine(),
        "searched": dict(searched or {}),
    }
    write_atomically(folder / _PREDICTIONS, save(tensors))
    write_atomically(folder / _RESULT, (json.dumps(description, indent=1) + "\n").encode())
    (folder / _FAILURE).unlink(missing_ok=True)


def _to_json(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value


def read_result(out: Path, cell: Cell) -> Result | None:
    """Read a stored measurement; None if there is none.

    Raises:
        DataError: The files are damaged or of another version.
    """
    folder = get_cell_folder(out, cell)
    if not (folder / _RESULT).exists():
        return None
    try:
        description = json.loads((folder / _RESULT).read_bytes())
        if description["format"] != FORMAT:
            raise ValueError(f"format {description['format']!r}, this version reads {FORMAT}")
        tensors = load((folder / _PREDICTIONS).read_bytes())
        names = ["", *description["variants"]]
        groups = {
            name: Predictions(
                **{field.name: tensors[f"{number}.{field.name}"] for field in fields(Predictions)}
            )
            for number, name in enumerate(names)
        }
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in description["report"].items()
        }
        report = Report(predictions=groups.pop(""), variants=groups, **values)
        searched = description.get("searched", {})
        return Result(report, float(description["seconds"]), description["machine"], searched)
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise DataError(
            f"{folder}: not a measurement of this version: {error}; remove the folder to measure again"
        ) from None


def write_failure(out: Path, cell: Cell, failure: Failure) -> None:
    """Store the reason why a measurement failed."""
    folder = get_cell_folder(out, cell)
    folder.mkdir(parents=True, exist_ok=True)
    content = {"reason": failure.reason, "cell": cell.model_dump(mode="json")}
    write_atomically(folder / _FAILURE, (json.dumps(content, indent=1) + "\n").encode())


def read_failure(out: Path, cell: Cell) -> Failure | None:
    """Read the reason why the last attempt failed; None if it did not fail."""
    try:
        content = json.loads((get_cell_folder(out, cell) / _FAILURE).read_bytes())
        return Failure(str(content["reason"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
