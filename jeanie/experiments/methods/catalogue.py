"""Every compared system and ablation of the paper as a method: a change of one base recipe.

All methods of a comparison start from one base, which the caller chooses: its encoder, episodes, optimiser and
validation are theirs too, except for what defines the method. ``docs/methods.md`` says of each what it is, where
the paper has it and how it differs from the system that the paper names.
"""

from collections.abc import Mapping
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any

from pydantic import Field

from jeanie.config import Config
from jeanie.errors import ConfigError
from jeanie.experiments.methods.rows import ROWS
from jeanie.experiments.recipes import Recipe

__all__ = ["METHODS", "Method", "method"]

_MODULES = {"metric": "pytorch_metric_learning"}


class Method(Config):
    """A compared system: what it changes of a base recipe.

    >>> from jeanie.experiments.recipes import RECIPES
    >>> METHODS["soft-dtw"].recipe(RECIPES["authors"]).model.views.kind
    'none'
    """

    name: str = Field(description="what it is called on the command line and in tables")
    summary: str = Field(description="what it is, in one line")
    changes: dict[str, Any] = Field(description="values that it sets, as Recipe.changed takes them")
    beside: tuple[dict[str, Any], ...] = Field(
        default=(),
        description="further models whose distances are added, each by its own changes of the base",
    )
    needs: tuple[str, ...] = Field(default=(), description="optional extras of the package that it needs")

    def recipe(self, base: Recipe) -> Recipe:
        """The method as a change of ``base``.

        A model that the base has beside its own is left out: a method is measured by itself.
        """
        alone = base.changed({"beside": (), "weight": 1.0, "unit": 1.0})
        further = [alone.changed({**self.changes, **changes}).model.model_dump() for changes in self.beside]
        return alone.changed({**self.changes, "beside": further})

    @property
    def missing(self) -> tuple[str, ...]:
        """The extras that it needs and that are not installed."""
        return tuple(extra for extra in self.needs if find_spec(_MODULES[extra]) is None)


METHODS: Mapping[str, Method] = MappingProxyType(
    {name: Method(name=name, **row) for name, row in ROWS.items()}
)


def method(name: str) -> Method:
    """The method of this name."""
    if name not in METHODS:
        raise ConfigError(f"no method {name!r}; the known ones are {', '.join(METHODS)}")
    found = METHODS[name]
    if found.missing:
        raise ConfigError(
            f"method {name!r} needs the extra {', '.join(found.missing)}: "
            f"pip install 'jeanie[{','.join(found.missing)}]'"
        )
    return found
