"""``jeanie enrol``, ``recognise``, ``actions``, ``forget``, ``rename``, ``export`` and ``import``."""

import json
from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from jeanie.datasets import read_motion
from jeanie.errors import ConfigError
from jeanie.fewshot import FewShotModel
from jeanie.recogniser.gallery import encoded
from jeanie.recogniser.labels import actions_of, checked_label, forget_action, rename_action
from jeanie.recogniser.library import Library
from jeanie.recogniser.recogniser import Recogniser, Recognition, check_export, is_export
from jeanie.skeleton import Motion
from jeanie.terminal import AsJson, reported, user_folder

__all__ = ["ModelFolder", "Place", "app", "default_library", "named"]

app = typer.Typer(add_completion=False)

Place = Annotated[
    str | None,
    typer.Option(
        "--library",
        envvar="JEANIE_LIBRARY",
        help="File of the library, or URL of a PostgreSQL database; by default a file of this user's.",
    ),
]
Files = Annotated[list[Path], typer.Argument(metavar="FILE...", help="Recordings in any known format.")]
Form = Annotated[str | None, typer.Option("--format", help="Format of the files, where they do not tell.")]
Joints = Annotated[str | None, typer.Option("--layout", help="Layout of their joints, likewise.")]
ModelFolder = Annotated[
    Path | None, typer.Option("--model", help="Folder of a model; by default the one that is shipped.")
]
Migrate = Annotated[
    bool, typer.Option("--migrate", help="Go on with this model where the library was made with another.")
]
_OTHERS = 3  # further actions that a table shows


@app.command()
def enrol(
    label: Annotated[str, typer.Argument(help="Name of the action.")],
    files: Files,
    library: Place = None,
    negative: Annotated[
        bool, typer.Option("--not", help="These look like the action and are not it.")
    ] = False,
    form: Form = None,
    layout: Joints = None,
    model: ModelFolder = None,
    migrate: Migrate = False,
    as_json: AsJson = False,
) -> None:
    """Learn an action from recordings, one or a few. All are enrolled, or none."""
    with reported(as_json):
        label = checked_label(label)
        motions = _motions(files, form, layout)
        loaded = FewShotModel.load(model)
        for file, motion in zip(files, motions, strict=True):
            encoded(loaded, [named(motion, file)], "support")  # before a library is made
        with Recogniser.load(_place(library, make=not negative), model=loaded, migrate=migrate) as recogniser:
            added = (recogniser.reject if negative else recogniser.enrol)(label, motions)
            examples, new = recogniser.actions[label], sum(added.new)
            already = len(added.new) - new
            facts = {
                "library": recogniser.library.place,
                "label": label,
                "added": new,
                "already": already,
                "examples": examples,
                "migrated": recogniser.migrated,
            }
        said = f"{label}: {_count(new, 'recording')} added"
        said += f", {already} there before" if already else ""
        _tell(facts, [_moved(recogniser.migrated), f"{said}, {_count(examples, 'example')} now"], as_json)


@app.command()
def recognise(
    files: Files,
    library: Place = None,
    each: Annotated[bool, typer.Option("--each", help="One answer for each person.")] = False,
    threshold: Annotated[
        float, typer.Option(min=0, max=1, help="Confidence below which an answer is: unknown.")
    ] = 0.5,
    page: Annotated[
        Path | None, typer.Option("--explain", help="Write a page that shows why (of one file).")
    ] = None,
    form: Form = None,
    layout: Joints = None,
    model: ModelFolder = None,
    migrate: Migrate = False,
    as_json: AsJson = False,
) -> None:
    """Say which enrolled action recordings show, how sure that is, or that it is none of them."""
    with reported(as_json):
        if page is not None and (len(files) > 1 or each):
            raise ConfigError("--explain is for one recording, and not with --each")
        motions = _motions(files, form, layout)
        with Recogniser.load(
            _place(library), model=model, threshold=threshold, migrate=migrate
        ) as recogniser:
            if not recogniser.actions:
                raise ConfigError(f"{recogniser.library.place}: no actions yet; jeanie enrol LABEL FILE...")
            rows = []
            for file, motion in zip(files, motions, strict=True):
                motion = named(motion, file)
                found = recogniser.recognise_each(motion) if each else [recogniser.recognise(motion)]
                for person, one in enumerate(found):
                    rows.append(_facts(file, one, person if each else None))
            facts = {"library": recogniser.library.place, "migrated": recogniser.migrated, "results": rows}
            said = [_moved(recogniser.migrated)]
            if page is not None:
                told = recogniser.explain(motions[0])
                told.write_html(page)
                facts |= {"page": str(page), "explanation": told.json()}
                said += [told.text, f"{page}: the page that shows it"]
        _tell(facts, [_answers(rows), *said], as_json)


@app.command()
def actions(library: Place = None, as_json: AsJson = False) -> None:
    """List the enrolled actions and how many examples each has."""
    with reported(as_json), Library(_place(library)) as opened:
        counts, negatives = actions_of(opened)
        facts = {"library": opened.place, "actions": counts, "not": negatives}
        table = Table("action", box=None, pad_edge=False)
        table.add_column("examples", justify="right")
        table.add_column("not it", justify="right")
        for label, count in counts.items():
            table.add_row(escape(label), str(count), str(negatives.get(label, "")))
        empty = f"{opened.place}: no actions yet; jeanie enrol LABEL FILE..."
        _tell(facts, [table if counts else empty], as_json)


