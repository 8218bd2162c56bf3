"""Label propagation: against dense linear algebra, on graphs with a known answer, and on the command line."""

import csv
import json

import numpy as np
import pytest
import torch
from torch.testing import assert_close
from typer.testing import CliRunner

import jeanie.fewshot.batching as batching
from jeanie import FewShotModel, open_dataset
from jeanie.cli.app import app
from jeanie.compute.processes import use_one_thread
from jeanie.datasets.archive.writer import write_archive
from jeanie.datasets.formats.npz import write_npz
from jeanie.errors import ConfigError
from jeanie.recogniser import neighbours
from jeanie.recogniser.labelling import (
    LabelConfig,
    build_graph,
    label,
    propagate,
    spread_labels,
)
from jeanie.recogniser.neighbours import Neighbours, find_neighbours

ALL = LabelConfig(abstain=0.0)


def clouds(centres, each=12, spread_of=0.3, seed=0):
    """Points around centres on a line, as distances; and who belongs where."""
    rng = np.random.default_rng(seed)
    place = np.concatenate([centre + spread_of * rng.standard_normal((each, 2)) for centre in centres])
    return np.linalg.norm(place[:, None] - place, axis=-1), np.repeat(range(len(centres)), each)


def neighbours_of(distances, count):
    """By sorting, row after row."""
    rows, far = [], []
    for i, row in enumerate(distances):
        order = sorted((d, j) for j, d in enumerate(row) if j != i)[:count]
        rows.append([j for _, j in order])
        far.append([d for d, _ in order])
    return Neighbours(torch.tensor(rows), torch.tensor(far, dtype=torch.float64))


def dense(near):
    """W, D and S of the graph by scalar loops."""
    n, k = near.index.shape
    weight = np.zeros((n, n))
    own = [float(near.distance[i, min(7, k) - 1]) for i in range(n)]
    for i in range(n):
        for j, d in zip(near.index[i].tolist(), near.distance[i].tolist(), strict=True):
            weight[i, j] += np.exp(-(d**2) / (own[i] * own[j])) / 2
            weight[j, i] += np.exp(-(d**2) / (own[i] * own[j])) / 2
    degree = weight.sum(1)
    return degree, weight / np.sqrt(np.outer(degree, degree))


@pytest.mark.parametrize("count", [3, 10])
def test_the_graph_is_the_one_that_scalar_loops_make(count):
    near = neighbours_of(clouds([(0, 0), (3, 0), (0, 3)])[0], count)
    graph, degree = build_graph(near)
    expected_degree, expected = dense(near)
    assert_close(degree.numpy(), expected_degree)
    assert_close(graph.to_dense().numpy(), expected)


