"""A table of log distances that is kept while its rows and columns change: only new entries are computed."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from jeanie.fewshot import Features, FewShotModel
from jeanie.recogniser.background import log_distance

__all__ = ["DistanceTable"]


class DistanceTable:
    """Log distances from queries to supports, which are identified by keys."""

    def __init__(self) -> None:
        self._rows: tuple[int, ...] = ()
        self._columns: tuple[int, ...] = ()
        self._logs: Tensor | None = None

    def update(
        self,
        model: FewShotModel,
        rows: tuple[int, ...],
        queries: Features,
        columns: tuple[int, ...],
        supports: Features,
    ) -> Float[Tensor, "row column"]:
        """Return the table of these rows and columns. A key always belongs to the same motion."""
        logs = supports.values.new_empty(len(rows), len(columns))
        old_rows, new_rows = _split_keys(rows, self._rows)
        old_columns, new_columns = _split_keys(columns, self._columns)
        if self._logs is not None and old_rows and old_columns:
            old_logs = self._logs[_find_keys(rows, old_rows, self._rows)]
            old_logs = old_logs[:, _find_keys(columns, old_columns, self._columns)]
            logs[torch.tensor(old_rows)[:, None], torch.tensor(old_columns)] = old_logs
        if new_columns:
            at = torch.tensor(new_columns)
            logs[:, at] = log_distance(model.compare(queries, supports[at]))
        if new_rows and old_columns:
            at, old = torch.tensor(new_rows), torch.tensor(old_columns)
            logs[at[:, None], old] = log_distance(model.compare(queries[at], supports[old]))
        self._rows, self._columns, self._logs = rows, columns, logs
        return logs


def _split_keys(keys: Sequence[int], known: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the positions of known keys, and those of new keys."""
    known_set = set(known)
    return [at for at, key in enumerate(keys) if key in known_set], [
        at for at, key in enumerate(keys) if key not in known_set
    ]


def _find_keys(keys: Sequence[int], positions: Sequence[int], known: Sequence[int]) -> Tensor:
    """Return where the keys at some positions are among the known ones."""
    place = {key: at for at, key in enumerate(known)}
    return torch.tensor([place[keys[at]] for at in positions])
