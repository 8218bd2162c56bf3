"""The recogniser: enrolled actions are recognised, also by other programs; answers equal those of plain loops."""

import threading
from pathlib import Path

import pytest
import torch
from studio import ACTIONS, clip
from torch.testing import assert_close

from jeanie.alignment import Alignment
from jeanie.errors import ConfigError, DataError
from jeanie.fewshot import RAW, FewShotModel
from jeanie.recogniser import Library, Recogniser
from jeanie.recogniser.library.labels import NEGATIVE_PREFIX
from jeanie.skeleton import LAYOUTS, Motion
from jeanie.skeleton.convert import convert

PAGE = Path(__file__).resolve().parents[2] / "docs" / "recogniser.md"
pytestmark = pytest.mark.usefixtures("small_background_sets")


def combine(*motions):
    """Return one motion with the people of all motions, cut to the shortest."""
    frames = min(map(len, motions))
    joints = torch.cat([motion.joints[:frames] for motion in motions], 1)
    valid = torch.cat([motion.valid[:frames] for motion in motions], 1)
    return Motion(joints, motions[0].layout, valid=valid, rate=30)


def compute_scores(model, enrolled, query):
    """Return the distance to the nearest example of each label, computed by loops."""
    found = {}
    for label, motion in enrolled:
        distance = float(model.distances([query], [motion]))
        found[label] = min(distance, found.get(label, distance))
    return found


def test_enrolled_actions_of_other_people_are_recognised(taught):
    for action in ACTIONS:
        found = taught.recognise(clip(action, 2))
        assert found.nearest == action
        assert found.label in (action, None)
        assert found.distance == min(found.scores.values()) == found.scores[action]
    labels = [taught.recognise(clip(action, 3)).label for action in ACTIONS]
    assert sum(map(str.__eq__, map(str, labels), ACTIONS)) >= 4


def test_scores_are_the_distances_of_each_actions_nearest_example(taught, model):
    enrolled = [(action, clip(action, subject)) for action in ACTIONS for subject in (0, 1)]
    query = clip("bow", 3, 1)
    found = taught.recognise(query)
    expected = compute_scores(model, enrolled, query)
    assert found.scores.keys() == expected.keys()
    assert list(found.scores.values()) == sorted(found.scores.values())
    for label, distance in expected.items():
        assert_close(found.scores[label], distance, rtol=1e-4, atol=1e-6)
    nearest = taught.library.example(found.example)
    assert nearest.label == found.nearest
    assert_close(float(model.distances([query], [nearest.motion])), found.distance, rtol=1e-4, atol=1e-6)


def test_an_enrolled_recording_has_a_high_confidence_and_another_action_is_unknown(recogniser):
    recogniser.enrol("squat", clip("squat"))
    same = recogniser.recognise(clip("squat"))
    assert (same.label, same.distance) == ("squat", 0)
    assert same.confidence > 0.95
    strange = recogniser.recognise(clip("wave_both_arms", 2))
    assert strange.label is None
    assert strange.nearest == "squat"
    assert strange.confidence < 0.5


def test_answers_below_the_threshold_have_no_label(model):
    with Recogniser.load(model=model, threshold=0) as recogniser:
        recogniser.enrol("squat", clip("squat"))
        assert recogniser.recognise(clip("wave_both_arms", 2)).label == "squat"
        recogniser.threshold = 1.0
        assert recogniser.recognise(clip("squat", 2)).label is None


def test_the_alignment_belongs_to_the_nearest_example_and_is_computed_once(taught, model):
    query = clip("squat", 3)
    found = taught.recognise(query)
    expected = model.trace(query, taught.library.example(found.example).motion)
    assert isinstance(found.alignment, Alignment)
    assert torch.equal(found.alignment.path, expected.path)
    assert_close(found.alignment.distance, expected.distance)
    assert found.alignment is found.alignment


def test_an_empty_library_recognises_nothing(recogniser):
    found = recogniser.recognise(clip("bow"))
    assert (found.label, found.nearest, found.confidence, dict(found.scores)) == (None, None, 0.0, {})
    assert found.distance == float("inf")
    assert found.alignment is None
    assert recogniser.actions == {}


def test_any_layout_is_recognised_and_missing_joints_are_handled(taught):
    for name in ("core15", "kinect20", "mediapipe33"):
        query = convert(clip("squat", 2), LAYOUTS[name])
        assert taught.recognise(query).nearest == "squat"
    whole = clip("jumping_jack", 2)
    valid = whole.valid.clone()
    valid[:, :, [LAYOUTS["ntu25"].index(joint) for joint in ("left_foot", "left_ankle", "head")]] = False
    assert taught.recognise(whole.replace(valid=valid)).nearest == "jumping_jack"


