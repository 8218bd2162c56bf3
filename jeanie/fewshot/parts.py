"""Encoders and base distances from outside: how a model gets them, and how its configuration records them.

A configuration holds import paths, ``package.module:Name``. Nothing is imported because a configuration or a model
file names it: the caller gives the object, or names the same import path.
"""

import copy
from collections.abc import Callable, Collection
from typing import Any

from torch import nn

from jeanie._internal.import_path import get_import_path, import_object, is_import_path
from jeanie.alignment.base_distance import BaseDistance
from jeanie.encoders import CustomEncoderConfig
from jeanie.encoders.custom import measure_features
from jeanie.errors import ConfigError
from jeanie.fewshot.config import METRICS, ModelConfig
from jeanie.skeleton.layout import Layout

__all__ = [
    "EncoderPart",
    "MetricPart",
    "PartError",
    "list_parts",
    "resolve_encoder",
    "resolve_metric",
    "reuse_parts",
]

_OneEncoder = nn.Module | Callable[..., nn.Module] | str
EncoderPart = _OneEncoder | Collection[_OneEncoder] | None
MetricPart = BaseDistance | str | Collection[BaseDistance | str] | None


class PartError(ConfigError):
    """A part from outside is missing, was not named by the caller, or does not fit."""


def resolve_encoder(
    config: ModelConfig, layout: Layout | None, part: EncoderPart
) -> tuple[ModelConfig, nn.Module | None]:
    """Return the module of an encoder from outside, and the configuration that records it.

    Args:
        config: The model. Several parts, or import paths, are ignored if it has an encoder of jeanie.
        layout: Joints of the motions.
        part: A module, a class or function that makes one, an import path that may be imported, or several of these:
            the one that ``config`` names is used.

    Raises:
        PartError: The configuration names an encoder that the caller did not name, or the layout is unknown.
    """
    custom = config.encoder if isinstance(config.encoder, CustomEncoderConfig) else None
    named = _list_named(part)
    if named is not None:
        if custom is None:
            return config, None
        part = _select_named(custom.module, named, "encoder")
    if layout is None:
        raise PartError(
            "an encoder needs to know the joints: give layout, or set inputs.prepare.body to 'canonical'"
        )
    block, channels = config.inputs.block, config.inputs.channels
    options = None if custom is None or custom.module != get_import_path(part) else custom.options
    if isinstance(part, nn.Module):
        module = part
    else:
        options = {} if custom is None or custom.options is None else custom.options
        module = _make_encoder(part, layout, block, channels, options)
    record = CustomEncoderConfig(
        module=get_import_path(part),
        options=options,
        features=measure_features(module, block, len(layout), channels),
    )
    return config.with_values(encoder=record), module


def _make_encoder(part: Any, layout: Layout, block: int, channels: int, options: dict[str, Any]) -> nn.Module:
    try:
        module = part(layout=layout, block=block, channels=channels, **options)
    except TypeError as error:
        raise PartError(
            f"{get_import_path(part)} is called with layout, block, channels and the options {options}: {error}"
        ) from error
    if not isinstance(module, nn.Module):
        raise PartError(f"{get_import_path(part)} makes a {type(module).__name__}, needs a torch.nn.Module")
    return module


def resolve_metric(config: ModelConfig, part: MetricPart) -> tuple[ModelConfig, BaseDistance | None]:
    """Return the base distance from outside, and the configuration that records it; see ``resolve_encoder``.

    An imported class is called without arguments to make the base distance.
    """
    named = _list_named(part)
    metric: Any = part
    if named is not None:
        if config.align.metric in METRICS:
            return config, None
        metric = _select_named(config.align.metric, named, "metric")
        metric = metric() if isinstance(metric, type) else metric
    if not callable(metric):
        raise PartError(f"metric needs a function of two tensors, got {type(metric).__name__}")
    return config.with_values({"align.metric": get_import_path(metric)}), metric


def _list_named(part: Any) -> list[Any] | None:
    """Return the parts from which a model selects by name; None if the caller gave a single object."""
    if part is None or isinstance(part, str):
        return [] if part is None else [part]
    return list(part) if isinstance(part, list | tuple | set | frozenset) else None


def list_parts(part: Any) -> list[Any]:
    """Return the parts for the components of a model: a module belongs to one model, so its class replaces it."""
    named = _list_named(part)
    return [
        type(item) if isinstance(item, nn.Module) else item for item in ([part] if named is None else named)
    ]


def _select_named(path: str, named: Collection[Any], option: str) -> Any:
    """Return the part that a configuration names; a path is imported if the caller named it too."""
    paths = [item if isinstance(item, str) else get_import_path(item) for item in named]
    if path not in paths:
        hint = f", got {', '.join(paths)}" if paths else ""
        raise PartError(
            f"this model has the {option} {path or 'of an object'} from outside jeanie, and only code that you name is "
            f"imported: give {option}={path!r} or the object itself (on the command line --{option} {path}){hint}"
        )
    selected = next(item for item, other in zip(named, paths, strict=True) if other == path)
    return import_object(path) if isinstance(selected, str) else selected


def reuse_parts(model: Any, new: ModelConfig) -> dict[str, Any]:
    """Return the arguments ``encoder`` and ``metric`` of a copy of a model with other settings.

    Raises:
        PartError: The new settings ask for another encoder or base distance from outside.
    """
    config: ModelConfig = model.config
    encoders, metrics = [], []
    if isinstance(new.encoder, CustomEncoderConfig):
        if new.encoder != config.encoder:
            raise PartError(
                "a different encoder from outside jeanie is a different network; build and train a new model"
            )
        encoders.append(copy.deepcopy(model.encoder.net.module))
    if is_import_path(new.align.metric):
        if new.align.metric != config.align.metric:
            raise PartError(f"{new.align.metric} is not the base distance of this model; build a new model")
        metrics.append(model.comparison.custom_metric)
    for part in model.components:
        if isinstance(part.config.encoder, CustomEncoderConfig):
            encoders.append(part.encoder.net.module)
        if is_import_path(part.config.align.metric):
            metrics.append(part.comparison.custom_metric)
    return {"encoder": encoders, "metric": metrics}
