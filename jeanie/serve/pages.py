"""Pages of explanations, kept for a while in a folder that all worker processes share."""

import hashlib
import re
import secrets
import shutil
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path

from jeanie._internal.files import write_atomically

__all__ = ["PageStore"]

_PAGES = 64  # pages per owner
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class PageStore:
    """Pages in files. Only the owner of a page can find it.

    Args:
        folder: Folder of the pages. None uses a temporary folder, which is deleted with the store.
    """

    def __init__(self, folder: Path | None = None) -> None:
        if folder is None:
            folder = Path(tempfile.mkdtemp(prefix="jeanie-pages"))
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._folder = folder

    def keep(self, owner: str, html: str) -> str:
        """Keep a page for a while and return its id. The oldest pages of the owner are deleted."""
        owner_folder = self._folder / _hash_owner(owner)
        owner_folder.mkdir(mode=0o700, exist_ok=True)
        page = secrets.token_urlsafe(12)
        write_atomically(owner_folder / f"{page}.html", html.encode())
        pages = sorted(owner_folder.glob("*.html"), key=_read_time)
        for old in pages[:-_PAGES]:
            old.unlink(missing_ok=True)
        return page

    def find(self, owner: str, page: str) -> str | None:
        """Return a page of an owner by its id, or None if it is too old or belongs to somebody else."""
        if not _NAME.fullmatch(page):
            return None
        with suppress(OSError):
            return (self._folder / _hash_owner(owner) / f"{page}.html").read_text(encoding="utf-8")
        return None


def _hash_owner(owner: str) -> str:
    return hashlib.sha256(owner.encode()).hexdigest()[:32]


def _read_time(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:  # another process has deleted it
        return 0