def test_every_person_gets_an_answer_in_their_order(taught):
    unseen = clip("bow")
    unseen = unseen.joints.new_full(unseen.joints.shape, torch.nan)
    people = combine(clip("squat", 2), clip("jumping_jack", 2))
    joints = torch.cat([people.joints, unseen[: len(people)][:, :1].expand(len(people), -1, -1, -1)], 1)
    found = taught.recognise_each(Motion(joints, people.layout))
    assert len(found) == 3
    assert [one.nearest for one in found] == ["squat", "jumping_jack", None]
    alone = [taught.recognise(people.person(at)) for at in (0, 1)]
    assert_close([one.distance for one in found[:2]], [one.distance for one in alone])
    assert found[2].confidence == 0


def test_two_persons_are_recognised_together(recogniser):
    recogniser.enrol("both", combine(clip("squat", 0), clip("bow", 0)))
    recogniser.enrol("neither", combine(clip("kick_forward", 0), clip("jumping_jack", 0)))
    assert recogniser.recognise(combine(clip("bow", 2), clip("squat", 2))).nearest == "both"


def test_a_rejected_motion_is_not_recognised_as_the_action(taught):
    lookalike, real = clip("squat", 2), clip("squat", 0, 1)
    assert taught.recognise(lookalike).nearest == "squat"
    taught.reject("squat", lookalike)
    found = taught.recognise(lookalike)
    assert found.label != "squat"
    assert found.nearest != "squat"
    assert "squat" in found.scores
    assert all(not label.startswith(NEGATIVE_PREFIX) for label in found.scores)
    assert taught.actions == dict.fromkeys(sorted(ACTIONS), 2)
    assert taught.recognise(real).nearest == "squat"


def test_a_rejected_only_match_is_unknown_with_confidence_zero(recogniser):
    recogniser.enrol("squat", clip("squat", 0))
    recogniser.reject("squat", clip("squat", 2))
    found = recogniser.recognise(clip("squat", 2))
    assert (found.label, found.nearest, found.confidence) == (None, "squat", 0.0)


def test_renaming_and_forgetting_include_negative_examples(taught):
    taught.reject("squat", clip("bow", 2))
    taught.rename("squat", " knees bend ")
    assert taught.library.labels.count(NEGATIVE_PREFIX + "knees bend") == 1
    assert taught.recognise(clip("squat", 2)).nearest == "knees bend"
    assert taught.forget("knees bend") == 2
    assert not any("knees" in label for label in taught.library.labels)
    assert taught.recognise(clip("squat", 2)).nearest != "knees bend"
    taught.rename("bow", "kick_forward", merge=True)
    assert taught.actions == {"jumping_jack": 2, "kick_forward": 4, "wave_both_arms": 2}


@pytest.mark.processes
def test_threads_may_recognise_while_one_enrols(taught):
    wrong = []

    def ask():
        for action in ACTIONS:
            if taught.recognise(clip(action, 2)).nearest != action:
                wrong.append(action)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for action in ACTIONS:
        taught.enrol(action, clip(action, 3))
    for thread in threads:
        thread.join()
    assert wrong == []
    assert taught.actions == dict.fromkeys(sorted(ACTIONS), 3)


def test_an_answer_is_explained_by_its_nearest_example(taught):
    query = clip("squat", 2)
    answer = taught.recognise(query)
    explanation = taught.explain(query)
    assert explanation.label == "squat"
    assert_close(explanation.distance, answer.distance, rtol=1e-4, atol=1e-6)
    assert explanation.text
    assert taught.explain(query, answer).json() == explanation.json()


def test_a_stream_recognises_what_is_enrolled(taught):
    still = clip("squat", 2)[:1].joints.expand(45, -1, -1, -1)
    stream = taught.stream(LAYOUTS["ntu25"], rate=30)
    events = stream.push(still) + stream.push(clip("squat", 2).joints) + stream.push(still) + stream.finish()
    assert "squat" in [event.label for event in events]


def test_another_model_uses_a_background_set_of_generated_motions():
    own = FewShotModel(RAW.with_values({"inputs.prepare.layout": "core15"})).eval()
    with Recogniser.load(model=own) as recogniser:
        recogniser.enrol("squat", clip("squat"))
        recogniser.enrol("bow", clip("bow"))
        assert recogniser.recognise(clip("bow", 2)).nearest == "bow"
        assert recogniser.recognise(clip("bow")).label == "bow"


