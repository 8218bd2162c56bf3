"""Recognisers and their libraries: shared, saved, migrated and calibrated libraries; nothing is encoded twice."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from studio import ACTIONS, clip
from torch.testing import assert_close

from jeanie.errors import ConfigError, DataError
from jeanie.recogniser import Library, Recogniser, background, gallery
from jeanie.recogniser.distance_table import DistanceTable
from jeanie.recogniser.library import library
from jeanie.skeleton import Motion

pytestmark = pytest.mark.usefixtures("small_background_sets")


def test_examples_of_other_programs_are_used_at_once_and_only_they_are_encoded(model, place):
    passes = []
    hook = model.encoder.register_forward_hook(lambda module, given, made: passes.append(len(given[0])))
    try:
        with Recogniser.load(place, model=model) as first:
            first.enrol("squat", [clip("squat", subject) for subject in (0, 1, 2)])
            first.recognise(clip("squat", 3))
            with Recogniser.load(place) as second:
                second.enrol("bow", clip("bow", 0))
            passes.clear()
            assert first.recognise(clip("bow", 3)).nearest == "bow"
            assert passes == [1, 1, 1]  # the query, its mirror image and the new example
            passes.clear()
            assert first.recognise(clip("bow", 2)).nearest == "bow"
            assert passes == [1, 1]
            with Library(place) as library:
                library.remove("bow")
            assert first.recognise(clip("bow", 2)).nearest == "squat"
            assert passes == [1, 1, 1, 1]
    finally:
        hook.remove()


def test_enrolment_encodes_each_motion_at_most_once_and_an_explanation_recognises_once(
    taught, model, monkeypatch
):
    passes, recognitions = [], []
    hook = model.encoder.register_forward_hook(lambda module, given, made: passes.append(len(given[0])))
    try:
        taught.enrol("squat", [clip("squat", 2), clip("squat", 3)])
        assert sum(passes) == 2
        taught.enrol("bow", clip("bow", 2), check=False)
        assert sum(passes) == 2
    finally:
        hook.remove()
    query = clip("bow", 3)
    answer = taught.recognise(query)
    monkeypatch.setattr(taught, "recognise", lambda motion: recognitions.append(motion) or answer)
    taught.explain(query, answer)
    assert recognitions == []


def test_a_library_opened_again_gives_the_same_answers(model, tmp_path):
    query = clip("bow", 2)
    with Recogniser.load(tmp_path / "library.db", model=model) as first:
        first.enrol("squat", clip("squat"))
        first.enrol("bow", [clip("bow", 0), clip("bow", 1)])
        before = first.recognise(query)
        assert first.save(tmp_path / "saved.jeanie") == 3
    for place in ("library.db", "saved.jeanie"):
        with Recogniser.load(tmp_path / place, model=model) as again:
            assert again.actions == {"bow": 2, "squat": 1}
            after = again.recognise(query)
            assert after.scores == before.scores
            assert after.confidence == before.confidence


def test_a_saved_file_is_loaded_as_a_copy(model, tmp_path):
    with Recogniser.load(model=model) as first:
        first.enrol("squat", clip("squat"))
        first.save(tmp_path / "saved.jeanie")
    content = (tmp_path / "saved.jeanie").read_bytes()
    with Recogniser.load(tmp_path / "saved.jeanie", model=model) as copy:
        copy.enrol("bow", clip("bow"))
        folder = Path(copy.library.place).parent
        assert folder.is_dir()
    assert not folder.exists()
    assert (tmp_path / "saved.jeanie").read_bytes() == content


def test_a_library_of_another_model_is_refused_until_it_is_migrated(model, other_model, tmp_path):
    place = tmp_path / "library.db"
    with Recogniser.load(place, model=model) as first:
        first.enrol("squat", clip("squat"))
        first.enrol("bow", clip("bow"))
        first.save(tmp_path / "saved.jeanie")
        before = first.recognise(clip("bow", 2))
    with pytest.raises(DataError, match=r"made with another model \(.*migrate=True"):
        Recogniser.load(place, model=other_model)
    with pytest.raises(DataError, match="made with another model"):
        Recogniser.load(tmp_path / "saved.jeanie", model=other_model)
    with Recogniser.load(place, model=model) as unchanged:
        assert unchanged.migrated == 0
        assert unchanged.recognise(clip("bow", 2)).scores == before.scores
        with Recogniser.load(place, model=other_model, migrate=True) as moved:
            assert moved.migrated == 2
            after = moved.recognise(clip("bow", 2))
            assert after.nearest == "bow"
            assert after.scores != before.scores
        with pytest.raises(DataError, match="made with another model"):  # while it was in use
            unchanged.recognise(clip("bow", 2))
    with Recogniser.load(place, model=other_model) as moved:
        assert moved.migrated == 0
        with pytest.raises(DataError, match=r"saved\.jeanie: made with another model"):
            moved.merge(tmp_path / "saved.jeanie")
        assert moved.merge(tmp_path / "saved.jeanie", migrate=True).already == 2
        assert moved.recognise(clip("bow", 2)).scores == after.scores


def test_many_examples_are_pruned_without_changing_an_answer(recogniser, model, monkeypatch):
    monkeypatch.setattr(gallery, "PRUNING_SIZE", 60)
    noise = torch.Generator().manual_seed(0)
    originals = [clip(action, subject) for action in ACTIONS for subject in range(4)]
    enrolled = [
        (
            motion.label,
            motion.replace(joints=motion.joints + 0.02 * torch.randn(motion.joints.shape, generator=noise)),
        )
        for motion in originals
        for _ in range(3)
    ]
    recogniser.library.add_many(enrolled)
    queries = [clip(action, 3, 1) for action in ACTIONS]
    table = model.distances(queries, [motion for _, motion in enrolled])
    labels = [label for label, _ in enrolled]
    snapshot = recogniser._gallery.take_snapshot()
    compared = 0
    for row, query in zip(table.tolist(), queries, strict=True):
        found = recogniser.recognise(query)
        for label in ACTIONS:
            expected = min(value for value, other in zip(row, labels, strict=True) if other == label)
            assert_close(found.scores[label], expected, rtol=1e-4, atol=1e-6)
        assert labels[snapshot.ids.index(found.example)] == found.nearest
        (nearest,) = recogniser._gallery.find_nearest(model.features(model.collate([query])), snapshot)
        compared += nearest.compared
    assert compared < 0.8 * len(enrolled) * len(queries)


def test_recordings_of_the_own_sensor_lower_the_confidence_of_other_movements(recogniser):
    recogniser.enrol("squat", clip("squat", 0))
    recogniser.enrol("bow", clip("bow", 0))
    other = clip("wave_both_arms", 2)
    before = recogniser.recognise(other)
    others = [clip(action, 3, 1) for action in ("wave_both_arms", "jumping_jack", "kick_forward")]
    assert recogniser.calibrate(others) == 3
    after = recogniser.recognise(other)
    assert after.confidence < before.confidence
    assert after.scores == before.scores
    assert recogniser.actions == {"bow": 1, "squat": 1}, "they are no examples"
    assert recogniser.calibrate(others[:1]) == 3, "the same recording counts once"
    assert recogniser.calibrate(others[:1], replace=True) == 1


def test_calibration_recordings_that_are_enrolled_or_recognised_do_not_count_against_themselves(recogniser):
    example, query = clip("squat", 0), clip("squat", 2)
    recogniser.enrol("squat", example)
    recogniser.enrol("bow", clip("bow", 0))
    others = [clip(action, 3) for action in ("wave_both_arms", "jumping_jack", "kick_forward")]
    recogniser.calibrate(others)
    before = recogniser.recognise(query)
    assert before.label == "squat"
    assert recogniser.calibrate([example, query]) == 5
    after = recogniser.recognise(query)
    assert after.label == "squat"
    assert after.confidence == pytest.approx(before.confidence, abs=0.1)


def test_calibration_recordings_are_saved_and_encoded_once(model, tmp_path):
    passes = []
    with Recogniser.load(tmp_path / "library.db", model=model) as first:
        first.enrol("squat", clip("squat", 0))
        first.calibrate([clip("bow", 1), clip("kick_forward", 1)])
        before = first.recognise(clip("squat", 2))
        first.save(tmp_path / "saved.jeanie")
        hook = model.encoder.register_forward_hook(lambda module, given, made: passes.append(len(given[0])))
        try:
            first.enrol("bow", clip("bow", 0), check=False)
            first.recognise(clip("squat", 2))
        finally:
            hook.remove()
        assert passes == [1, 1, 1], "the query, its mirror image and the new example"
    for place in ("library.db", "saved.jeanie"):
        with Recogniser.load(tmp_path / place, model=model) as again:
            if place == "library.db":
                again.forget("bow")
            assert again.recognise(clip("squat", 2)).confidence == pytest.approx(before.confidence, rel=1e-5)


def test_long_recordings_are_cut_into_windows(recogniser, monkeypatch):
    short = clip("squat")
    joints = torch.cat([short.joints] * 12)[:600]
    long = Motion(joints, short.layout, rate=30)
    assert recogniser.calibrate(long) == 6, "windows of three seconds in twenty; equal ones count once"
    monkeypatch.setattr(library, "MAX_CALIBRATION", 4)
    assert recogniser.calibrate([clip("bow"), clip("bow", 1)]) == 4, "the newest stay"
    stored = recogniser.library.calibration()
    assert [motion.layout.name for motion in stored] == ["core15"] * 4
    assert max(len(motion) for motion in stored) == 64


def test_a_long_recording_may_lose_the_person_for_a_while(recogniser):
    short = clip("squat")
    long = Motion(torch.cat([short.joints] * 12)[:600], short.layout, rate=30)
    valid = long.valid.clone()
    valid[150:330] = False
    windows = recogniser.calibrate(long.replace(valid=valid))
    assert 2 <= windows < 6
    assert recogniser.calibrate(long.replace(valid=valid)) == windows


def test_a_share_of_false_alarms_sets_the_threshold(model):
    with Recogniser.load(model=model, false_alarms=0.01) as careful, Recogniser.load(model=model) as usual:
        assert usual.threshold == 0.5
        assert 0.5 < careful.threshold < 1
        careful.enrol("squat", clip("squat"))
        assert careful.recognise(clip("squat")).label == "squat"


@pytest.mark.plain  # counts the calls of something that is not a model
def test_distances_between_examples_are_computed_once(model):
    clips = [clip(action, subject) for action in ACTIONS[:3] for subject in (0, 1)]
    features = model.features(model.collate(clips), "support")
    table, keys = DistanceTable(), tuple(range(6))
    for rows, columns in [((0, 2), (0, 1, 2)), ((2, 4), (1, 2, 3, 4)), ((4, 0, 2), (4, 3, 5))]:
        found = table.update(
            model, rows, features[torch.tensor(rows)], columns, features[torch.tensor(columns)]
        )
        expected = model.compare(features[torch.tensor(rows)], features[torch.tensor(columns)])
        assert_close(found, background.log_distance(expected), rtol=1e-4, atol=1e-4)
    compared = []
    counting = SimpleNamespace(compare=lambda q, s: compared.append(len(q) * len(s)) or model.compare(q, s))
    table.update(counting, keys[:4], features[:4], keys, features)
    assert compared == [4 * 3, 2 * 3], "new columns, then new rows of old columns"


@pytest.mark.errors
def test_calibration_recordings_that_are_no_motions_are_errors(recogniser):
    for recordings in (None, "a.bvh", ["a.bvh"]):
        with pytest.raises(ConfigError, match="needs a Motion, got"):
            recogniser.calibrate(recordings)
