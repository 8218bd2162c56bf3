"""The splits that the authors of the paper and of the data sets released, clip by clip."""

import pytest
import torch
from protocol_cases import DATA, SPLITS, clips_of, digest, lint
from stand_ins import make_tagged_dataset

from jeanie.errors import DataError
from jeanie.evaluation.protocols import PROTOCOLS


def read_released_list(file):
    if not SPLITS.is_dir():
        pytest.skip("needs the released lists splits in $JEANIE_DATA")
    return (SPLITS / file).read_text().split()


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("msraction3d-exemplars", "exampler_MSRAction3D.txt"),
        ("action-pairs-exemplars", "exampler_3DActionPairs.txt"),
        ("uwa3d-exemplars", "exampler_UWA3DActivity.txt"),
        ("ntu60-oneshot", "exampler_NTU-RGBD-60.txt"),
        ("ntu120-oneshot", "exampler_NTU-RGBD-120.txt"),
    ],
)
def test_exemplars_are_those_of_the_released_lists(name, file):
    assert list(PROTOCOLS[name].rules.exemplars) == read_released_list(file)


def test_msraction3d_has_289_queries_with_the_exemplars_and_279_without():
    train, test = (
        read_released_list("MSRAction3D_fsl_train.txt"),
        read_released_list("MSRAction3D_fsl_test.txt"),
    )
    row = PROTOCOLS["msraction3d-exemplars"]
    dataset = row.open()
    (split,) = row.splits(dataset)
    names = dataset.names
    (without,), (together,) = split.test, split.test_variants["with exemplars"]
    assert (len(without.query), len(together.query)) == (279, 289)
    assert sorted(names[clip] for clip in together.query.tolist()) == sorted(test)
    assert {names[clip] for clip in without.query.tolist()} == set(test) - set(row.rules.exemplars)
    (everything,) = row.splits(dataset, validation=0)
    assert sorted(names[clip] for clip in everything.train) == sorted(train)


@pytest.mark.parametrize(
    ("name", "data", "lists", "more"),
    [
        ("action-pairs-exemplars", "action-pairs", "3DActionPairs", "a01_s01_e09"),
        ("uwa3d-exemplars", "uwa3d", "UWA3DActivity", "a16e09s09"),
    ],
)
def test_released_splits_use_the_listed_clips_alone(name, data, lists, more):
    train, test = read_released_list(f"{lists}_fsl_train.txt"), read_released_list(f"{lists}_fsl_test.txt")
    dataset = make_tagged_dataset(data, [*train, *test, more])
    row = PROTOCOLS[name]
    (split,) = row.splits(dataset, validation=0)
    (without,), (together,) = split.test, split.test_variants["with exemplars"]
    assert sorted(dataset.names[clip] for clip in split.train) == sorted(train)
    assert sorted(dataset.names[clip] for clip in together.query.tolist()) == sorted(test)
    assert {dataset.names[clip] for clip in without.query.tolist()} == set(test) - set(row.rules.exemplars)
    with pytest.raises(DataError, match=r"1 of .* clips of the released list are missing"):
        row.splits(make_tagged_dataset(data, [*train[1:], *test]))


def test_the_released_multiview_split_uses_the_listed_clips_alone():
    train = read_released_list("UWA3DMultiviewActivityII_1-2-3_fsl_train.txt")
    test = read_released_list("UWA3DMultiviewActivityII_1-2-3_fsl_test.txt")
    dataset = make_tagged_dataset("uwa3d-multiview", [*train, *test, "a01_s01_e09_v01", "a01_s01_e09_v03"])
    (split,) = PROTOCOLS["uwa3d-multiview-released"].splits(dataset, validation=0)
    supports, queries = clips_of(split.test)
    assert {dataset.names[clip] for clip in queries} <= set(test)
    assert {dataset.names[clip] for clip in supports | set(split.train)} <= set(train)
    assert len(split.train) >= len(train) - 2 * 30


