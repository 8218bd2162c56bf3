"""Objects by import path, ``package.module:Name``: only paths that the caller of the program names are imported."""

import importlib
import re
import sys
from functools import partial
from pathlib import Path
from typing import Any

from jeanie.errors import ConfigError

__all__ = ["get_import_path", "import_object", "is_import_path"]

_PATTERN = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def is_import_path(text: str) -> bool:
    """Return whether a text has the form ``package.module:Name``.

    >>> is_import_path("my.encoders:Small"), is_import_path("runs/first"), is_import_path("C:/runs")
    (True, False, False)
    """
    return _PATTERN.fullmatch(text) is not None


def import_object(path: str) -> Any:
    """Import the object at ``package.module:Name``; modules in the working folder are found too.

    Raises:
        ConfigError: The path has another form, or there is no such module or name.
    """
    if not is_import_path(path):
        raise ConfigError(f"an import path has the form package.module:Name, got {path!r}")
    module_name, _, name = path.partition(":")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        target = importlib.import_module(module_name)
    except ImportError as error:
        raise ConfigError(
            f"{path}: cannot import {module_name}: {error}; run the command in the folder of the module, or install it"
        ) from None
    for part in name.split("."):
        if not hasattr(target, part):
            raise ConfigError(f"{path}: module {module_name} has no {name}")
        target = getattr(target, part)
    return target


def get_import_path(value: Any) -> str:
    """Return where an object comes from: the import path of a function or class, or of an object's class.

    >>> import torch
    >>> get_import_path(torch.nn.Linear(1, 1))
    'torch.nn.modules.linear:Linear'
    """
    while isinstance(value, partial):
        value = value.func
    owner = value if hasattr(value, "__qualname__") else type(value)
    return f"{owner.__module__}:{owner.__qualname__}"
