"""Libraries, exports and archives of an earlier version open, without ``migrate``, with the same results."""

import shutil
from pathlib import Path

import pytest
from torch.testing import assert_close

from jeanie import FewShotModel, Recogniser, open_dataset
from jeanie.recogniser.fingerprints import compute_earlier_fingerprint

GOLDEN = Path(__file__).parent / "golden"
# distances that the earlier version printed, of clips whose frames lie between those of the enrolled ones
DISTANCES = {"wave": 0.014631785452365875, "clap": 0.013187030330300331, "squat": 0.49036622047424316}


def queries():
    clips = open_dataset("synthetic")
    labels = [str(label) for label in clips.labels]
    return {label: clips[labels.index(label)][1::3] for label in DISTANCES}


def check_answers(recogniser):
    assert set(recogniser.actions) == {"wave", "clap"}
    for label, motion in queries().items():
        answer = recogniser.recognise(motion)
        assert answer.label == (label if label != "squat" else None)
        assert answer.distance == pytest.approx(DISTANCES[label], rel=1e-4)


def test_a_library_opens_and_recognises(tmp_path):
    path = shutil.copy(GOLDEN / "library.db", tmp_path)
    check_answers(Recogniser.load(path))


def test_a_library_takes_further_examples(tmp_path):
    recogniser = Recogniser.load(shutil.copy(GOLDEN / "library.db", tmp_path))
    recogniser.enrol("squat", queries()["squat"])
    assert set(Recogniser.load(tmp_path / "library.db").actions) == {"wave", "clap", "squat"}


def test_an_export_opens_and_recognises(tmp_path):
    check_answers(Recogniser.load(shutil.copy(GOLDEN / "library.jeanie", tmp_path)))


def test_an_export_is_imported_into_a_library(tmp_path):
    recogniser = Recogniser.load(tmp_path / "new.db")
    recogniser.merge(GOLDEN / "library.jeanie")
    check_answers(recogniser)


def test_an_archive_opens_and_its_motions_are_recognised(tmp_path):
    archive = open_dataset("archive", GOLDEN / "archive")
    assert [str(label) for label in archive.labels] == ["wave", "clap", "squat"]
    for own, motion in zip(archive.motions, queries().values(), strict=True):
        assert own.layout == motion.layout
        assert abs(len(own) - len(motion)) <= 1
    recogniser = Recogniser.load(shutil.copy(GOLDEN / "library.db", tmp_path))
    assert [recogniser.recognise(motion).label for motion in archive.motions] == ["wave", "clap", None]
    assert_close(recogniser.recognise(archive.motions[0]).distance, 0.0, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("model", "stored"),
    [
        (FewShotModel.load, "86de9d1bfb4f2ba65c1be34018969b5c"),
        (FewShotModel.raw, "ee3aee57f138b309dec5a1486997bc36"),
        (lambda: FewShotModel.raw("dtw"), "d673bcf739be7e93775e6af86942b03b"),
    ],
    ids=["shipped", "reference", "dtw"],
)
def test_a_stored_fingerprint_stands_for_the_same_model(model, stored):
    assert compute_earlier_fingerprint(model()) == stored
