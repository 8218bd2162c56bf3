"""Actions of a library and their negative examples, which are stored under reserved labels."""

from jeanie.errors import ConfigError
from jeanie.recogniser.library.library import Library
from jeanie.recogniser.library.rows import normalise_name

__all__ = ["NEGATIVE_PREFIX", "count_examples", "forget_action", "normalise_label", "rename_action"]

NEGATIVE_PREFIX = "\u2260 "
"""Prefix of the label under which a library stores the negative examples of an action."""


def count_examples(library: Library) -> tuple[dict[str, int], dict[str, int]]:
    """Return the number of examples per action, and the number of negative examples per action."""
    positive, negative = {}, {}
    for label, count in library.actions().items():
        if label.startswith(NEGATIVE_PREFIX):
            negative[label.removeprefix(NEGATIVE_PREFIX)] = count
        else:
            positive[label] = count
    return positive, negative


def forget_action(library: Library, label: str) -> int:
    """Delete an action with its negative examples; return how many examples it had."""
    label = normalise_label(label)
    removed = library.remove(label)
    if NEGATIVE_PREFIX + label in library.labels:
        library.remove(NEGATIVE_PREFIX + label)
    return removed


def rename_action(library: Library, old: str, new: str, *, merge: bool = False) -> None:
    """Rename an action and its negative examples."""
    old, new = normalise_label(old), normalise_label(new)
    library.rename(old, new, merge=merge)
    if NEGATIVE_PREFIX + old in library.labels and old != new:
        library.rename(NEGATIVE_PREFIX + old, NEGATIVE_PREFIX + new, merge=True)


def normalise_label(label: str) -> str:
    """Return a label in normal form; raise ConfigError if it is invalid or reserved."""
    if isinstance(label, str) and label.strip().startswith(NEGATIVE_PREFIX.strip()):
        raise ConfigError(
            f"a label does not begin with {NEGATIVE_PREFIX.strip()}, got {label[:60]!r}; use reject() for negative "
            "examples"
        )
    return normalise_name(label)
