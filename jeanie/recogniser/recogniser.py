"""Recogniser: enrol an action from one example, then recognise it, with a confidence and an answer for the unknown."""

import shutil
import tempfile
import weakref
from collections.abc import Iterable
from copy import copy
from dataclasses import replace
from math import inf
from pathlib import Path
from types import TracebackType
from typing import Literal

from jeanie.errors import ConfigError, DataError
from jeanie.fewshot import Features, FewShotModel
from jeanie.recogniser.answer_evidence import compute_answer_evidence
from jeanie.recogniser.background import BackgroundSet
from jeanie.recogniser.calibration import cut_recordings, reduce_recording
from jeanie.recogniser.confidence import CALIBRATION_FILE, Calibration
from jeanie.recogniser.exercise.repetitions import CountConfig, RepetitionCount, count
from jeanie.recogniser.exercise.score import Score, ScoreConfig, score
from jeanie.recogniser.explain.explain import Explanation, explain
from jeanie.recogniser.fingerprints import ModelFingerprints
from jeanie.recogniser.gallery import (
    Gallery,
    GallerySnapshot,
    NearestExamples,
    check_encodable,
    encode_motions,
)
from jeanie.recogniser.library.export import read_export
from jeanie.recogniser.library.labels import (
    NEGATIVE_PREFIX,
    count_examples,
    forget_action,
    normalise_label,
    rename_action,
)
from jeanie.recogniser.library.library import AddResult, ImportResult, Library
from jeanie.recogniser.recognition import NO_MATCH, Recognition
from jeanie.recogniser.stream.stream import Stream, StreamConfig
from jeanie.recogniser.stream.stream_confidence import StreamCalibration
from jeanie.skeleton import Layout, Motion
from jeanie.skeleton.inputs import check_motion, list_motions
from jeanie.skeleton.plausibility import list_warnings

__all__ = ["Recogniser", "Recognition", "check_export", "is_export"]

_MODEL_KEY = "model"  # setting of a library: fingerprint of the model that it is used with
_ZIP_MAGIC = b"PK\x03\x04"


