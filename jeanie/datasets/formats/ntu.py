"""NTU RGB+D 60 and 120: ``.skeleton`` files of Kinect v2, with bodies tracked by their id."""

import re
from array import array
from itertools import islice
from pathlib import Path

import numpy as np

from jeanie.datasets.clip_names import parse_clip_name
from jeanie.datasets.dataset import Clip, FileDataset, find_files, list_files
from jeanie.datasets.formats.build import make_motion
from jeanie.datasets.formats.files import check_size, read_bytes
from jeanie.datasets.formats.rows import open_lines
from jeanie.errors import DataError
from jeanie.skeleton.layout import LAYOUTS, Layout
from jeanie.skeleton.motion import Motion

__all__ = ["open_ntu60", "open_ntu120", "read_missing_samples", "read_ntu"]

MAX_SKELETON_BYTES = 2**28
JOINTS = 25
BODY_TOKENS = 10  # id, clipped edges, confidence and state of two hands, restricted, lean x y, tracking
JOINT_TOKENS = 12  # x y z, depth x y, colour x y, orientation w x y z, tracking state
NTU60_ACTIONS = 60
NTU60_SETUPS = 17
PERSONS = 2  # no action has more; further bodies are furniture and reflections
_CHUNK_BYTES = 2**20
_TOKEN = re.compile(rb"\S+")
_SPACE = re.compile(rb"\s")


class _Tokens:
    """The words of a file, split one chunk at a time; errors name the line of a word."""

    def __init__(self, path: Path, data: bytes) -> None:
        self.path = path
        self.data = data
        self.has_underscores = b"_" in data
        self.start = 0  # of the current chunk within the data
        self.stop = 0
        self.chunk: list[bytes] = []
        self.index = 0  # of the next word within the chunk

    def peek(self, count: int) -> list[bytes]:
        """Return the next words without consuming them, fewer at the end of the file."""
        while len(self.chunk) < self.index + count and self.stop < len(self.data):
            self._read_chunk()
        return self.chunk[self.index : self.index + count]

    def _read_chunk(self) -> None:
        """Append a chunk, and drop the words that were consumed."""
        if self.index:
            left = len(self.chunk) - self.index
            consumed = self.data[self.start : self.stop].rsplit(None, left)[0] if left else None
            self.start = self.stop if consumed is None else self.start + len(consumed)
            del self.chunk[: self.index]
            self.index = 0
        end = _SPACE.search(self.data, self.stop + _CHUNK_BYTES)
        stop = end.start() if end else len(self.data)
        self.chunk += self.data[self.stop : stop].split()
        self.stop = stop

    def error(self, offset: int, cause: str) -> DataError:
        """Return an error that names the line of the word ``offset`` words ahead, or the last line."""
        words = _TOKEN.finditer(self.data, self.start)
        word = next(islice(words, self.index + offset, None), None)
        place = word.start() if word else len(self.data.rstrip())
        line = self.data.count(b"\n", 0, place) + 1
        return DataError(f"{self.path}, line {line}: {cause}")

    def read_count(self, name: str, *, offset: int = 0) -> int:
        """Return the whole number ``offset`` words ahead, and consume it if it is the next word."""
        words = self.peek(offset + 1)
        if len(words) <= offset:
            raise self.error(offset, f"the file ends where {name} should be")
        word = words[offset]
        if len(word) > 12 or not word.isdigit() or int(word) > len(self.data):
            raise self.error(offset, f"expected {name}, got {_quote(word)}")
        self.index += offset == 0
        return int(word)

    def read_positions(self) -> list[float]:
        """Consume the words of a body's joints; return x of all joints, then y, then z."""
        words = self.peek(JOINTS * JOINT_TOKENS)
        coordinates = words[0::JOINT_TOKENS] + words[1::JOINT_TOKENS] + words[2::JOINT_TOKENS]
        try:
            if self.has_underscores:  # Python would read 1_0 as 10
                raise ValueError
            positions = list(map(float, coordinates))
        except ValueError:
            starts = range(0, len(words), JOINT_TOKENS)
            positions = [self._parse_number(words, start + axis) for axis in range(3) for start in starts]
        self.index += len(words)
        return positions

    def _parse_number(self, words: list[bytes], offset: int) -> float:
        """Parse a number; -1.#IND and the like, which Windows programs write for NaN and infinity, are NaN."""
        word = words[offset]
        if b".#" in word:
            return float("nan")
        try:
            return float(word.replace(b"_", b"?"))
        except ValueError:
            raise self.error(offset, f"{_quote(word)} is not a number") from None


