"""The compared systems and ablations of the paper as methods, each a change of one base recipe.

The caller chooses the base. All methods of a comparison share its encoder, episodes, optimiser and validation, except
for the values that define the method. ``docs/methods.md`` describes each method, its place in the paper, and how it
differs from the system that the paper names.
"""

from collections.abc import Mapping
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any

from pydantic import Field

from jeanie.config import Config
from jeanie.errors import ConfigError, suggest_name
from jeanie.paper.methods.rows import ROWS
from jeanie.training.recipes import Recipe

__all__ = ["METHODS", "Method", "get_method"]

_MODULES = {"metric": "pytorch_metric_learning"}


class Method(Config):
    """A compared system: changes of a base recipe.

    >>> from jeanie.training.recipes import RECIPES
    >>> METHODS["soft-dtw"].recipe(RECIPES["authors"]).model.views.kind
    'none'
    """

    name: str = Field(description="name on the command line and in tables")
    summary: str = Field(description="description in one line")
    changes: dict[str, Any] = Field(description="values that it changes, as Recipe.with_values takes them")
    components: tuple[dict[str, Any], ...] = Field(
        default=(),
        description="further models whose distances are added, each as changes of the base",
    )
    searches: tuple[str, ...] = Field(
        default=(),
        description="values that a table searches on validation classes, because the row says crossval.",
    )
    needs: tuple[str, ...] = Field(default=(), description="optional extras of the package that it needs")

    def recipe(self, base: Recipe) -> Recipe:
        """Return the recipe of the method; components of ``base`` are left out."""
        without_components = base.with_values({"components": (), "weight": 1.0, "unit": 1.0})
        components = [
            without_components.with_values({**self.changes, **changes}).model.model_dump()
            for changes in self.components
        ]
        return without_components.with_values({**self.changes, "components": components})

    @property
    def missing(self) -> tuple[str, ...]:
        """Needed extras that are not installed."""
        return tuple(extra for extra in self.needs if find_spec(_MODULES[extra]) is None)


METHODS: Mapping[str, Method] = MappingProxyType(
    {name: Method(name=name, **row) for name, row in ROWS.items()}
)


def get_method(name: str) -> Method:
    """Return the method with this name.

    Raises:
        ConfigError: There is no such method, or an extra that it needs is not installed.
    """
    if name not in METHODS:
        raise ConfigError(
            f"no method {name!r}; the known ones are {', '.join(METHODS)}{suggest_name(name, METHODS)}"
        )
    method = METHODS[name]
    if method.missing:
        raise ConfigError(
            f"method {name!r} needs the extra {', '.join(method.missing)}: "
            f"pip install 'jeanie[{','.join(method.missing)}]'"
        )
    return method
