"""``jeanie score``: score a performance against references."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from jeanie.cli.options import accept_option_groups, name_motion
from jeanie.cli.terminal import AsJson, exit_on_error, print_report
from jeanie.datasets import ReadOptions
from jeanie.recogniser.exercise.score import Score, ScoreConfig
from jeanie.recogniser.exercise.score import score as score_motion

__all__ = ["score"]

_ASYMMETRY = 10.0  # degrees beyond that of the reference


@accept_option_groups
def score(
    example: Annotated[Path, typer.Argument(help="Reference performance.")],
    recording: Annotated[Path, typer.Argument(help="Performance to score.")],
    reference: Annotated[
        list[Path] | None,
        typer.Option("--reference", help="Another reference performance; repeatable."),
    ] = None,
    tolerance: Annotated[
        float, typer.Option(min=0, max=180, help="Degrees that a joint may deviate without loss of points.")
    ] = 10.0,
    tempo: Annotated[
        float,
        typer.Option(
            min=1, help="Factor by which a performance may be slower or faster without loss of points."
        ),
    ] = 2.2,
    other_side: Annotated[
        bool,
        typer.Option(
            "--other-side", help="Score the mirror image of the performance: left and right exchanged."
        ),
    ] = False,
    html: Annotated[
        Path | None, typer.Option(help="Write an HTML page that plays both performances in step.")
    ] = None,
    as_json: AsJson = False,
    *,
    options: ReadOptions,
) -> None:
    """Score a performance from 0 to 100: the joints and phases that cost points, angles, symmetry and tempo."""
    with exit_on_error(as_json):
        references = [name_motion(options.read(file), file) for file in (example, *(reference or ()))]
        motion = name_motion(options.read(recording), recording)
        config = ScoreConfig(tolerance=tolerance, tempo=tempo)
        result = score_motion(references, motion.mirror() if other_side else motion, config)
        page = {} if html is None else {"page": str(result.write_html(html))}
        notes = [_describe_symmetry(result), "" if html is None else f"{html}: page of both performances"]
        names = {"file": str(recording), "reference": [str(motion.name) for motion in references]}
        print_report(names | result.json() | page, [result.text, _build_table(result), *notes], as_json)


def _build_table(result: Score) -> Table:
    """Return one row per joint: points, deviation, and range of motion beside that of the reference."""
    table = Table("joint", box=None, pad_edge=False)
    for name in ("points lost", "deviation", "range of motion", "reference"):
        table.add_column(name, justify="right")
    for joint in result.joints:
        ranges = [side.get(joint.joint) for side in (result.angles, result.reference_angles)]
        cells = ["" if pair is None else f"{pair[1] - pair[0]:.0f}°" for pair in ranges]
        table.add_row(joint.joint.replace("_", " "), f"{joint.points:.1f}", f"{joint.degrees:.0f}°", *cells)
    return table


def _describe_symmetry(result: Score) -> str:
    """Return the joints whose left and right ranges of motion differ more than in the reference, or nothing."""
    parts = [
        f"{pair.joint} left {pair.left:.0f}°, right {pair.right:.0f}° "
        f"(reference {pair.reference_left:.0f}° and {pair.reference_right:.0f}°)"
        for pair in sorted(result.asymmetries, key=lambda pair: -abs(pair.difference))
        if abs(pair.difference) >= _ASYMMETRY
    ]
    return f"left and right differ from the reference: {'; '.join(parts)}" if parts else ""
