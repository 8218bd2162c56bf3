"""Parse the names of recordings: action, subject, camera, setup and take."""

import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Tags", "parse_clip_name", "parse_tags"]


@dataclass(frozen=True)
class Tags:
    """Label, subject, camera, setup and take of a recording; None if unknown."""

    label: str | int | None = None
    subject: str | int | None = None
    view: str | int | None = None
    setup: int | None = None
    take: int | None = None


# letter of a name -> field; NTU writes S001C002P003R002A050, the Kinect v1 sets a01_s02_e03 or
# a01_s02_e03_v04, UWA3D Activity a01e03s02 or s02a01e03
_NTU = re.compile(r"S(\d{3})C(\d{3})P(\d{3})R(\d{3})A(\d{3})")
_NTU_FIELDS = ("setup", "view", "subject", "take", "label")
_LETTERS = {"a": "label", "s": "subject", "v": "view", "e": "take"}
_KINECT = re.compile(r"(?<![A-Za-z0-9])(?:[asev]\d{2,3}_?){3,4}(?![0-9])")
_PART = re.compile(r"([asev])(\d+)")
_SBU = re.compile(r"(s\d{2}s\d{2})[/_](\d{2})[/_](\d{3})(?!\d)")


def parse_tags(path: str | Path) -> Tags:
    """Return the tags in the name of a file, or in the names of its folders (SBU).

    >>> parse_tags("S001C002P003R002A050.skeleton")
    Tags(label=50, subject=3, view=2, setup=1, take=2)
    >>> parse_tags("a12_s01_e02_skeleton3D.txt")
    Tags(label=12, subject=1, view=None, setup=None, take=2)
    """
    path = Path(path)
    if match := _NTU.search(path.name):
        return Tags(**dict(zip(_NTU_FIELDS, map(int, match.groups()), strict=True)))
    if match := _KINECT.search(path.name):
        parts = _PART.findall(match[0])
        if {"a", "s", "e"} <= {letter for letter, _ in parts} and len(dict(parts)) == len(parts):
            return Tags(**{_LETTERS[letter]: int(number) for letter, number in parts})
    if match := _SBU.search("/".join(path.parts[-4:])):
        return Tags(label=int(match[2]), subject=match[1], take=int(match[3]))
    return Tags()


def parse_clip_name(path: str | Path) -> str:
    """Return the name of a recording in the published lists: its tags without the rest of the file name.

    >>> parse_clip_name("real3d_txt/a12_s01_e02_skeleton3D.txt")
    'a12_s01_e02'
    >>> parse_clip_name("sbu/s01s02/03/001/skeleton_pos.txt")
    's01s02_03_001'
    """
    path = Path(path)
    if match := _NTU.search(path.name):
        return match[0]
    if match := _KINECT.search(path.name):
        return match[0].strip("_")
    if match := _SBU.search("/".join(path.parts[-4:])):
        return "_".join(match.groups())
    return path.name.removesuffix(path.suffix)
