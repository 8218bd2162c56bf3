"""Measures recognition: no learning, the model that ships and its members, fine-tuning, labelling of archives.

    JEANIE_DATA=... python benchmarks/recognition.py                    # everything but fine-tuning, then the page
    JEANIE_DATA=... python benchmarks/recognition.py --part finetune    # fine-tuning, then the page
    python benchmarks/recognition.py --part page                        # the page alone
    ... --model "MLP + S2GC=FOLDER"                                     # a further model, kept on the page

Results go into benchmarks/results/recognition.json as soon as they are there, each under the digest of the weights it
belongs to: a run that was stopped goes on, and new weights are measured anew. The page is docs/results/recognition.md.
"""

import argparse
import hashlib
import json
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import torch
from recognition_page import page
from torch import Tensor

from jeanie.datasets import Dataset
from jeanie.experiments.evaluation import evaluate
from jeanie.experiments.labelling import LabelConfig, Neighbours, propagate
from jeanie.experiments.predictions import class_distances
from jeanie.experiments.protocols import protocol
from jeanie.experiments.provenance import commit, versions
from jeanie.experiments.recipes import RECIPES
from jeanie.experiments.report import pooled, unit_means
from jeanie.experiments.training import train
from jeanie.fewshot import Features, FewShotModel
from jeanie.fewshot.episodes import Draw, Episode
from jeanie.fewshot.saving import write_atomically
from jeanie.skeleton import Motion
from jeanie.views.euler import rotations

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "recognition.json"
PAGE = ROOT / "docs" / "results" / "recognition.md"
RUNS = ROOT / "runs" / "recognition"  # of fine-tuning
YAW = 60  # degrees either way
TAKES = 2  # draws of takes where one person shows all actions
DRAWS = 10  # of examples for labelling
SHUFFLES = 20
UCLA_SEEDS = 5  # of the published protocol
TUNED = {"msr": "msraction3d-splits", "ucla": "nwucla-published"}
VALIDATION = {"msr": None, "ucla": 0.4}  # the published protocol holds nothing out by itself

Result = dict[str, Any]


@dataclass(frozen=True)
class Data:
    """A data set in memory, and once more with every motion turned by an unknown yaw."""

    dataset: Dataset
    motions: tuple[Motion, ...]
    turned: tuple[Motion, ...]


