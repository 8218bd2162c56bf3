"""Describe an explanation in one sentence."""

from collections.abc import Sequence
from typing import Literal

from jeanie.recogniser.explain.joint_differences import JointDifference
from jeanie.recogniser.explain.tempo import Part

__all__ = ["Likeness", "describe"]

Likeness = Literal["same", "similar", "different"]

_AS = {
    "same": "same movement as ",
    "similar": "movement similar to ",
    "different": "different movement from ",
}

# smallest differences that the sentence mentions
_TURN = 7.5  # degrees
_TEMPO = 1.1  # times slower or faster
_PART = 1.5  # times slower or faster than the whole
_JOINT = 5.0  # percent of the height
_JOINTS = 3  # largest number of joints in the sentence


def describe(
    likeness: Likeness,
    label: str | None,
    reflected: bool,
    turn: float | None,
    lift: float | None,
    tempo: float,
    parts: Sequence[Part],
    joints: Sequence[JointDifference],
    persons: Sequence[tuple[int, int]],
    counts: tuple[int, int],
) -> str:
    """Return the sentence: likeness, mirror, camera, tempo and unusual parts, then the joints that differ most.

    ``persons`` are the compared pairs, ``counts`` the numbers of persons per recording. If a recording has several, the
    sentence says who was compared with whom.
    """
    phrases = [f"{likeness} movement" if label is None else _AS[likeness] + label]
    if reflected:
        phrases.append("left and right exchanged")
    if turn is not None and abs(turn) >= _TURN:
        side = "left" if turn > 0 else "right"
        phrases.append(
            "seen from the opposite side"
            if abs(turn) > 165
            else f"seen from {abs(turn):.0f} degrees to the person's {side}"
        )
    if lift is not None and abs(lift) >= _TURN:
        phrases.append(f"seen from {abs(lift):.0f} degrees {'higher' if lift > 0 else 'lower'}")
    phrases.append(_describe_tempo(tempo) or "at the same speed")
    for part in parts:
        pace = _describe_tempo(part.tempo / tempo, _PART) if part.tempo > 0 else None
        if pace is not None:
            place = f"{'in' if part.name == 'middle' else 'at'} the {part.name}"
            phrases.append(f"relatively {'slow' if pace.endswith('slower') else 'fast'} {place}")
    largest = [joint for joint in joints if joint.percent >= _JOINT][:_JOINTS]
    several = len(persons) > 1
    whose = [
        f"person {persons[row.person][0] + 1}'s {row.words}" if several else row.words for row in largest
    ]
    whose += [_describe_persons(persons)] * (max(counts) > 1)
    return ", ".join(phrases) + "".join(f"; {words}" for words in whose)


def _describe_persons(persons: Sequence[tuple[int, int]]) -> str:
    """Return for example "person 2 compared with person 1", counted from 1, the query first."""
    sides = [[str(pair[side] + 1) for pair in persons] for side in (0, 1)]
    plural = "s" * (len(persons) > 1)
    query, support = (f"person{plural} {' and '.join(side)}" for side in sides)
    return f"{query} compared with {support}"


def _describe_tempo(tempo: float, least: float = _TEMPO) -> str | None:
    if tempo >= least:
        return f"{tempo:.2g}x slower" if tempo < 9.95 else f"{tempo:.0f}x slower"
    return f"{1 / tempo:.2g}x faster" if tempo <= 1 / least else None
