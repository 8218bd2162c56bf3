"""``jeanie actions``, ``forget`` and ``rename``: the enrolled actions."""

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from jeanie.cli.options import Place, find_library
from jeanie.cli.terminal import AsJson, exit_on_error, format_quantity, print_report
from jeanie.errors import ConfigError
from jeanie.recogniser.library.labels import count_examples, forget_action, normalise_label, rename_action
from jeanie.recogniser.library.library import Library

__all__ = ["actions", "forget", "rename"]


def actions(library: Place = None, as_json: AsJson = False) -> None:
    """List the enrolled actions with their numbers of examples, and the number of calibration recordings."""
    with exit_on_error(as_json), Library(find_library(library)) as store:
        counts, negatives = count_examples(store)
        calibration = len(store.calibration_ids())
        facts = {
            "library": store.place,
            "actions": counts,
            "not": negatives,
            "calibration_recordings": calibration,
        }
        table = Table("action", box=None, pad_edge=False)
        table.add_column("examples", justify="right")
        table.add_column("negative", justify="right")
        for label, count in counts.items():
            table.add_row(escape(label), str(count), str(negatives.get(label, "")))
        empty = f"{store.place}: no actions yet; add one with: jeanie enrol LABEL FILE..."
        note = format_quantity(calibration, "calibration recording") if calibration else ""
        print_report(facts, [table if counts else empty, note], as_json)


def forget(
    label: Annotated[str | None, typer.Argument(help="Action to remove.")] = None,
    example: Annotated[
        int | None, typer.Option(help="Number of a single example to remove, instead of LABEL.")
    ] = None,
    library: Place = None,
    as_json: AsJson = False,
) -> None:
    """Remove an action with all its examples, or a single example."""
    with exit_on_error(as_json):
        if (label is None) == (example is None):
            raise ConfigError("give either the LABEL of an action or --example NUMBER")
        with Library(find_library(library)) as store:
            if label is not None:
                count = forget_action(store, label)
                message = f"{label}: removed, with {format_quantity(count, 'example')}"
            else:
                store.remove_example(int(example or 0))
                count, message = 1, f"example {example}: removed"
            print_report({"library": store.place, "label": label, "removed": count}, [message], as_json)


def rename(
    old: Annotated[str, typer.Argument(help="Action to rename.")],
    new: Annotated[str, typer.Argument(help="New name.")],
    merge: Annotated[
        bool, typer.Option("--merge", help="Merge with an existing action of the new name.")
    ] = False,
    library: Place = None,
    as_json: AsJson = False,
) -> None:
    """Rename an action."""
    with exit_on_error(as_json), Library(find_library(library)) as store:
        rename_action(store, old, new, merge=merge)
        counts, _ = count_examples(store)
        label = normalise_label(new)
        facts = {"library": store.place, "old": old, "new": label, "examples": counts[label]}
        print_report(
            facts, [f"{old} renamed to {label}, {format_quantity(counts[label], 'example')}"], as_json
        )
