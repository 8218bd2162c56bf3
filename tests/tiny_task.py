"""A task that trains in a second: eight gestures of a few frames, with a split of their classes."""

import math
from pathlib import Path

import torch

from jeanie.datasets.clip_names import Tags
from jeanie.datasets.dataset import Clip, FileDataset
from jeanie.encoders import GraphEncoderConfig
from jeanie.evaluation.protocols.splits import Columns, Split
from jeanie.fewshot.config import EulerViewsConfig, JeanieConfig, ModelConfig
from jeanie.fewshot.episodes import Episodes
from jeanie.fewshot.inputs import InputConfig, PrepareConfig
from jeanie.skeleton.layout import LAYOUTS
from jeanie.skeleton.motion import Motion

CLASSES, TAKES = 8, 5
LAYOUT = LAYOUTS["core15"]


def motion_of(clip):
    """A body whose joints swing with the frequency and phase of its class; lengths differ."""
    label, take = divmod(clip.index, TAKES)
    generator = torch.Generator().manual_seed(clip.index)
    frames = 10 + take
    rest = torch.linspace(-1, 1, 3 * len(LAYOUT)).view(len(LAYOUT), 3)
    time = torch.linspace(0, 1, frames)[:, None, None]
    swing = (
        torch.sin(2 * math.pi * (1 + label % 4) * time + label)
        * torch.cos(label * torch.arange(len(LAYOUT)))[:, None]
    )
    noise = 0.3 * torch.randn(frames, len(LAYOUT), 3, generator=generator)
    return Motion(rest + 0.4 * swing + noise, LAYOUT, label=label, subject=take, name=clip.name)


def dataset():
    clips = [
        Clip(f"clip {i}", Path("tiny"), Tags(label=i // TAKES, subject=i % TAKES), i)
        for i in range(CLASSES * TAKES)
    ]
    return FileDataset("tiny", LAYOUT, tuple(clips), motion_of)


def split(name="tiny", train=(0, 1, 2, 3), validation=(4, 5), test=(6, 7)):
    labels = [i // TAKES for i in range(CLASSES * TAKES)]
    columns = Columns(labels, [i % TAKES for i in range(len(labels))], [None] * len(labels), tuple(range(40)))
    pools = {
        key: tuple(i for i in range(len(labels)) if labels[i] in classes)
        for key, classes in (("train", train), ("validation", validation), ("test", test))
    }

    def episodes(pool):
        drawn = {"way": 2, "queries": 2, "count": 6, "seed": 5}
        return Episodes(labels, support=pool, query=pool, **drawn) if pool else ()

    return Split(
        name=name,
        train=pools["train"],
        validation=episodes(pools["validation"]),
        test=episodes(pools["test"]),
        train_classes=tuple(train),
        validation_classes=tuple(validation),
        test_classes=tuple(test),
        way=3,
        shot=1,
        apart=(),
        columns=columns,
    )


def model_config(dropout=0.3, **align):
    align = {"metric": "sqeuclidean", "gamma": 0.05, "relative": True, "normalise": "length", **align}
    return ModelConfig(
        inputs=InputConfig(
            prepare=PrepareConfig(size="bones"),
            scale="none",
            streams=("deviation", "motion"),
            block=4,
            stride=0.5,
        ),
        views=EulerViewsConfig(azimuth=15, altitude=0),
        encoder=GraphEncoderConfig(width=4, features=6, layers=2, dropout=dropout),
        align=JeanieConfig(**align),
    )
