"""The scores of benchmarks/pretraining.py, which selected the settings of the shipped model, on tables made by hand."""

import numpy as np
import pytest
import torch

from jeanie.skeleton import LAYOUTS, Motion

SCRIPT = "pretraining"
CORE = LAYOUTS["core15"]


def clips(script, rows):
    """Clips of one standing frame, known by (label, subject, view)."""
    joints = torch.ones(1, 1, 15, 3)
    return script.Clips.from_motions([Motion(joints, CORE, label=a, subject=b, view=c) for a, b, c in rows])


def test_accuracy_by_subject_counts_the_nearest_example_of_one_person(script):
    """Two persons, two actions; person 1's clips of action b lie nearer to person 0's example of a."""
    known = clips(script, [("a", 0, "v"), ("b", 0, "v"), ("a", 1, "v"), ("b", 1, "v")])
    table = np.full((4, 4), 9.0)
    table[2, 0] = table[3, 0] = 1.0  # queries: the clips of person 1; examples: those of person 0
    table[0, 2] = table[1, 3] = 1.0  # the other way round both are right
    everything = np.ones(4, bool)
    assert script.score_by_subject(table, known, everything, everything) == pytest.approx(75.0)


def test_scores_of_the_same_and_of_another_camera_are_separate(script):
    """Distances know the action where both clips are before one camera, and mislead between two."""
    rows = [(label, subject, view) for label in "ab" for subject in (0, 1) for view in ("left", "right")]
    known = clips(script, rows)
    same = known.label[:, None] == known.label
    one_camera = known.view[:, None] == known.view
    table = np.where(same == one_camera, 0.0, 1.0)
    assert script.score_by_camera(table, known) == (100.0, 0.0)


def test_queries_of_episodes_are_from_another_person(script):
    """A table that knows the person and not the action is as good as chance, which is here never."""
    known = clips(script, [(label, subject, "v") for label in "ab" for subject in (0, 1)])
    right = known.label[:, None] == known.label
    assert script.score_episodes(np.where(right, 0.0, 1.0), known) == 100.0
    assert script.score_episodes(np.where(right, 1.0, 0.0), known) == 0.0


def test_queries_miss_an_arm_or_the_legs_in_turn(script):
    motions = [Motion(torch.rand(4, 1, 15, 3), CORE, label=at) for at in range(4)]
    found = script.remove_joints(motions)
    gone = [{CORE.joints[i] for i in (~one.valid[0, 0]).nonzero().flatten()} for one in found]
    assert gone == [set(names) for names in (*script.MISSING_JOINTS, script.MISSING_JOINTS[0])]
    assert all(bool(one.valid.all()) for one in motions), "the given motions are unchanged"
