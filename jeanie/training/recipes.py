"""Recipes: named configurations of a model and its training."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from pydantic import Field

from jeanie.config import Config
from jeanie.encoders import PRESETS, TemporalEncoderConfig
from jeanie.errors import ConfigError, suggest_name
from jeanie.fewshot.config import RAW, EulerViewsConfig, JeanieConfig, ModelConfig, NoViewsConfig
from jeanie.fewshot.inputs import InputConfig, PrepareConfig
from jeanie.fewshot.losses import LossConfig
from jeanie.training.augment import AugmentConfig
from jeanie.training.config import TrainConfig

__all__ = ["PRETRAINED_MODEL", "RECIPES", "Recipe", "fit_recipe", "get_recipe"]


class Recipe(Config):
    """Configuration of a model and of its training.

    >>> recipe = RECIPES["default"].with_values({"align.gamma": 0.1, "episodes": 100})
    >>> recipe.model.align.gamma, recipe.train.episodes
    (0.1, 100)
    """

    model: ModelConfig = Field(default=ModelConfig(), description="the model")
    train: TrainConfig = Field(default=TrainConfig(), description="its training")

    def with_values(self, changes: Mapping[str, Any] | None = None, /, **named: Any) -> "Recipe":
        """Return a copy with other values; see ``Config.with_values``.

        Names of the model and of the training need no ``model.`` or ``train.`` before them.
        """
        values = {**(changes or {}), **named}
        return super().with_values({_add_section(key): value for key, value in values.items()})


def _add_section(key: str) -> str:
    """Return a dotted name that starts with ``model`` or ``train``."""
    first = key.split(".")[0]
    for section, config in (("model", ModelConfig), ("train", TrainConfig)):
        if first in config.model_fields:
            return f"{section}.{key}"
    if first not in Recipe.model_fields:
        names = sorted({*ModelConfig.model_fields, *TrainConfig.model_fields})
        raise ConfigError(
            f"no option {key!r}; options start with one of {', '.join(names)}{suggest_name(first, names)}"
        )
    return key


# The printed values (paper, Suppl.): N(0, 1) weights, blocks of 8, stride 0.6, 7 x 7 views, RBF with sigma 2, gamma
# 0.01, similarity loss, SGD, and 10,000 episodes for small data sets. B and beta are not printed.
_PAPER = Recipe(
    model=ModelConfig(
        inputs=InputConfig(scale="axis", streams=("joints",), block=8, stride=0.6),
        views=EulerViewsConfig(azimuth=45, altitude=45, step=15),
        encoder=PRESETS["small"].with_values(init="normal"),
        align=JeanieConfig(metric="rbf", sigma=2.0, gamma=0.01),
    ),
    train=TrainConfig(
        episodes=10_000,
        batch=8,
        queries=1,
        query_classes=1,
        loss=LossConfig(kind="similarity"),
        optimiser="sgd",
        rate=1e-3,
        schedule="constant",
        weight_decay=1e-6,
        clip=None,
        validate_every=500,
        checkpoint_every=500,
        mirror=False,
        augment=AugmentConfig(),
    ),
)

# The smallest changes that make the recipe of the paper learn: Xavier weights, gamma in units of the mean distance,
# and Adam, the optimiser of the authors' released code.
_AUTHORS = _PAPER.with_values(
    {"encoder": {"init": "xavier"}, "align": {"gamma": 0.05, "relative": True}, "optimiser": "adam"}
)

_VIEWS = EulerViewsConfig(azimuth=30, altitude=0, step=15)
_PREPARED = PrepareConfig(size="bones", frames=32)

# Options that worked on MSRAction3D and NW-UCLA, not tuned to either: blocks of one frame; positions, deviations from
# the mean pose and velocities; squared distance divided by length; gamma in units of the mean distance; cross-entropy;
# AdamW with one cycle; mirrored classes; mild augmentation; a raw distance with weight 0.5, in units of medians.
_DEFAULT = Recipe(
    model=ModelConfig(
        inputs=InputConfig(
            prepare=_PREPARED, scale="none", streams=("joints", "deviation", "motion"), block=1, stride=1.0
        ),
        views=_VIEWS,
        encoder=PRESETS["small"].with_values(dropout=0.0),
        align=JeanieConfig(metric="sqeuclidean", gamma=0.05, relative=True, normalise="length"),
        components=(RAW.with_values(views=_VIEWS, weight=0.5),),
    ),
    train=TrainConfig(),
)

PRETRAINED_MODEL = ModelConfig(
    inputs=InputConfig(
        prepare=PrepareConfig(body="canonical", frames=32),
        scale="none",
        streams=("joints", "deviation", "velocity"),
        gains=(1.0, 1.0, 4.0),
        block=1,
        stride=1.0,
    ),
    views=NoViewsConfig(),
    encoder=TemporalEncoderConfig(width=128, features=64, strides=(1, 1, 2), dropout=0.0, init="torch"),
    align=JeanieConfig(metric="sqeuclidean", gamma=0.0, normalise="length", persons="matched"),
)
"""Model that is pretrained: convolutions along 32 frames of a canonical body, aligned by DTW."""

_SHIPPED_MODEL = PRETRAINED_MODEL.with_values(
    {
        "encoder.members": 5,
        "encoder.scales": ((1, 1, 2),) * 3 + ((2, 1, 1),) * 2,
        "encoder.dense": True,
        "mirror_penalty": 1.5,
    }
)

# From the weights of an existing model: few small steps, a moving average of the weights, selection of ensemble
# members, hubness correction, and the initial model unless validation is better.
_FINETUNE = Recipe(
    model=_SHIPPED_MODEL,
    train=TrainConfig(
        episodes=160,
        rate=3e-4,
        ema_decay=0.97,
        margin=0.5,
        distractors=True,
        hubness=0.5,
        select_members=True,
        validate_every=40,
        checkpoint_every=80,
        augment=AugmentConfig(yaw=30, tilt=10, scale=0.1, warp=0.3),
    ),
)

# What the paper prints per data set (Suppl., "Network configuration" and "Training details"): preset of the sizes
# and number of episodes. Other data sets are small ones, whose values are those of the recipes.
_PRINTED = {"ntu60": ("ntu60", 100_000), "ntu120": ("ntu120", 200_000), "kinetics": ("kinetics", 500_000)}
_SIZES = ("width", "features", "hidden", "heads", "head_size", "depth", "layers", "dropout")


def fit_recipe(recipe: Recipe, dataset: str) -> Recipe:
    """Return a recipe with the encoder sizes, the dropout and the episodes that the paper prints for a data set.

    The transformer stays as it is, because the paper has rows with and without it.

    >>> sized = fit_recipe(RECIPES["paper"], "ntu60")
    >>> sized.model.encoder.width, sized.model.encoder.dropout, sized.train.episodes
    (64, 0.1, 100000)
    """
    if dataset not in _PRINTED:
        return recipe
    preset, episodes = _PRINTED[dataset]
    sizes = {f"encoder.{name}": getattr(PRESETS[preset], name) for name in _SIZES}
    return recipe.with_values({**sizes, "episodes": episodes})


RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {"paper": _PAPER, "authors": _AUTHORS, "default": _DEFAULT, "finetune": _FINETUNE}
)
"""``paper``: the printed values, which do not learn; ``authors``: the smallest changes that learn; ``default``.

``finetune`` starts from the weights of a model (``jeanie train --from``) and keeps them unless validation improves.
"""


def get_recipe(name: str, dataset: str | None = None) -> Recipe:
    """Return the recipe with this name; ``paper`` and ``authors`` get the sizes that the paper prints for a data set.

    Raises:
        ConfigError: There is no such recipe.
    """
    if name not in RECIPES:
        raise ConfigError(
            f"no recipe {name!r}; the known ones are {', '.join(RECIPES)}{suggest_name(name, RECIPES)}"
        )
    recipe = RECIPES[name]
    return fit_recipe(recipe, dataset) if dataset is not None and name in ("paper", "authors") else recipe
