"""``jeanie calibrate``: adapt the confidence of a library to the user's own sensor."""

from typing import Annotated

import typer

from jeanie.cli.options import (
    Files,
    Migrate,
    ModelSource,
    Place,
    SkipBad,
    accept_option_groups,
    describe_migration,
    find_library,
    read_motions,
)
from jeanie.cli.terminal import AsJson, exit_on_error, format_quantity, print_report
from jeanie.datasets import ReadOptions
from jeanie.recogniser.calibration import cut_recordings
from jeanie.recogniser.gallery import check_encodable
from jeanie.recogniser.recogniser import Recogniser

__all__ = ["calibrate"]


@accept_option_groups
def calibrate(
    files: Files,
    library: Place = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Delete the calibration recordings that the library has.")
    ] = False,
    skip_bad: SkipBad = False,
    migrate: Migrate = False,
    as_json: AsJson = False,
    *,
    model: ModelSource,
    options: ReadOptions,
) -> None:
    """Adapt confidences to your sensor with ten or more of its recordings: any movements, without labels.

    Long recordings are cut into windows of three seconds. The library keeps the 64 newest windows. If one file is bad,
    nothing changes, except with --skip-bad.
    """
    with exit_on_error(as_json):
        motions, skipped = read_motions(files, options, skip_bad=skip_bad)
        loaded = model.load()
        check_encodable(loaded, cut_recordings(motions))  # before a library is made
        with Recogniser.load(find_library(library, make=True), model=loaded, migrate=migrate) as recogniser:
            count = recogniser.calibrate(motions, replace=replace)
            facts = {
                "library": recogniser.library.place,
                "recordings": count,
                "migrated": recogniser.migrated,
            }
        note = f"{format_quantity(count, 'calibration recording')} in the library"
        print_report(facts, [describe_migration(recogniser.migrated), note], as_json, skipped)
