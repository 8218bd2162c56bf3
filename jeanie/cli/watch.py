"""``jeanie watch``: recognise movements live, from standard input or a folder."""

import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from jeanie.cli.live_count import count_in_folder, count_live
from jeanie.cli.options import (
    EncoderPaths,
    MetricPaths,
    ModelFolder,
    Place,
    default_library,
    load_model,
    name_motion,
)
from jeanie.cli.terminal import exit_on_error
from jeanie.datasets import read_motion
from jeanie.datasets.folders import watch_folder
from jeanie.errors import ConfigError, JeanieError
from jeanie.recogniser.recogniser import Recogniser
from jeanie.recogniser.stream.frames import read_frames
from jeanie.recogniser.stream.stream import Event

__all__ = ["watch"]

Persons = Literal["together", "each"]


def watch(
    source: Annotated[
        str,
        typer.Argument(
            help="Folder to watch for new recordings, or - for frames as JSON lines on standard input."
        ),
    ],
    library: Place = None,
    each: Annotated[bool, typer.Option("--each", help="Recognise each person separately.")] = False,
    long: Annotated[
        bool, typer.Option("--long", help="Recordings hold several movements: find each of them.")
    ] = False,
    rate: Annotated[
        float | None, typer.Option(min=0.1, help="Frames per second, if the lines carry no time.")
    ] = None,
    unknown: Annotated[
        bool, typer.Option("--unknown", help="Also print movements that match no enrolled action.")
    ] = False,
    count: Annotated[
        str | None,
        typer.Option(
            "--count", metavar="ACTION", help="Count the repetitions of this enrolled action instead."
        ),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Stop when all recordings in the folder are done.")
    ] = False,
    every: Annotated[float, typer.Option(min=0.05, help="Seconds between two scans of the folder.")] = 1.0,
    model: ModelFolder = None,
    encoders: EncoderPaths = None,
    metrics: MetricPaths = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per line and event.")
    ] = False,
) -> None:
    """Recognise movements live, from frames on standard input or from recordings that arrive in a folder."""
    with exit_on_error(as_json):
        place = library or str(default_library())
        if "://" not in place and not Path(place).exists():
            raise ConfigError(f"{place}: no library there; create one with: jeanie enrol LABEL FILE...")
        persons: Persons = "each" if each else "together"
        # Ctrl-C is the normal way to stop
        loaded = load_model(model, encoders, metrics)
        with suppress(KeyboardInterrupt), Recogniser.load(place, model=loaded) as recogniser:
            if not recogniser.actions:
                raise ConfigError(
                    f"{recogniser.library.place}: no actions yet; add one with: jeanie enrol LABEL FILE..."
                )
            if count is not None and source == "-":
                count_live(recogniser.list_examples(count), rate, as_json)
                return
            if source == "-":
                _watch_lines(recogniser, rate, persons, unknown, as_json)
                return
            files = watch_folder(source, every=every, once=once)
            bad = (
                _watch_folder(recogniser, files, long, persons, unknown, as_json)
                if count is None
                else count_in_folder(recogniser, count, files, as_json)
            )
            if bad:
                raise typer.Exit(1)


def _watch_lines(
    recogniser: Recogniser, rate: float | None, persons: Persons, unknown: bool, as_json: bool
) -> None:
    """Print the events in frames on standard input, each as soon as it ends."""
    stream, since = None, 0.0
    for arrived in read_frames(sys.stdin, rate):
        if arrived.is_new_stream:
            if stream is not None:
                _print_events(stream.finish(), {}, since, unknown, as_json)
            stream, since = (
                recogniser.stream(arrived.layout, rate=arrived.rate, persons=persons),
                arrived.start_time,
            )
        assert stream is not None
        _print_events(stream.push(arrived.joints), {}, since, unknown, as_json)
    if stream is not None:
        _print_events(stream.finish(), {}, since, unknown, as_json)


def _watch_folder(
    recogniser: Recogniser, files: Iterator[Path], long: bool, persons: Persons, unknown: bool, as_json: bool
) -> int:
    """Print an answer for each recording that arrives. Return the number of unreadable files."""
    bad = 0
    for file in files:
        about = {"file": file.name}
        try:
            motion = read_motion(file)
            if long:
                stream = recogniser.stream(persons=persons)
                _print_events(stream.push(motion) + stream.finish(), about, 0.0, unknown, as_json)
                continue
            each, motion = persons == "each", name_motion(motion, file)
            answers = recogniser.recognise_each(motion) if each else [recogniser.recognise(motion)]
        except JeanieError as error:
            bad += 1
            typer.echo(
                json.dumps(about | {"error": str(error)}) if as_json else f"jeanie: {error}", err=not as_json
            )
            continue
        for person, answer in enumerate(answers):
            whose = about | ({"person": person} if each else {})
            if unknown or answer.label is not None:
                _print_answer(whose, answer.label, answer.confidence, answer.distance, None, as_json)
    return bad


def _print_events(
    events: list[Event], about: dict[str, Any], since: float, unknown: bool, as_json: bool
) -> None:
    for event in events:
        if unknown or event.label is not None:
            whose = about | ({} if event.person is None else {"person": event.person})
            ends = (since + event.seconds[0], since + event.seconds[1])
            _print_answer(whose, event.label, event.confidence, event.distance, ends, as_json)


def _print_answer(
    about: dict[str, Any],
    label: str | None,
    confidence: float,
    distance: float,
    ends: tuple[float, float] | None,
    as_json: bool,
) -> None:
    """Print one answer on one line, immediately."""
    if as_json:
        when = {} if ends is None else {"start_s": round(ends[0], 3), "end_s": round(ends[1], 3)}
        far = {"distance": distance if isfinite(distance) else None}
        typer.echo(json.dumps(about | when | {"label": label, "confidence": round(confidence, 4)} | far))
    else:
        parts = [f"{key} {value}" if key == "person" else str(value) for key, value in about.items()]
        parts += [] if ends is None else [f"{ends[0]:8.2f} s to {ends[1]:8.2f} s"]
        typer.echo("  ".join([*parts, label or "unknown", f"{confidence:.2f}"]))
    sys.stdout.flush()
