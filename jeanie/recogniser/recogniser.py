"""Recogniser: enrol a movement once, recognise it from then on, and be told when nothing fits."""

import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from pathlib import Path
from types import TracebackType
from typing import Literal

import torch
from torch import Tensor

from jeanie.align import Alignment
from jeanie.errors import ConfigError, DataError
from jeanie.fewshot import Features, FewShotModel
from jeanie.recogniser.bank import Bank, fingerprint, log_distance
from jeanie.recogniser.exchange import read_export
from jeanie.recogniser.explanation import Explanation, explain
from jeanie.recogniser.gallery import Gallery, Nearest, Shelf, encoded
from jeanie.recogniser.labels import NOT, actions_of, checked_label, forget_action, rename_action
from jeanie.recogniser.library import Added, Imported, Library
from jeanie.recogniser.openset import CALIBRATION_FILE, Calibration, evidence
from jeanie.recogniser.stream import Stream, StreamConfig
from jeanie.skeleton import Layout, Motion

__all__ = ["Recogniser", "Recognition", "check_export", "is_export"]

_MODEL = "model"  # the setting that says whose features a library was tried with
_ZIP = b"PK\x03\x04"


@dataclass(frozen=True, eq=False)
class Recognition:
    """An answer. ``label`` is None where nothing fits; ``nearest`` is the best guess all the same.

    ``distance`` is that of ``nearest``, ``confidence`` the probability that it is right, ``scores`` the distance of
    every action's nearest example, ``example`` the number of the example that was nearest of all.
    """

    label: str | None
    distance: float
    confidence: float
    scores: Mapping[str, float]
    nearest: str | None = None
    example: int | None = None
    _align: Callable[[], Alignment] | None = field(default=None, repr=False)

    @cached_property
    def alignment(self) -> Alignment | None:
        """How the motion lies on its nearest example, computed when it is asked for; None where there is none."""
        return None if self._align is None else self._align()


_NOBODY = Recognition(
    None, inf, 0.0, {}
)  # the answer where there is nothing to compare, or nothing to compare with


