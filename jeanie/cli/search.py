"""``jeanie find``, ``jeanie watch`` and ``jeanie align``: search recordings, follow them live, compare two."""

import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from jeanie.cli.library import ModelFolder, Place, default_library, named
from jeanie.datasets import DATASETS, open_dataset, read_motion
from jeanie.datasets.archive import is_archive, open_archive
from jeanie.datasets.dataset import Dataset
from jeanie.errors import ConfigError, JeanieError
from jeanie.fewshot.model import FewShotModel
from jeanie.recogniser.explanation import explain
from jeanie.recogniser.folder import arrivals, open_folder
from jeanie.recogniser.gallery import encoded
from jeanie.recogniser.lines import frames_of
from jeanie.recogniser.recogniser import Recogniser
from jeanie.recogniser.search import Found
from jeanie.recogniser.search import find as find_in
from jeanie.recogniser.stream import Event
from jeanie.terminal import AsJson, progress, reported, user_folder

__all__ = ["app", "opened"]

app = typer.Typer(add_completion=False)

Persons = Literal["together", "each"]


@app.command()
def find(
    example: Annotated[Path, typer.Argument(help="A recording of what to look for.")],
    archive: Annotated[
        str,
        typer.Argument(help="Where to look: an archive, a folder of recordings, a recording, a data set."),
    ],
    k: Annotated[int, typer.Option("--k", min=1, help="How many segments.")] = 10,
    part: Annotated[
        str | None, typer.Option("--part", help="Seconds of the example to look for, such as 2.5-4.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes that read the recordings.")] = 1,
    cache: Annotated[
        Path | None,
        typer.Option(help="Folder for what is known of the recordings; by default one of this user's."),
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out and list files that are bad.")
    ] = False,
    model: ModelFolder = None,
    as_json: AsJson = False,
) -> None:
    """Find the segments of many recordings that are most like an example. Started again after a stop, it goes on."""
    with reported(as_json):
        wanted = read_motion(example)
        if part is not None:
            wanted = wanted[_frames(part, wanted.rate or 30.0, len(wanted))]
        with progress(not as_json) as bar:
            found = find_in(
                FewShotModel.load(model), wanted, opened(archive), k,
                jobs=jobs, cache=cache or default_cache(), skip_bad=skip_bad, progress=bar,
            )  # fmt: skip
        typer.echo(json.dumps(_facts(found))) if as_json else _show(found)


@app.command()
def watch(
    source: Annotated[
        str, typer.Argument(help="Folder that recordings come into, or - for frames as JSON lines.")
    ],
    library: Place = None,
    each: Annotated[bool, typer.Option("--each", help="Follow every person alone.")] = False,
    long: Annotated[
        bool, typer.Option("--long", help="Recordings have more than one movement: find them.")
    ] = False,
    rate: Annotated[
        float | None, typer.Option(min=0.1, help="Frames a second, where the lines have no time.")
    ] = None,
    unknown: Annotated[
        bool, typer.Option("--unknown", help="Tell movements that fit no action, too.")
    ] = False,
    once: Annotated[
        bool, typer.Option("--once", help="End when all that is in the folder was looked at.")
    ] = False,
    every: Annotated[float, typer.Option(min=0.05, help="Seconds between two looks at the folder.")] = 1.0,
    model: ModelFolder = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object a line for each event.")
    ] = False,
) -> None:
    """Recognise movements as they happen: frames on standard input, or recordings as they come into a folder."""
    with reported(as_json):
        place = library or str(default_library())
        if "://" not in place and not Path(place).exists():
            raise ConfigError(f"{place}: no library there yet; jeanie enrol LABEL FILE... makes one")
        persons: Persons = "each" if each else "together"
        # who watches ends it by an interrupt
        with suppress(KeyboardInterrupt), Recogniser.load(place, model=model) as recogniser:
            if not recogniser.actions:
                raise ConfigError(f"{recogniser.library.place}: no actions yet; jeanie enrol LABEL FILE...")
            if source == "-":
                _watch_lines(recogniser, rate, persons, unknown, as_json)
                return
            files = arrivals(source, every=every, once=once)
            if _watch_folder(recogniser, files, long, persons, unknown, as_json):
                raise typer.Exit(1)


@app.command()
def align(
    one: Annotated[Path, typer.Argument(metavar="A", help="A recording, such as a teacher's.")],
    other: Annotated[Path, typer.Argument(metavar="B", help="The recording that is compared with it.")],
    html: Annotated[Path | None, typer.Option(help="Write a page that shows both in step.")] = None,
    model: ModelFolder = None,
    as_json: AsJson = False,
) -> None:
    """Say how movement B differs from movement A: the camera, the tempo, and the joints."""
    with reported(as_json):
        loaded, motions = FewShotModel.load(model), [read_motion(file) for file in (other, one)]
        for file, motion in zip((other, one), motions, strict=True):
            encoded(loaded, [named(motion, file)], "support")  # a single pose is no movement to speak of
        found = explain(loaded, *motions)
        if html is not None:
            found.write_html(html)
        if as_json:
            typer.echo(json.dumps(found.json() | ({} if html is None else {"page": str(html)})))
            return
        typer.echo(found.text)
        table = Table("joint", box=None, pad_edge=False)
        table.add_column("apart", justify="right")
        table.add_column("how")
        for joint in found.joints[:5]:
            size = f"{joint.percent:.1f} %" if joint.centimetres is None else f"{joint.centimetres:.1f} cm"
            name = ("whole body" if joint.joint == "path" else joint.joint).replace("_", " ")
            table.add_row(name, size, joint.words.removeprefix(name).strip())
        Console(highlight=False).print(table)
        if html is not None:
            typer.echo(f"{html}: the page that shows it")


