"""NTU RGB+D 60 and 120: ``.skeleton`` files of Kinect v2, with bodies followed by their id."""

from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jeanie.datasets.dataset import Clip, Clips, find_files, list_files
from jeanie.datasets.names import clip_name
from jeanie.datasets.table import check_size
from jeanie.datasets.text import MAX_TEXT_BYTES, make_motion, read_bytes, read_lines
from jeanie.errors import DataError
from jeanie.skeleton.layout import LAYOUTS, Layout
from jeanie.skeleton.motion import Motion

__all__ = ["open_ntu60", "open_ntu120", "read_missing", "read_ntu"]

JOINTS = 25
BODY_TOKENS = 10  # id, clipped edges, confidence and state of two hands, restricted, lean x y, tracking
JOINT_TOKENS = 12  # x y z, depth x y, colour x y, orientation w x y z, tracking state
NTU60_ACTIONS = 60
NTU60_SETUPS = 17
PERSONS = 2  # no action has more; further bodies are furniture and reflections


@dataclass(frozen=True)
class _File:
    """A file as its tokens, which know their lines when something is wrong."""

    path: Path
    data: bytes
    tokens: list[bytes]

    def error(self, at: int, cause: str) -> DataError:
        """An error that names the line of token ``at``, or the last line after the end."""
        lines = self.data.splitlines() or [b""]
        ends = list(accumulate(len(line.split()) for line in lines))
        number = min(bisect_right(ends, at) + 1, len(lines))
        return DataError(f"{self.path}, line {number}: {cause}")

    def said(self, at: int) -> str:
        return repr(self.tokens[at][:40].decode(errors="replace"))

    def count(self, at: int, what: str) -> int:
        """The whole number at a token. No count can be larger than the number of tokens."""
        if at >= len(self.tokens):
            raise self.error(at, f"the file ends where {what} should be")
        token = self.tokens[at]
        if len(token) > 12 or not token.isdigit() or int(token) > len(self.tokens):
            raise self.error(at, f"expected {what}, got {self.said(at)}")
        return int(token)

    def number(self, at: int) -> float:
        """The number at a token; what Windows programs write for NaN and infinity (-1.#IND) is NaN."""
        token = self.tokens[at]
        if b".#" in token:
            return float("nan")
        try:
            return float(token.replace(b"_", b"?"))
        except ValueError:
            raise self.error(at, f"{self.said(at)} is not a number") from None


def read_ntu(path: str | Path, *, layout: Layout | None = None) -> Motion:
    """The bodies of a ``.skeleton`` file: metres in Kinect's camera space, y up, as they are.

    A person is a body id, in the order of first appearance; where a body is not seen it is missing,
    and so is every body in a frame without bodies. The file's own count of frames must be what it holds.
    """
    path = Path(path)
    data = read_bytes(path, MAX_TEXT_BYTES)
    file = _File(path, data, data.split())
    frames, bodies = _structure(file)
    if not bodies:
        raise DataError(f"{path}: no body in any of its {frames} frames; drop it")
    persons = {body: person for person, body in enumerate(dict.fromkeys(body for _, body, _ in bodies))}
    check_size(path, frames, len(persons), JOINTS)
    joints = np.full((frames, len(persons), JOINTS, 3), np.nan)
    frame = [at for at, _, _ in bodies]
    person = [persons[body] for _, body, _ in bodies]
    joints[frame, person] = _positions(file, [start for _, _, start in bodies])
    return make_motion(path, joints, LAYOUTS["ntu25"], layout=layout, rate=30.0)


def _structure(file: _File) -> tuple[int, list[tuple[int, bytes, int]]]:
    """Number of frames, and for every body (frame, id, token at which its joints start)."""
    frames = file.count(0, "the number of frames")
    bodies: list[tuple[int, bytes, int]] = []
    at = 1
    for frame in range(frames):
        seen = file.count(at, f"the number of bodies in frame {frame}")
        at += 1
        for _ in range(seen):
            joints = file.count(at + BODY_TOKENS, f"the number of joints in frame {frame}")
            if joints != JOINTS:
                raise file.error(at + BODY_TOKENS, f"a body has {JOINTS} joints, got {joints}")
            bodies.append((frame, file.tokens[at], at + BODY_TOKENS + 1))
            at += BODY_TOKENS + 1 + JOINTS * JOINT_TOKENS
            if at > len(file.tokens):
                raise file.error(at, f"the file ends within frame {frame} of {frames}")
    if at != len(file.tokens):
        raise file.error(at, f"{frames} frames announced, the file goes on after them")
    return frames, bodies


def _positions(file: _File, starts: list[int]) -> NDArray[np.float64]:
    """x, y and z of the joints [body, joint, 3] whose tokens begin at ``starts``."""
    size = JOINTS * JOINT_TOKENS
    columns = [range(start + axis, start + size, JOINT_TOKENS) for start in starts for axis in range(3)]
    chosen = [file.tokens[at.start : at.stop : at.step] for at in columns]
    try:
        if b"_" in file.data:  # numpy would read 1_0 as 10
            raise ValueError
        values = np.array(chosen, dtype=np.float64)
    except ValueError:
        values = np.array([[file.number(at) for at in column] for column in columns])
    return values.reshape(len(starts), 3, JOINTS).transpose(0, 2, 1)


def read_missing(path: str | Path) -> list[str]:
    """Names of the samples without usable skeletons, from a list as published with the data set.

    One name such as ``S001C002P005R002A008`` a line; lines without one (headings) are passed over.
    """
    path = Path(path)
    names = [line.strip() for line in read_lines(path)]
    found = [name for name in names if len(name) == 20 and name == clip_name(name) and name[0] == "S"]
    if not found:
        raise DataError(f"{path}: no sample name such as S001C002P005R002A008 in it")
    return found


def open_ntu60(root: str | Path, *, missing: str | Path | None = None) -> Clips:
    """NTU RGB+D 60: actions 1 to 60 in setups 1 to 17, anywhere below ``root``; see ``open_ntu120``."""
    return _open("ntu60", root, missing, NTU60_ACTIONS, NTU60_SETUPS)


def open_ntu120(root: str | Path, *, missing: str | Path | None = None) -> Clips:
    """NTU RGB+D 120: all ``.skeleton`` files below ``root``, each motion with its two most moving bodies.

    ``missing`` is a list of samples without usable skeletons (302 for NTU-60, 535 for NTU-120); without
    it, every ``*missing_skeleton*.txt`` directly in ``root`` is taken. ``dropped`` names these samples.
    """
    return _open("ntu120", root, missing, 120, 32)


def _open(name: str, root: str | Path, missing: str | Path | None, actions: int, setups: int) -> Clips:
    files = find_files(root, "*.skeleton", "NTU RGB+D")
    lists = sorted(Path(root).glob("*missing_skeleton*.txt")) if missing is None else [Path(missing)]
    lost = {sample: f"listed in {path.name}" for path in lists for sample in read_missing(path)}
    listed = list_files(name, LAYOUTS["ntu25"], files, read_ntu)
    clips = tuple(clip for clip in listed.clips if _within(clip, actions, setups))
    return Clips(name, listed.layout, clips, _read_clip, listed.dropped).without(lost.items())


def _within(clip: Clip, actions: int, setups: int) -> bool:
    label, setup = clip.tags.label, clip.tags.setup
    return isinstance(label, int) and label <= actions and setup is not None and setup <= setups


def _read_clip(clip: Clip) -> Motion:
    motion = read_ntu(clip.source)
    return motion if motion.persons <= PERSONS else motion.most_moving(PERSONS)
