"""Check what a program gives as recordings."""

from collections.abc import Iterable

from jeanie.errors import ConfigError
from jeanie.skeleton.motion import Motion

__all__ = ["check_motion", "list_motions"]


def check_motion(motion: object) -> Motion:
    """Return a motion; raise ConfigError for anything else, such as a path."""
    if not isinstance(motion, Motion):
        raise ConfigError(f"needs a Motion, got {type(motion).__name__}; read_motion(path) reads one")
    return motion


def list_motions(motions: object, missing: str) -> list[Motion]:
    """Return one or several motions as a list; ``missing`` is the error message if there is none."""
    if isinstance(motions, Motion):
        return [motions]
    checked = [check_motion(motion) for motion in (motions if isinstance(motions, Iterable) else [motions])]
    if not checked:
        raise ConfigError(missing)
    return checked
