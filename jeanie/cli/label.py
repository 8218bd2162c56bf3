"""``jeanie label``: label all recordings of an archive from one or a few examples per action."""

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from jeanie.cli.exports import RESULT_COLUMNS, LatexFile, check_folders, write_rows
from jeanie.cli.options import (
    ClusterAddress,
    Jobs,
    ModelSource,
    Pattern,
    SkipBad,
    accept_option_groups,
    list_skipped,
    open_source,
    skip_unreadable,
)
from jeanie.cli.terminal import (
    AsJson,
    describe_field,
    exit_on_error,
    print_report,
    print_table,
    show_progress,
)
from jeanie.datasets import Dataset, ReadOptions
from jeanie.errors import ConfigError
from jeanie.recogniser.explain.hits_page import ANIMATED, write_hits_page
from jeanie.recogniser.hits import describe_result
from jeanie.recogniser.labelling import LabelConfig, Labelling
from jeanie.recogniser.labelling import label as label_motions
from jeanie.skeleton.motion import Motion

__all__ = ["label"]

_DEFAULTS = LabelConfig()
_describe_option = partial(describe_field, LabelConfig)


@accept_option_groups
def label(
    archive: Annotated[
        str, typer.Argument(help="What to label: an archive, a folder of recordings or a data set.")
    ],
    examples: Annotated[
        list[str],
        typer.Argument(
            metavar="EXAMPLE...",
            help="LABEL=FILE, or a file that contains its label; FILE may be the name of a clip in the archive.",
        ),
    ],
    abstain: Annotated[
        float, typer.Option(min=0, max=1, help=_describe_option("abstain"))
    ] = _DEFAULTS.abstain,
    neighbours: Annotated[
        int, typer.Option(min=1, help=_describe_option("neighbours"))
    ] = _DEFAULTS.neighbours,
    jobs: Jobs = 1,
    cluster: ClusterAddress = None,
    pattern: Pattern = None,
    skip_bad: SkipBad = False,
    csv: Annotated[
        Path | None, typer.Option("--csv", "--out", help="Write the labels to this CSV file.")
    ] = None,
    latex: LatexFile = None,
    page: Annotated[
        Path | None,
        typer.Option(
            "--html",
            "--page",
            help="Write an HTML page that plays the recordings and exports a selection as CSV.",
        ),
    ] = None,
    as_json: AsJson = False,
    *,
    model: ModelSource,
    options: ReadOptions,
) -> None:
    """Label a whole archive from one or a few examples per action. Unknown movements get no label."""
    with exit_on_error(as_json):
        check_folders(csv, latex, page)
        config = LabelConfig(neighbours=neighbours, abstain=abstain)
        dataset = open_source(archive, pattern, options)
        if skip_bad:
            dataset = skip_unreadable(dataset)
        names = _clip_names(dataset)
        labelled_examples = _read_examples(examples, dataset, names, options)
        with show_progress(not as_json, "pairs") as bar:
            labelling = label_motions(
                model.load(),
                dataset.motions,
                labelled_examples,
                config,
                jobs=jobs,
                cluster=cluster,
                progress=bar,
            )
        rows = [
            describe_result(name, tag, sure, None, None)
            for name, tag, sure in zip(names, labelling.labels, labelling.confidence.tolist(), strict=True)
        ]
        files = write_rows(RESULT_COLUMNS, rows, csv, latex)
        if page is not None:
            title = f"Labels of {dataset.name}"
            motions = dataset.motions[: min(ANIMATED, len(dataset))]
            write_hits_page(page, rows, motions, title=title, kind="Labels")
            files["page"] = str(page)
        if not as_json:
            _print_result(rows, labelling, files)
        facts = _describe_labelling(rows, labelling) | files
        print_report(facts, [], as_json, list_skipped(dataset))


def _clip_names(dataset: Dataset) -> list[str]:
    clip_names = getattr(dataset, "names", None)
    return (
        [f"clip {number}" for number in range(len(dataset))]
        if clip_names is None
        else list(map(str, clip_names))
    )


def _read_examples(
    texts: list[str], dataset: Dataset, names: list[str], options: ReadOptions
) -> list[tuple[str, Motion | int]]:
    """Return (label, example) pairs; an example from the archive is given by its number."""
    at = {name: number for number, name in enumerate(names)}
    files = {
        clip.source.resolve(): number
        for number, clip in enumerate(getattr(dataset, "clips", ()))
        if clip.source.is_file() and clip.index == 0
    }
    examples = []
    for text in texts:
        tag, equals, place = text.partition("=")
        if Path(text).exists() or text in at or not equals:
            tag, place = "", text
        elif not tag.strip():
            raise ConfigError(f"{text}: no label before the =; give LABEL=FILE")
        examples.append(_read_example(tag.strip(), place, dataset, at, files, options))
    return examples


def _read_example(
    tag: str, place: str, dataset: Dataset, at: dict[str, int], files: dict[Path, int], options: ReadOptions
) -> tuple[str, Motion | int]:
    exists = Path(place).exists()
    number = files.get(Path(place).resolve()) if exists else at.get(place)
    if number is not None:
        example: Motion | int = number
        stored_label = dataset.labels[number]
    elif exists:
        example = options.read(place)
        stored_label = example.label
    else:
        raise ConfigError(
            f"{place}: neither a file nor a clip of the archive; give LABEL=FILE, or a file that contains its label"
        )
    if not tag and stored_label is None:
        raise ConfigError(f"{place}: contains no label; give LABEL={place}")
    return tag or str(stored_label), example


def _describe_labelling(rows: list[dict[str, Any]], labelling: Labelling) -> dict[str, Any]:
    counts = Counter(labelling.labels)
    return {
        "motions": len(labelling),
        "unlabelled": counts.pop(None, 0),
        "classes": {str(tag): counts[tag] for tag in labelling.classes},
        "results": rows,
    }


def _print_result(rows: list[dict[str, Any]], labelling: Labelling, files: dict[str, str]) -> None:
    """Print the label of every motion unless a CSV file has them, then the number of motions per label."""
    if "csv" not in files:
        table = Table("file", "label", box=None, pad_edge=False)
        table.add_column("confidence", justify="right")
        for row in rows:
            tag = "" if row["label"] is None else escape(str(row["label"]))
            table.add_row(escape(row["file"]), tag, f"{row['confidence']:.2f}")
        print_table(table)
    counts = Counter(labelling.labels)
    counted = [f"{counts[tag]} {tag}" for tag in labelling.classes] + [f"{counts[None]} without a label"]
    typer.echo(f"{len(labelling)} motions: {', '.join(counted)}", err="csv" not in files)
    for name, path in files.items():
        typer.echo(f"{name}: {path}", err="csv" not in files)
