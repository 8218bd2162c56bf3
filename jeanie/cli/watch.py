"""``jeanie watch``: recognise movements live, from standard input or a folder."""

import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import typer

from jeanie.cli.live_count import count_in_folder, count_live
from jeanie.cli.options import (
    FalseAlarms,
    ModelSource,
    Place,
    Threshold,
    accept_option_groups,
    find_library,
    name_motion,
)
from jeanie.cli.terminal import exit_on_error
from jeanie.datasets import ReadOptions
from jeanie.datasets.folders import watch_folder
from jeanie.errors import ConfigError, DataError, JeanieError, RecordingWarning
from jeanie.recogniser.recogniser import Recogniser
from jeanie.recogniser.recognition import Recognition
from jeanie.recogniser.stream.frames import ArrivedFrames, read_frames
from jeanie.recogniser.stream.stream import Event, StreamConfig
from jeanie.skeleton import Motion
from jeanie.skeleton.plausibility import list_warnings

__all__ = ["watch"]

Persons = Literal["together", "each"]
_CHECKED_FRAMES = 30  # of standard input
_PROVISIONAL_SECONDS = 0.5  # between two provisional events


@accept_option_groups
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
        bool, typer.Option("--long", help="Recordings contain several movements; recognise each of them.")
    ] = False,
    unknown: Annotated[
        bool, typer.Option("--unknown", help="Also print movements that match no enrolled action.")
    ] = False,
    provisional: Annotated[
        bool,
        typer.Option(
            "--provisional",
            help="While a movement goes on, also print its likely action and progress every half second.",
        ),
    ] = False,
    threshold: Threshold = 0.5,
    false_alarms: FalseAlarms = None,
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
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per line and event.")
    ] = False,
    *,
    model: ModelSource,
    options: ReadOptions,
) -> None:
    """Recognise movements live, from frames on standard input or from recordings that arrive in a folder."""
    with exit_on_error(as_json):
        place = find_library(library)
        if provisional and (source != "-" or count is not None):
            raise ConfigError(
                "--provisional needs frames on standard input, without --count: jeanie watch - --provisional"
            )
        persons: Persons = "each" if each else "together"
        # Ctrl-C is the normal way to stop
        loaded = model.load()
        with (
            suppress(KeyboardInterrupt),
            Recogniser.load(
                place, model=loaded, threshold=threshold, false_alarms=false_alarms
            ) as recogniser,
        ):
            if not recogniser.actions:
                raise ConfigError(
                    f"{recogniser.library.place}: no actions yet; add one with: jeanie enrol LABEL FILE..."
                )
            examples = (
                [] if count is None else recogniser.list_examples(count)
            )  # an unknown action is wrong usage
            if examples and source == "-":
                count_live(examples, options, as_json)
                return
            if source == "-":
                _watch_lines(recogniser, options, persons, unknown, provisional, as_json)
                return
            files = watch_folder(source, every=every, once=once)
            bad = (
                _watch_folder(recogniser, files, options, long, persons, unknown, as_json)
                if count is None
                else count_in_folder(recogniser, count, files, options, as_json)
            )
            if bad:
                raise typer.Exit(1)


def _watch_lines(
    recogniser: Recogniser,
    options: ReadOptions,
    persons: Persons,
    unknown: bool,
    provisional: bool,
    as_json: bool,
) -> None:
    """Print the events in frames on standard input, each as soon as it ends."""
    stream, since = None, 0.0
    config = StreamConfig(provisional=_PROVISIONAL_SECONDS if provisional else None)
    check = _StreamCheck(options.strict)
    for arrived in read_frames(sys.stdin, options):
        if arrived.is_new_stream:
            if stream is not None:
                _print_events(stream.finish(), {}, since, unknown, as_json, provisional)
            stream, since = (
                recogniser.stream(arrived.layout, rate=arrived.rate, persons=persons, config=config),
                arrived.start_time,
            )
        assert stream is not None
        check.add(arrived)
        _print_events(stream.push(arrived.joints), {}, since, unknown, as_json, provisional)
    check.finish()
    if stream is not None:
        _print_events(stream.finish(), {}, since, unknown, as_json, provisional)


