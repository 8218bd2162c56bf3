"""A published number through the public API: alignment, gradients and episodes as others have them.

Origin: the benchmark of the library torchwarp, float64, seed 0: 40.4133 % of 7,500 predictions. Training is chaotic
in the last bits of its input (rotations rounded to float32 give exactly that number, float64 ones 40.09 or 40.63),
so the required agreement is half a point, and the types of all steps are fixed.
"""

import os

import pytest
import torch

from jeanie.encoders import MlpEncoderConfig
from jeanie.evaluation.evaluate import evaluate
from jeanie.evaluation.protocols import PROTOCOLS
from jeanie.fewshot import (
    EulerViewsConfig,
    FewShotModel,
    InputConfig,
    JeanieConfig,
    ModelConfig,
    PrepareConfig,
)
from jeanie.fewshot.losses import LossConfig
from jeanie.training.augment import AugmentConfig
from jeanie.training.config import TrainConfig
from jeanie.training.train import train

PROTOCOL = PROTOCOLS["nwucla-published"]
MODEL = ModelConfig(
    inputs=InputConfig(
        prepare=PrepareConfig(frames=32, centre="start", missing="zero", gaps=0, persons=1),
        scale="none",
        block=8,
        stride=0.5,
    ),
    views=EulerViewsConfig(azimuth=30, altitude=0, step=15),
    encoder=MlpEncoderConfig(mlp=(256,), features=64, init="torch"),
    align=JeanieConfig(metric="euclidean", gamma=0.1, shift=1),
)
TRAINING = TrainConfig(
    episodes=300,
    batch=1,
    loss=LossConfig(temperature=1.0, learnt=False),
    optimiser="adam",
    rate=1e-3,
    schedule="constant",
    weight_decay=0.0,
    clip=None,
    seed=0,
    checkpoint_every=300,
    mirror=False,
    augment=AugmentConfig(),
)


@pytest.mark.plain  # the hook would read every clip anew to look at it
@pytest.mark.skipif(not PROTOCOL.available(), reason="needs the recordings nw-ucla in $JEANIE_DATA")
def test_the_published_accuracy_is_reproduced(tmp_path):
    assert os.environ["JEANIE_DATA"]
    dataset = PROTOCOL.open()
    split = PROTOCOL.splits(dataset)[0]
    torch.manual_seed(0)
    model = FewShotModel(MODEL, dataset.layout).double()
    run = train(model, PROTOCOL, config=TRAINING, out=tmp_path / "run", dataset=dataset, split=split)
    report = evaluate(run.model(split.name), PROTOCOL, dataset=dataset, splits=[split])
    assert report.queries == 7500
    assert report.accuracy == pytest.approx(40.4133, abs=0.5)
