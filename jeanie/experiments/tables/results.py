"""A measurement on disk: every prediction as tensors, and a description that is written last, whole or not at all."""

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save

from jeanie.errors import DataError
from jeanie.experiments.predictions import Predictions
from jeanie.experiments.reports.report import Report
from jeanie.experiments.tables.grid import Cell
from jeanie.fewshot.saving import write_atomically

__all__ = [
    "Failure",
    "Result",
    "folder_of",
    "machine",
    "read_failure",
    "read_result",
    "write_failure",
    "write_result",
]

FORMAT = 1
_RESULT, _PREDICTIONS, _FAILURE = "result.json", "predictions.safetensors", "failure.json"
_TOLD = (
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
)


@dataclass(frozen=True)
class Result:
    """A report with what it took: seconds of training and testing, and the machine."""

    report: Report
    seconds: float
    machine: Mapping[str, Any]


@dataclass(frozen=True)
class Failure:
    """Why a measurement could not be made; ``session`` is the call that tried."""

    reason: str
    session: str = ""


def folder_of(out: Path, cell: Cell) -> Path:
    """Where a measurement lies."""
    return out / "cells" / cell.key


def machine() -> dict[str, Any]:
    """What computes here: processor, cores, system; nothing that names the host."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(errors="replace").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def write_result(out: Path, cell: Cell, report: Report, seconds: float) -> None:
    """Keep a measurement; a failure that was kept before goes."""
    folder = folder_of(out, cell)
    folder.mkdir(parents=True, exist_ok=True)
    groups = {"": report.predictions, **report.variants}
    tensors = {
        f"{number}.{field.name}": getattr(rows, field.name).contiguous()
        for number, rows in enumerate(groups.values())
        for field in fields(Predictions)
    }
    described = {
        "format": FORMAT,
        "cell": cell.model_dump(mode="json"),
        "report": {name: _plain(getattr(report, name)) for name in _TOLD},
        "variants": list(report.variants),
        "accuracy": report.accuracy,
        "ci95": report.ci95,
        "seconds": round(seconds, 3),
        "machine": machine(),
    }
    write_atomically(folder / _PREDICTIONS, save(tensors))
    write_atomically(folder / _RESULT, (json.dumps(described, indent=1) + "\n").encode())
    (folder / _FAILURE).unlink(missing_ok=True)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value


def read_result(out: Path, cell: Cell) -> Result | None:
    """A measurement that was kept; None where there is none yet."""
    folder = folder_of(out, cell)
    if not (folder / _RESULT).exists():
        return None
    try:
        described = json.loads((folder / _RESULT).read_bytes())
        if described["format"] != FORMAT:
            raise ValueError(f"format {described['format']!r}, this version reads {FORMAT}")
        tensors = load((folder / _PREDICTIONS).read_bytes())
        names = ["", *described["variants"]]
        groups = {
            name: Predictions(
                **{field.name: tensors[f"{number}.{field.name}"] for field in fields(Predictions)}
            )
            for number, name in enumerate(names)
        }
        told: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in described["report"].items()
        }
        report = Report(predictions=groups.pop(""), variants=groups, **told)
        return Result(report, float(described["seconds"]), described["machine"])
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise DataError(
            f"{folder}: not a measurement of this version: {error}; remove the folder to measure again"
        ) from None


def write_failure(out: Path, cell: Cell, failure: Failure) -> None:
    """Keep why a measurement could not be made."""
    folder = folder_of(out, cell)
    folder.mkdir(parents=True, exist_ok=True)
    content = {"reason": failure.reason, "session": failure.session, "cell": cell.model_dump(mode="json")}
    write_atomically(folder / _FAILURE, (json.dumps(content, indent=1) + "\n").encode())


def read_failure(out: Path, cell: Cell) -> Failure | None:
    """Why the last attempt failed; None where none did."""
    try:
        content = json.loads((folder_of(out, cell) / _FAILURE).read_bytes())
        return Failure(str(content["reason"]), str(content["session"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