class Recogniser:
    """A library of actions and the model that finds a movement in it.

    What is enrolled is in the library at once, and what others enrol there is seen at once. An answer whose
    confidence is below ``threshold`` has no label.

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
        bank: Bank | None = None,
        calibration: Calibration | None = None,
        threshold: float | int = 0.5,
        migrate: bool = False,
    ) -> None:
        if model.layout is None:
            raise ConfigError(
                "a recogniser compares recordings of any layout, this model keeps each in its own; set "
                "inputs.prepare.layout to one, such as 'core15'"
            )
        if not 0 <= threshold <= 1:
            raise ConfigError(f"threshold is a confidence from 0 to 1, got {threshold!r}")
        self.model, self.library, self.threshold = model.eval(), library, threshold
        self._fingerprint = fingerprint(model)
        self.migrated = self._claimed(migrate)
        self._calibration = Calibration.read(CALIBRATION_FILE) if calibration is None else calibration
        self._gallery = Gallery(model, library, bank)
        self._shelf: Shelf | None = None
        self._ended: weakref.finalize[..., Recogniser] | None = None

    @classmethod
    def load(
        cls,
        path: str | Path | None = None,
        *,
        model: FewShotModel | str | Path | None = None,
        threshold: float | int = 0.5,
        migrate: bool = False,
    ) -> "Recogniser":
        """A recogniser on the library at ``path``: a file, made where it is not there yet, or a URL.

        Without a path the library is empty and ends with the recogniser, as does the copy that is made of a file
        that ``save`` wrote. ``model`` is the shipped one, another, or its folder. A library that was used with
        another model is refused, unless ``migrate`` says to go on with this one: recordings are kept, so
        nothing is lost, but distances and confidences will be others (``migrated`` counts the examples).
        """
        if not isinstance(model, FewShotModel):
            model = FewShotModel.load(model)
        if path is not None and not is_export(path):
            library = Library(path)
            try:
                return cls(model, library, threshold=threshold, migrate=migrate)
            except BaseException:
                library.close()
                raise
        folder = Path(tempfile.mkdtemp(prefix="jeanie"))
        library = Library(folder / "library.db")
        try:
            if path is not None:
                library.import_from(path)
            recogniser = cls(model, library, threshold=threshold, migrate=migrate)
        except BaseException:
            _discard(library, folder)
            raise
        recogniser._ended = weakref.finalize(recogniser, _discard, library, folder)
        return recogniser

    def __enter__(self) -> "Recogniser":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Recogniser({self.library!r}, {len(self.actions)} actions)"

    def close(self) -> None:
        """Let go of the library; one without a place of its own is gone."""
        self.library.close()
        if self._ended is not None:
            self._ended()

    # ------------------------------------------------------------------------------------------- the library

    @property
    def actions(self) -> dict[str, int]:
        """How many examples each action has, sorted by label."""
        return actions_of(self.library)[0]

    def enrol(self, label: str, motions: Motion | Iterable[Motion]) -> Added:
        """Learn an action from one example or a few, all or none of them; a recording is kept once an action."""
        return self._add(checked_label(label), motions)

    def reject(self, label: str, motions: Motion | Iterable[Motion]) -> Added:
        """Learn what is not ``label`` though it looks like it: what is nearer to such a motion is not taken for it."""
        label = checked_label(label)
        if label not in self.actions:
            raise ConfigError(f"{self.library.place}: no action {label!r}; enrol it first")
        return self._add(NOT + label, motions)

    def forget(self, label: str) -> int:
        """Forget an action and what was said not to be it; how many examples it had."""
        return forget_action(self.library, label)

    def rename(self, old: str, new: str, *, merge: bool = False) -> None:
        """Give an action another label; ``merge`` joins it to one that has that label already."""
        rename_action(self.library, old, new, merge=merge)

    def save(self, path: str | Path) -> int:
        """Write all actions to one file, which ``load`` reads; the number of examples."""
        return self.library.export(path)

    def merge(self, path: str | Path, *, migrate: bool = False) -> Imported:
        """Add the actions of a file that ``save`` wrote."""
        check_export(path, self.model, migrate=migrate)
        self._claim()
        return self.library.import_from(path)

    # ------------------------------------------------------------------------------------------- recognition

    def recognise(self, motion: Motion) -> Recognition:
        """The action of a motion: of one person, or of two together."""
        return self._answer(motion, encoded(self.model, [_motion(motion)], "query"))

    def recognise_each(self, motion: Motion) -> list[Recognition]:
        """One answer for each person, in their order; who is hardly seen gets one without a label."""
        answers = []
        for index in range(_motion(motion).persons):
            person = motion.person(index) if bool(motion.valid[:, index].any()) else None
            try:
                query = None if person is None else encoded(self.model, [person], "query")
            except DataError:
                query = None
            answers.append(_NOBODY if person is None or query is None else self._answer(person, query))
        return answers

    def explain(self, motion: Motion) -> Explanation:
        """How a motion differs from the example that is nearest to it."""
        found = self.recognise(motion)
        if found.example is None:
            raise ConfigError(f"{self.library.place}: nothing to compare with; enrol an action first")
        example = self.library.example(found.example)
        return explain(self.model, motion, example.motion, label=example.label, same=found.label is not None)

    def stream(
        self,
        layout: Layout | None = None,
        *,
        rate: float | int | None = None,
        persons: Literal["together", "each"] = "together",
        config: StreamConfig | None = None,
    ) -> Stream:
        """Recognition of frames as they come: ``push`` them and get the movements that have ended."""
        rate = None if rate is None else float(rate)
        return Stream(self, layout, rate=rate, persons=persons, config=config)

    # ------------------------------------------------------------------------------------------- within

    def _now(self) -> Shelf | None:
        """The examples as they are now."""
        shelf = self._gallery.shelf()
        if shelf is not self._shelf:  # somebody wrote; it may have been with another model
            _check_model(self.library.place, self.library.get(_MODEL), self._fingerprint, migrate=False)
            self._shelf = shelf
        return shelf

    def _answer(self, motion: Motion, query: Features) -> Recognition:
        shelf = self._now()
        if shelf is None:
            return _NOBODY
        found = self._gallery.nearest(query, shelf)
        distances = dict(zip(shelf.actions, found.distances.tolist(), strict=True))
        scores = {label: value for label, value in distances.items() if not label.startswith(NOT)}
        if not scores:
            return _NOBODY
        fits = {label: value for label, value in scores.items() if value < distances.get(NOT + label, inf)}
        nearest = min(fits or scores, key=scores.__getitem__)
        confidence = self._confidence(nearest, scores, distances, found, shelf) if fits else 0.0
        row = int(found.rows[shelf.actions.index(nearest)])
        example = shelf.ids[row]
        return Recognition(
            label=nearest if confidence >= self.threshold and fits else None,
            distance=scores[nearest],
            confidence=confidence,
            scores=dict(sorted(scores.items(), key=lambda item: item[1])),
            nearest=nearest,
            example=example,
            _align=lambda: self.model.trace(motion, self.library.example(example).motion),
        )

    def _confidence(
        self, label: str, scores: dict[str, float], distances: dict[str, float], found: Nearest, shelf: Shelf
    ) -> float:
        """Of the nearest action. What was said not to be it counts as another action that is near."""
        place = shelf.actions.index(label)
        rivals = [value for other, value in scores.items() if other != label]
        rivals += [distances[NOT + label]] if NOT + label in distances else []
        row = int(found.rows[place])
        return float(
            self._calibration.confidence(
                evidence(
                    _log(scores[label]),
                    _log(min(rivals, default=inf)),
                    (shelf.mean[row], shelf.spread[row]),
                    found.background,
                    shelf.own[place],
                    1 + len(rivals),
                )
            )
        )

    def _add(self, label: str, motions: Motion | Iterable[Motion]) -> Added:
        many = [motions] if isinstance(motions, Motion) else list(motions)
        if not many:
            raise ConfigError(f"no motion to enrol as {label!r}; give one or more")
        for motion in many:
            encoded(self.model, [_motion(motion)], "support")
        self._claim()
        return self.library.add_many((label, motion) for motion in many)

    def _claim(self) -> None:
        """Make the library this model's, before the first example is in it."""
        if self.library.get(_MODEL) != self._fingerprint:
            self._claimed(migrate=False)
            self.library.set(_MODEL, self._fingerprint)

    def _claimed(self, migrate: bool) -> int:
        """How many examples change from another model to this one; an error where they may not."""
        known = self.library.get(_MODEL)
        count = len(self.library.index())
        if known in (None, self._fingerprint) or not count:
            return 0
        _check_model(self.library.place, known, self._fingerprint, migrate)
        self.library.set(_MODEL, self._fingerprint)
        return count


