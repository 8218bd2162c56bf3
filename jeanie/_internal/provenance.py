"""Origin of a result: commit of the code, and versions of its packages."""

import platform
import subprocess
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

__all__ = ["get_commit", "get_versions"]

_PACKAGES = ("jeanie", "torch", "numpy")


@cache
def get_commit() -> str | None:
    """Return the commit of the checkout of this package, with "+" if files differ; None without a checkout."""
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


def get_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that results depend on."""
    versions = {"python": platform.python_version()}
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):  # a checkout runs without installation
            versions[name] = version(name)
    return versions
