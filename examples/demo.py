"""Learn from 44 generated actions before two cameras; recognise 20 others, seen once, before two further cameras.

Run by `make demo`. Trains the same small network three times, through soft-DTW, FVM and JEANIE, compares them with
no learning at all on the same queries, prints a table and writes runs/demo/report.html and runs/demo/alignment.png.
"""

import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path
from time import perf_counter

import camera_turn
import torch
from rich.console import Console
from rich.progress import Progress

from jeanie import FewShotModel
from jeanie.cli.evaluate import result_table
from jeanie.encoders import MlpEncoderConfig
from jeanie.evaluation.evaluate import evaluate
from jeanie.evaluation.protocols import get_protocol
from jeanie.evaluation.report.comparison import compare
from jeanie.evaluation.report.examples import find_examples
from jeanie.evaluation.report.html import write_html
from jeanie.evaluation.report.report import UNITS
from jeanie.fewshot.config import EulerViewsConfig, JeanieConfig, ModelConfig
from jeanie.fewshot.inputs import InputConfig, PrepareConfig
from jeanie.training.config import TrainConfig
from jeanie.training.train import train

OUT = Path("runs/demo")
EPISODES = 300

VIEWS = EulerViewsConfig(azimuth=45, altitude=30, step=15)  # 7 x 5 simulated cameras
JEANIE = ModelConfig(
    inputs=InputConfig(
        prepare=PrepareConfig(layout="core15", frames=24, size="bones"),
        scale="none",
        streams=("joints", "deviation"),
        block=3,
        stride=2 / 3,
    ),
    views=VIEWS,
    encoder=MlpEncoderConfig(mlp=(64,), features=32),
    align=JeanieConfig(metric="sqeuclidean", gamma=0.05, relative=True, normalise="length"),
)
LEARNT = {
    "JEANIE": JEANIE,
    "FVM": JEANIE.with_values({"align.method": "fvm"}),
    "soft-DTW": JEANIE.with_values({"views.kind": "none"}),
}
RAW = FewShotModel.raw("dtw").config
UNLEARNT = {"raw JEANIE": RAW.with_values(views=VIEWS), "raw DTW": RAW}  # block coordinates, no learning


def main() -> None:
    began = perf_counter()
    torch.set_num_threads(1)  # the tensors are small: threads would mostly wait for each other
    console = Console(highlight=False)
    task = get_protocol("synthetic")
    dataset = task.open()
    dataset = replace(dataset, read=cache(dataset.read))  # every clip is generated once
    (split,) = splits = task.splits(dataset)
    trained, tested = (
        ", ".join(sorted({str(dataset.views[clip]) for clip in clips})) for clips in _clips(split)
    )
    console.print(f"training: {len(split.train_classes)} actions, cameras {trained}")
    console.print(
        f"test:     {len(split.test_classes)} other actions, one example each, queries from {tested}\n"
    )

    models = {name: FewShotModel(config) for name, config in UNLEARNT.items()}
    settings = TrainConfig(episodes=EPISODES, validate_every=100, checkpoint_every=EPISODES, seed=0)
    learnt = {}
    with Progress(console=console) as bar:
        for name, config in LEARNT.items():
            row = bar.add_task(f"{name:>9}, training episodes", total=EPISODES)
            out = OUT / name.lower()
            shutil.rmtree(out, ignore_errors=True)
            run = train(
                config, task, config=settings, out=out, dataset=dataset, split=split,
                progress=lambda now, row=row: bar.update(row, completed=now.episode),
            )  # fmt: skip
            learnt[name] = run.model()

    reports, shown = [], []
    for name, model in {**learnt, **models}.items():
        seeds = (settings.seed,) if name in learnt else ()
        report = evaluate(model, task, dataset=dataset, splits=splits, method=name, seeds=seeds)
        reports.append(report)
        shown += find_examples(model, report, dataset, splits, count=6 if name == "JEANIE" else 2)
    page = write_html(reports, OUT / "report.html", examples=shown, title=task.title)

    console.print(result_table(reports, compare(reports)))
    console.print(
        f"95 % intervals: {UNITS[reports[0].over]}; one seed each. What is raw has learnt nothing.\n"
    )
    camera_turn.main()
    console.print(f"report                               {page}")
    console.print(f"\n{perf_counter() - began:.0f} seconds")


def _clips(split) -> tuple[list[int], list[int]]:
    """Clips that are trained on, and clips that are queries of the test."""
    return list(split.train), [clip for episode in split.test for clip in episode.query.tolist()]


if __name__ == "__main__":
    main()