@cache
def opened(name: str) -> Data:
    dataset = protocol(name).open()
    motions = tuple(dataset.motions)
    draws = torch.rand(len(motions), generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    turns = rotations(YAW * (2 * draws - 1), torch.zeros(()).double())
    turned = tuple(
        motion.replace(joints=torch.einsum("ij,tpkj->tpki", turn.to(motion.joints), motion.joints))
        for motion, turn in zip(motions, turns, strict=True)
    )
    return Data(dataset, motions, turned)


def features(model: FewShotModel, motions: Sequence[Motion], side: str) -> Features:
    parts = [model.collate(motions[at : at + 64]) for at in range(0, len(motions), 64)]
    return Features.cat([model.features(part, side) for part in parts])  # type: ignore[arg-type]


@torch.no_grad()
def table(model: FewShotModel, queries: Sequence[Motion], supports: Sequence[Motion]) -> Tensor:
    """Distance of every motion as a query to every motion as a support: cheaper than the pairs one by one."""
    held = features(model, supports, "support")
    asked = features(model, queries, "query")
    rows = [model.compare(asked[at : at + 64], held).cpu().double() for at in range(0, len(queries), 64)]
    return torch.cat(rows)


def hits(distances: Tensor, episode: Episode) -> Tensor:
    """Which queries of an episode have their nearest support in their own class."""
    own = distances[episode.query][:, episode.support]
    return (
        class_distances(own, episode.support_labels, episode.way, "nearest").argmin(1) == episode.query_labels
    )


def over_splits(distances: Tensor, splits: Sequence[Any]) -> Result:
    """Mean accuracy of each split; all episodes of one have as many queries, or count by their queries."""
    means = [
        torch.cat([hits(distances, one) for one in split.test]).double().mean().item() for split in splits
    ]
    return {"over": "splits", "units": means}


def one_person(data: Data, classes: Sequence[Any], seed: int) -> Iterator[Episode]:
    """Each subject in turn shows one take of every class; queries are all clips of all others."""
    labels, subjects = data.dataset.labels, data.dataset.subjects
    for number, subject in enumerate(sorted(set(subjects), key=str)):
        for take in range(TAKES):
            draw, shown = Draw(seed, number, take), []
            for label in classes:
                own = [i for i in range(len(labels)) if labels[i] == label and subjects[i] == subject]
                shown += [(label, *draw.pick(own, 1))] if own else []
            if len(shown) < 2:
                continue
            tags = [label for label, _ in shown]
            asked = [i for i in range(len(labels)) if labels[i] in tags and subjects[i] != subject]
            yield Episode(
                torch.tensor([clip for _, clip in shown]), torch.arange(len(tags)),
                torch.tensor(asked), torch.tensor([tags.index(labels[i]) for i in asked]), tuple(tags),
            )  # fmt: skip


def msr(model: FewShotModel) -> dict[str, Result]:
    data, splits = opened("msraction3d-splits"), protocol("msraction3d-splits").splits
    found = table(model, data.motions, data.motions)
    ten, five = splits(data.dataset, way=10), splits(data.dataset, way=5)
    people = [
        replace(split, test=tuple(one_person(data, split.test_classes, at))) for at, split in enumerate(ten)
    ]
    (fixed,) = protocol("msraction3d-exemplars").splits(data.dataset)
    shown = {"exemplars": fixed.test_variants["with exemplars"], "exemplars-without": fixed.test}
    labelled = {"fixed": [fixed.test[0]], "drawn": [one for split in ten for one in _all_of(data, split)]}
    return {
        "msr10": over_splits(found, ten),
        "msr5": over_splits(found, five),
        "msr10-person": over_splits(found, people),
        "msr10-turned": over_splits(table(model, data.turned, data.motions), ten),
        **{
            name: {"over": "queries", "units": hits(found, episodes[0]).double().tolist()}
            for name, episodes in shown.items()
        },
        **{f"label-{name}": labelling(found, episodes) for name, episodes in labelled.items()},
    }


def _all_of(data: Data, split: Any) -> Iterator[Episode]:
    """One drawn example of every test class, all other clips of these classes unlabelled."""
    labels = data.dataset.labels
    clips = [i for i in range(len(labels)) if labels[i] in set(split.test_classes)]
    for number in range(DRAWS):
        draw = Draw(number, 7)
        shown = [draw.pick([i for i in clips if labels[i] == tag], 1)[0] for tag in split.test_classes]
        rest = [i for i in clips if i not in shown]
        truth = [split.test_classes.index(labels[i]) for i in rest]
        yield Episode(
            torch.tensor(shown), torch.arange(len(shown)), torch.tensor(rest), torch.tensor(truth),
            split.test_classes,
        )  # fmt: skip


def labelling(distances: Tensor, episodes: Sequence[Episode]) -> Result:
    """Archives of the clips of each episode, labelled from its supports; also with the supports' labels shuffled."""
    generator = torch.Generator().manual_seed(0)
    everybody, rows = LabelConfig(abstain=0.0), []
    for episode in episodes:
        clips = torch.cat([episode.support, episode.query])
        own = distances[clips][:, clips].fill_diagonal_(torch.inf)
        near = Neighbours(*reversed(own.topk(LabelConfig().neighbours, largest=False)))
        truth, order = episode.query_labels, torch.arange(len(episode.support))
        careful = spread_labels(near, order, LabelConfig())
        told = careful >= 0
        chance = [
            spread_labels(near, order[torch.randperm(len(order), generator=generator)], everybody) == truth
            for _ in range(SHUFFLES if len(episodes) == 1 else 1)
        ]
        found = {
            "all": spread_labels(near, order, everybody) == truth,
            "nearest": hits(distances, episode),
            "told": told,
            "right_of_told": (careful == truth)[told],
            "shuffled": torch.cat(chance),
        }
        rows.append({name: some.double().mean().item() for name, some in found.items()})
    return {name: [row[name] for row in rows] for name in rows[0]}


def spread_labels(near: Neighbours, order: Tensor, config: LabelConfig) -> Tensor:
    """Labels of all clips behind the examples, which come first and bear the labels ``order``; -1 for none."""
    named = propagate(near, range(len(order)), order.tolist(), config).labels[len(order) :]
    return torch.tensor([-1 if tag is None else tag for tag in named])


def ucla(model: FewShotModel) -> dict[str, Result]:
    data = opened("nwucla-crossview")
    found = table(model, data.motions, data.motions)
    splits = protocol("nwucla-crossview").splits(data.dataset)
    published = protocol("nwucla-published").splits(data.dataset)
    same = [split for split in splits if split.name[0] == split.name[-1]]
    return {
        "ucla-same": over_splits(found, same),
        "ucla-other": over_splits(found, [split for split in splits if split not in same]),
        "ucla-published": over_splits(found, published),
    }


def sbu(model: FewShotModel) -> dict[str, Result]:
    data = opened("sbu")
    (split,) = protocol("sbu").splits(data.dataset)
    found = table(model, data.motions, data.motions)
    return {
        "sbu": {"over": "episodes", "units": [hits(found, one).double().mean().item() for one in split.test]}
    }


@torch.no_grad()
def cost(model: FewShotModel) -> dict[str, Result]:
    """Milliseconds of one core: a motion prepared and encoded, and compared with ten examples that are."""
    motions = opened("msraction3d-splits").motions[:31]
    held = features(model, motions[:10], "support")
    times: dict[str, list[float]] = {"encode_ms": [], "compare_ms": []}
    for motion in motions[11:]:
        began = perf_counter()
        query = model.features(model.collate([motion]))
        between = perf_counter()
        model.compare(query, held)
        times["encode_ms"].append(1000 * (between - began))
        times["compare_ms"].append(1000 * (perf_counter() - between))
    weights = sum(tensor.numel() for tensor in model.parameters())
    return {
        "cost": {name: sorted(some)[len(some) // 4] for name, some in times.items()} | {"weights": weights}
    }


SECTIONS = {"msr": msr, "ucla": ucla, "sbu": sbu, "cost": cost}
NEEDS = {"msr": "msraction3d-splits", "ucla": "nwucla-crossview", "sbu": "sbu", "cost": "msraction3d-splits"}


def _there(name: str) -> bool:
    return protocol(name).available()


def digest(model: FewShotModel) -> str:
    """A short name for a model: its settings and its weights."""
    found = hashlib.sha256(model.config.model_dump_json().encode())
    for name, tensor in sorted(model.state_dict().items()):
        found.update(name.encode() + tensor.cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return found.hexdigest()[:16]


def members(model: FewShotModel) -> Iterator[FewShotModel]:
    """The networks of an ensemble, each by itself: they differ in their seeds."""
    for number in range(model.config.encoder.members):
        alone = FewShotModel(model.config.but({"encoder.members": 1}), model.layout)
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

    def write(self) -> None:
        RESULTS.parent.mkdir(exist_ok=True)
        about = {"commit": commit(), "versions": versions(), "machine": platform.machine(), "threads": 1}
        self.kept["about"] = about
        write_atomically(RESULTS, (json.dumps(_short(self.kept), indent=1) + "\n").encode())

    def measure(self, name: str, model: FewShotModel) -> None:
        """All sections of a model that are not there yet."""
        row = self.kept["models"].setdefault(digest(model), {"tasks": {}, "sections": []})
        row["name"] = name
        for other in self.kept["models"].values():  # a name belongs to one model, the last one
            if other is not row and other.get("name") == name:
                other["name"] = None
        for section, measured in SECTIONS.items():
            if section in row["sections"]:
                continue
            if not _there(NEEDS[section]):
                print(f"{section} is left out: {NEEDS[section]} is not in $JEANIE_DATA", flush=True)
                continue
            began = process_time()
            row["tasks"] |= measured(model)
            row["sections"].append(section)
            self.write()
            print(f"{name}: {section} in {process_time() - began:.0f} s", flush=True)
        self.write()

    def tune(self, start: FewShotModel, seeds: int) -> None:
        """Fine-tuning of the shipped model on the training classes of two protocols."""
        kept = self.kept.setdefault("tuned", {}).setdefault(digest(start), {})
        for task, name in TUNED.items():
            wanted = UCLA_SEEDS if task == "ucla" else seeds
            if kept.get(task, {}).get("seeds", 0) < wanted and _there(name):
                kept[task] = tuned(start, task, range(wanted)) | {"seeds": wanted}
                self.write()


def tuned(start: FewShotModel, task: str, seeds: Sequence[int]) -> Result:
    """Accuracy after fine-tuning, and of the start on the same queries, with the validation that decided."""
    chosen = protocol(TUNED[task])
    dataset = opened(TUNED[task]).dataset
    splits = chosen.splits(dataset, validation=VALIDATION[task])
    runs, found = [], {}
    for seed in seeds:
        config = RECIPES["finetune"].train.but(seed=seed)
        out = RUNS / f"{digest(start)}-{task}-{seed}"
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
    for way in (10, 5) if task == "msr" else (5,):
        tests = chosen.splits(dataset, way=way, validation=VALIDATION[task])
        for what in ("start", "tuned"):
            reports = [
                evaluate(
                    start if what == "start" else run, chosen, dataset=dataset,
                    splits=[split for split in tests if split.name in {one.name for one in some}],
                )
                for run, some in runs
            ]  # fmt: skip
            if task == "msr":
                rows = pooled(reports).predictions
                units, over = unit_means(rows, "splits"), "splits"
            else:
                units, over = [report.accuracy / 100 for report in reports], "seeds"
            found[f"{way}-{what}"] = {"over": over, "units": units}
    rows = [row | {"seed": seed} for seed, (run, _) in zip(seeds, runs, strict=True) for row in run.summary()]
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
    if options.part == "models":
        book.measure("plain DTW", FewShotModel.raw("dtw"))
        book.measure("reference", FewShotModel.raw())
        book.measure("shipped", shipped)
        for number, alone in enumerate(members(shipped)):
            book.measure(f"member {number}", alone)
        for text in options.model:
            name, _, folder = text.partition("=")
            book.measure(name, FewShotModel.load(folder))
    elif options.part == "finetune":
        book.tune(shipped, options.seeds)
    PAGE.write_text(page(book.kept, digest(shipped)))
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