def default_cache() -> Path:
    """The folder of this user for what can be computed again."""
    return user_folder("cache") / "search"


def opened(text: str) -> Dataset:
    """An archive, a folder or a file of recordings, or a data set by its name."""
    path = Path(text)
    if is_archive(path):
        return open_archive(path)
    if path.exists():
        return open_folder(path)
    if text == "synthetic" or text in DATASETS:
        return open_dataset(text)
    raise ConfigError(
        f"{text}: neither an archive, a folder or file of recordings, nor a data set; the data sets are "
        f"synthetic, {', '.join(DATASETS)}"
    )


def _frames(part: str, rate: float, frames: int) -> slice:
    """The frames of "2.5-4", in seconds."""
    first, dash, last = part.partition("-")
    try:
        start, end = float(first or 0), float(last) if last else frames / rate
    except ValueError:
        start, end, dash = 0.0, 0.0, ""
    cut = slice(round(start * rate), round(end * rate))
    if not dash or not isfinite(start + end) or not 0 <= cut.start < min(cut.stop, frames):
        raise ConfigError(
            f"--part is from-to in seconds within the {frames / rate:.1f} s of the example, got {part!r}"
        )
    return cut


def _facts(found: Found) -> dict[str, Any]:
    rows = [asdict(match) | {"seconds": match.seconds} for match in found]
    skipped = [{"name": name, "reason": reason} for name, reason in found.skipped]
    return {"windows": found.windows, "compared": found.compared, "matches": rows, "skipped": skipped}


def _show(found: Found) -> None:
    table = Table("clip", box=None, pad_edge=False)
    for name in ("from", "to", "distance"):
        table.add_column(name, justify="right")
    table.add_column("label")
    for match in found:
        unit, ends = ("s", match.seconds) if match.seconds else ("", (match.start, match.end))
        place = [f"{end:.2f} {unit}" if unit else str(end) for end in ends]
        label = "" if match.label is None else str(match.label)
        table.add_row(escape(match.name or str(match.clip)), *place, f"{match.distance:.4f}", escape(label))
    Console(highlight=False).print(table)
    share = 100 * found.compared / max(1, found.windows)
    typer.echo(f"{found.windows} windows, {share:.1f} % of them aligned", err=True)
    for name, reason in found.skipped:
        typer.echo(f"skipped {name}: {reason}", err=True)


def _watch_lines(
    recogniser: Recogniser, rate: float | None, persons: Persons, unknown: bool, as_json: bool
) -> None:
    """Events of frames on standard input, each as soon as it has ended."""
    stream, since = None, 0.0
    for arrived in frames_of(sys.stdin, rate):
        if arrived.anew:
            if stream is not None:
                _tell(stream.finish(), {}, since, unknown, as_json)
            stream, since = (
                recogniser.stream(arrived.layout, rate=arrived.rate, persons=persons),
                arrived.since,
            )
        assert stream is not None
        _tell(stream.push(arrived.joints), {}, since, unknown, as_json)
    if stream is not None:
        _tell(stream.finish(), {}, since, unknown, as_json)


def _watch_folder(
    recogniser: Recogniser, files: Iterator[Path], long: bool, persons: Persons, unknown: bool, as_json: bool
) -> int:
    """Answers for recordings as they come; how many of them could not be read."""
    bad = 0
    for file in files:
        about = {"file": file.name}
        try:
            motion = read_motion(file)
            if long:
                stream = recogniser.stream(persons=persons)
                _tell(stream.push(motion) + stream.finish(), about, 0.0, unknown, as_json)
                continue
            each, motion = persons == "each", named(motion, file)
            found = recogniser.recognise_each(motion) if each else [recogniser.recognise(motion)]
        except JeanieError as error:
            bad += 1
            typer.echo(
                json.dumps(about | {"error": str(error)}) if as_json else f"jeanie: {error}", err=not as_json
            )
            continue
        for person, one in enumerate(found):
            whose = about | ({"person": person} if each else {})
            if unknown or one.label is not None:
                _line(whose, one.label, one.confidence, one.distance, None, as_json)
    return bad


def _tell(events: list[Event], about: dict[str, Any], since: float, unknown: bool, as_json: bool) -> None:
    for event in events:
        if unknown or event.label is not None:
            whose = about | ({} if event.person is None else {"person": event.person})
            ends = (since + event.seconds[0], since + event.seconds[1])
            _line(whose, event.label, event.confidence, event.distance, ends, as_json)


def _line(
    about: dict[str, Any],
    label: str | None,
    confidence: float,
    distance: float,
    ends: tuple[float, float] | None,
    as_json: bool,
) -> None:
    """One answer on a line of its own, at once."""
    if as_json:
        when = {} if ends is None else {"start": round(ends[0], 3), "end": round(ends[1], 3)}
        far = {"distance": distance if isfinite(distance) else None}
        typer.echo(json.dumps(about | when | {"label": label, "confidence": round(confidence, 4)} | far))
    else:
        parts = [f"{key} {value}" if key == "person" else str(value) for key, value in about.items()]
        parts += [] if ends is None else [f"{ends[0]:8.2f} s to {ends[1]:8.2f} s"]
        typer.echo("  ".join([*parts, label or "unknown", f"{confidence:.2f}"]))
    sys.stdout.flush()
