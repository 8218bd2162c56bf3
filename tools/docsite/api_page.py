"""The reference page of the public names of jeanie, from their docstrings."""

import inspect
from types import FunctionType

import jeanie
from jeanie.config import Config

__all__ = ["GROUPS", "describe_names"]

GROUPS: dict[str, tuple[str, ...]] = {
    "Alignment": ("align", "fvm", "trace", "distances", "Alignment"),
    "Motions and data sets": (
        "Motion", "Layout", "LAYOUTS", "read_motion", "detect_format", "open_dataset", "open_synthetic", "Dataset",
        "DATASETS", "convert",
    ),
    "Preparation and views": (
        "centre", "scale", "blocks", "EulerViews", "CameraViews", "Camera", "CAMERAS",
    ),
    "Recognition": (
        "Recogniser", "Recognition", "Library", "explain", "Explanation", "find", "label", "count", "RepetitionCount",
        "score", "Score", "JeanieClassifier",
    ),
    "Models and training": (
        "FewShotModel", "BlockEncoder", "classify", "train", "Run", "RECIPES",
    ),
    "Evaluation": (
        "evaluate", "compare", "Report", "write_html", "find_examples", "Protocol", "PROTOCOLS", "get_protocol",
    ),
    "Pictures": ("make_figure", "draw_poses", "draw_alignment"),
    "Configurations": (
        "Config", "ModelConfig", "TrainConfig", "Recipe", "PrepareConfig", "InputConfig", "NoViewsConfig",
        "EulerViewsConfig", "CameraViewsConfig", "JeanieConfig", "FvmConfig", "GraphEncoderConfig",
        "TemporalEncoderConfig", "MlpEncoderConfig", "RawEncoderConfig",
    ),
    "Errors": ("JeanieError", "ConfigError", "DataError", "ShapeError"),
}  # fmt: skip

TABLES = {
    "LAYOUTS": "Every layout by name: {names}.",
    "DATASETS": "Every data set by name: {names}.",
    "PROTOCOLS": "Every protocol by name: {names}. See the guide to protocols.",
    "RECIPES": "Every recipe by name: {names}.",
    "CAMERAS": "The default camera of every sensor: {names}.",
}


def describe_names() -> str:
    """Return the page in reStructuredText, which autodoc reads.

    Raises:
        ValueError: If a public name is in no group, or a group has a name that is not public.
    """
    grouped = [name for names in GROUPS.values() for name in names]
    if different := set(grouped) ^ set(jeanie.__all__):
        raise ValueError(
            f"names that are not both public and in a group of the reference: {sorted(different)}"
        )
    lines = [
        "Python",
        "======",
        "",
        "This page is generated from the docstrings of the names in ``jeanie``.",
        "",
    ]
    for title, names in GROUPS.items():
        lines += [title, "-" * len(title), ""]
        for name in names:
            lines += _describe_name(name)
    return "\n".join(lines)


def _describe_name(name: str) -> list[str]:
    value = getattr(jeanie, name)
    if name in TABLES:
        entries = ", ".join(f"``{entry}``" for entry in value)
        text = TABLES[name].format(names=entries)
        return [f".. py:data:: jeanie.{name}", "", f"   {text}", ""]
    if inspect.isroutine(value):
        return [f".. autofunction:: jeanie.{name}", ""]
    if issubclass(value, Config) and value is not Config:
        options = ", ".join(f"``{option}``" for option in value.model_fields)
        return [
            f".. autoclass:: jeanie.{name}()",
            "",
            f"   Options: {options}. :ref:`Types, defaults and meanings <configuration-{name.lower()}>`.",
            "",
        ]
    if issubclass(value, Exception):
        return [f".. autoexception:: jeanie.{name}()", ""]
    members = [
        member
        for member in vars(value)
        if not member.startswith("_")
        and isinstance(vars(value)[member], FunctionType | classmethod | staticmethod | property)
        and inspect.getdoc(getattr(value, member))
    ]
    return [
        f".. autoclass:: jeanie.{name}",
        *([f"   :members: {', '.join(members)}"] if members else []),
        "",
    ]