def is_export(path: str | Path) -> bool:
    """Whether a path is that of a file which ``save`` wrote."""
    try:
        with Path(path).open("rb") as file:
            return file.read(len(_ZIP)) == _ZIP
    except (OSError, ValueError):
        return False


def check_export(path: str | Path, model: FewShotModel, *, migrate: bool = False) -> None:
    """An error where a file is not one that ``save`` wrote, or was made with another model and may not migrate."""
    with read_export(Path(path)) as export:
        _check_model(str(path), export.settings.get(_MODEL), fingerprint(model), migrate)


def _check_model(place: str, known: object, ours: str, migrate: bool) -> None:
    if known not in (None, ours) and not migrate:
        raise DataError(
            f"{place}: made with another model ({str(known)[:8]}..., this one is {ours[:8]}...); its recordings "
            "can be used with this one, at other distances and confidences: migrate=True, or --migrate"
        )


def _motion(motion: Motion) -> Motion:
    if not isinstance(motion, Motion):
        raise ConfigError(f"needs a Motion, got {type(motion).__name__}; read_motion(path) reads one")
    return motion


def _discard(library: Library, folder: Path) -> None:
    library.close()
    shutil.rmtree(folder, ignore_errors=True)


def _log(distance: float) -> Tensor:
    return log_distance(torch.tensor(distance))
