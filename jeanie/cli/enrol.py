"""``jeanie enrol``: add recordings of an action to the library."""

from typing import Annotated

import typer

from jeanie.cli.options import (
    EncoderPaths,
    Files,
    FormatName,
    LayoutName,
    MetricPaths,
    Migrate,
    ModelFolder,
    Place,
    describe_migration,
    find_library,
    load_model,
    name_motion,
    read_motions,
)
from jeanie.cli.terminal import AsJson, exit_on_error, print_report, quantity
from jeanie.recogniser.gallery import encode_motions
from jeanie.recogniser.library.labels import normalise_label
from jeanie.recogniser.recogniser import Recogniser

__all__ = ["enrol"]


def enrol(
    label: Annotated[str, typer.Argument(help="Name of the action.")],
    files: Files,
    library: Place = None,
    negative: Annotated[
        bool, typer.Option("--not", help="Enrol negative examples: they look like the action but are not it.")
    ] = False,
    form: FormatName = None,
    layout: LayoutName = None,
    model: ModelFolder = None,
    encoders: EncoderPaths = None,
    metrics: MetricPaths = None,
    migrate: Migrate = False,
    as_json: AsJson = False,
) -> None:
    """Enrol an action from one or a few recordings. If one file is bad, nothing is enrolled."""
    with exit_on_error(as_json):
        label = normalise_label(label)
        motions = read_motions(files, form, layout)
        loaded = load_model(model, encoders, metrics)
        for file, motion in zip(files, motions, strict=True):
            encode_motions(loaded, [name_motion(motion, file)], "support")  # before a library is made
        with Recogniser.load(
            find_library(library, make=not negative), model=loaded, migrate=migrate
        ) as recogniser:
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
        summary = f"{label}: {quantity(new, 'recording')} added"
        summary += f", {already} already enrolled" if already else ""
        print_report(
            facts,
            [describe_migration(recogniser.migrated), f"{summary}, {quantity(examples, 'example')} in all"],
            as_json,
        )
