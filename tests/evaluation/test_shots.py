"""``--way`` and ``--shot`` of train and evaluate, from the command line to the episodes, for every protocol.

Hand-made names and tags with short motions stand in for the recordings.
"""

import json
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest
import torch
from test_protocols import NAMES, hand_made, make_tagged_dataset
from typer.testing import CliRunner

from jeanie.cli.app import app
from jeanie.datasets.clip_names import Tags
from jeanie.datasets.synthetic.dataset import open_synthetic
from jeanie.evaluation import evaluate as evaluation
from jeanie.evaluation.protocols import Protocol
from jeanie.fewshot.losses import Loss
from jeanie.skeleton.layout import LAYOUTS
from jeanie.skeleton.motion import Motion

WAY = 3
# UWA3D Multiview has nine subjects, and validation and supports have subjects of their own
SHOTS = {"uwa3d-multiview": 3, "uwa3d-multiview-released": 2}
SMALL = ("views.kind=none", "encoder.width=8", "encoder.features=8", "encoder.layers=1", "inputs.block=3",
         "inputs.prepare.frames=6", "batch=1", "query_classes=1")  # fmt: skip


@dataclass(frozen=True)
class Motions:
    """Short motions of one pose per class with much noise, made when they are read."""

    tags: list[Tags]

    def __len__(self):
        return len(self.tags)

    def __getitem__(self, index):
        tags = self.tags[index]
        pose = np.random.default_rng(sum(str(tags.label).encode())).normal(size=(1, 25, 3))
        noise = np.random.default_rng(index).normal(size=(6, 25, 3))
        return Motion(torch.from_numpy(0.3 * pose + noise).float(), LAYOUTS["ntu25"], label=tags.label)


def stand_in(name):
    """Enough clips per class for the shots; the setups of the vertical protocol have published heights."""
    if name in ("ntu120-horizontal", "ntu120-vertical"):
        made = make_tagged_dataset("ntu120", (
            f"S{setup:03}C{camera:03}P{subject:03}R001A{label:03}"
            for setup, camera, subject, label in product((7, 1, 16), (1, 2, 3), range(1, 15), range(1, 121))
        ))  # fmt: skip
    elif name == "kinetics":
        tags = [Tags(f"class {label:03}") for label in range(400) for _ in range(7)]
        made = replace(hand_made(name), names=[f"clip {i}" for i in range(len(tags))], tags=tags)
    elif name == "sbu":
        pairs = [f"s{i:02}s{j:02}" for i in range(1, 8) for j in range(1, 8) if i != j]
        made = make_tagged_dataset(
            "sbu", [f"{pair}/{a:02}/{t:03}/x" for pair in pairs for a in range(1, 9) for t in (1, 2)]
        )
    elif name == "synthetic":
        clips = open_synthetic(subjects=7)
        numbers = {name: number for number, name in enumerate(clips.names)}
        motions = Motions([clip.tags for clip in clips.clips])
        return replace(clips, read=lambda clip: motions[numbers[clip.name]])
    else:
        made = hand_made(name)
    return replace(made, motions=Motions(list(made.tags)))


def run_command(*words):
    said = CliRunner().invoke(app, [str(word) for word in words])
    assert said.exit_code == 0, said.output
    return json.loads(said.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", NAMES)
def test_way_and_shot_reach_the_episodes_of_training_and_evaluation(name, monkeypatch, tmp_path):
    dataset, several = stand_in(name), SHOTS.get(name, 5)
    monkeypatch.setattr(Protocol, "open", lambda *_, **__: dataset)
    trained, tested = [], []
    measure, predict = Loss.forward, evaluation.predict

    def watch_loss(loss, distances, same):
        trained.append((distances.shape[-1], same.sum(-1).flatten().tolist()))
        return measure(loss, distances, same)

    def watch_episodes(model, store, episodes, *rest, **options):
        for episode in (episode for part in episodes for episode in part):
            tested.append((len(episode.classes), set(torch.bincount(episode.support_labels).tolist())))
        return predict(model, store, episodes, *rest, **options)

    monkeypatch.setattr(Loss, "forward", watch_loss)
    monkeypatch.setattr(evaluation, "predict", watch_episodes)
    free = ("--train-classes", 5) if name in ("nwucla-crossview", "sbu") else ()
    settings = [word for change in SMALL for word in ("--set", change)]
    out = tmp_path / "run"
    run_command("train", name, "--recipe", "authors", "--episodes", 2, "--split", 0, "--out", out, "--json",
                "--validation", 0, "--way", WAY, "--shot", several, *free, *settings)  # fmt: skip
    assert trained == [(WAY * several, [several])] * 2  # one query and the supports of its class
    options = ("--alone", "--limit", 4, "--json", "--way", WAY, *free)
    facts = [run_command("evaluate", out, name, *options, "--shot", shot) for shot in (several, 1)]
    assert [(fact["way"], fact["shot"]) for fact in facts] == [(WAY, several), (WAY, 1)]
    assert set(map(str, tested)) == {str((WAY, {several})), str((WAY, {1}))}
    assert facts[0]["confusion"] != facts[1]["confusion"]