class Recogniser:
    """A library of actions and the model that recognises them.

    Enrolled examples are saved at once, and examples that other programs enrol are used at once. ``load`` opens a
    recogniser with the shipped model.

    Args:
        model: The model that measures distances.
        library: The enrolled examples.
        background_set: Motions that were never enrolled (default: those of the shipped model).
        calibration: Calibration of the confidence (default: that of the shipped model).
        threshold: Confidence below which an answer has no label.
        false_alarms: Largest share of movements of other actions that may get a label, such as 0.05; replaces
            ``threshold``.
        migrate: Use a library that belongs to another model.

    Raises:
        ConfigError: If the model has no layout, or the threshold is out of range.
        DataError: If the library belongs to another model and ``migrate`` is False.

    >>> from jeanie.datasets import open_dataset
    >>> clips = open_dataset("synthetic")
    >>> with Recogniser.load() as recogniser:
    ...     added = recogniser.enrol("wave", clips[0])
    ...     recogniser.recognise(clips[1]).nearest
    'wave'
    """

    def __init__(
        self,
        model: FewShotModel,
        library: Library,
        *,
        background_set: BackgroundSet | None = None,
        calibration: Calibration | None = None,
        threshold: float = 0.5,
        false_alarms: float | None = None,
        migrate: bool = False,
    ) -> None:
        if model.layout is None:
            raise ConfigError(
                "a recogniser needs a model that converts recordings to one layout, but this model has none; set "
                "inputs.prepare.layout, such as 'core15'"
            )
        if not isinstance(threshold, float | int) or not 0 <= threshold <= 1:
            raise ConfigError(f"threshold is a confidence from 0 to 1, got {threshold!r}")
        self.model, self.library, self.threshold = model.eval(), library, threshold
        self._fingerprints = ModelFingerprints(model)
        self.migrated = self._migrate(migrate)
        self._calibration = Calibration.from_file(CALIBRATION_FILE) if calibration is None else calibration
        if false_alarms is not None:
            self.threshold = self._calibration.find_threshold(false_alarms)
        self._false_alarms = false_alarms
        self._gallery = Gallery(model, library, background_set)
        self._snapshot: GallerySnapshot | None = None
        self._delete_library: weakref.finalize[..., Recogniser] | None = None

    @classmethod
    def load(
        cls,
        path: str | Path | None = None,
        *,
        model: FewShotModel | str | Path | None = None,
        threshold: float = 0.5,
        false_alarms: float | None = None,
        migrate: bool = False,
    ) -> "Recogniser":
        """Open a recogniser on a library.

        Args:
            path: Library file, which is created if it does not exist, or database URL. A file that ``save`` wrote is
                loaded as a temporary copy. None gives an empty temporary library.
            model: A model or its folder (default: the shipped model).
            threshold: Confidence below which an answer has no label.
            false_alarms: Largest share of movements of other actions that may get a label; replaces ``threshold``.
                The shares were measured on sensors that the confidence was not fitted to.
            migrate: Use a library that belongs to another model. The recordings stay, but distances and confidences
                change; ``migrated`` is the number of examples that this concerns.

        Raises:
            DataError: the library is damaged, or belongs to another model and ``migrate`` is False.
        """
        if not isinstance(model, FewShotModel):
            model = FewShotModel.load(model)
        if path is not None and not is_export(path):
            library = Library(path)
            try:
                return cls(model, library, threshold=threshold, false_alarms=false_alarms, migrate=migrate)
            except BaseException:
                library.close()
                raise
        folder = Path(tempfile.mkdtemp(prefix="jeanie"))
        library = Library(folder / "library.db")
        try:
            if path is not None:
                library.import_from(path)
            recogniser = cls(model, library, threshold=threshold, false_alarms=false_alarms, migrate=migrate)
        except BaseException:
            _delete_temporary(library, folder)
            raise
        recogniser._delete_library = weakref.finalize(recogniser, _delete_temporary, library, folder)
        return recogniser

    def __enter__(self) -> "Recogniser":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Recogniser({self.library!r}, {len(self.actions)} actions)"

    def with_owner(self, owner: str) -> "Recogniser":
        """Return a recogniser for another owner of the same library; both share the model and the connections."""
        other = copy(self)
        other.library = self.library.with_owner(owner)
        other._gallery = Gallery(self.model, other.library, self._gallery.background_set)
        other._snapshot = other._delete_library = None
        return other

    def close(self) -> None:
        """Close the library; a temporary library is deleted."""
        self.library.close()
        if self._delete_library is not None:
            self._delete_library()

    @property
    def actions(self) -> dict[str, int]:
        """Number of examples per action, sorted by label."""
        return count_examples(self.library)[0]

    def enrol(self, label: str, motions: Motion | Iterable[Motion], *, check: bool = True) -> AddResult:
        """Add one or more examples of an action, all or none of them.

        An action keeps the same recording only once. ``check`` encodes the motions to make sure that the model can
        use them; disable it only if ``encode_motions`` has accepted them before.
        """
        return self._add(normalise_label(label), motions, check)

    def reject(self, label: str, motions: Motion | Iterable[Motion], *, check: bool = True) -> AddResult:
        """Add negative examples: a motion that is nearer to them than to the action is not that action."""
        label = normalise_label(label)
        if label not in self.actions:
            raise ConfigError(f"{self.library.place}: no action {label!r}; enrol it first")
        return self._add(NEGATIVE_PREFIX + label, motions, check)

    def calibrate(self, motions: Motion | Iterable[Motion], *, replace: bool = False) -> int:
        """Store unlabelled recordings of the user's own sensor, so that the confidence fits this sensor.

        Any movements will do; ten to thirty different ones are best. Recordings of more than six seconds are cut into
        windows of three seconds. The library keeps the 64 newest windows, reduced to the core joints.

        Args:
            motions: One or more recordings.
            replace: Delete older calibration recordings.

        Returns:
            The number of calibration recordings in the library.
        """
        recordings = cut_recordings(list_motions(motions, "no recording to calibrate with; give one or more"))
        check_encodable(self.model, recordings)
        return self.library.add_calibration(map(reduce_recording, recordings), replace=replace)

    @property
    def stream_threshold(self) -> float:
        """Confidence below which a movement of a stream has no label."""
        if self._false_alarms is None:
            return self.threshold
        return StreamCalibration.load().find_threshold(self._false_alarms)

    def list_examples(self, label: str) -> list[Motion]:
        """Return the examples of an action, oldest first."""
        return [example.motion for example in self.library.examples(normalise_label(label))]

    def forget(self, label: str) -> int:
        """Delete an action and its negative examples; return how many examples it had."""
        return forget_action(self.library, label)

    def rename(self, old: str, new: str, *, merge: bool = False) -> None:
        """Rename an action. ``merge`` allows a label that exists and combines both actions."""
        rename_action(self.library, old, new, merge=merge)

    def save(self, path: str | Path) -> int:
        """Write all actions to one file for ``load`` and ``merge``; return the number of examples."""
        return self.library.export(path)

    def merge(self, path: str | Path, *, migrate: bool = False) -> ImportResult:
        """Add the actions of a file that ``save`` wrote."""
        check_export(path, self.model, migrate=migrate)
        self._assign_model()
        return self.library.import_from(path)

    def recognise(self, motion: Motion) -> Recognition:
        """Recognise the action of one person, or of two people together."""
        return self.recognise_all([motion])[0]

    def recognise_all(self, motions: Iterable[Motion]) -> list[Recognition]:
        """Recognise several motions at once, which is faster than one by one."""
        checked = [check_motion(motion) for motion in motions]
        return self._answer_all(checked, encode_motions(self.model, checked, "query")) if checked else []

    def recognise_each(self, motion: Motion) -> list[Recognition]:
        """Recognise each person separately; a person who is hardly visible gets an answer without a label."""
        answers = []
        for index in range(check_motion(motion).persons):
            answer = NO_MATCH
            if bool(motion.valid[:, index].any()):
                person = motion.person(index)
                try:
                    query = encode_motions(self.model, [person], "query")
                except DataError:
                    pass
                else:
                    (answer,) = self._answer_all([person], query)
            answers.append(answer)
        return answers

    def explain(self, motion: Motion, recognition: Recognition | None = None) -> Explanation:
        """Explain how a motion differs from its nearest example.

        ``recognition`` is the answer of ``recognise`` for this motion; without it, the motion is recognised first.
        """
        if recognition is None:
            recognition = self.recognise(motion)
        if recognition.example is None:
            raise ConfigError(f"{self.library.place}: nothing to compare with; enrol an action first")
        example = self.library.example(recognition.example)
        is_same = recognition.label is not None
        return explain(self.model, motion, example.motion, label=example.label, same=is_same)

    def count(self, label: str, motion: Motion, config: CountConfig | None = None) -> RepetitionCount:
        """Count the repetitions of an enrolled action in a recording."""
        return count(self.list_examples(label), check_motion(motion), config)

    def score(self, label: str, motion: Motion, config: ScoreConfig | None = None) -> Score:
        """Score a performance of an enrolled action, from 0 to 100, against its examples."""
        return score(self.list_examples(label), check_motion(motion), config)

    def stream(
        self,
        layout: Layout | str | None = None,
        *,
        rate: float | None = None,
        persons: Literal["together", "each"] = "together",
        config: StreamConfig | None = None,
    ) -> Stream:
        """Recognise live frames: ``push`` frames to the stream, it returns the movements that have ended."""
        rate = None if rate is None else float(rate)
        return Stream(self, layout, rate=rate, persons=persons, config=config)

    def _answer_all(self, motions: list[Motion], queries: Features) -> list[Recognition]:
        snapshot = self._gallery.take_snapshot()
        if snapshot is not self._snapshot:  # another program may have migrated the library to another model
            self._fingerprints.check(self.library.get(_MODEL_KEY), self.library.place)
            self._snapshot = snapshot
        if snapshot is None:
            return [replace(NO_MATCH, warnings=list_warnings(motion)) for motion in motions]
        neighbours = self._gallery.find_nearest(queries, snapshot)
        return [
            self._answer(motion, nearest, snapshot)
            for motion, nearest in zip(motions, neighbours, strict=True)
        ]

    def _answer(self, motion: Motion, neighbours: NearestExamples, snapshot: GallerySnapshot) -> Recognition:
        distances = dict(zip(snapshot.actions, neighbours.distances.tolist(), strict=True))
        scores = {
            label: distance for label, distance in distances.items() if not label.startswith(NEGATIVE_PREFIX)
        }
        if not scores:
            return replace(NO_MATCH, warnings=list_warnings(motion))
        accepted = [label for label in scores if scores[label] < distances.get(NEGATIVE_PREFIX + label, inf)]
        nearest = min(accepted or scores, key=scores.__getitem__)
        evidence = compute_answer_evidence(nearest, motion, distances, neighbours, snapshot)
        confidence = float(self._calibration.compute_confidence(evidence)) if accepted else 0.0
        example = snapshot.ids[int(neighbours.rows[snapshot.actions.index(nearest)])]
        return Recognition(
            label=nearest if accepted and confidence >= self.threshold else None,
            distance=scores[nearest],
            confidence=confidence,
            scores=dict(sorted(scores.items(), key=lambda item: item[1])),
            nearest=nearest,
            example=example,
            warnings=list_warnings(motion),
            _align=lambda: self.model.trace(motion, self.library.example(example).motion),
        )

    def _add(self, label: str, motions: Motion | Iterable[Motion], check: bool) -> AddResult:
        examples = list_motions(motions, f"no motion to enrol as {label!r}; give one or more")
        if check:
            check_encodable(self.model, examples)
        self._assign_model()
        return self.library.add_many((label, motion) for motion in examples)

    def _assign_model(self) -> None:
        """Store the fingerprint of this model in the library before its first example."""
        stored_fingerprint = self.library.get(_MODEL_KEY)
        if stored_fingerprint is None or not self._fingerprints.accept(stored_fingerprint):
            self._migrate(allowed=False)
            self.library.set(_MODEL_KEY, self._fingerprints.current)

    def _migrate(self, allowed: bool) -> int:
        """Assign the library to this model; return how many examples belonged to another model."""
        stored_fingerprint = self.library.get(_MODEL_KEY)
        count = 0 if self._fingerprints.accept(stored_fingerprint) else len(self.library.index())
        if count:
            self._fingerprints.check(stored_fingerprint, self.library.place, migrate=allowed)
            self.library.set(_MODEL_KEY, self._fingerprints.current)
        return count


def is_export(path: str | Path) -> bool:
    """Return whether a path is a file that ``Recogniser.save`` wrote."""
    try:
        with Path(path).open("rb") as file:
            return file.read(len(_ZIP_MAGIC)) == _ZIP_MAGIC
    except (OSError, ValueError):
        return False


def check_export(path: str | Path, model: FewShotModel, *, migrate: bool = False) -> None:
    """Raise DataError unless ``path`` is an export that belongs to ``model``, or ``migrate`` allows another model."""
    with read_export(Path(path)) as export:
        ModelFingerprints(model).check(export.settings.get(_MODEL_KEY), str(path), migrate=migrate)


def _delete_temporary(library: Library, folder: Path) -> None:
    library.close()
    shutil.rmtree(folder, ignore_errors=True)