@pytest.mark.errors
@pytest.mark.parametrize(
    ("motion", "error", "message"),
    [
        (clip("squat")[:1], DataError, "1 of 1 frames; a movement needs at least 2"),
        ("squat.npz", ConfigError, "needs a Motion, got str; read_motion"),
        ([], ConfigError, "no motion to enrol as 'squat'"),
        (
            Motion(
                torch.rand(9, 2, 3),
                LAYOUTS["core15"].__class__("stub", ("neck", "head"), ((0, 1),), (), 0, 0),
            ),
            DataError,
            "layout 'stub' shows 3 of the model's 16 joints, 5 are needed",
        ),
        (
            Motion(torch.full((9, 15, 3), 3e38), LAYOUTS["core15"], name="huge"),
            DataError,
            "huge: its positions are too large",
        ),
    ],
)
def test_an_invalid_example_changes_nothing(recogniser, motion, error, message):
    recogniser.enrol("bow", clip("bow"))
    before = recogniser.library.revision
    several = [clip("squat"), motion] if motion != [] else []
    with pytest.raises(error, match=message):
        recogniser.enrol("squat", several)
    assert recogniser.actions == {"bow": 1}
    assert recogniser.library.revision == before
    if isinstance(motion, Motion):
        with pytest.raises(error, match=message):
            recogniser.recognise(motion)


@pytest.mark.errors
def test_errors_name_invalid_labels_and_unknown_actions(recogniser):
    with pytest.raises(ConfigError, match="does not begin with \u2260"):
        recogniser.enrol(NEGATIVE_PREFIX + "bow", clip("bow"))
    with pytest.raises(ConfigError, match="1 to 200 characters"):
        recogniser.enrol("  ", clip("bow"))
    with pytest.raises(ConfigError, match="no action 'bow'; enrol it first"):
        recogniser.reject("bow", clip("bow"))
    with pytest.raises(ConfigError, match="no action 'bow'"):
        recogniser.forget("bow")
    with pytest.raises(ConfigError, match="nothing to compare with"):
        recogniser.explain(clip("bow"))


@pytest.mark.errors
@pytest.mark.parametrize("threshold", [1.5, float("nan"), "0.5"])
def test_a_threshold_that_is_no_confidence_is_an_error(model, threshold):
    with pytest.raises(ConfigError, match="threshold is a confidence from 0 to 1, got"):
        Recogniser.load(model=model, threshold=threshold)


@pytest.mark.errors
def test_an_error_names_an_example_that_the_model_cannot_use(recogniser):
    recogniser.enrol("bow", clip("bow"))
    number = recogniser.library.add("squat", clip("squat")[:1])
    with pytest.raises(DataError, match=f"example {number} of 'squat': .*at least 2; remove it"):
        recogniser.recognise(clip("bow", 2))
    recogniser.library.remove_example(number)
    assert recogniser.recognise(clip("bow", 2)).nearest == "bow"


@pytest.mark.errors
def test_errors_name_wrong_options(model, tmp_path):
    with Library(tmp_path / "library.db") as library:
        with pytest.raises(ConfigError, match=r"confidence from 0 to 1, got 1\.5"):
            Recogniser(model, library, threshold=1.5)
        with pytest.raises(ConfigError, match=r"set\s+inputs.prepare.layout"):
            Recogniser(FewShotModel.raw("dtw"), library)
    (tmp_path / "text").write_text("no library, " * 100)
    with pytest.raises(DataError, match="not a database"):
        Recogniser.load(tmp_path / "text", model=model)
    (tmp_path / "zip").write_bytes(b"PK\x03\x04" + bytes(100))
    with pytest.raises(DataError, match="not a readable export"):
        Recogniser.load(tmp_path / "zip", model=model)


def test_several_motions_at_once_get_the_answers_of_each_alone(taught):
    queries = [clip(action, 3) for action in ACTIONS]
    for query, found in zip(queries, taught.recognise_all(queries), strict=True):
        alone = taught.recognise(query)
        assert (found.label, found.nearest) == (alone.label, alone.nearest)
        assert_close(found.confidence, alone.confidence, rtol=1e-3, atol=1e-4)
        assert_close(found.distance, alone.distance, rtol=1e-4, atol=1e-6)
    assert taught.recognise_all([]) == []
