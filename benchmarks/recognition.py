"""Measures recognition: no learning, the model that ships and its members, fine-tuning, labelling of archives.

    JEANIE_DATA=... python benchmarks/recognition.py                    # everything but fine-tuning, then the page
    JEANIE_DATA=... python benchmarks/recognition.py --part finetune    # fine-tuning, then the page
    python benchmarks/recognition.py --part page                        # the page alone
    ... --model "MLP + S2GC=FOLDER"                                     # a further model, kept on the page
    ... --part finetune --model "MLP + S2GC=FOLDER"                     # and fine-tuned

Results go into benchmarks/results/recognition.json as soon as they are there, each under the digest of the weights it
belongs to: a run that was stopped goes on, and new weights are measured anew. The page is docs/results/recognition.md.
"""

import argparse
import json
import platform
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import process_time
from typing import Any

import torch
from recognition_page import page
from recognition_tasks import NEEDS, SECTIONS, Result, fused, opened, there

from jeanie._internal.digest import hash_bytes
from jeanie._internal.files import write_atomically
from jeanie._internal.provenance import get_commit, get_versions
from jeanie.evaluation.evaluate import evaluate
from jeanie.evaluation.protocols import get_protocol
from jeanie.evaluation.protocols.splits import Split
from jeanie.evaluation.report.report import pool_seeds, unit_means
from jeanie.fewshot import FewShotModel
from jeanie.training.recipes import RECIPES
from jeanie.training.run import Run
from jeanie.training.train import train

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "recognition.json"
PAGE = ROOT / "docs" / "results" / "recognition.md"
RUNS = ROOT / "runs" / "recognition"  # of fine-tuning
UCLA_SEEDS = 5  # of the published protocol
TUNED = {"msr": "msraction3d-splits", "ucla": "nwucla-published"}
VALIDATION = {"msr": None, "ucla": 0.4}  # the published protocol holds nothing out by itself


def digest(model: FewShotModel) -> str:
    """A short name for a model: its settings and its weights."""
    tensors = (
        name.encode() + tensor.cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()
        for name, tensor in sorted(model.state_dict().items())
    )
    return hash_bytes(model.config.model_dump_json(), *tensors)[:16]


def members(model: FewShotModel) -> Iterator[FewShotModel]:
    """The networks of an ensemble, each by itself: they differ in their seeds."""
    encoder = model.config.encoder
    for number, own in enumerate(encoder.scales or [encoder.strides] * encoder.members):
        settings = {"encoder.members": 1, "encoder.strides": own, "encoder.scales": ()}
        alone = FewShotModel(model.config.with_values(settings), model.layout)
        mark = f"members.{number}."
        weights = {
            name.replace(mark, "members.0."): tensor
            for name, tensor in model.state_dict().items()
            if mark in name or "members." not in name
        }
        alone.load_state_dict(weights)
        yield alone.eval()


