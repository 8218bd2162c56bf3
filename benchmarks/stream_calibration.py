"""Fits the confidence of streams and measures it, leaving out every source in turn.

PRECOG (subjects 1 to 6) and joined clips of CMU, Rocketbox, gestures and the synthetic data set, with a second of rest
and without; a quarter of the movements are not enrolled. MSRAction3D (odd subjects) is measured, but not fitted to: its
terms allow no shipped coefficients. Writes ``streams.json`` beside the model and
benchmarks/results/stream_calibration.json, which ``streams.py`` shows. Nothing that ``streams.py`` reports is used.

    JEANIE_DATA=... python benchmarks/stream_calibration.py
    python benchmarks/stream_calibration.py --cache FOLDER precog cmu     # only the answers of these families

With ``--cache``, the answers of the recogniser are kept, so that another fit takes seconds.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from openset import find_thresholds, fit_logistic
from stream_measures import Movement, compute_share
from stream_sources import FAMILIES, LabelledStream, draw_development_streams
from torch import Tensor

from jeanie.fewshot import FewShotModel
from jeanie.recogniser import Recogniser
from jeanie.recogniser.confidence import compute_auroc, compute_reliability
from jeanie.recogniser.stream.candidates import Candidate
from jeanie.recogniser.stream.event import StreamConfig
from jeanie.recogniser.stream.segmenter import Segmenter
from jeanie.recogniser.stream.stream_confidence import (
    STREAM_CALIBRATION_FILE,
    StreamCalibration,
    StreamEvidence,
)

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "stream_calibration.json"
PLAIN = StreamCalibration(
    bias=0, clip=1, **dict.fromkeys(StreamEvidence._fields[1:], 0)
)  # the recogniser's own
NOT_FITTED = {"msraction3d"}
_PORTION = 3  # frames per push


@dataclass(frozen=True)
class Rows:
    """Candidates of a family: evidence, whether place and action are right, and whether the movement is another one."""

    evidence: Tensor
    right: Tensor
    other: Tensor
    streams: int

    def compute_confidence(self, calibration: StreamCalibration) -> Tensor:
        """Return the confidence of each candidate."""
        weights = [getattr(calibration, name) for name in StreamEvidence._fields]
        return torch.sigmoid(self.evidence @ self.evidence.new_tensor(weights) + calibration.bias)


class RecordingSegmenter(Segmenter):
    """A segmenter that keeps all candidates, also those that lose."""

    candidates: list[Candidate]

    @property
    def frames(self) -> int:
        """Frames per tick."""
        return self._sampler.frames

    def judge(
        self, spans: list[tuple[int, int]], *, passes: int = 0, has_whole: bool = False
    ) -> list[Candidate]:
        """Recognise parts of the stream and keep the candidates."""
        judged = super().judge(spans, passes=passes, has_whole=has_whole)
        self.candidates += judged
        return judged


def collect_rows(streams: Sequence[LabelledStream], model: FewShotModel) -> Rows:
    """Return the candidates of some streams."""
    rows = []
    for stream in streams:
        motion, rate = stream.motion, stream.motion.rate or 30.0
        with Recogniser.load(model=model) as recogniser:
            for label, example in stream.examples.items():
                recogniser.enrol(label, example)
            segmenter = RecordingSegmenter(
                recogniser, motion.layout, motion.persons, rate, StreamConfig(), None, PLAIN
            )
            segmenter.candidates = []
            for frame in range(0, len(motion), _PORTION):
                segmenter.push(
                    motion.joints[frame : frame + _PORTION], motion.valid[frame : frame + _PORTION]
                )
            segmenter.finish()
        for candidate in segmenter.candidates:
            if candidate.evidence is not None:
                span = candidate.start * segmenter.frames, candidate.end * segmenter.frames
                label = find_label(span, stream.truth)
                is_right = label[0] == candidate.answer.nearest
                rows.append((*candidate.evidence, is_right, label[1] not in stream.examples))
    table = torch.tensor(rows, dtype=torch.float64)
    return Rows(table[:, :-2], table[:, -2].bool(), table[:, -1].bool(), len(streams))


def load_rows(family: str, cache: Path | None) -> Rows:
    """Return the candidates of the streams of a family, from the cache if they are there."""
    file = None if cache is None else cache / f"{family}.npz"
    if file is not None and file.is_file():
        with np.load(file) as arrays:
            columns = [torch.from_numpy(arrays[key]) for key in ("evidence", "right", "other")]
            return Rows(*columns, int(arrays["streams"]))
    with Recogniser.load() as recogniser:
        rows = collect_rows(list(draw_development_streams(family)), recogniser.model)
    print(f"{family}: {rows.streams} streams, {len(rows.right)} candidates", flush=True)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        arrays = {key: getattr(rows, key).numpy() for key in ("evidence", "right", "other")}
        np.savez(file, **arrays, streams=rows.streams)
    return rows


def find_label(span: tuple[int, int], truth: Sequence[Movement]) -> tuple[str | None, str | None]:
    """Return the label of the movement in whose place a span is, and that of the movement it overlaps most."""
    share, label = max(
        ((compute_share(span, (start, end)), label) for start, end, label in truth), default=(0.0, None)
    )
    return label if share >= 0.5 else None, label if share > 0 else None


def fit_stream_calibration(families: Sequence[Rows], description: str = "") -> StreamCalibration:
    """Return the coefficients that fit the candidates best; every family counts the same."""
    weight = torch.cat([torch.full((len(rows.right),), 1 / len(rows.right)) for rows in families])
    evidence, right = (torch.cat([getattr(rows, key) for rows in families]) for key in ("evidence", "right"))
    bias, *weights = fit_logistic(evidence, right, weight).tolist()
    names = StreamEvidence._fields
    return StreamCalibration(bias=bias, **dict(zip(names, weights, strict=True)), fitted_on=description)


def summarise_rows(rows: Rows, calibration: StreamCalibration) -> dict[str, Any]:
    """Return how well right and wrong candidates are separated, and how well confidences are calibrated."""
    confidence, right = rows.compute_confidence(calibration), rows.right
    bins = compute_reliability(confidence, right)
    return {
        "auroc": compute_auroc(confidence, right),
        "recognised": float((confidence >= 0.5)[right].double().mean()),
        "false_alarms": float((confidence >= 0.5)[rows.other].double().mean()),
        "wrong": float((~right)[confidence >= 0.5].double().mean()),
        "error": sum(count * abs(mean - share) for count, mean, share in bins) / len(right),
        "excess": float((confidence - right.double()).mean()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("families", nargs="*", metavar="FAMILY", help="compute their answers and stop")
    parser.add_argument("--cache", type=Path, help="folder for the answers of each family")
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows = {family: load_rows(family, given.cache) for family in given.families or FAMILIES}
    if given.families:
        return
    fitted = {family: own for family, own in rows.items() if family not in NOT_FITTED}
    left_out, confidences = [], []
    for family, own in rows.items():
        others = fit_stream_calibration([other for name, other in fitted.items() if name != family])
        left_out.append(
            {
                "name": family,
                "streams": own.streams,
                "candidates": len(own.right),
                "clip": summarise_rows(own, PLAIN),
                "stream": summarise_rows(own, others),
            }
        )
        print(left_out[-1], flush=True)
        if family in fitted:
            confidences.append(own.compute_confidence(others)[own.other])
    count = sum(own.streams for own in fitted.values())
    description = f"{count} streams of {len(fitted)} families ({', '.join(fitted)})"
    calibration = fit_stream_calibration(list(fitted.values()), description)
    calibration = calibration.with_values(thresholds=find_thresholds(confidences))
    STREAM_CALIBRATION_FILE.write_text(calibration.model_dump_json(indent=1) + "\n")
    RESULTS.write_text(json.dumps({"left_out": left_out}, indent=1) + "\n")
    print(calibration)


if __name__ == "__main__":
    main()
