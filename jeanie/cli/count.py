"""``jeanie count``: count the repetitions of an exercise in recordings."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from jeanie.cli.example_part import ExamplePart, select_part
from jeanie.cli.options import SkipBad, accept_option_groups, name_motion, read_motions
from jeanie.cli.terminal import AsJson, exit_on_error, print_report
from jeanie.datasets import ReadOptions
from jeanie.recogniser.exercise.repetitions import CountConfig, RepetitionCount
from jeanie.recogniser.exercise.repetitions import count as count_in

__all__ = ["count"]


@accept_option_groups
def count(
    example: Annotated[Path, typer.Argument(help="Recording of one repetition, or of several.")],
    recordings: Annotated[list[Path], typer.Argument(metavar="RECORDING...", help="Recordings to count in.")],
    part: ExamplePart = None,
    repetitions: Annotated[
        int | None,
        typer.Option(min=1, help="Repetitions in the example (default: estimated from its period)."),
    ] = None,
    complete: Annotated[
        float,
        typer.Option(
            min=0.05, max=2, help="Amplitude, relative to the example, below which a repetition is partial."
        ),
    ] = 0.6,
    skip_bad: SkipBad = False,
    as_json: AsJson = False,
    *,
    options: ReadOptions,
) -> None:
    """Count the repetitions of an exercise: start, end, tempo and range of motion of each."""
    with exit_on_error(as_json):
        example_motion = select_part(name_motion(options.read(example), example), part)
        config = CountConfig(repetitions=repetitions, complete=complete)
        motions, skipped = read_motions(recordings, options, skip_bad=skip_bad)
        counts = [(str(motion.name), count_in(example_motion, motion, config)) for motion in motions]
        facts = [{"file": file} | result.json() for file, result in counts]
        parts: list[str | Table] = []
        for file, result in counts:
            parts += [f"{file}: {result.text}", _build_table(result)]
        print_report({"recordings": facts}, parts, as_json, skipped)


def _build_table(result: RepetitionCount) -> Table | str:
    """Return one row per repetition with the joints that move most."""
    if not result.repetitions:
        return ""
    table = Table("", box=None, pad_edge=False)
    for name in ("from", "to", "tempo", "amplitude"):
        table.add_column(name, justify="right")
    table.add_column("largest ranges of motion")
    for number, repetition in enumerate(result.repetitions, start=1):
        start, end = repetition.seconds
        ranges = sorted(
            ((high - low, name) for name, (low, high) in repetition.ranges.items()), reverse=True
        )[:3]
        moved = ", ".join(f"{name.replace('_', ' ')} {size:.0f}°" for size, name in ranges)
        size = f"{100 * repetition.amplitude:.0f} %" + " partial" * repetition.is_partial
        table.add_row(
            str(number), f"{start:.2f} s", f"{end:.2f} s", f"{repetition.tempo:.2f}", size, escape(moved)
        )
    return table
