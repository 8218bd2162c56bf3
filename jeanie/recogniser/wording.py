"""An explanation as one sentence."""

from collections.abc import Sequence
from typing import Literal

from jeanie.recogniser.differences import JointDifference
from jeanie.recogniser.tempo import Part

__all__ = ["Likeness", "told"]

Likeness = Literal["same", "similar", "different"]

_AS = {
    "same": "same movement as ",
    "similar": "movement similar to ",
    "different": "different movement from ",
}

_TURN = 7.5  # degrees that are worth a word
_TEMPO = 1.1  # times slower or faster that are worth a word
_PART = 1.5  # times slower or faster than the whole
_JOINT = 5.0  # percent of the height that are worth a word
_JOINTS = 3  # named in a sentence


def told(
    likeness: Likeness,
    label: str | None,
    reflected: bool,
    turn: float | None,
    lift: float | None,
    tempo: float,
    parts: Sequence[Part],
    joints: Sequence[JointDifference],
    persons: Sequence[tuple[int, int]],
    there: tuple[int, int],
) -> str:
    """The sentence: likeness, a mirror, camera, tempo and parts that stand out, then the joints that differ most.

    ``persons`` are the pairs that were compared, ``there`` how many persons each recording has: where one has
    several, it is said who is who.
    """
    said = [f"{likeness} movement" if label is None else _AS[likeness] + label]
    if reflected:
        said.append("left and right exchanged")
    if turn is not None and abs(turn) >= _TURN:
        side = "left" if turn > 0 else "right"
        said.append(
            "seen from the opposite side"
            if abs(turn) > 165
            else f"seen from {abs(turn):.0f} degrees to the person's {side}"
        )
    if lift is not None and abs(lift) >= _TURN:
        said.append(f"seen from {abs(lift):.0f} degrees {'higher' if lift > 0 else 'lower'}")
    said.append(_pace(tempo) or "at the same speed")
    for part in parts:
        pace = _pace(part.tempo / tempo, _PART) if part.tempo > 0 else None
        if pace is not None:
            place = f"{'in' if part.name == 'middle' else 'at'} the {part.name}"
            said.append(f"relatively {'slow' if pace.endswith('slower') else 'fast'} {place}")
    named = [one for one in joints if one.percent >= _JOINT][:_JOINTS]
    several = len(persons) > 1
    whose = [f"person {persons[one.person][0] + 1}'s {one.words}" if several else one.words for one in named]
    whose += [_who(persons)] * (max(there) > 1)
    return ", ".join(said) + "".join(f"; {words}" for words in whose)


def _who(persons: Sequence[tuple[int, int]]) -> str:
    """Such as "person 2 compared with person 1", counted from 1, the query's first."""
    sides = [[str(pair[side] + 1) for pair in persons] for side in (0, 1)]
    plural = "s" * (len(persons) > 1)
    ours, theirs = (f"person{plural} {' and '.join(side)}" for side in sides)
    return f"{ours} compared with {theirs}"


def _pace(tempo: float, least: float = _TEMPO) -> str | None:
    if tempo >= least:
        return f"{tempo:.2g}x slower" if tempo < 9.95 else f"{tempo:.0f}x slower"
    return f"{1 / tempo:.2g}x faster" if tempo <= 1 / least else None
