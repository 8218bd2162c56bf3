"""Actions of a library and, under reserved labels, what was said not to be one of them."""

from jeanie.errors import ConfigError
from jeanie.recogniser.library import Library
from jeanie.recogniser.rows import checked_name

__all__ = ["NOT", "actions_of", "checked_label", "forget_action", "rename_action"]

NOT = "\u2260 "
"""Begins the label under which a library keeps what must not be taken for an action."""


def actions_of(library: Library) -> tuple[dict[str, int], dict[str, int]]:
    """How many examples each action of a library has, and of how many it was said that they are not it."""
    counts = library.actions()
    negatives = {label.removeprefix(NOT): count for label, count in counts.items() if label.startswith(NOT)}
    return {label: count for label, count in counts.items() if not label.startswith(NOT)}, negatives


def forget_action(library: Library, label: str) -> int:
    """Forget an action of a library and what was said not to be it; how many examples it had."""
    label = checked_label(label)
    removed = library.remove(label)
    if NOT + label in library.labels:
        library.remove(NOT + label)
    return removed


def rename_action(library: Library, old: str, new: str, *, merge: bool = False) -> None:
    """Give an action of a library another label, also for what was said not to be it."""
    old, new = checked_label(old), checked_label(new)
    library.rename(old, new, merge=merge)
    if NOT + old in library.labels and old != new:
        library.rename(NOT + old, NOT + new, merge=True)


def checked_label(label: str) -> str:
    """A label in its one form; an error where it is none, or one that is reserved."""
    if isinstance(label, str) and label.strip().startswith(NOT.strip()):
        raise ConfigError(
            f"a label does not begin with {NOT.strip()}, got {label[:60]!r}; use reject() for negatives"
        )
    return checked_name(label)
