"""Every protocol is linted: nothing that is tested is trained or validated on, and every draw can be repeated.

Each runs on hand-made tags of the right shape, and on the real data set where that is at hand.
"""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from protocol_cases import ROOT, TRAINING_FREE, check_episode, clips_of, digest, lint, splits_of
from stand_ins import HAND_MADE, Tagged, Unread, hand_made, kinect, make_tagged_dataset
from typer.testing import CliRunner

from jeanie.cli.app import app
from jeanie.datasets import Dataset, open_dataset
from jeanie.datasets.archive.writer import write_archive
from jeanie.datasets.clip_names import parse_tags
from jeanie.datasets.synthetic.dataset import open_synthetic
from jeanie.errors import ConfigError, DataError
from jeanie.evaluation.protocols import PROTOCOLS, get_protocol
from jeanie.evaluation.protocols.class_splits import split_by_group, split_randomly
from jeanie.skeleton.layout import LAYOUTS
from jeanie.skeleton.motion import Motion

NAMES = [
    "msraction3d-splits", "msraction3d-exemplars", "action-pairs", "uwa3d", "action-pairs-exemplars",
    "uwa3d-exemplars", "uwa3d-multiview-released", "uwa3d-multiview", "ntu60-oneshot",
    "ntu120-oneshot", "ntu120-horizontal", "ntu120-vertical", "kinetics", "nwucla-crossview", "nwucla-published",
    "sbu", "synthetic",
]  # fmt: skip


def test_all_protocols_are_there():
    assert list(PROTOCOLS) == NAMES
    assert all(get_protocol(name).name == name for name in NAMES)


def test_hand_made_tags_are_a_data_set():
    assert all(isinstance(make(), Dataset) for make in HAND_MADE.values())


@pytest.mark.parametrize("name", NAMES)
def test_nothing_leaks_on_hand_made_tags(name):
    splits = lint(name, hand_made(name), episodes=10)
    assert len(splits) == PROTOCOLS[name].split_count
    counts = {(len(s.train_classes), len(s.validation_classes), len(s.test_classes)) for s in splits}
    assert counts == set(PROTOCOLS[name].counts())


@pytest.mark.parametrize("name", NAMES)
def test_nothing_leaks_on_real_data(name):
    if not PROTOCOLS[name].available():
        pytest.skip(f"needs the recordings {PROTOCOLS[name].dataset} in $JEANIE_DATA")
    splits = lint(name, replace(PROTOCOLS[name].open(), read=Unread().__getitem__), episodes=40)
    assert len(splits) == PROTOCOLS[name].split_count


@pytest.mark.parametrize("name", sorted(TRAINING_FREE))
def test_training_free_protocols_also_train_on_five_classes(name):
    for split in lint(name, hand_made(name), episodes=5, train_classes=5):
        assert (len(split.train_classes), len(split.validation_classes)) == (3, 2)
        assert split.way == len(split.test_classes)


