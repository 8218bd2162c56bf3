"""Late fusion: train one branch alone, then add the distances of the components, each in its own unit.

With few classes a network overfits, and adding a raw distance helps. Training on the sum does not: the network then
learns only the part that the raw distance lacks on the training classes. So the branch is trained alone. The unit of
each distance, its median on training episodes, is measured before the model is used.
"""

import copy
from collections.abc import Sequence

import torch

from jeanie.compute.distributed import World
from jeanie.fewshot.episodes import Episode
from jeanie.fewshot.inputs import Store
from jeanie.fewshot.model import FewShotModel

__all__ = ["Fusion"]

_EPISODES = 16  # to measure units on


class Fusion:
    """A model with components: ``branch`` is trained alone, ``combine`` returns the whole model."""

    def __init__(self, model: FewShotModel, store: Store, episodes: Sequence[Episode], world: World) -> None:
        self.store, self._whole, self._world = store, model, world
        self._episodes = [episodes[i] for i in range(min(_EPISODES, len(episodes)))]
        self.branch = copy.deepcopy(model)
        self.branch.components = torch.nn.ModuleList()
        self.branch.config = model.config.with_values(components=(), weight=1.0, unit=1.0)
        self.branch_store = copy.copy(store)  # the same prepared clips
        self.branch_store.components = ()
        self._units: list[float] | None = None

    def combine(self, branch: FewShotModel) -> FewShotModel:
        """Return the whole model with this branch; the unit of each distance is its median on training episodes."""
        if self._units is None:  # components are not trained
            self._units = [self._measure_component(number) for number in range(len(self._whole.components))]
        model = copy.deepcopy(self._whole)
        model.load_state_dict(branch.state_dict(), strict=False)
        components = [
            part.with_values(unit=unit)
            for part, unit in zip(model.config.components, self._units, strict=True)
        ]
        model.config = model.config.with_values(
            unit=self._measure_median(branch, None), components=components
        )
        for number, config in enumerate(components):
            _get_component(model, number).config = config
        return model

    def _measure_component(self, number: int) -> float:
        component = copy.deepcopy(_get_component(self._whole, number))
        component.config = component.config.with_values(weight=1.0, unit=1.0)
        return self._measure_median(component, number)

    @torch.no_grad()
    def _measure_median(self, model: FewShotModel, number: int | None) -> float:
        """Return the median distance of the branch (None) or of a component; 1 if the median is 0."""
        model = copy.deepcopy(model).eval()  # the copy discards the measured cost scale
        distances = []
        for episode in self._episodes:
            query, support = (
                self.branch_store[clips] if number is None else self.store[clips].components[number]
                for clips in (episode.query, episode.support)
            )
            distances.append(model(query, support).flatten())
        median = torch.cat(distances).double().median()
        self._world.broadcast_tensors([median])
        return median.item() if median > 0 else 1.0


def _get_component(model: FewShotModel, number: int) -> FewShotModel:
    component = model.components[number]
    assert isinstance(component, FewShotModel)
    return component
