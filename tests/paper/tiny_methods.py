"""The methods on a base so small that they train in a second."""

from jeanie.encoders import GraphEncoderConfig
from jeanie.paper.methods import METHODS
from jeanie.training.augment import AugmentConfig
from jeanie.training.recipes import RECIPES

TINY = {
    "inputs": {"block": 4, "stride": 0.5, "streams": ("joints", "motion"), "prepare.frames": None},
    "encoder": GraphEncoderConfig(
        width=8, features=8, layers=3, dropout=0.0, hidden=8, heads=2, head_size=4, depth=1
    ),
    "align.sigma": 1.0,
    "episodes": 24,
    "rate": 1e-2,
    "schedule": "constant",
    "mirror": False,
    "augment": AugmentConfig(),
}
BASE = RECIPES["default"].with_values(TINY)


def small(name, **changes):
    """A method on the tiny base, with as few views, frames and channels as show what it does."""
    recipe = METHODS[name].recipe(BASE)
    components = [part.with_values(cut(part)).model_dump() for part in recipe.model.components]
    return recipe.with_values({**cut(recipe.model), "components": components, **changes})


def cut(model):
    whole = {"inputs.prepare.frames": 12, "inputs.block": 12}
    angles = {
        f"views.{angle}": min(getattr(model.views, angle), 15)
        for angle in ("azimuth", "altitude")
        if hasattr(model.views, angle)
    }
    image = {"encoder.image_size": 32} if getattr(model.encoder, "network", "small") != "small" else {}
    return {
        **angles,
        **image,
        "encoder.width": 8,
        **(whole if model.inputs.prepare.frames else {"inputs.block": 4, "inputs.stride": 0.5}),
    }
