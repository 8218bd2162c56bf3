"""Models whose distances are added after training: one branch is learnt, each branch counts in its own unit.

A network alone overfits few classes; a raw distance beside it repairs that. Learning on the sum does not: the
network then learns what the raw distance lacks on the training classes. So the branch is trained by itself,
and the unit of every branch, its median distance on training episodes, is measured before it is used.
"""

import copy
from collections.abc import Sequence

import torch

from jeanie.experiments.learning.distributed import World
from jeanie.fewshot.episodes import Episode
from jeanie.fewshot.inputs import Store
from jeanie.fewshot.model import FewShotModel

__all__ = ["Fusion"]

_EPISODES = 16  # on which units are measured


class Fusion:
    """A model as ``branch``, which is trained, and ``joined`` with those beside it, which is used and kept."""

    def __init__(self, model: FewShotModel, store: Store, episodes: Sequence[Episode], world: World) -> None:
        self.store, self._whole, self._world = store, model, world
        self._episodes = [episodes[i] for i in range(min(_EPISODES, len(episodes)))]
        self.branch = copy.deepcopy(model)
        self.branch.beside = torch.nn.ModuleList()
        self.branch.config = model.config.but(beside=(), weight=1.0, unit=1.0)
        self.branch_store = copy.copy(store)  # the same prepared clips
        self.branch_store.beside = ()
        self._units: list[float] | None = None

    def joined(self, branch: FewShotModel) -> FewShotModel:
        """The whole model with this branch: each distance in units of its median on training episodes."""
        if self._units is None:  # those beside do not learn
            self._units = [self._unit(number) for number in range(len(self._whole.beside))]
        whole = copy.deepcopy(self._whole)
        whole.load_state_dict(branch.state_dict(), strict=False)
        beside = [part.but(unit=unit) for part, unit in zip(whole.config.beside, self._units, strict=True)]
        whole.config = whole.config.but(unit=self._median(branch, None), beside=beside)
        for number, config in enumerate(beside):
            _part(whole, number).config = config
        return whole

    def _unit(self, number: int) -> float:
        part = copy.deepcopy(_part(self._whole, number))
        part.config = part.config.but(weight=1.0, unit=1.0)
        return self._median(part, number)

    @torch.no_grad()
    def _median(self, model: FewShotModel, number: int | None) -> float:
        """Median distance of a model, the branch or the one of this number beside it; 1 where it is 0."""
        model = copy.deepcopy(model).eval()  # a scale that it measures is not kept
        distances = []
        for episode in self._episodes:
            query, support = (
                self.branch_store[clips] if number is None else self.store[clips].beside[number]
                for clips in (episode.query, episode.support)
            )
            distances.append(model(query, support).flatten())
        median = torch.cat(distances).double().median()
        self._world.equalise([median])
        return median.item() if median > 0 else 1.0


def _part(model: FewShotModel, number: int) -> FewShotModel:
    part = model.beside[number]
    assert isinstance(part, FewShotModel)
    return part
