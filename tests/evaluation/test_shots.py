"""``--way`` and ``--shot`` of train and evaluate, from the command line to the episodes, for every protocol.

Hand-made names and tags with short motions stand in for the recordings.
"""

import json

import pytest
import torch
from stand_ins import stand_in
from typer.testing import CliRunner

from jeanie.cli.app import app
from jeanie.errors import DataError
from jeanie.evaluation import evaluate as evaluation
from jeanie.evaluation.protocols import PROTOCOLS, Protocol
from jeanie.fewshot.losses import Loss

pytestmark = pytest.mark.plain  # the stand-ins are not of the declared types
WAY = 3
# UWA3D Multiview has nine subjects, and validation and supports have subjects of their own
SHOTS = {"uwa3d-multiview": 3, "uwa3d-multiview-released": 2}
SMALL = ("views.kind=none", "encoder.width=8", "encoder.features=8", "encoder.layers=1", "inputs.block=3",
         "inputs.prepare.frames=6", "batch=1", "query_classes=1")  # fmt: skip


def run_command(*words):
    said = CliRunner().invoke(app, [str(word) for word in words])
    assert said.exit_code == 0, said.output
    return json.loads(said.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", list(PROTOCOLS))
def test_validation_and_training_episodes_have_several_supports_too(name):
    """With classes or subjects held out for validation, as by default."""
    dataset, way, shot = stand_in(name), 4, 2
    free = 5 if name in ("nwucla-crossview", "sbu") else None
    way = 3 if name == "sbu" else way
    split = PROTOCOLS[name].splits(dataset, way=way, shot=shot, train_classes=free)[-1]
    training = split.training_episodes(dataset, queries=1, query_classes=1, count=2, seed=0)
    for episode in (*split.validation[:2], *split.test[:2], *training):
        counts = torch.bincount(episode.support_labels).tolist()
        assert counts == [shot] * len(episode.classes)
        assert not set(episode.support.tolist()) & set(episode.query.tolist())
    assert len(split.test[0].classes) == way
    assert len(training[1].query) == 1


def test_classes_with_too_few_clips_for_the_shots_are_not_validated():
    """The released lists have four clips of class 1 by three subjects, of two cameras: too few for four supports."""
    name = "uwa3d-multiview-released"
    (split,) = PROTOCOLS[name].splits(stand_in(name), way=3, shot=3)
    assert 2 <= len(split.validation_classes) < 30
    for episode in split.validation:
        assert torch.bincount(episode.support_labels).tolist() == [3] * len(episode.classes)
    with pytest.raises(
        DataError, match=r"9 subjects.*use fewer than 5 supports per class \(shot\), or validation=0"
    ):
        PROTOCOLS[name].splits(stand_in(name), way=3, shot=5)


@pytest.mark.parametrize("name", list(PROTOCOLS))
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