@pytest.mark.parametrize("name", ["ntu60-oneshot", "ntu120-oneshot"])
def test_fewer_training_classes_are_the_first_ones(name):
    dataset = hand_made(name)
    novel = {1 + 6 * number for number in range(20)}
    for count in PROTOCOLS[name].train_classes:
        (split,) = lint(name, dataset, episodes=5, train_classes=count)
        expected = [label for label in range(1, 121) if label not in novel][:count]
        assert sorted(split.train_classes + split.validation_classes) == expected
        assert len(split.validation_classes) == max(2, count // 5)


@pytest.mark.parametrize("name", ["msraction3d-splits", "uwa3d", "synthetic", "uwa3d-multiview"])
def test_without_validation_everything_trains(name):
    dataset = hand_made(name)
    for split, usual in zip(splits_of(name, dataset, validation=0), splits_of(name, dataset), strict=True):
        assert list(split.validation) == []
        assert split.validation_classes == ()
        assert set(split.train) > set(usual.train)
        assert digest(replace(split, train=(), validation=()), 20) == digest(
            replace(usual, train=(), validation=()), 20
        ), "the test depends on what is held out"


def test_ways_are_offered_and_cut_to_the_classes():
    for way in (5, 10):
        assert {len(split.test[0].classes) for split in splits_of("uwa3d", hand_made("uwa3d"), way=way)} == {
            way
        }
    found = {
        split.name: split.way for split in splits_of("ntu120-horizontal", hand_made("ntu120-horizontal"))
    }
    assert found == {
        f"{classes}, {cameras}": way
        for classes, way in (("same 100", 100), ("novel 20", 20))
        for cameras in ("left to centre", "left to right", "left+centre to right")
    }


def test_apart_can_be_asked_for():
    dataset = hand_made("msraction3d-splits")
    together = apart = 0
    for split in splits_of("msraction3d-splits", dataset)[:2]:
        together += sum(same_subject(dataset, episode) for episode in split.test)
    for split in splits_of("msraction3d-splits", dataset, apart=["subject"])[:2]:
        apart += sum(same_subject(dataset, episode) for episode in split.test)
    assert together > 100
    assert apart == 0


def same_subject(dataset, episode):
    subjects = dataset.subjects
    pairs = zip(
        episode.support.tolist(), episode.query.tolist(), strict=True
    )  # one shot, one query: in class order
    return sum(subjects[support] == subjects[query] for support, query in pairs)


def test_training_episodes_stay_within_the_training_clips():
    dataset = hand_made("synthetic")
    labels = dataset.labels
    (split,) = splits_of("synthetic", dataset)
    for episode in split.training_episodes(dataset, way=5, shot=2, queries=3, count=20, seed=7):
        check_episode(episode, labels, 5, 2)
        assert {*episode.support.tolist(), *episode.query.tolist()} <= set(split.train)
    usual = split.training_episodes(dataset, count=1, seed=7)[0]
    assert (usual.way, len(usual.support)) == (10, 10)


def test_a_way_is_cut_to_the_training_classes():
    dataset = hand_made("action-pairs")
    split = splits_of("action-pairs", dataset)[0]
    assert split.training_episodes(dataset, count=1, seed=0)[0].way == 4


def test_validation_asks_across_the_training_cameras():
    for name in ("synthetic", "uwa3d-multiview"):
        dataset = hand_made(name)
        views = dataset.views
        for split in splits_of(name, dataset)[:3]:
            for episode in split.validation[:20]:
                pairs = zip(episode.support.tolist(), episode.query.tolist(), strict=True)
                assert all(views[support] != views[query] for support, query in pairs)


# ---- what each protocol is ----


def test_class_draws_of_this_release_stay_as_they_are():
    halves = [set(split.train) for split in split_randomly(range(1, 21), 10)]
    assert halves[0] == {3, 4, 8, 10, 12, 14, 15, 16, 19, 20}
    assert len({frozenset(half) for half in halves}) == 10
    assert all(len(half) == 10 for half in halves)


def test_action_pairs_stay_together_in_all_twenty_choices():
    splits = split_by_group(range(1, 13), 6, group=2)
    assert len({split.train for split in splits}) == 20
    for split in splits_of("action-pairs", hand_made("action-pairs")):
        for classes in (split.train_classes, split.validation_classes, split.test_classes):
            assert {label + 1 if label % 2 else label - 1 for label in classes} == set(classes)


def test_uwa_has_the_twelve_view_combinations_of_the_paper():
    names = [split.name for split in splits_of("uwa3d-multiview", hand_made("uwa3d-multiview"))]
    columns = "1+2 3,1+2 4,1+3 2,1+3 4,1+4 2,1+4 3,2+3 1,2+3 4,2+4 1,2+4 3,3+4 1,3+4 2"
    assert names == [column.replace(" ", " to ") for column in columns.split(",")]


def test_ntu_exemplars_meet_all_other_clips_of_their_classes():
    dataset = hand_made("ntu120-oneshot")
    (split,) = splits_of("ntu120-oneshot", dataset)
    (episode,) = split.test
    assert [dataset.names[clip] for clip in episode.support.tolist()[9:11]] == [
        "S001C003P008R001A055",
        "S018C003P008R001A061",
    ]
    assert episode.classes == tuple(range(1, 121, 6))
    novel = {clip for clip, label in enumerate(dataset.labels) if label % 6 == 1}
    assert {*episode.query.tolist(), *episode.support.tolist()} == novel


def test_vertical_views_are_told_by_the_setup():
    dataset = hand_made("ntu120-vertical")
    by_name = {split.name: split for split in splits_of("ntu120-vertical", dataset)}
    split = by_name["novel 20, bottom+centre to top"]
    assert {parse_tags(dataset.names[clip]).setup for clip in split.train} == {1, 2, 18, 19}
    supports, queries = clips_of(split.test[:10])
    assert {parse_tags(dataset.names[clip]).setup for clip in supports} <= {1, 2, 18, 19}
    assert {parse_tags(dataset.names[clip]).setup for clip in queries} <= {3, 20}


def test_synthetic_asks_from_cameras_that_training_never_saw():
    dataset = open_synthetic()
    (split,) = PROTOCOLS["synthetic"].splits(dataset)
    supports, queries = clips_of(split.test)
    views = dataset.views
    assert {views[clip] for clip in split.train} == {"centre", "left"}
    assert {views[clip] for clip in supports} == {"centre"}
    assert {views[clip] for clip in queries} == {"right", "top"}


def test_an_archive_gives_the_same_splits(tmp_path):
    """It knows no setups of its own: they are read from the names."""
    small = make_tagged_dataset(
        "ntu120", [name for name in hand_made("ntu120-vertical").names if "C003" in name]
    )
    joints = np.ones((1, 1, 25, 3), np.float32)
    motions = (
        Motion(joints, LAYOUTS["ntu25"], name=name, label=one.label, subject=one.subject, view=one.view)
        for name, one in zip(small.names, small.tags, strict=True)
    )
    write_archive(motions, tmp_path / "ntu120", name="ntu120")
    archive = open_dataset("ntu120", tmp_path / "ntu120")
    ours, theirs = (splits_of("ntu120-vertical", dataset) for dataset in (archive, small))
    assert [digest(split, 2) for split in ours] == [digest(split, 2) for split in theirs]


# ---- the released lists of the paper's authors ----


# ---- the published protocol ----


# ---- repeatability ----


def digests():
    return {
        name: [digest(split, 3) for split in splits_of(name, hand_made(name))[:7]]
        for name in NAMES
    }  # fmt: skip


def test_another_process_makes_the_same_splits():
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import json, test_protocols; "
    code += "print(json.dumps(test_protocols.digests()))"
    environment = os.environ | {
        "PYTHONHASHSEED": "12345",
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}",
    }
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == digests()