@pytest.mark.parametrize(("way", "shot"), [(3, 1), (10, 2), (5, 3)])
def test_another_way_or_shot_than_the_exemplars_draws_random_episodes(way, shot):
    dataset = make_tagged_dataset(
        "msraction3d", [f"a{a:02}_s{s:02}_e01" for a in range(1, 21) for s in range(1, 7)]
    )
    (split,) = PROTOCOLS["msraction3d-exemplars"].splits(dataset, way=way, shot=shot)
    assert len(split.test) > 1
    assert (split.way, split.shot) == (way, shot)
    for episode in (split.test[0], split.validation[0]):
        counts = torch.bincount(episode.support_labels).tolist()
        assert set(counts) == {shot}
        assert not set(episode.support.tolist()) & set(episode.query.tolist())
    assert len(split.test[0].classes) == way
    assert set(split.test[0].classes) <= set(range(11, 21))


def test_more_shots_hold_back_more_subjects_where_test_classes_are_trained():
    names = [f"a{a:02}_s{s:02}_e01_v{v:02}" for a in range(1, 31) for s in range(1, 10) for v in range(1, 5)]
    for shot in (1, 3):
        split = PROTOCOLS["uwa3d-multiview"].splits(make_tagged_dataset("uwa3d-multiview", names), shot=shot)[
            0
        ]
        supports, _ = clips_of(split.test[:4])
        assert not supports & set(split.train)
        assert torch.bincount(split.test[0].support_labels).tolist() == [shot] * 30


def test_action_pairs_have_the_released_split_among_theirs():
    train, test = (
        read_released_list("3DActionPairs_fsl_train.txt"),
        read_released_list("3DActionPairs_fsl_test.txt"),
    )
    dataset = make_tagged_dataset("action-pairs", sorted(train + test))
    by_name = {split.name: split for split in PROTOCOLS["action-pairs"].splits(dataset, validation=0)}
    assert sorted(dataset.names[clip] for clip in by_name["train 1-2 3-4 5-6"].train) == sorted(train)


def test_uwa_multiview_has_the_released_split_among_theirs():
    """Training clips and exemplars are the released training list, queries are from the released test list."""
    train = read_released_list("UWA3DMultiviewActivityII_1-2-3_fsl_train.txt")
    test = read_released_list("UWA3DMultiviewActivityII_1-2-3_fsl_test.txt")
    dataset = make_tagged_dataset("uwa3d-multiview", train + test + [name[:-1] + "4" for name in test])
    by_name = {split.name: split for split in lint("uwa3d-multiview", dataset, episodes=5)}
    split = by_name["1+2 to 3"]
    (whole,) = [
        one for one in PROTOCOLS["uwa3d-multiview"].splits(dataset, validation=0) if one.name == split.name
    ]
    supports, queries = clips_of(split.test)
    assert {dataset.names[clip] for clip in queries} <= set(test)
    assert len(queries) > 0.95 * len(test)
    supports, _ = clips_of(whole.test)
    assert {dataset.names[clip] for clip in supports | set(whole.train)} <= set(train)
    assert len(whole.train) >= len(train) - 2 * 30  # a subject a class gives the supports


@pytest.mark.skipif(not (DATA / "nw-ucla").is_dir(), reason="needs the recordings nw-ucla in $JEANIE_DATA")
def test_the_published_protocol_uses_1482_clips_in_the_order_of_their_names():
    row = PROTOCOLS["nwucla-published"]
    dataset = row.open()
    splits = row.splits(dataset)
    assert len(splits[0].columns.usable) == 1482
    names, labels, views = dataset.names, dataset.labels, dataset.views
    clips = sorted(range(len(dataset)), key=lambda clip: names[clip])
    clips = [clip for clip in clips if names[clip] not in ("a02_s09_e04_v02", "a02_s09_e04_v03")]
    train = [clip for clip in clips if labels[clip] in (1, 2, 3, 4, 5) and views[clip] in (1, 2)]
    assert list(splits[0].train) == train
    for seed, split in enumerate(splits):
        assert split.train_classes == (1, 2, 3, 4, 5)
        assert (len(split.test), len(split.test[0].query)) == (300, 25)
        assert list(split.validation) == []
        assert split.name == f"seed {seed}, 1+2 to 3"
    assert digest(splits[0], 300) != digest(splits[1], 300)
    first = splits[0].training_episodes(dataset, count=3, seed=0)
    assert [len(episode.query) for episode in first] == [5, 5, 5]