class Book:
    """Results on disk, by model and section; whole at every moment."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        self.kept.setdefault("models", {})
        self.kept.setdefault("tuned", {})

    def write(self) -> None:
        RESULTS.parent.mkdir(exist_ok=True)
        tuned = self.kept["tuned"].items()
        self.kept["tuned"] = {key: row for key, row in tuned if key in self.kept["models"]}
        about = {
            "commit": get_commit(),
            "versions": get_versions(),
            "machine": platform.machine(),
            "threads": 1,
        }
        self.kept["about"] = about
        write_atomically(RESULTS, (json.dumps(_short(self.kept), indent=1) + "\n").encode())

    def measure(self, name: str, model: FewShotModel) -> None:
        """All sections of a model that are not there yet."""
        row = self.kept["models"].setdefault(digest(model), {"tasks": {}, "sections": []})
        row["name"] = name
        kept = self.kept["models"].items()  # a name belongs to one model, the last one
        self.kept["models"] = {
            key: one for key, one in kept if one is row or one.get("name") not in (None, name)
        }
        for section, measured in SECTIONS.items():
            if section in row["sections"]:
                continue
            if not there(NEEDS[section]):
                print(f"{section} is left out: {NEEDS[section]} is not in $JEANIE_DATA", flush=True)
                continue
            began = process_time()
            row["tasks"] |= measured(model)
            row["sections"].append(section)
            self.write()
            print(f"{name}: {section} in {process_time() - began:.0f} s", flush=True)
        self.write()

    def tune(self, start: FewShotModel, seeds: int) -> None:
        """Fine-tuning of a model that was measured, on the training classes of two protocols."""
        kept = self.kept["tuned"].get(digest(start), {})
        if kept.get("recipe") != tuning():  # what other settings of fine-tuning gave is not this
            kept = self.kept["tuned"][digest(start)] = {"recipe": tuning()}
        for task, name in TUNED.items():
            wanted = UCLA_SEEDS if task == "ucla" else seeds
            if kept.get(task, {}).get("seeds", 0) < wanted and there(name):
                kept[task] = tuned(start, task, range(wanted)) | {"seeds": wanted}
                self.write()


def tuning() -> str:
    """A short name for the settings of fine-tuning."""
    return hash_bytes(RECIPES["finetune"].train.model_dump_json())[:8]


def tuned(start: FewShotModel, task: str, seeds: Sequence[int]) -> Result:
    """Accuracy after fine-tuning, and of the start on the same queries, with the validation that decided."""
    chosen = get_protocol(TUNED[task])
    dataset = opened(TUNED[task]).dataset
    splits = chosen.splits(dataset, validation=VALIDATION[task])
    runs, found = [], {}
    for seed in seeds:
        config = RECIPES["finetune"].train.with_values(seed=seed)
        out = RUNS / f"{digest(start)}-{tuning()}-{task}-{seed}"
        some = [split for split in splits if task == "msr" or split.name == f"seed {seed}, 1+2 to 3"]
        run = train(
            start,
            chosen,
            config=config,
            out=out,
            dataset=dataset,
            split=some,
            resume=(out / "run.json").exists(),
        )
        runs.append((run, some))
        print(f"fine-tuning {chosen.name}, seed {seed}: {json.dumps(run.summary())}", flush=True)

    def suited(run: Run) -> Callable[[Split], FewShotModel]:
        """The start as a run chose it by halves of the training classes, without any step of training."""

        def of(split: Split) -> FewShotModel:
            kept = run.model(split.name).config
            chosen = start.with_config({"encoder.shares": kept.encoder.shares})
            known = [dataset.motions[clip] for clip in split.train]
            return (chosen.with_hubness_correction(known, kept.hubness) if kept.hubness else chosen).eval()

        return of

    for way in (10, 5) if task == "msr" else (5,):
        tests = chosen.splits(dataset, way=way, validation=VALIDATION[task])
        for what in ("start", "chosen", "tuned"):
            reports = [
                evaluate(
                    {"start": start, "chosen": suited(run), "tuned": run}[what], chosen, dataset=dataset,
                    splits=[split for split in tests if split.name in {one.name for one in some}],
                )
                for run, some in runs
            ]  # fmt: skip
            if task == "msr":
                rows = pool_seeds(reports).predictions
                units, over = unit_means(rows, "splits"), "splits"
            else:
                units, over = [report.accuracy / 100 for report in reports], "seeds"
            found[f"{way}-{what}"] = {"over": over, "units": units}
    if task == "msr":
        found |= fused(start)
    rows = [
        row | {"seed": seed, "shares": list(used.encoder.shares), "hubness": used.hubness}
        for seed, (run, _) in zip(seeds, runs, strict=True)
        for row in run.summary()
        for used in [run.model(row["split"]).config]
    ]
    return {"tasks": found, "runs": rows}


def _short(value: Any) -> Any:
    """Numbers of four digits: the file is to be read, too."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {key: _short(one) for key, one in value.items()}
    return [_short(one) for one in value] if isinstance(value, list | tuple) else value


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", choices=("models", "finetune", "page"), default="models")
    parser.add_argument("--model", action="append", default=[], help="NAME=FOLDER of a further model")
    parser.add_argument("--seeds", type=int, default=3, help="seeds of fine-tuning on MSRAction3D's splits")
    options = parser.parse_args()
    torch.set_num_threads(1)
    book, shipped = Book(), FewShotModel.load()
    named = (text.partition("=") for text in options.model)
    others = {name: FewShotModel.load(folder) for name, _, folder in named}
    if options.part == "models":
        book.measure("plain DTW", FewShotModel.raw("dtw"))
        book.measure("reference", FewShotModel.raw())
        book.measure("shipped", shipped)
        for number, alone in enumerate(members(shipped)):
            book.measure(f"member {number}", alone)
        for name, model in others.items():
            book.measure(name, model)
    elif options.part == "finetune":
        for model in (shipped, *others.values()):
            book.tune(model, options.seeds)
    PAGE.write_text(page(book.kept, digest(shipped)))
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