# ---- messages and the command ----


@pytest.mark.errors
def test_missing_data_says_where_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setenv("JEANIE_DATA", str(tmp_path))
    for name in NAMES[:-1]:
        row = PROTOCOLS[name]
        with pytest.raises(DataError) as found:
            row.open()
        assert f"{name} needs {row.dataset}, which is not at {tmp_path / row.dataset}" in str(found.value)
        assert "http" in str(found.value)
        assert f"jeanie prepare {row.dataset}" in str(found.value)
    monkeypatch.delenv("JEANIE_DATA")
    with pytest.raises(DataError, match="JEANIE_DATA is not set"):
        PROTOCOLS["sbu"].open()
    assert len(PROTOCOLS["synthetic"].open()) == 6000


@pytest.mark.errors
@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("uwa3d", {"way": 16}, "way is 2 to 15, as there are 15 test classes, got 16"),
        ("ntu60-oneshot", {"way": 11}, "way is 2 to 10, as there are 10 test classes, got 11"),
        ("uwa3d", {"shot": 0}, "shot is 1 or more supports per class, got 0"),
        ("uwa3d", {"train_classes": 29}, "train_classes=29 must be from 2 to 28"),
        ("uwa3d", {"train_classes": 3}, "3 training classes, 2 of them for validation, leave fewer than 2"),
        ("ntu60-oneshot", {"train_classes": 51}, "train_classes=51 must be from 2 to 50"),
        ("uwa3d", {"validation": 1.0}, "validation is a share of the training classes, 0 to 1, got 1.0"),
        ("kinetics", {"apart": ("subject",)}, "apart='subject' needs the subject of every clip"),
        ("action-pairs", {"train_classes": 5}, "classes come in groups of 2, got 5 training classes of 12"),
    ],
)
def test_impossible_wishes_are_refused(name, options, message):
    with pytest.raises(ConfigError, match=message):
        splits_of(name, hand_made(name), **options)


