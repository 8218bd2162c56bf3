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

__all__ = ["EncoderPart", "MetricPart", "PartError", "resolve_encoder", "resolve_metric", "reuse_parts"]

EncoderPart = nn.Module | Callable[..., nn.Module] | str | Collection[str] | None
MetricPart = BaseDistance | str | Collection[str] | None


class PartError(ConfigError):
    """A part from outside is missing, was not named by the caller, or does not fit."""


def resolve_encoder(
    config: ModelConfig, layout: Layout | None, part: EncoderPart
) -> tuple[ModelConfig, nn.Module | None]:
    """Return the module of an encoder from outside, and the configuration that records it.

    Args:
        config: The model. Import paths as ``part`` are ignored if it has an encoder of jeanie.
        layout: Joints of the motions.
        part: A module, a class or function that makes one, or import paths that may be imported.

    Raises:
        PartError: The configuration names an encoder that the caller did not name, or the layout is unknown.
    """
    custom = config.encoder if isinstance(config.encoder, CustomEncoderConfig) else None
    paths = _list_paths(part)
    if custom is None and (part is None or paths is not None):
        return config, None
    path = "" if custom is None else custom.module
    if paths is not None or part is None:
        part = _import_named(path, paths or (), "encoder")
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
    path = config.align.metric
    paths = _list_paths(part)
    if path in METRICS and (part is None or paths is not None):
        return config, None
    metric: Any = part
    if paths is not None or part is None:
        metric = _import_named(path, paths or (), "metric")
        metric = metric() if isinstance(metric, type) else metric
    if not callable(metric):
        raise PartError(f"metric needs a function of two tensors, got {type(metric).__name__}")
    return config.with_values({"align.metric": get_import_path(metric)}), metric


def _list_paths(part: Any) -> tuple[str, ...] | None:
    """Return import paths that the caller gave; None if it gave an object or nothing."""
    if isinstance(part, str):
        return (part,)
    return tuple(part) if isinstance(part, list | tuple | set | frozenset) else None


def _import_named(path: str, paths: Collection[str], option: str) -> Any:
    """Import the object that a configuration names, if the caller named it too."""
    if path not in paths:
        hint = f", got {', '.join(paths)}" if paths else ""
        raise PartError(
            f"this model has the {option} {path or 'of an object'} from outside jeanie, and only code that you name is "
            f"imported: give {option}={path!r} or the object itself (on the command line --{option} {path}){hint}"
        )
    return import_object(path)


def reuse_parts(config: ModelConfig, new: ModelConfig, encoder: Any, metric: Any) -> dict[str, Any]:
    """Return the arguments ``encoder`` and ``metric`` of a copy of a model with other settings.

    Raises:
        PartError: The new settings ask for another encoder or base distance from outside.
    """
    parts: dict[str, Any] = {}
    if isinstance(new.encoder, CustomEncoderConfig):
        if new.encoder != config.encoder:
            raise PartError("another encoder from outside is another network; build and train a new model")
        parts["encoder"] = copy.deepcopy(encoder.net.module)
    if is_import_path(new.align.metric):
        if new.align.metric != config.align.metric:
            raise PartError(f"{new.align.metric} is not the base distance of this model; build a new model")
        parts["metric"] = metric
    return parts
