"""Train on 44 synthetic actions from two cameras and recognise 20 others from two other cameras, with one example each.

Run by `make demo`. Trains the same small network with soft-DTW, FVM and JEANIE, and compares them with models without
learning on the same queries. Prints a table and writes runs/demo/report.html and runs/demo/alignment.png.
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

from jeanie import (
    EulerViewsConfig,
    FewShotModel,
    InputConfig,
    JeanieConfig,
    MlpEncoderConfig,
    ModelConfig,
    PrepareConfig,
    TrainConfig,
    compare,
    evaluate,
    find_examples,
    get_protocol,
    train,
    write_html,
)

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
TRAINED = {
    "JEANIE": JEANIE,
    "FVM": JEANIE.with_values({"align.method": "fvm"}),
    "soft-DTW": JEANIE.with_values({"views.kind": "none"}),
}
RAW = FewShotModel.raw("dtw").config
UNTRAINED = {"raw JEANIE": RAW.with_values(views=VIEWS), "raw DTW": RAW}  # block coordinates, no learning


def main() -> None:
    start = perf_counter()
    torch.set_num_threads(1)  # the tensors are small, so more threads would mostly wait
    console = Console(highlight=False)
    task = get_protocol("synthetic")
    dataset = task.open()
    dataset = replace(dataset, read=cache(dataset.read))  # every clip is generated once
    (split,) = splits = task.splits(dataset)
    queries = [clip for episode in split.test for clip in episode.query.tolist()]
    train_cameras, test_cameras = (
        ", ".join(sorted({str(dataset.views[clip]) for clip in clips})) for clips in (split.train, queries)
    )
    console.print(f"training: {len(split.train_classes)} actions, cameras {train_cameras}")
    console.print(
        f"test:     {len(split.test_classes)} other actions, one example each, queries from cameras {test_cameras}\n"
    )

    untrained = {name: FewShotModel(config) for name, config in UNTRAINED.items()}
    settings = TrainConfig(episodes=EPISODES, validate_every=100, checkpoint_every=EPISODES, seed=0)
    trained = {}
    with Progress(console=console) as bar:
        for name, config in TRAINED.items():
            row = bar.add_task(f"{name:>9}, training episodes", total=EPISODES)
            out = OUT / name.lower()
            shutil.rmtree(out, ignore_errors=True)
            run = train(
                config, task, config=settings, out=out, dataset=dataset, split=split,
                progress=lambda now, row=row: bar.update(row, completed=now.episode),
            )  # fmt: skip
            trained[name] = run.model()

    reports, examples = [], []
    for name, model in {**trained, **untrained}.items():
        seeds = (settings.seed,) if name in trained else ()
        report = evaluate(model, task, dataset=dataset, splits=splits, method=name, seeds=seeds)
        reports.append(report)
        examples += find_examples(model, report, dataset, splits, count=6 if name == "JEANIE" else 2)
    page = write_html(reports, OUT / "report.html", examples=examples, title=task.title)

    baseline = reports[-1].method
    gains = {pair.first: pair for pair in compare(reports) if pair.second == baseline}
    console.print(f"method        accuracy, %    minus {baseline}")
    for report in reports:
        accuracy = f"{report.method:<12}  {report.accuracy:4.1f} ± {report.ci95:3.1f}"
        gain = gains.get(report.method)
        note = (
            f"    {gain.difference.value:+5.1f} ± {gain.difference.half:3.1f}, p = {gain.p:.2g}"
            if gain
            else ""
        )
        console.print(accuracy + note)
    console.print(
        f"95 % intervals over the {reports[0].over}; one seed. Methods named raw are not trained.\n"
    )
    camera_turn.main()
    console.print(f"report                               {page}")
    console.print(f"\n{perf_counter() - start:.0f} seconds")


if __name__ == "__main__":
    main()