@pytest.mark.errors
def test_incomplete_data_is_refused():
    short = kinect("msraction3d", range(1, 20), 10, 3)
    with pytest.raises(DataError, match=r"expected the classes 1 to 20, got no clip of 1 of them \(20\)"):
        PROTOCOLS["msraction3d-splits"].splits(short)
    whole = hand_made("ntu60-oneshot")
    keep = [at for at, name in enumerate(whole.names) if name != "S001C003P008R001A007"]
    lost = Tagged("ntu60", [whole.names[at] for at in keep], [whole.tags[at] for at in keep])
    with pytest.raises(DataError, match="1 of 10 exemplars are missing: S001C003P008R001A007"):
        PROTOCOLS["ntu60-oneshot"].splits(lost)


@pytest.mark.errors
def test_heights_that_are_missing_say_what_to_write(tmp_path, monkeypatch):
    monkeypatch.setenv("JEANIE_DATA", str(tmp_path))
    with pytest.raises(
        DataError,
        match=r"setups\.csv: no height for the cameras of setup 18, 19, 20; .* jeanie setups ntu120",
    ):
        PROTOCOLS["ntu120-vertical"].splits(hand_made("ntu120-vertical"))


@pytest.mark.errors
def test_a_split_trains_only_what_it_was_made_for():
    dataset = hand_made("sbu")
    (split,) = splits_of("sbu", dataset)
    with pytest.raises(ConfigError, match="split 'all' has no training classes; use a model"):
        split.training_episodes(dataset, count=1, seed=0)
    other = splits_of("uwa3d", hand_made("uwa3d"))[0]
    with pytest.raises(ConfigError, match="split 'seed 0' was built from 600 clips, this data set has 96"):
        other.training_episodes(dataset, count=1, seed=0)


@pytest.mark.errors
def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ConfigError, match="no protocol 'ntu'; the known ones are msraction3d-splits, "):
        get_protocol("ntu")


def test_the_command_lists_every_protocol(tmp_path, monkeypatch):
    monkeypatch.setenv("JEANIE_DATA", str(tmp_path))
    (tmp_path / "sbu").mkdir()
    result = CliRunner().invoke(app, ["protocols"])
    assert result.exit_code == 0
    lines = {line.split()[0]: line for line in result.stdout.splitlines() if line.strip()}
    assert set(NAMES) <= set(lines)
    assert re.search(r"7/3/10 +missing$", lines["msraction3d-splits"])
    assert re.search(r"100/100/100, 80/20/20 +missing$", lines["ntu120-vertical"])
    assert lines["sbu"].endswith("found")
    assert "rose1.ntu.edu.sg" in lines["ntu120:"]
    assert "sbu:" not in lines


def test_the_command_prints_one_json_object(tmp_path, monkeypatch):
    monkeypatch.setenv("JEANIE_DATA", str(tmp_path))
    rows = {
        row["name"]: row
        for row in json.loads(CliRunner().invoke(app, ["protocols", "--json"]).stdout)["protocols"]
    }
    assert list(rows) == NAMES
    assert rows["synthetic"]["available"] is True
    assert rows["kinetics"]["available"] is False
    assert rows["uwa3d"]["classes"] == [{"train": 11, "validation": 4, "test": 15}]
    assert rows["ntu60-oneshot"]["train_classes"] == [50, 40, 30, 20, 10]
    assert rows["nwucla-crossview"]["splits"] == 9
