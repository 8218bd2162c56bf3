"""The options of commands that search an archive."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from jeanie.cli.options import (
    CacheFolder,
    ClusterAddress,
    Jobs,
    Pattern,
    SkipBad,
    get_default_cache,
    open_source,
)
from jeanie.datasets import Dataset, ReadOptions

__all__ = ["SearchedArchive"]


@dataclass(frozen=True)
class SearchedArchive:
    """How the recordings of an archive are read and encoded for a search, and the cache of their features."""

    jobs: int
    cluster: str | None
    cache: Path | None
    pattern: str | None
    skip_bad: bool

    OPTIONS: ClassVar[dict[str, tuple[str, Any, Any]]] = {
        "jobs": ("jobs", Jobs, 1),
        "cluster": ("cluster", ClusterAddress, None),
        "cache": ("cache", CacheFolder, None),
        "pattern": ("pattern", Pattern, None),
        "skip_bad": ("skip_bad", SkipBad, False),
    }

    def open(self, text: str, options: ReadOptions) -> Dataset:
        """Open what the argument ARCHIVE names."""
        return open_source(text, self.pattern, options)

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of ``find`` and ``build_index``."""
        cache = self.cache or get_default_cache()
        return {"jobs": self.jobs, "cluster": self.cluster, "cache": cache, "skip_bad": self.skip_bad}
