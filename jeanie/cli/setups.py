"""``jeanie setups``: how high and how far away the cameras of a data set stood."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from jeanie.datasets import open_dataset
from jeanie.experiments.protocols.heights import measure_setups, write_setups
from jeanie.terminal import AsJson, progress, reported

__all__ = ["setups"]


def setups(
    name: Annotated[str, typer.Argument(help="Data set whose clips name their setup: ntu60, ntu120.")],
    root: Annotated[Path, typer.Argument(help="Its folder, or an archive of it.")],
    out: Annotated[Path, typer.Argument(help="Table to write, CSV with setup, height, distance.")],
    clips: Annotated[int, typer.Option(min=1, help="Clips to measure in every setup.")] = 200,
    as_json: AsJson = False,
) -> None:
    """Measure the height and distance of the cameras of every setup from the people before them."""
    with reported(as_json):
        with progress(not as_json) as bar:
            found = measure_setups(open_dataset(name, root), clips, bar)
        write_setups(found, out)
        rows = [
            {
                "setup": setup,
                "height": round(place.height, 3),
                "distance": round(place.distance, 3),
                "tilt": round(place.tilt, 1),
                "clips": place.clips,
            }
            for setup, place in found.items()
        ]
        typer.echo(json.dumps({"table": str(out), "setups": rows}) if as_json else _places(rows, out))


def _places(rows: list[dict[str, Any]], out: Path) -> str:
    lines = [
        f"setup {row['setup']}: {row['height']:.2f} m high, {row['distance']:.2f} m away, looking down by "
        f"{row['tilt']:.0f} degrees ({row['clips']} clips)"
        for row in rows
    ]
    return "\n".join([*lines, f"written to {out}"])