@app.command()
def forget(
    label: Annotated[str | None, typer.Argument(help="Action to forget.")] = None,
    example: Annotated[
        int | None, typer.Option(help="Number of a single example, in place of LABEL.")
    ] = None,
    library: Place = None,
    as_json: AsJson = False,
) -> None:
    """Forget an action with all its examples, or a single example."""
    with reported(as_json):
        if (label is None) == (example is None):
            raise ConfigError("give either the LABEL of an action, or --example and a number")
        with Library(_place(library)) as opened:
            if label is not None:
                count = forget_action(opened, label)
                said = f"{label}: forgotten, with {_count(count, 'example')}"
            else:
                opened.remove_example(int(example or 0))
                count, said = 1, f"example {example}: forgotten"
            _tell({"library": opened.place, "label": label, "removed": count}, [said], as_json)


@app.command()
def rename(
    old: Annotated[str, typer.Argument(help="Action to rename.")],
    new: Annotated[str, typer.Argument(help="Its new name.")],
    merge: Annotated[bool, typer.Option("--merge", help="Join it to an action of that name.")] = False,
    library: Place = None,
    as_json: AsJson = False,
) -> None:
    """Give an action another name."""
    with reported(as_json), Library(_place(library)) as opened:
        rename_action(opened, old, new, merge=merge)
        counts, _ = actions_of(opened)
        label = checked_label(new)
        facts = {"library": opened.place, "old": old, "new": label, "examples": counts[label]}
        _tell(facts, [f"{old} is now {label}, {_count(counts[label], 'example')}"], as_json)


@app.command()
def export(
    file: Annotated[Path, typer.Argument(help="File to write; one that is there is replaced.")],
    library: Place = None,
    as_json: AsJson = False,
) -> None:
    """Write the whole library to one file, which jeanie import and Recogniser.load read."""
    with reported(as_json), Library(_place(library)) as opened:
        count = opened.export(file)
        facts = {"library": opened.place, "file": str(file), "examples": count}
        _tell(facts, [f"{file}: {_count(count, 'example')}"], as_json)


@app.command(name="import")
def import_(
    file: Annotated[Path, typer.Argument(help="File that jeanie export wrote.")],
    library: Place = None,
    model: ModelFolder = None,
    migrate: Migrate = False,
    as_json: AsJson = False,
) -> None:
    """Add the actions of an exported library to this one."""
    with reported(as_json):
        loaded = FewShotModel.load(model)
        check_export(file, loaded, migrate=migrate)  # before a library is made
        with Recogniser.load(_place(library, make=True), model=loaded, migrate=migrate) as recogniser:
            done = recogniser.merge(file, migrate=migrate)
            facts = {"library": recogniser.library.place, "new": done.new, "already": done.already}
            said = f"{_count(done.new, 'example')} added, {done.already} there before"
            _tell(facts, [said], as_json)


def default_library() -> Path:
    """The library of this user."""
    return user_folder("data") / "library.db"


def _place(library: str | None, *, make: bool = False) -> str:
    """Where the library is; one that is not there is an error unless it may be made."""
    place = library or str(default_library())
    if "://" in place or Path(place).exists():
        if is_export(place):
            raise ConfigError(f"{place}: an exported library; bring it in by: jeanie import {place}")
        return place
    if not make:
        raise ConfigError(f"{place}: no library there yet; jeanie enrol LABEL FILE... makes one")
    if not library:
        Path(place).parent.mkdir(parents=True, exist_ok=True)
    return place


def named(motion: Motion, file: Path) -> Motion:
    """The motion under the name of its file, for messages that say what is wrong with it."""
    return motion.replace(name=str(file))


def _motions(files: Sequence[Path], form: str | None, layout: str | None) -> list[Motion]:
    return [read_motion(file, format=form, layout=layout) for file in files]


def _facts(file: Path, found: Recognition, person: int | None) -> dict[str, Any]:
    return {
        "file": str(file),
        **({} if person is None else {"person": person}),
        "label": found.label,
        "confidence": round(found.confidence, 4),
        "distance": found.distance if isfinite(found.distance) else None,
        "nearest": found.nearest,
        "example": found.example,
        "scores": dict(found.scores),
    }


def _answers(rows: Sequence[dict[str, Any]]) -> Table:
    """A row an answer: what it is, how sure, and what else is near."""
    table = Table("file", box=None, pad_edge=False)
    if any("person" in row for row in rows):
        table.add_column("person", justify="right")
    table.add_column("action", style="bold")
    table.add_column("confidence", justify="right")
    table.add_column("distances", overflow="fold")
    for row in rows:
        near = [f"{label} {value:.3f}" for label, value in list(row["scores"].items())[: 1 + _OTHERS]]
        cells = [escape(row["file"]), *([str(row["person"])] if "person" in row else [])]
        cells += [escape(row["label"] or "unknown"), f"{row['confidence']:.2f}", escape(", ".join(near))]
        table.add_row(*cells)
    return table


def _moved(count: int) -> str:
    return f"{_count(count, 'example')} of another model will be encoded with this one" if count else ""


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _tell(facts: dict[str, Any], said: Sequence[str | Table], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(facts))
        return
    console = Console(highlight=False)
    for part in said:
        if isinstance(part, Table):
            console.print(part)
        elif part:
            typer.echo(part)
