"""The last frames of a stream, in bounded memory."""

import torch
from torch import Tensor

__all__ = ["MotionBuffer"]


class MotionBuffer:
    """The last ``keep`` to twice ``keep`` rows of a stream, indexed from the start of the stream.

    Rows are written in place; every ``keep`` rows the older half is dropped.
    """

    def __init__(self, keep: int) -> None:
        self._keep, self._rows, self._count = keep, torch.zeros(0), 0
        self.end = 0

    @property
    def start(self) -> int:
        """Index of the oldest row."""
        return self.end - self._count

    def add(self, rows: Tensor) -> None:
        """Append rows and drop the oldest ones."""
        self.end += len(rows)
        if not self._count:
            self._rows = rows.new_zeros(2 * self._keep, *rows.shape[1:])
        if self._count + len(rows) > len(self._rows):
            rows = torch.cat([self._rows[: self._count], rows])[-self._keep :]
            self._count = 0
        self._rows[self._count : self._count + len(rows)] = rows
        self._count += len(rows)

    def read(self, start: int, end: int) -> Tensor:
        """Return a copy of the rows from ``start`` to ``end`` (exclusive) that are still stored."""
        return self._rows[max(0, start - self.start) : min(self._count, max(0, end - self.start))].clone()