class _StreamCheck:
    """Warn about the first frames of standard input if they are implausible, once."""

    def __init__(self, strict: bool) -> None:
        self._strict, self._frames, self._is_done = strict, list[ArrivedFrames](), False

    def add(self, arrived: ArrivedFrames) -> None:
        """Collect frames of one number of persons; check them when there are enough."""
        if not self._is_done:
            if self._frames and self._frames[0].joints.shape[1] != arrived.joints.shape[1]:
                self._frames.clear()
            self._frames.append(arrived)
            if sum(len(frames.joints) for frames in self._frames) >= _CHECKED_FRAMES:
                self.finish()

    def finish(self) -> None:
        """Check the frames that have arrived."""
        is_done, self._is_done = self._is_done, True
        joints = [frames.joints for frames in self._frames]
        if is_done or not joints or not bool(torch.isfinite(torch.cat(joints)).all(-1).any()):
            return
        for problem in list_warnings(Motion(torch.cat(joints), self._frames[0].layout), is_stream=True):
            if self._strict:
                raise DataError(f"standard input: {problem}")
            warnings.warn(f"implausible frames: {problem}", RecordingWarning, stacklevel=2)


def _watch_folder(
    recogniser: Recogniser,
    files: Iterator[Path],
    options: ReadOptions,
    long: bool,
    persons: Persons,
    unknown: bool,
    as_json: bool,
) -> int:
    """Print an answer for each recording that arrives. Return the number of unreadable files."""
    bad = 0
    for file in files:
        about = {"file": file.name}
        try:
            motion = options.read(file)
            if long:
                stream = recogniser.stream(persons=persons)
                _print_events(stream.push(motion) + stream.finish(), about, 0.0, unknown, as_json)
                continue
            is_separate, motion = persons == "each", name_motion(motion, file)
            answers = recogniser.recognise_each(motion) if is_separate else [recogniser.recognise(motion)]
        except JeanieError as error:
            bad += 1
            typer.echo(
                json.dumps(about | {"error": str(error)}) if as_json else f"jeanie: {error}", err=not as_json
            )
            continue
        for person, answer in enumerate(answers):
            person_facts = about | ({"person": person} if is_separate else {})
            if unknown or answer.label is not None:
                facts = person_facts | (
                    {"warnings": list(answer.warnings)} if answer.warnings and as_json else {}
                )
                _print_answer(facts, answer, None, as_json)
    return bad


def _print_events(
    events: list[Event],
    about: dict[str, Any],
    since: float,
    unknown: bool,
    as_json: bool,
    provisional: bool = False,
) -> None:
    for event in events:
        if unknown or event.label is not None:
            person_facts = about | ({} if event.person is None else {"person": event.person})
            ends = (since + event.seconds[0], since + event.seconds[1])
            state = (event.kind, event.progress) if provisional else None
            _print_answer(person_facts, event, ends, as_json, state)


def _print_answer(
    about: dict[str, Any],
    answer: Event | Recognition,
    ends: tuple[float, float] | None,
    as_json: bool,
    state: tuple[str, float] | None = None,
) -> None:
    """Print one answer on one line, immediately; ``state`` is the kind of an event and its progress."""
    if as_json:
        facts = dict(about)
        if ends is not None:
            facts |= {"start_s": round(ends[0], 3), "end_s": round(ends[1], 3)}
        facts |= {"label": answer.label, "confidence": round(answer.confidence, 4)}
        distance = answer.distance if isfinite(answer.distance) else None
        facts |= {"distance": distance, "nearest": answer.nearest}
        if state is not None:
            facts |= {"kind": state[0], "progress": round(state[1], 3)}
        typer.echo(json.dumps(facts))
    else:
        parts = [f"{key} {value}" if key == "person" else str(value) for key, value in about.items()]
        parts += [] if ends is None else [f"{ends[0]:8.2f} s to {ends[1]:8.2f} s"]
        parts += [answer.label or "unknown", f"{answer.confidence:.2f}"]
        kind, progress = state or ("final", 1.0)
        words = {"provisional": f"going on, {100 * progress:.0f} %", "withdrawn": "withdrawn"}
        typer.echo("  ".join([*parts, *([words[kind]] if kind in words else [])]))
    sys.stdout.flush()
