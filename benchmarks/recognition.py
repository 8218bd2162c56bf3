"""Measure recognition with the shipped model, its ensemble members and models without learning.

Also measures fine-tuning and the labelling of archives.

    JEANIE_DATA=... python benchmarks/recognition.py                    # everything except fine-tuning, then the page
    JEANIE_DATA=... python benchmarks/recognition.py --part finetune    # fine-tuning, then the page
    python benchmarks/recognition.py --part page                        # only the page, from the stored results
    ... --model "MLP + S2GC=FOLDER"                                     # another model, which stays on the page
    ... --part finetune --model "MLP + S2GC=FOLDER"                     # and fine-tuned

Each result is stored in benchmarks/results/recognition.json under the fingerprint of its model. So an interrupted run
continues, and new weights are measured again. The page is docs/results/recognition.md.
"""

import argparse
import json
import platform
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import process_time
from typing import Any

import torch
from recognition_page import format_page
from recognition_tasks import NEEDS, SECTIONS, Result, is_available, load_data, measure_fusion

from jeanie._internal.digest import hash_bytes
from jeanie._internal.files import write_atomically
from jeanie._internal.provenance import get_commit, get_versions
from jeanie.evaluation.evaluate import evaluate
from jeanie.evaluation.protocols import get_protocol
from jeanie.evaluation.protocols.splits import Split
from jeanie.evaluation.report.report import compute_unit_means, pool_seeds
from jeanie.fewshot import FewShotModel
from jeanie.recogniser.fingerprints import fingerprint
from jeanie.training.recipes import RECIPES
from jeanie.training.run import Run
from jeanie.training.train import train

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "recognition.json"
PAGE = ROOT / "docs" / "results" / "recognition.md"
RUNS = ROOT / "runs" / "recognition"  # runs of fine-tuning
UCLA_SEEDS = 5  # of the published protocol
TUNED = {"msr": "msraction3d-splits", "ucla": "nwucla-published"}
VALIDATION = {"msr": None, "ucla": 0.4}  # the published protocol has no validation classes


def get_model_key(model: FewShotModel) -> str:
    """Return the key of a model in the results: the start of its fingerprint."""
    return fingerprint(model)[:16]


def split_members(model: FewShotModel) -> Iterator[FewShotModel]:
    """Yield the members of an ensemble as single models; they differ in their seeds."""
    encoder = model.config.encoder
    for number, strides in enumerate(encoder.scales or [encoder.strides] * encoder.members):
        settings = {"encoder.members": 1, "encoder.strides": strides, "encoder.scales": ()}
        member = FewShotModel(model.config.with_values(settings), model.layout)
        prefix = f"members.{number}."
        weights = {
            name.replace(prefix, "members.0."): tensor
            for name, tensor in model.state_dict().items()
            if prefix in name or "members." not in name
        }
        member.load_state_dict(weights)
        yield member.eval()


class ResultFile:
    """Results on disk by model and section, written atomically."""

    def __init__(self) -> None:
        self.stored: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        self.stored.setdefault("models", {})
        self.stored.setdefault("tuned", {})

    def write(self) -> None:
        RESULTS.parent.mkdir(exist_ok=True)
        rows = self.stored["tuned"].items()
        self.stored["tuned"] = {key: row for key, row in rows if key in self.stored["models"]}
        about = {
            "commit": get_commit(),
            "versions": get_versions(),
            "machine": platform.machine(),
            "threads": 1,
        }
        self.stored["about"] = about
        write_atomically(RESULTS, (json.dumps(_round_numbers(self.stored), indent=1) + "\n").encode())

    def measure(self, name: str, model: FewShotModel) -> None:
        """Measure all sections of a model that have no result yet."""
        row = self.stored["models"].setdefault(get_model_key(model), {"tasks": {}, "sections": []})
        row["name"] = name
        models = self.stored["models"].items()  # a name belongs to the last model of that name
        self.stored["models"] = {
            key: entry for key, entry in models if entry is row or entry.get("name") not in (None, name)
        }
        for section, measure in SECTIONS.items():
            if section in row["sections"]:
                continue
            if not is_available(NEEDS[section]):
                print(f"{section} is skipped: {NEEDS[section]} is not in $JEANIE_DATA", flush=True)
                continue
            start_time = process_time()
            row["tasks"] |= measure(model)
            row["sections"].append(section)
            self.write()
            print(f"{name}: {section} in {process_time() - start_time:.0f} s", flush=True)
        self.write()

    def tune(self, start: FewShotModel, seeds: int) -> None:
        """Fine-tune a measured model on the training classes of two protocols."""
        tuned = self.stored["tuned"].get(get_model_key(start), {})
        if tuned.get("recipe") != hash_recipe():  # results of other settings do not count
            tuned = self.stored["tuned"][get_model_key(start)] = {"recipe": hash_recipe()}
        for task, name in TUNED.items():
            seed_count = UCLA_SEEDS if task == "ucla" else seeds
            if tuned.get(task, {}).get("seeds", 0) < seed_count and is_available(name):
                tuned[task] = measure_finetuning(start, task, range(seed_count)) | {"seeds": seed_count}
                self.write()


