"""Patterns of file names, such as ``{label}/{subject}_{take}``, that give the tags of recordings."""

import re
from functools import cached_property
from pathlib import PurePosixPath

from jeanie.datasets.clip_names import Tags
from jeanie.errors import ConfigError

__all__ = ["PathPattern"]

_FIELDS = {"label": "label", "action": "label", "class": "label", "subject": "subject", "person": "subject",
           "camera": "view", "view": "view", "setup": "setup", "take": "take", "trial": "take"}  # fmt: skip
_NUMBERS = ("setup", "take")


class PathPattern:
    """A pattern of relative paths without their endings.

    >>> PathPattern("{label}/{subject}_{take}").parse("wave/anna_3.csv")
    Tags(label='wave', subject='anna', view=None, setup=None, take=3)
    >>> PathPattern("{label}_{take}").parse("wave_take3.csv").take
    3
    >>> PathPattern("{label}/{subject}_{take}").parse("anna.csv") is None
    True
    """

    def __init__(self, text: str) -> None:
        self.text = text
        names = re.findall(r"\{(\w*)\}", text)
        unknown = [name for name in names if name and name not in _FIELDS]
        fields = [_FIELDS[name] for name in names if name and not unknown]
        if (
            unknown
            or "label" not in fields
            or len(set(fields)) != len(fields)
            or re.sub(r"\{\w*\}", "", text).count("{")
        ):
            raise ConfigError(
                f"pattern is a path with {{label}} and, where known, {{subject}}, {{camera}}, {{setup}} and {{take}}, "
                f"each once, such as '{{label}}/{{subject}}_{{take}}', or a CSV or Excel sheet; got {text!r}"
            )

    @cached_property
    def _expression(self) -> re.Pattern[str]:
        parts = re.split(r"(\{\w*\})", self.text.strip("/"))
        return re.compile("".join(map(self._translate, parts, ["", *parts])))

    def _translate(self, part: str, before: str) -> str:
        if not re.fullmatch(r"\{\w*\}", part):
            return re.escape(part)
        field = _FIELDS.get(part[1:-1], "")
        if not field:
            return "[^/]*?"
        if field not in _NUMBERS:
            return rf"(?P<{field}>[^/]+?)"
        letters = "" if before.endswith("}") or before[-1:].isalnum() else r"[^\W\d_]*"  # t03, take3
        return rf"{letters}(?P<{field}>\d+)"

    def parse(self, name: str) -> Tags | None:
        """Return the tags in a relative path, None if it does not match."""
        plain = PurePosixPath(name)
        match = self._expression.fullmatch(
            plain.with_name(plain.name.removesuffix(plain.suffix) or plain.name).as_posix()
        )
        if match is None:
            return None
        values = match.groupdict()
        return Tags(
            label=values.get("label"),
            subject=values.get("subject"),
            view=values.get("view"),
            setup=int(values["setup"]) if values.get("setup") else None,
            take=int(values["take"]) if values.get("take") else None,
        )
