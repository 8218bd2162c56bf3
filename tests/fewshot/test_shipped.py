"""The model that ships: small, loadable, of use on actions, bodies and cameras that it never saw."""

from pathlib import Path

import pytest
import torch

import jeanie
from jeanie.evaluation.evaluate import evaluate
from jeanie.fewshot.model import SHIPPED
from jeanie.skeleton import LAYOUTS, Motion
from jeanie.skeleton.convert import convert


@pytest.fixture(scope="module")
def model() -> jeanie.FewShotModel:
    return jeanie.FewShotModel.load()


def test_it_is_at_most_five_megabytes_and_says_what_it_is():
    assert sum(file.stat().st_size for file in Path(SHIPPED).iterdir()) <= 5 * 2**20
    card = (Path(SHIPPED) / "CARD.md").read_text()
    for part in ("EIA-0196217", "Licence", "Results", "Limits"):
        assert part in card


@pytest.mark.plain  # the hook would read every clip anew to look at it
def test_it_beats_no_learning_on_new_actions_before_new_cameras(model):
    ours, none = (evaluate(one, "synthetic", limit=10) for one in (model, jeanie.FewShotModel.raw()))
    assert ours.accuracy > none.accuracy + 5


@pytest.mark.parametrize(
    "name", ["ntu25", "kinect20", "msr20", "openni15", "coco17", "h36m17", "mediapipe33", "cmu31"]
)
def test_it_takes_every_layout_with_missing_joints_at_any_rate(model, name):
    clip = jeanie.open_dataset("synthetic")[0]
    layout = LAYOUTS[name]
    generator = torch.Generator().manual_seed(0)
    joints = torch.randn(20, 1, len(layout), 3, generator=generator)
    valid = torch.rand(20, 1, len(layout), generator=generator) > 0.2
    other = Motion(joints, layout, valid=valid, rate=7.5)
    table = model.distances([clip, other], [clip, other])
    assert bool(table.isfinite().all())
    assert table.argmin(1).tolist() == [0, 1]


def test_the_layout_hardly_matters(model):
    clips = [clip.fill_gaps(1000) for clip in jeanie.open_dataset("synthetic").motions[0:60:12]]
    core = [convert(clip, LAYOUTS["core15"]) for clip in clips]
    table = model.distances(core, clips)
    assert table.argmin(1).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("frames", [1, 2, 500])
def test_any_length_gives_finite_distances(model, frames):
    clip = jeanie.open_dataset("synthetic")[0]
    assert bool(model.distances([clip.to_length(frames)], [clip]).isfinite().all())
