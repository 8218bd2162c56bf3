"""``jeanie count``: count the repetitions of an exercise in recordings."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from jeanie.cli.options import (
    SkipBad,
    accept_read_options,
    name_motion,
    print_skipped,
    read_motions,
    select_part,
)
from jeanie.cli.terminal import AsJson, exit_on_error, print_report
from jeanie.datasets import ReadOptions
from jeanie.recogniser.exercise.repetitions import CountConfig, RepetitionCount
from jeanie.recogniser.exercise.repetitions import count as count_in

__all__ = ["count"]


@accept_read_options
def count(
    example: Annotated[Path, typer.Argument(help="Recording of one repetition, or of several.")],
    recordings: Annotated[list[Path], typer.Argument(metavar="RECORDING...", help="Recordings to count in.")],
    part: Annotated[
        str | None,
        typer.Option("--part", help="Part of the example to use, in seconds, for example 2.5-4."),
    ] = None,
    repetitions: Annotated[
        int | None,
        typer.Option(min=1, help="Repetitions in the example (default: found from its period)."),
    ] = None,
    complete: Annotated[
        float,
        typer.Option(min=0.05, max=2, help="Amplitude relative to the example below which one is partial."),
    ] = 0.6,
    skip_bad: SkipBad = False,
    as_json: AsJson = False,
    *,
    options: ReadOptions,
) -> None:
    """Count the repetitions of an exercise: start, end, tempo and range of motion of each."""
    with exit_on_error(as_json):
        one = select_part(name_motion(options.read(example), example), part)
        config = CountConfig(repetitions=repetitions, complete=complete)
        motions, skipped = read_motions(recordings, options, skip_bad=skip_bad)
        found = {str(motion.name): count_in(one, motion, config) for motion in motions}
        facts = [{"file": file} | result.json() for file, result in found.items()]
        parts: list[str | Table] = []
        for file, result in found.items():
            parts += [f"{file}: {result.text}", _build_table(result)]
        print_report({"recordings": facts} | ({"skipped": skipped} if skipped else {}), parts, as_json)
        if not as_json:
            print_skipped(skipped)


def _build_table(found: RepetitionCount) -> Table | str:
    """Return one row per repetition with the joints that move most."""
    if not found.repetitions:
        return ""
    table = Table("", box=None, pad_edge=False)
    for name in ("from", "to", "tempo", "amplitude"):
        table.add_column(name, justify="right")
    table.add_column("largest ranges of motion")
    for number, one in enumerate(found.repetitions, start=1):
        start, end = one.seconds
        ranges = sorted(((high - low, name) for name, (low, high) in one.ranges.items()), reverse=True)[:3]
        moved = ", ".join(f"{name.replace('_', ' ')} {size:.0f}°" for size, name in ranges)
        size = f"{100 * one.amplitude:.0f} %" + " partial" * one.is_partial
        table.add_row(str(number), f"{start:.2f} s", f"{end:.2f} s", f"{one.tempo:.2f}", size, escape(moved))
    return table