def hash_recipe() -> str:
    """Return a hash of the settings of fine-tuning."""
    return hash_bytes(RECIPES["finetune"].train.model_dump_json())[:8]


def measure_finetuning(start: FewShotModel, task: str, seeds: Sequence[int]) -> Result:
    """Return the accuracies before and after fine-tuning on the same queries, and the validation results."""
    protocol = get_protocol(TUNED[task])
    dataset = load_data(TUNED[task]).dataset
    splits = protocol.splits(dataset, validation=VALIDATION[task])
    runs, tasks = [], {}
    for seed in seeds:
        config = RECIPES["finetune"].train.with_values(seed=seed)
        out = RUNS / f"{get_model_key(start)}-{hash_recipe()}-{task}-{seed}"
        selected_splits = [
            split for split in splits if task == "msr" or split.name == f"seed {seed}, 1+2 to 3"
        ]
        run = train(
            start,
            protocol,
            config=config,
            out=out,
            dataset=dataset,
            split=selected_splits,
            resume=(out / "run.json").exists(),
        )
        runs.append((run, selected_splits))
        print(f"fine-tuning {protocol.name}, seed {seed}: {json.dumps(run.summary())}", flush=True)

    def select_start(run: Run) -> Callable[[Split], FewShotModel]:
        """Return the initial model with the members and the hubness correction that the run selected, not trained."""

        def build(split: Split) -> FewShotModel:
            config = run.model(split.name).config
            untrained = start.with_config({"encoder.shares": config.encoder.shares})
            known = [dataset.motions[clip] for clip in split.train]
            return (
                untrained.with_hubness_correction(known, config.hubness) if config.hubness else untrained
            ).eval()

        return build

    for way in (10, 5) if task == "msr" else (5,):
        tests = protocol.splits(dataset, way=way, validation=VALIDATION[task])
        for kind in ("start", "chosen", "tuned"):
            reports = [
                evaluate(
                    {"start": start, "chosen": select_start(run), "tuned": run}[kind], protocol, dataset=dataset,
                    splits=[split for split in tests if split.name in {item.name for item in selected_splits}],
                )
                for run, selected_splits in runs
            ]  # fmt: skip
            if task == "msr":
                rows = pool_seeds(reports).predictions
                units, over = compute_unit_means(rows, "splits"), "splits"
            else:
                units, over = [report.accuracy / 100 for report in reports], "seeds"
            tasks[f"{way}-{kind}"] = {"over": over, "units": units}
    if task == "msr":
        tasks |= measure_fusion(start)
    rows = [
        row | {"seed": seed, "shares": list(used.encoder.shares), "hubness": used.hubness}
        for seed, (run, _) in zip(seeds, runs, strict=True)
        for row in run.summary()
        for used in [run.model(row["split"]).config]
    ]
    return {"tasks": tasks, "runs": rows}


def _round_numbers(value: Any) -> Any:
    """Round all numbers to four digits, so that the file is readable."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {key: _round_numbers(item) for key, item in value.items()}
    return [_round_numbers(item) for item in value] if isinstance(value, list | tuple) else value


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--part",
        choices=("models", "finetune", "page"),
        default="models",
        help="part to measure (default: models)",
    )
    parser.add_argument(
        "--model", action="append", default=[], help="NAME=FOLDER of another model; repeatable"
    )
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds of fine-tuning on MSRAction3D")
    options = parser.parse_args()
    torch.set_num_threads(1)
    results, shipped = ResultFile(), FewShotModel.load()
    named = (text.partition("=") for text in options.model)
    others = {name: FewShotModel.load(folder) for name, _, folder in named}
    if options.part == "models":
        results.measure("plain DTW", FewShotModel.raw("dtw"))
        results.measure("reference", FewShotModel.raw())
        results.measure("shipped", shipped)
        for number, member in enumerate(split_members(shipped)):
            results.measure(f"member {number}", member)
        for name, model in others.items():
            results.measure(name, model)
    elif options.part == "finetune":
        for model in (shipped, *others.values()):
            results.tune(model, options.seeds)
    PAGE.write_text(format_page(results.stored, get_model_key(shipped)))
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
