"""``jeanie export`` and ``jeanie import``: a library as one file."""

from pathlib import Path
from typing import Annotated

import typer

from jeanie.cli.options import (
    Migrate,
    ModelSource,
    Place,
    accept_option_groups,
    find_library,
)
from jeanie.cli.terminal import AsJson, exit_on_error, format_quantity, print_report
from jeanie.recogniser.library.library import Library
from jeanie.recogniser.recogniser import Recogniser, check_export

__all__ = ["export", "import_"]


def export(
    file: Annotated[Path, typer.Argument(help="File to write; an existing file is replaced.")],
    library: Place = None,
    as_json: AsJson = False,
) -> None:
    """Write the whole library to one file, for jeanie import or Recogniser.load."""
    with exit_on_error(as_json), Library(find_library(library)) as store:
        count = store.export(file)
        facts = {"library": store.place, "file": str(file), "examples": count}
        print_report(facts, [f"{file}: {format_quantity(count, 'example')}"], as_json)


@accept_option_groups
def import_(
    file: Annotated[Path, typer.Argument(help="File written by jeanie export.")],
    library: Place = None,
    migrate: Migrate = False,
    as_json: AsJson = False,
    *,
    model: ModelSource,
) -> None:
    """Add the actions of an exported library to this library."""
    with exit_on_error(as_json):
        loaded = model.load()
        check_export(file, loaded, migrate=migrate)  # before a library is made
        with Recogniser.load(find_library(library, make=True), model=loaded, migrate=migrate) as recogniser:
            imported = recogniser.merge(file, migrate=migrate)
            facts = {"library": recogniser.library.place, "new": imported.new, "already": imported.already}
            message = f"{format_quantity(imported.new, 'example')} added, {imported.already} already enrolled"
            print_report(facts, [message], as_json)
