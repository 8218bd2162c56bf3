"""Protocols from TOML files: the same splits as by hand, and errors that name the file and the problem."""

import pytest
import tiny_task

from jeanie.datasets.formats.npz import write_npz
from jeanie.errors import ConfigError, DataError
from jeanie.evaluation.evaluate import evaluate
from jeanie.evaluation.protocols import PROTOCOLS, get_protocol
from jeanie.fewshot.model import FewShotModel

SYNTHETIC = """
title = "the embedded data set again"
dataset = "synthetic"
way = 10
validation = 0.2
apart = ["subject"]
episodes = 100
validation_episodes = 50

[classes]
rule = "random"
train = 55
seeds = [0]
"""


def write(tmp_path, text, name="mine.toml"):
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def cameras_of(protocol):
    (row,) = PROTOCOLS[protocol].rules.cameras
    return "".join(
        f"\n{side} = [{', '.join(repr(tag) for tag in getattr(row, side))}]"
        for side in ("train", "support", "query")
    )


def test_a_file_can_repeat_a_protocol_of_jeanie(tmp_path):
    known = PROTOCOLS["synthetic"]
    (row,) = known.rules.cameras
    text = SYNTHETIC + f"\n[[cameras]]\nname = {row.name!r}{cameras_of('synthetic')}\n"
    mine = get_protocol(write(tmp_path, text))
    assert (mine.name, mine.title, mine.way, mine.shot) == ("mine", "the embedded data set again", 10, 1)
    dataset = known.open()
    (expected,), (found,) = known.splits(dataset), mine.splits(mine.open())
    assert found.train == expected.train
    assert found.test_classes == expected.test_classes
    for tests in ("test", "validation"):
        pairs = zip(getattr(found, tests), getattr(expected, tests), strict=True)
        assert all(a.query.tolist() == b.query.tolist() for a, b in pairs)


LISTS = """
dataset = "synthetic"
way = 2
episodes = 3
[classes]
rule = "lists"
train = ["drink", "kneel", "lift_overhead"]
validation = ["throw", "clap"]
test = ["push_forward", "check_watch"]
"""


def known_classes():
    return list(dict.fromkeys(PROTOCOLS["synthetic"].open().labels))


def lists_text(train, validation, test):
    return LISTS.split("[classes]")[0] + (
        f"[classes]\nrule = 'lists'\ntrain = {train}\nvalidation = {validation}\ntest = {test}\n"
    )


def test_listed_classes_are_trained_validated_and_tested(tmp_path):
    names = known_classes()
    protocol = get_protocol(write(tmp_path, lists_text(names[:3], names[3:5], names[5:7])))
    dataset = protocol.open()
    (split,) = protocol.splits(dataset)
    assert split.train_classes == tuple(names[:3])
    assert split.validation_classes == tuple(names[3:5])
    assert split.test_classes == tuple(names[5:7])
    report = evaluate(FewShotModel.raw("dtw"), protocol, dataset=dataset)
    assert report.protocol == "mine"
    assert report.queries == 6


def test_a_folder_with_one_folder_per_class_is_a_data_set(tmp_path):
    dataset = tiny_task.dataset()
    for number in range(20):
        motion = dataset[number]
        (tmp_path / "in" / f"class {motion.label}").mkdir(parents=True, exist_ok=True)
        write_npz(motion.replace(label=None), tmp_path / "in" / f"class {motion.label}" / f"{number}.npz")
    text = "folder = 'in'\nway = 2\nepisodes = 4\n[classes]\nrule = 'random'\n"
    protocol = get_protocol(write(tmp_path, text))
    (split,) = protocol.splits(protocol.open())
    assert split.test_classes == tuple(f"class {number}" for number in range(4))
    report = evaluate(FewShotModel.raw("dtw"), protocol)
    assert report.queries == 8
    assert report.accuracy > 50
    write_npz(dataset[0], tmp_path / "single.npz")
    with pytest.raises(DataError, match="a folder with its name"):
        get_protocol(write(tmp_path, "folder = 'single.npz'\n")).open()


@pytest.mark.errors
def test_errors_name_the_file_and_the_problem(tmp_path):
    names = known_classes()
    for text, message in (
        ("way = 5\n", "either dataset, the name of a data set, or folder"),
        ("dataset = 'synthetic'\nwya = 5\n", r"mine\.toml: ProtocolConfig: wya: no such option"),
        ("dataset = 'synthetik'\n", "no data set 'synthetik'"),
        ("dataset = 'synthetic'\nname = 'sbu'\n", "that of a protocol of jeanie"),
        ("dataset = 'synthetic'\n[classes]\nrule = 'best'\n", "rule needs one of"),
    ):
        with pytest.raises(ConfigError, match=message):
            get_protocol(write(tmp_path, text))
    for lists, message in (
        ((names[:2], [], ["drinkk", names[4]]), "no class 'drinkk'; .* did you mean 'drink'"),
        ((names[:2], [], names[1:3]), "more than one list"),
    ):
        protocol = get_protocol(write(tmp_path, lists_text(*lists)))
        with pytest.raises(ConfigError, match=message):
            protocol.splits(protocol.open())
    with pytest.raises(ConfigError, match="did you mean 'synthetic'"):
        get_protocol("syntetic")
    with pytest.raises(ConfigError, match="cannot be read"):
        get_protocol("missing.toml")
    with pytest.raises(DataError, match="does not exist"):
        get_protocol(write(tmp_path, "folder = 'nowhere'\n")).open()
