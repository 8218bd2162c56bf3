"""Memory-mapped archives of motions."""

from jeanie.datasets.archive.reader import Archive, is_archive, open_archive
from jeanie.datasets.archive.writer import ArchiveWriter, write_archive

__all__ = ["Archive", "ArchiveWriter", "is_archive", "open_archive", "write_archive"]