@pytest.mark.parametrize("alpha", [0.5, 0.95, 0.999])
def test_conjugate_gradients_solve_what_dense_algebra_solves(alpha):
    graph, _ = build_graph(neighbours_of(clouds([(0, 0), (2, 0), (0, 2)])[0], 6))
    seeds = torch.rand(36, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    expected = (1 - alpha) * np.linalg.solve(np.eye(36) - alpha * graph.to_dense().numpy(), seeds.numpy())
    assert_close(spread_labels(graph, seeds, alpha).numpy(), expected, rtol=1e-6, atol=1e-9)


def test_one_example_labels_its_whole_cloud_where_the_nearest_example_is_wrong_for_many():
    line = [(0.35 * step, 0.0) for step in range(30)]  # a long thin class beside a small one
    distances, _ = clouds([*line, (6, 2), (6, 2)], each=6, spread_of=0.12)
    truth = np.array([0] * 180 + [1] * 12)
    examples = [0, 180]
    by_nearest = (distances[:, examples].argmin(1) == truth).mean()
    found = propagate(neighbours_of(distances, 10), examples, ["long", "small"], ALL)
    right = np.mean([tag == ("long", "small")[one] for tag, one in zip(found.labels, truth, strict=True)])
    assert by_nearest < 0.5
    assert right == 1.0


def test_shuffled_examples_are_at_chance():
    distances, truth = clouds([(4 * i, 0) for i in range(5)], each=20)
    near = neighbours_of(distances, 10)
    examples = [20 * i for i in range(5)]
    rng = np.random.default_rng(0)
    hits = []
    for _ in range(50):
        names = rng.permutation(5).tolist()
        found = propagate(near, examples, names, ALL)
        hits += [tag == one for tag, one in zip(found.labels, truth, strict=True)]
    assert abs(np.mean(hits) - 0.2) < 0.08


def test_a_cloud_without_an_example_is_left_without_labels():
    distances, truth = clouds([(0, 0), (4, 0), (0, 4)], each=20, spread_of=0.6)
    near = neighbours_of(distances, 22)  # more than a cloud has: all are tied to each other
    assert all(tag is not None for tag in propagate(near, [0, 20], ["a", "b"], ALL).labels)
    found = propagate(near, [0, 20], ["a", "b"], LabelConfig())
    named = np.array([tag is not None for tag in found.labels])
    assert named[truth < 2].mean() > 0.8
    assert named[truth == 2].mean() < 0.2


def test_a_motion_that_nothing_reaches_has_no_label_at_any_threshold():
    distances, truth = clouds([(0, 0), (1000, 0)])
    found = propagate(neighbours_of(distances, 5), [0], ["a"], ALL)
    assert [tag for tag, one in zip(found.labels, truth, strict=True) if one == 1] == [None] * 12
    assert found.confidence[truth == 1].max() == 0


def test_abstaining_more_never_adds_a_label_and_examples_keep_theirs():
    near = neighbours_of(clouds([(0, 0), (2, 0), (0, 2)], spread_of=0.8)[0], 6)
    before = None
    for threshold in (0.0, 0.3, 0.6, 1.0):
        found = propagate(near, [0, 12], ["a", "b"], LabelConfig(abstain=threshold))
        assert (found.labels[0], found.labels[12]) == ("a", "b")
        named = {place for place, tag in enumerate(found.labels) if tag is not None}
        assert before is None or named <= before
        before = named
    assert before == {0, 12}


def test_shares_sum_to_at_most_one():
    found = propagate(neighbours_of(clouds([(0, 0), (2, 0)])[0], 5), [0, 12, 13], ["a", "b", "b"], ALL)
    assert found.classes == ("a", "b")
    assert bool((found.shares >= 0).all())
    assert bool((found.shares.sum(1) <= 1 + 1e-12).all())


def test_the_weight_of_a_class_does_not_grow_with_its_examples():
    """A class with copies of its example takes nothing from the other one."""
    distances, _ = clouds([(0, 0), (2.5, 0)], each=10, spread_of=0.5, seed=3)
    near = neighbours_of(distances, 6)
    one = propagate(near, [0, 10], ["a", "b"], ALL)
    many = propagate(near, [0, *range(10, 16)], ["a", *"b" * 6], ALL)
    own = torch.arange(1, 10)
    assert_close(one.shares[own].sum(), many.shares[own].sum(), rtol=0.2, atol=0)


def test_identical_motions_share_a_label():
    near = Neighbours(torch.tensor([[1, 2], [0, 2], [0, 1]]), torch.zeros(3, 2, dtype=torch.float64))
    assert propagate(near, [1], ["same"], ALL).labels == ("same",) * 3


@pytest.fixture(scope="module")
def some():
    """16 clips of each of three actions by several persons, before two cameras."""
    dataset = open_dataset("synthetic")
    chosen = []
    for action in ("wave", "kick_forward", "squat"):
        clips = [i for i, tag in enumerate(dataset.labels) if tag == action]
        chosen += [i for i in clips if dataset.views[i] in ("centre", "left")][:16]
    return [dataset[i] for i in chosen]


@pytest.fixture(scope="module")
def model():
    return FewShotModel.load()


def test_nearest_motions_are_those_of_the_whole_table_however_little_memory_there_is(
    some, model, monkeypatch
):
    table = model.distances(some, some).double()
    table.fill_diagonal_(torch.inf)
    expected = table.sort(1)
    for held in (2**26, 2**15):
        for module in (batching, neighbours):
            monkeypatch.setattr(module, "MAX_NUMBERS", held)
        calls = []
        found = find_neighbours(model, some, 5, progress=lambda *pair, calls=calls: calls.append(pair))
        assert_close(found.distance, expected.values[:, :5])
        assert_close(table.gather(1, found.index), found.distance)
        assert calls[-1] == (48 * 48, 48 * 48)
        assert len(calls) > (1 if held == 2**26 else 10)


@pytest.mark.processes
def test_worker_processes_find_the_same_neighbours(some, model):
    with use_one_thread():
        here = find_neighbours(model, some, 5)
    there = find_neighbours(model, some, 5, jobs=2)
    assert here.index.equal(there.index)
    assert here.distance.equal(there.distance)


def test_a_motion_has_at_most_all_others_as_neighbours(some, model):
    assert find_neighbours(model, some[:4], 10).index.shape == (4, 3)


def test_an_archive_is_labelled_from_examples_inside_and_outside_of_it(some, model):
    archive = [motion for motion in some if motion is not some[16]]
    found = label(model, archive, [("wave", 0), ("kick", some[16]), ("squat", archive[-1])], ALL)
    assert len(found) == len(archive) == len(found.shares)
    truth = ["wave"] * 16 + ["kick"] * 15 + ["squat"] * 16
    assert np.mean([tag == one for tag, one in zip(found.labels, truth, strict=True)]) > 0.9


@pytest.mark.errors
@pytest.mark.parametrize(
    ("examples", "message"),
    [
        ([], "no example"),
        ([("a", 48)], "0 to 47"),
        ([("a", 3), ("b", 3)], "motion 3 is an example twice"),
    ],
)
def test_errors_name_invalid_examples(some, model, examples, message):
    with pytest.raises(ConfigError, match=message):
        label(model, some, examples)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, some):
    """Recordings without labels, in a folder, and examples with and without one beside it."""
    place = tmp_path_factory.mktemp("label")
    (place / "in").mkdir()
    for number, motion in enumerate(some):
        write_npz(motion.replace(label=None, name=f"take{number}"), place / "in" / f"take{number:02}.npz")
    write_npz(some[0], place / "wave.npz")
    write_npz(some[16].replace(label=None), place / "unnamed.npz")
    return place