def _quote(word: bytes) -> str:
    return repr(word[:40].decode(errors="replace"))


def read_ntu(path: str | Path, *, layout: Layout | None = None) -> Motion:
    """Read the bodies of a ``.skeleton`` file: metres in Kinect's camera space, y up, unchanged.

    A person is a body id, in the order of first appearance. A person is missing in frames without its id. The
    file must contain as many frames as it declares.
    """
    path = Path(path)
    tokens = _Tokens(path, read_bytes(path, MAX_SKELETON_BYTES))
    frames = tokens.read_count("the number of frames")
    check_size(path, frames, 1, JOINTS)
    persons: dict[bytes, int] = {}
    places: list[tuple[int, int]] = []
    positions = array("d")
    for frame in range(frames):
        for _ in range(tokens.read_count(f"the number of bodies in frame {frame}")):
            joints = tokens.read_count(f"the number of joints in frame {frame}", offset=BODY_TOKENS)
            if joints != JOINTS:
                raise tokens.error(BODY_TOKENS, f"a body has {JOINTS} joints, got {joints}")
            size = BODY_TOKENS + 1 + JOINTS * JOINT_TOKENS
            if len(tokens.peek(size)) < size:
                raise tokens.error(size, f"the file ends within frame {frame} of {frames}")
            person = persons.setdefault(tokens.peek(1)[0], len(persons))
            tokens.index += BODY_TOKENS + 1
            places.append((frame, person))
            positions.extend(tokens.read_positions())
    if tokens.peek(1):
        raise tokens.error(0, f"{frames} frames declared, but the file has more")
    if not places:
        raise DataError(f"{path}: no body in any of its {frames} frames; leave it out")
    check_size(path, frames, len(persons), JOINTS)
    placed_points = np.full((frames, len(persons), JOINTS, 3), np.nan)
    placed_points[tuple(np.array(places).T)] = np.array(positions).reshape(-1, 3, JOINTS).transpose(0, 2, 1)
    return make_motion(path, placed_points, LAYOUTS["ntu25"], layout=layout, rate=30.0)


def read_missing_samples(path: str | Path) -> list[str]:
    """Read the names of samples without usable skeletons from a list as published with the data set.

    Each line has one name such as ``S001C002P005R002A008``; other lines (headings) are ignored.
    """
    path = Path(path)
    with open_lines(path) as lines:
        names = [name for line in lines if len(name := line.strip()) == 20]
    samples = [name for name in names if name == parse_clip_name(name) and name[0] == "S"]
    if not samples:
        raise DataError(f"{path}: no sample name such as S001C002P005R002A008 in it")
    return samples


def open_ntu60(root: str | Path, *, missing: str | Path | None = None) -> FileDataset:
    """Open NTU RGB+D 60: actions 1 to 60 in setups 1 to 17, anywhere below ``root``; see ``open_ntu120``."""
    return _open("ntu60", root, missing, NTU60_ACTIONS, NTU60_SETUPS)


def open_ntu120(root: str | Path, *, missing: str | Path | None = None) -> FileDataset:
    """Open NTU RGB+D 120: all ``.skeleton`` files below ``root``, each motion with its two most moving bodies.

    ``missing`` is a list of samples without usable skeletons (302 for NTU-60, 535 for NTU-120); by default every
    ``*missing_skeleton*.txt`` directly in ``root``. ``dropped`` names these samples.
    """
    return _open("ntu120", root, missing, 120, 32)


def _open(name: str, root: str | Path, missing: str | Path | None, actions: int, setups: int) -> FileDataset:
    files = find_files(root, "*.skeleton", "NTU RGB+D")
    lists = sorted(Path(root).glob("*missing_skeleton*.txt")) if missing is None else [Path(missing)]
    incomplete = {sample: f"listed in {path.name}" for path in lists for sample in read_missing_samples(path)}
    listed = list_files(name, LAYOUTS["ntu25"], files, read_ntu)
    clips = tuple(clip for clip in listed.clips if _is_within(clip, actions, setups))
    return FileDataset(name, listed.layout, clips, _read_clip, listed.dropped).exclude(incomplete.items())


def _is_within(clip: Clip, actions: int, setups: int) -> bool:
    label, setup = clip.tags.label, clip.tags.setup
    return isinstance(label, int) and label <= actions and setup is not None and setup <= setups


def _read_clip(clip: Clip) -> Motion:
    motion = read_ntu(clip.source)
    return motion if motion.persons <= PERSONS else motion.select_most_active(PERSONS)
