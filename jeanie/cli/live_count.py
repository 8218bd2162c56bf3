"""``jeanie watch --count``: count the repetitions of an enrolled action, live or in new recordings."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from jeanie.datasets import ReadOptions
from jeanie.errors import JeanieError
from jeanie.recogniser.exercise.counter import RepetitionCounter
from jeanie.recogniser.exercise.repetitions import Repetition
from jeanie.recogniser.recogniser import Recogniser
from jeanie.recogniser.stream.frames import read_frames
from jeanie.skeleton import Motion

__all__ = ["count_in_folder", "count_live"]


def count_live(examples: list[Motion], options: ReadOptions, as_json: bool) -> None:
    """Print each repetition in frames on standard input as soon as it ends, for each person separately."""
    counters: list[RepetitionCounter] = []
    since = 0.0
    for arrived in read_frames(sys.stdin, options):
        if arrived.is_new_stream:
            _print_rest(counters, since, as_json)
            since = arrived.start_time
            counters = [
                RepetitionCounter(examples, arrived.layout, rate=arrived.rate)
                for _ in range(arrived.joints.shape[1])
            ]
        for person, counter in enumerate(counters):
            before = counter.count
            repetitions = counter.push(arrived.joints[:, person])
            _print_repetitions(repetitions, before, since, _name_person(counters, person), as_json)
    _print_rest(counters, since, as_json)


def count_in_folder(
    recogniser: Recogniser, label: str, files: Iterator[Path], options: ReadOptions, as_json: bool
) -> int:
    """Print the number of repetitions of each recording that arrives. Return the number of unreadable files."""
    bad = 0
    for file in files:
        try:
            result = recogniser.count(label, options.read(file))
        except JeanieError as error:
            bad += 1
            facts: dict[str, Any] = {"file": file.name, "error": str(error)}
            typer.echo(json.dumps(facts) if as_json else f"jeanie: {error}", err=not as_json)
            continue
        facts = {"file": file.name} | result.json()
        typer.echo(json.dumps(facts) if as_json else f"{file.name}  {result.text}")
        sys.stdout.flush()
    return bad


def _name_person(counters: list[RepetitionCounter], person: int) -> dict[str, Any]:
    return {"person": person} if len(counters) > 1 else {}


def _print_rest(counters: list[RepetitionCounter], since: float, as_json: bool) -> None:
    for person, counter in enumerate(counters):
        before = counter.count
        _print_repetitions(counter.finish(), before, since, _name_person(counters, person), as_json)


def _print_repetitions(
    repetitions: list[Repetition], count: int, since: float, about: dict[str, Any], as_json: bool
) -> None:
    """Print one line per repetition; ``count`` is the number of complete ones before them."""
    for repetition in repetitions:
        count += not repetition.is_partial
        start, end = (since + second for second in repetition.seconds)
        if as_json:
            times = {"start_s": round(start, 3), "end_s": round(end, 3)}
            typer.echo(json.dumps(about | {"count": count} | repetition.json() | times))
        else:
            name = [f"person {about['person']}"] if about else []
            size = f"{100 * repetition.amplitude:.0f} %" + " partial" * repetition.is_partial
            typer.echo("  ".join([*name, f"{count:4d}", f"{start:8.2f} s to {end:8.2f} s", size]))
    sys.stdout.flush()