def run(*arguments):
    return CliRunner().invoke(app, ["label", *map(str, arguments)])


def test_the_command_labels_a_folder_and_writes_a_table(folder):
    examples = [folder / "wave.npz", f"kick={folder / 'unnamed.npz'}", "squat=take40.npz"]
    done = run(folder / "in", *examples, "--abstain", "0", "--out", folder / "labels.csv", "--json")
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    truth = [("wave", "kick", "squat")[number // 16] for number in range(48)]
    rows = list(csv.DictReader((folder / "labels.csv").read_text().splitlines()))
    assert [row["file"] for row in rows] == [f"take{number:02}.npz" for number in range(48)]
    assert [row["label"] for row in rows] == [row["label"] for row in facts["results"]]
    assert np.mean([row["label"] == one for row, one in zip(rows, truth, strict=True)]) > 0.9
    assert facts["motions"] == sum(facts["classes"].values()) + facts["unlabelled"] == 48
    assert list(facts["classes"]) == ["wave", "kick", "squat"]


def test_a_recording_of_the_folder_that_is_an_example_keeps_its_label(folder):
    done = run(folder / "in", f"mine={folder / 'in' / 'take05.npz'}", "--abstain", "1", "--json")
    facts = json.loads(done.stdout)
    assert [row["file"] for row in facts["results"] if row["label"] == "mine"] == ["take05.npz"]
    assert facts["unlabelled"] == 47


def test_an_archive_is_labelled_and_printed_as_text(folder, some, tmp_path):
    write_archive(some, tmp_path / "some.archive", name="some")
    done = run(tmp_path / "some.archive", some[3].name, some[20].name)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["file", "label", "confidence"]
    assert len(lines) == 49
    assert "kick_forward" in lines[21]
    assert "48 motions" in done.stderr


@pytest.mark.errors
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("in", "unnamed.npz"), "contains no label"),
        (("in", "wave=gone.npz"), "neither a file nor a clip"),
        (("in", "=wave.npz"), "no label before the ="),
        (("gone", "wave.npz"), "neither an archive"),
        (("in", "wave.npz", "--out", "no/where.csv"), "create it first"),
        (("in", "wave.npz", "--abstain", "2"), "abstain"),
    ],
)
def test_wrong_usage_ends_with_exit_code_2_and_writes_nothing(folder, monkeypatch, arguments, message):
    monkeypatch.chdir(folder)
    before = set(folder.iterdir())
    done = run(*arguments)
    assert done.exit_code == 2
    assert message in done.output
    assert set(folder.iterdir()) == before
