"""``jeanie setups``: height and distance of the cameras of a data set."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from jeanie.cli.terminal import AsJson, exit_on_error, show_progress
from jeanie.datasets import open_dataset
from jeanie.evaluation.protocols.camera_heights import TABLE, measure_setups, write_setups

__all__ = ["setups"]


def setups(
    name: Annotated[str, typer.Argument(help="Data set with camera setups: ntu60 or ntu120.")],
    root: Annotated[Path, typer.Argument(help="Folder or archive of the data set.")],
    out: Annotated[
        Path | None,
        typer.Argument(help="CSV file to write: setup, height, distance (default: setups.csv beside ROOT)."),
    ] = None,
    clips: Annotated[int, typer.Option(min=1, help="Number of clips to measure per setup.")] = 200,
    as_json: AsJson = False,
) -> None:
    """Estimate the camera height and distance of every setup from the recorded people.

    Protocols use the published values of setups 1 to 17, and this table for the others.
    """
    with exit_on_error(as_json):
        out = root.absolute().with_name(TABLE) if out is None else out
        with show_progress(not as_json) as bar:
            positions = measure_setups(open_dataset(name, root), clips, bar)
        write_setups(positions, out)
        rows = [
            {
                "setup": setup,
                "height": round(place.height, 3),
                "distance": round(place.distance, 3),
                "tilt": round(place.tilt, 1),
                "clips": place.clips,
            }
            for setup, place in positions.items()
        ]
        typer.echo(json.dumps({"table": str(out), "setups": rows}) if as_json else _format_setups(rows, out))


def _format_setups(rows: list[dict[str, Any]], out: Path) -> str:
    lines = [
        f"setup {row['setup']}: {row['height']:.2f} m high, {row['distance']:.2f} m away, looking down by "
        f"{row['tilt']:.0f} degrees ({row['clips']} clips)"
        for row in rows
    ]
    return "\n".join([*lines, f"written to {out}"])
