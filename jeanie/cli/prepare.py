"""``jeanie prepare``: convert a data set into an archive."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from jeanie.cli.options import ClusterAddress, Jobs, Pattern, SkipBad, accept_option_groups
from jeanie.cli.terminal import AsJson, exit_on_error, show_progress
from jeanie.datasets import DATASETS, Dataset, ReadOptions, open_dataset
from jeanie.datasets.archive.prepare import prepare as prepare_archive
from jeanie.datasets.folders import open_folder

__all__ = ["describe_archive", "prepare"]


@accept_option_groups
def prepare(
    name: Annotated[
        str,
        typer.Argument(
            help="Name of the data set: msraction3d, ntu60, nw-ucla, sbu, cmu, ...; any other name for a folder of "
            "your own recordings."
        ),
    ],
    root: Annotated[
        str,
        typer.Argument(
            help="Folder of the unpacked data set or of your own recordings, or - for $JEANIE_DATA/NAME."
        ),
    ],
    out: Annotated[Path, typer.Argument(help="Archive to write; an existing one is replaced at the end.")],
    jobs: Jobs = 1,
    cluster: ClusterAddress = None,
    pattern: Pattern = None,
    skip_bad: SkipBad = False,
    as_json: AsJson = False,
    *,
    options: ReadOptions,
) -> None:
    """Convert a data set, or a folder of your own, into an archive. An interrupted conversion can be continued."""
    with exit_on_error(as_json):
        place = None if root == "-" else root
        if pattern is not None or (name not in DATASETS and place is not None and Path(place).exists()):
            dataset: Dataset = replace(
                open_folder(place or name, pattern=pattern, options=options), name=name
            )
        else:
            dataset = open_dataset(name, place, options=options)
        with show_progress(not as_json) as bar:
            report = prepare_archive(
                dataset, out, source=place, jobs=jobs, cluster=cluster, skip_bad=skip_bad, progress=bar
            )
        facts = describe_archive(out, report)
        typer.echo(json.dumps(facts) if as_json else _format_report(facts))


def describe_archive(out: Path, report: dict[str, Any]) -> dict[str, Any]:
    """Return the report about a new archive for ``--json``; skipped files are listed as in other commands."""
    skipped = [{"file": entry["name"], "reason": entry["reason"]} for entry in report["dropped"]]
    others = {key: value for key, value in report.items() if key != "dropped"}
    return {"archive": str(out), **others, "skipped": skipped}


def _format_report(report: dict[str, Any]) -> str:
    """Return a readable report: counts, whether they match the published ones, and skipped files."""
    lines = [f"{report['archive']}: {report['kept']} clips, {report['frames']} frames of {report['name']}"]
    if report["complete"] is not None:
        verdict = "as published" if report["complete"] else f"but {report['published']} were published"
        lines.append(f"{report['found']} clips found, {verdict}")
    lines += [f"skipped {entry['file']}: {entry['reason']}" for entry in report["skipped"]]
    if report["resumed"]:
        lines.append(f"{report['resumed']} clips were kept from an interrupted run")
    lines.append(f"{report['clips_per_second']} clips per second, {report['jobs']} worker processes")
    return "\n".join(lines)
