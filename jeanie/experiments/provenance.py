"""Where a number comes from: the commit of the code, and the versions it ran on."""

import platform
import subprocess
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

__all__ = ["commit", "versions"]

_PACKAGES = ("jeanie", "torch", "numpy")


@cache
def commit() -> str | None:
    """The commit of the checkout this package lies in, with "+" where files differ from it; else None."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    try:
        head, changes = (
            subprocess.run(
                ["git", *command], cwd=root, capture_output=True, text=True, timeout=10, check=True
            )
            for command in (("rev-parse", "HEAD"), ("status", "--porcelain", "--untracked-files=no"))
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return head.stdout.strip() + ("+" if changes.stdout.strip() else "")


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that numbers depend on."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):  # a checkout runs without having been installed
            found[name] = version(name)
    return found
