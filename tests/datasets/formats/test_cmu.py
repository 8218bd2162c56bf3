"""CMU's clips against numpy's own reading of the file, and hand-made files that are broken."""

import json
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from jeanie.datasets.formats.cmu import open_cmu, read_cmu_descriptions
from jeanie.datasets.joint_names import CMU_SUBSET
from jeanie.errors import DataError
from jeanie.skeleton.layout import LAYOUTS

DATA = os.environ.get("JEANIE_DATA")
recordings = pytest.mark.skipif(DATA is None, reason="the recordings are not here: set JEANIE_DATA")


def make(root, steps=None, clips=None, joints=CMU_SUBSET):
    """A small CMU folder: one clip that starts at (1, 2, 3) millimetres and moves by 1 each frame."""
    if steps is None:
        steps = np.ones((4, 22, 3), np.int16)
        steps[0] = (1, 2, 3)
    rows = [{"id": "07_12", "subject": "07", "text": "walk slowly", "label": "walk", "frames": 4, "fps": 30}]
    np.savez(root / "cmu_30fps_mm.npz", **{"07_12": steps})
    table = {"joints": list(joints), "clips": rows if clips is None else clips}
    (root / "cmu_30fps.json").write_text(json.dumps(table))
    return root


def test_positions_are_cumulative_sums_in_metres(tmp_path):
    dataset = open_cmu(make(tmp_path))
    motion = dataset[0]
    expected = np.array([1, 2, 3]) + np.arange(4)[:, None]
    np.testing.assert_allclose(motion.joints[:, 0, 5].numpy(), expected / 1000, rtol=1e-6)
    assert (motion.name, motion.label, motion.subject, motion.take, motion.rate) == (
        "07_12",
        "walk",
        7,
        12,
        30.0,
    )
    assert motion.layout is LAYOUTS["cmu22"]
    assert read_cmu_descriptions(tmp_path) == {"07_12": "walk slowly"}


def test_a_joint_at_the_origin_is_valid(tmp_path):
    steps = np.zeros((3, 22, 3), np.int16)
    assert bool(open_cmu(make(tmp_path, steps))[0].valid.all())


def test_sums_do_not_overflow_the_sixteen_bits_of_the_differences(tmp_path):
    steps = np.full((5, 22, 3), 30000, np.int16)
    assert open_cmu(make(tmp_path, steps))[0].joints[-1, 0, 0, 0].item() == pytest.approx(150.0)


def test_a_data_set_can_be_sent_to_another_process(tmp_path):
    again = pickle.loads(pickle.dumps(open_cmu(make(tmp_path))))  # noqa: S301
    assert len(again[0]) == 4


@pytest.mark.errors
@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"joints": ("a", "b")}, "22 joints"),
        ({"clips": {}}, "'clips' must be a list"),
        ({"clips": [{"id": "../../etc"}]}, "'02_03'"),
        ({"clips": [{"id": "07_12", "label": 3}]}, "label of 07_12"),
    ],
)
def test_a_broken_table(tmp_path, changes, cause):
    with pytest.raises(DataError, match=r"cmu_30fps.json") as caught:
        open_cmu(make(tmp_path, **changes))
    assert cause in str(caught.value)


@pytest.mark.errors
@pytest.mark.parametrize("steps", [np.ones((4, 21, 3), np.int16), np.ones((4, 22, 3)), np.ones(3, np.int16)])
def test_a_clip_of_the_wrong_shape(tmp_path, steps):
    dataset = open_cmu(make(tmp_path, steps))
    with pytest.raises(DataError, match=r"07_12 needs whole numbers"):
        dataset[0]


@pytest.mark.errors
def test_a_missing_clip_is_a_data_error(tmp_path):
    dataset = open_cmu(make(tmp_path, clips=[{"id": "01_01"}]))
    with pytest.raises(DataError, match=r"01_01"):
        dataset[0]
    (tmp_path / "cmu_30fps_mm.npz").write_bytes(b"nothing of the kind")
    with pytest.raises(DataError, match=r"cmu_30fps_mm.npz: not a readable npz"):
        dataset[0]


@recordings
def test_the_published_counts_and_the_exact_numbers():
    dataset = open_cmu(Path(DATA, "cmu"))
    assert len(dataset) == 2425
    labelled = [label for label in dataset.labels if label is not None]
    assert len(labelled) == 548
    assert len(set(labelled)) == 40
    table = json.loads(Path(DATA, "cmu", "cmu_30fps.json").read_text())
    with np.load(Path(DATA, "cmu", "cmu_30fps_mm.npz")) as stored:
        for index in range(0, 2425, 97):
            row, motion = table["clips"][index], dataset[index]
            assert (motion.name, motion.label, len(motion)) == (row["id"], row["label"], row["frames"])
            millimetres = np.cumsum(stored[row["id"]], 0, dtype=np.int32)
            np.testing.assert_allclose(motion.joints[:, 0].numpy() * 1000, millimetres, atol=1e-2)
