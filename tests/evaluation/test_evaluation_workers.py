"""An evaluation in worker processes gives the predictions of one in this process."""

import pytest
from tiny_task import dataset, model_config, split

from jeanie.compute.processes import use_one_thread
from jeanie.evaluation.evaluate import evaluate
from jeanie.fewshot.model import FewShotModel


@pytest.mark.processes
def test_worker_processes_give_the_same_predictions():
    splits = [split("one"), split("two", train=(0, 1), test=(2, 3, 6, 7))]
    models = {name: FewShotModel(model_config(dropout=0.0), dataset().layout) for name in ("one", "two")}
    calls = []
    options = {"dataset": dataset(), "splits": splits}
    with use_one_thread():
        here = evaluate(models, "synthetic", **options)
    there = evaluate(models, "synthetic", jobs=2, progress=lambda *now: calls.append(now), **options)
    assert calls[-1] == (2, 2)
    for name in ("split", "episode", "query", "predicted", "own", "other"):
        assert getattr(here.predictions, name).equal(getattr(there.predictions, name)), name
