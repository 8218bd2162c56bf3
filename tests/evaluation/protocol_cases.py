"""Protocols on hand-made tags and on real data: their splits, and what every split must hold."""

import hashlib
import os
import re
from pathlib import Path

from jeanie.datasets.clip_names import parse_tags
from jeanie.evaluation.protocols import PROTOCOLS

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("JEANIE_DATA", "/nonexistent"))
SPLITS = DATA / "splits"
SETUPS = {"bottom": (1, 18), "centre": (2, 19), "top": (3, 20)}


def splits_of(name, dataset, **options):
    heights = {"setups": SETUPS} if name == "ntu120-vertical" else {}
    return PROTOCOLS[name].splits(dataset, **heights, **options)


# What the protocols must satisfy, written independently: training-free ones, those whose test classes are trained,
# those in which no query comes from a camera that training or validation has seen
TRAINING_FREE = {"nwucla-crossview", "sbu"}
SHARED = {
    "uwa3d-multiview": "",
    "uwa3d-multiview-released": "",
    "ntu120-horizontal": "same 100",
    "ntu120-vertical": "same 100",
}
NEW_CAMERAS = {
    "uwa3d-multiview", "uwa3d-multiview-released",
    "ntu120-horizontal", "ntu120-vertical", "nwucla-crossview", "nwucla-published", "synthetic",
}  # fmt: skip
OTHER_SUBJECTS = {"ntu120-horizontal", "ntu120-vertical", "nwucla-crossview", "sbu", "synthetic"}


def camera_of(name, dataset):
    if name != "ntu120-vertical":
        return list(dataset.views)
    group = {setup: key for key, members in SETUPS.items() for setup in members}
    return [group[parse_tags(clip).setup] for clip in dataset.names]


def person_of(name, dataset):
    """Who acts; in SBU a pair of persons in either order."""
    if name != "sbu":
        return list(dataset.subjects)
    return [frozenset(re.findall(r"s\d\d", subject)) for subject in dataset.subjects]


def check_episode(episode, labels, way, shot):
    support, query = episode.support.tolist(), episode.query.tolist()
    assert len(set(episode.classes)) == len(episode.classes) == way
    assert sorted(episode.support_labels.tolist()) == [number for number in range(way) for _ in range(shot)]
    assert [labels[clip] for clip in support] == [
        episode.classes[at] for at in episode.support_labels.tolist()
    ]
    assert [labels[clip] for clip in query] == [episode.classes[at] for at in episode.query_labels.tolist()]
    assert set(episode.query_labels.tolist()) == set(range(way))
    assert len(set(support)) == len(support)
    assert len(set(query)) == len(query)
    assert not set(support) & set(query), "a clip is support and query"


def clips_of(episodes):
    support = {clip for episode in episodes for clip in episode.support.tolist()}
    return support, {clip for episode in episodes for clip in episode.query.tolist()}


def lint(name, dataset, episodes=None, **options):
    """No leak in any split, looking at the first ``episodes`` of each."""
    labels, cameras, people = list(dataset.labels), camera_of(name, dataset), person_of(name, dataset)
    splits = splits_of(name, dataset, **options)
    assert len({split.name for split in splits}) == len(splits)
    for split in splits:
        test, validation = split.test[:episodes], split.validation[:episodes]
        train = set(split.train)
        supports, queries = clips_of(test)
        validated = set.union(*clips_of(validation)) if validation else set()
        trains = bool(split.train_classes)

        for episode in test:
            check_episode(episode, labels, split.way, split.shot)
        for episode in validation:
            check_episode(episode, labels, min(split.way, len(split.validation_classes)), split.shot)

        assert trains == bool(train) == (name not in TRAINING_FREE or "train_classes" in options)
        assert trains == bool(validation) or name == "nwucla-published"
        assert {labels[clip] for clip in train} == set(split.train_classes)
        assert {labels[clip] for clip in validated} <= set(split.validation_classes)
        assert {labels[clip] for clip in supports | queries} <= set(split.test_classes)
        assert not train & validated
        assert not train & (supports | queries)
        assert not validated & (supports | queries)

        if name in SHARED and split.name.startswith(SHARED[name]):
            assert split.train_classes == split.test_classes
            pairs = {(labels[clip], people[clip]) for clip in supports}
            assert not pairs & {(labels[clip], people[clip]) for clip in train | validated}
            assert not {people[clip] for clip in train} & {people[clip] for clip in validated}
        else:
            assert not set(split.train_classes) & set(split.test_classes)
            assert not set(split.validation_classes) & set(split.test_classes)
            assert not set(split.validation_classes) & set(split.train_classes)
        if name in NEW_CAMERAS:
            assert not {cameras[clip] for clip in queries} & {cameras[clip] for clip in train | validated}
        if name in OTHER_SUBJECTS:
            for episode in test:
                for clip, label in zip(episode.query.tolist(), episode.query_labels.tolist(), strict=True):
                    own = episode.support[episode.support_labels == label].tolist()
                    assert people[clip] not in {people[one] for one in own}
    return splits


def digest(split, episodes):
    """A number for all clip numbers of a split."""
    text = repr(split.train)
    for episode in (*split.validation[:episodes], *split.test[:episodes]):
        text += f"{episode.support.tolist()} {episode.query.tolist()} {episode.classes}"
    return hashlib.sha256(text.encode()).hexdigest()
