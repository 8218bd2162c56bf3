"""Confidence in a stream: the formula in scalar arithmetic, the shipped coefficients, and their effect on events."""

import math

import pytest
import torch
from movements import open_clip

from jeanie.errors import ConfigError
from jeanie.recogniser.recogniser import Recogniser
from jeanie.recogniser.stream.segmenter import Segmenter
from jeanie.recogniser.stream.stream import Stream
from jeanie.recogniser.stream.stream_confidence import (
    StreamCalibration,
    StreamEvidence,
    measure_stream_evidence,
)
from jeanie.skeleton import LAYOUTS

NTU = LAYOUTS["ntu25"]
COEFFICIENTS = {
    "clip": 0.75, "shorter": -1.5, "margin": 2.0, "several": -1.25, "whole": -0.625,
}  # fmt: skip
ZERO = dict.fromkeys(COEFFICIENTS, 0.0)


@pytest.mark.parametrize(("passes", "is_whole"), [(0, False), (1, True), (2, False), (3, True)])
@pytest.mark.parametrize(("duration", "example"), [(20, 30), (45, 30), (30, 30), (1000, 2)])
def test_evidence_and_confidence_are_the_formula(duration, example, passes, is_whole):
    scores = {"wave": 0.5, "bow": 0.2, "clap": 0.25}
    ratio = max(-1.5, min(1.5, math.log(duration) - math.log(example)))
    expected = {
        "clip": math.log(0.8 / 0.2),
        "shorter": -ratio if ratio < 0 else 0.0,
        "margin": math.log(0.25) - math.log(0.2),
        "several": 1.0 if passes >= 2 else 0.0,
        "whole": 1.0 if passes >= 2 and is_whole else 0.0,
    }
    found = measure_stream_evidence(0.8, scores, duration, example, passes, is_whole)
    assert found._asdict() == pytest.approx(expected)
    odds = -0.5 + sum(COEFFICIENTS[name] * value for name, value in expected.items())
    calibration = StreamCalibration(bias=-0.5, **COEFFICIENTS)
    assert calibration.compute_confidence(found) == pytest.approx(1 / (1 + math.exp(-odds)))


def test_one_action_has_no_margin_and_certain_answers_are_finite():
    found = measure_stream_evidence(1.0, {"wave": 0.0}, 10, 10)
    assert found.margin == 0
    assert found.clip == pytest.approx(math.log(1e6), abs=1e-3)
    same = measure_stream_evidence(0.5, {"wave": 0.0, "bow": 0.0}, 10, 10)
    assert (same.margin, same.clip) == (0.0, 0.0)


def test_shipped_coefficients_trust_the_recogniser_and_doubt_short_parts():
    shipped = StreamCalibration.load()
    plain = StreamEvidence(clip=2.0, shorter=0.0, margin=0.3, several=0.0, whole=0.0)
    for worse in (plain._replace(clip=0.0), plain._replace(shorter=1.0), plain._replace(several=1.0)):
        assert shipped.compute_confidence(worse) < shipped.compute_confidence(plain)
    thresholds = [level for _, level in shipped.thresholds]
    assert thresholds == sorted(thresholds)
    assert shipped.find_threshold(0.3) < shipped.find_threshold(0.02) < 1


@pytest.fixture(scope="module")
def kick():
    """A kick and rest after it."""
    clip = open_clip("kick_forward", 1).fill_gaps(1000)
    return torch.cat([clip.joints, clip.joints[-1:].expand(45, -1, -1, -1)])


@pytest.fixture(scope="module")
def taught():
    with Recogniser.load() as recogniser:
        for action in ("kick_forward", "bow"):
            recogniser.enrol(action, open_clip(action, 0))
        yield recogniser


@pytest.mark.parametrize(("bias", "label"), [(0.1, "kick_forward"), (-0.1, None)])
def test_the_calibration_decides_which_events_have_a_name(taught, kick, bias, label):
    stream = Stream(taught, NTU, rate=30, calibration=StreamCalibration(bias=bias, **ZERO))
    (event,) = stream.push(kick) + stream.finish()
    assert event.confidence == pytest.approx(1 / (1 + math.exp(-bias)))
    assert event.label == label


def test_events_have_the_confidence_of_the_shipped_calibration(taught, kick):
    stream = Stream(taught, NTU, rate=30)
    (event,) = stream.push(kick) + stream.finish()
    answer = taught.recognise(event.motion)
    segmenter = stream._segmenters[0]
    ticks = (event.end - event.start) // 2
    example = int(segmenter._templates.lengths[segmenter._templates.labels.index("kick_forward")])
    evidence = measure_stream_evidence(answer.confidence, answer.scores, ticks, example)
    assert event.confidence == pytest.approx(StreamCalibration.load().compute_confidence(evidence), abs=1e-4)


def test_a_movement_with_more_certain_passes_becomes_its_passes(taught, monkeypatch, kick):
    """The movement as a whole loses if one of its passes has a higher confidence."""
    monkeypatch.setattr(
        Segmenter, "_list_passes", lambda self, start, end, **_: [(start, start + 12), (start + 12, end)]
    )
    favour = StreamCalibration(bias=0.0, **ZERO | {"whole": -1.0})
    stream = Stream(taught, NTU, rate=30, calibration=favour)
    events = stream.push(kick) + stream.finish()
    assert len(events) == 2
    assert events[0].end == events[1].start
    stream = Stream(taught, NTU, rate=30, calibration=StreamCalibration(bias=0.0, **ZERO | {"whole": 1.0}))
    assert len(stream.push(kick) + stream.finish()) == 1


def test_a_share_of_false_alarms_is_that_of_streams():
    with Recogniser.load(false_alarms=0.05) as recogniser:
        assert recogniser.stream_threshold == StreamCalibration.load().find_threshold(0.05)
    with Recogniser.load(threshold=0.3) as recogniser:
        assert recogniser.stream_threshold == 0.3


@pytest.mark.errors
def test_a_calibration_without_a_table_has_no_share_of_false_alarms():
    with pytest.raises(ConfigError, match="no table of false alarms"):
        StreamCalibration(bias=0.0, **ZERO).find_threshold(0.1)
