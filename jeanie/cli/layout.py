"""``jeanie layout``: write a layout file from the names in a recording."""

from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from jeanie._internal.files import write_atomically
from jeanie.cli.terminal import AsJson, exit_on_error, print_report
from jeanie.datasets.joint_names import suggest_joints
from jeanie.datasets.layout_files import format_joint_list, format_layout_file
from jeanie.datasets.reading import collect_names
from jeanie.errors import ConfigError
from jeanie.skeleton import Motion
from jeanie.skeleton.plausibility import measure_body, suggest_unit

__all__ = ["layout"]


def layout(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="Recording with named joints or markers.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="Layout file to write, .toml (default: the name of the recording, beside it)."
        ),
    ] = None,
    form: Annotated[
        str | None, typer.Option("--format", help="File format (default: detected from name and content).")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing layout file.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a layout file for recordings like this one: unit, up axis, and which joint each name stands for.

    Check the file, complete the names that are not understood, and give it to other commands with --layout.
    """
    with exit_on_error(as_json):
        place = path.with_suffix(".toml") if out is None else out
        if place.suffix.lower() != ".toml":
            raise ConfigError(f"{place}: a layout file ends in .toml; give --out NAME.toml")
        if place.exists() and not force:
            raise ConfigError(f"{place}: exists; give another name with --out, or --force")
        motion, names = collect_names(path, form)
        suggested = suggest_joints(names)
        unit, up = _guess(motion)
        text = (
            format_layout_file(path, suggested, unit=unit, up=up, rate=motion.rate)
            if names
            else format_joint_list(path, motion.layout)
        )
        write_atomically(place, text.encode())
        unknown = [name for name, joint in suggested.items() if not joint]
        facts: dict[str, Any] = {
            "layout": str(place),
            "names": suggested,
            "unknown": unknown,
            "unit": unit,
            "up": up,
        }
        understood = f"{len(suggested) - len(unknown)} of {len(suggested)} names understood"
        in_order = (
            f"the recording has no names; the file lists the joints of layout {motion.layout.name!r} in order"
        )
        notes = [f"{place}: {understood if names else in_order}"]
        notes += [f"fill in: {', '.join(unknown)}"] if unknown else []
        print_report(facts, [*notes, f"then: jeanie info {path} --layout {place}"], as_json)


def _guess(motion: Motion) -> tuple[str | None, str | None]:
    """Return unit and up axis of a file by the size and posture of its body; None if unclear, or in an image.

    If the joints are unknown, the box around the points decides: it is longest along the axis of a standing body.
    ``motion`` has the numbers and axes of the file.
    """
    if motion.layout.dims == 2:
        return None, None
    facts = measure_body(motion)
    if facts.height is not None and facts.up is not None:
        return suggest_unit(facts.height), facts.up
    positions = torch.where(motion.valid[..., None], motion.joints, torch.nan)[:, 0]
    low, high = positions.nan_to_num(torch.inf).amin(1), positions.nan_to_num(-torch.inf).amax(1)
    size = (high - low)[(high > low).all(1)]
    if not len(size):
        return None, None
    box = size.median(0).values
    unit = suggest_unit(float(box.max()) if facts.height is None else facts.height)
    is_clear = float(box.max()) > 1.5 * float(box.median())
    return unit, facts.up or ("xyz"[int(box.argmax())] if is_clear else None)
