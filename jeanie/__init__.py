"""Few-shot 3D-skeleton action recognition by joint temporal and camera-viewpoint alignment."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jeanie.alignment import Alignment, align, distances, fvm, trace
    from jeanie.classifier import JeanieClassifier
    from jeanie.config import Config
    from jeanie.datasets import DATASETS, Dataset, detect_format, open_dataset, read_motion
    from jeanie.datasets.synthetic.dataset import open_synthetic
    from jeanie.encoders import (
        BlockEncoder,
        GraphEncoderConfig,
        MlpEncoderConfig,
        RawEncoderConfig,
        TemporalEncoderConfig,
    )
    from jeanie.errors import ConfigError, DataError, JeanieError, ShapeError
    from jeanie.evaluation.evaluate import evaluate
    from jeanie.evaluation.protocols import PROTOCOLS, Protocol, get_protocol
    from jeanie.evaluation.report.comparison import compare
    from jeanie.evaluation.report.examples import find_examples
    from jeanie.evaluation.report.html import write_html
    from jeanie.evaluation.report.report import Report
    from jeanie.fewshot import (
        CameraViewsConfig,
        EulerViewsConfig,
        FewShotModel,
        FvmConfig,
        InputConfig,
        JeanieConfig,
        ModelConfig,
        NoViewsConfig,
        PrepareConfig,
        classify,
    )
    from jeanie.plots import draw_alignment, draw_poses, make_figure
    from jeanie.recogniser import Library, Recogniser, Recognition
    from jeanie.recogniser.exercise.repetitions import RepetitionCount, count
    from jeanie.recogniser.exercise.score import Score, score
    from jeanie.recogniser.explain.explain import Explanation, explain
    from jeanie.recogniser.labelling import label
    from jeanie.recogniser.search.find import find
    from jeanie.skeleton import LAYOUTS, Layout, Motion
    from jeanie.skeleton.blocks import blocks
    from jeanie.skeleton.convert import convert
    from jeanie.skeleton.normalise import centre, scale
    from jeanie.training.config import TrainConfig
    from jeanie.training.recipes import RECIPES, Recipe
    from jeanie.training.run import Run
    from jeanie.training.train import train
    from jeanie.views import CAMERAS, Camera, CameraViews, EulerViews

__all__ = [
    "CAMERAS",
    "DATASETS",
    "LAYOUTS",
    "PROTOCOLS",
    "RECIPES",
    "Alignment",
    "BlockEncoder",
    "Camera",
    "CameraViews",
    "CameraViewsConfig",
    "Config",
    "ConfigError",
    "DataError",
    "Dataset",
    "EulerViews",
    "EulerViewsConfig",
    "Explanation",
    "FewShotModel",
    "FvmConfig",
    "GraphEncoderConfig",
    "InputConfig",
    "JeanieClassifier",
    "JeanieConfig",
    "JeanieError",
    "Layout",
    "Library",
    "MlpEncoderConfig",
    "ModelConfig",
    "Motion",
    "NoViewsConfig",
    "PrepareConfig",
    "Protocol",
    "RawEncoderConfig",
    "Recipe",
    "Recogniser",
    "Recognition",
    "RepetitionCount",
    "Report",
    "Run",
    "Score",
    "ShapeError",
    "TemporalEncoderConfig",
    "TrainConfig",
    "align",
    "blocks",
    "centre",
    "classify",
    "compare",
    "convert",
    "count",
    "detect_format",
    "distances",
    "draw_alignment",
    "draw_poses",
    "evaluate",
    "explain",
    "find",
    "find_examples",
    "fvm",
    "get_protocol",
    "label",
    "make_figure",
    "open_dataset",
    "open_synthetic",
    "read_motion",
    "scale",
    "score",
    "trace",
    "train",
    "write_html",
]

# The module of every public name. Modules are imported on first use: `import jeanie` stays fast.
_NAMES = {
    "jeanie.alignment": (
        "Alignment",
        "align",
        "distances",
        "fvm",
        "trace",
    ),
    "jeanie.classifier": ("JeanieClassifier",),
    "jeanie.config": ("Config",),
    "jeanie.datasets": (
        "DATASETS",
        "Dataset",
        "detect_format",
        "open_dataset",
        "read_motion",
    ),
    "jeanie.datasets.synthetic.dataset": ("open_synthetic",),
    "jeanie.encoders": (
        "BlockEncoder",
        "GraphEncoderConfig",
        "MlpEncoderConfig",
        "RawEncoderConfig",
        "TemporalEncoderConfig",
    ),
    "jeanie.errors": (
        "ConfigError",
        "DataError",
        "JeanieError",
        "ShapeError",
    ),
    "jeanie.evaluation.evaluate": ("evaluate",),
    "jeanie.evaluation.protocols": (
        "PROTOCOLS",
        "Protocol",
        "get_protocol",
    ),
    "jeanie.evaluation.report.comparison": ("compare",),
    "jeanie.evaluation.report.examples": ("find_examples",),
    "jeanie.evaluation.report.html": ("write_html",),
    "jeanie.evaluation.report.report": ("Report",),
    "jeanie.fewshot": (
        "CameraViewsConfig",
        "EulerViewsConfig",
        "FewShotModel",
        "FvmConfig",
        "InputConfig",
        "JeanieConfig",
        "ModelConfig",
        "NoViewsConfig",
        "PrepareConfig",
        "classify",
    ),
    "jeanie.plots": (
        "draw_alignment",
        "draw_poses",
        "make_figure",
    ),
    "jeanie.recogniser": (
        "Library",
        "Recogniser",
        "Recognition",
    ),
    "jeanie.recogniser.exercise.repetitions": (
        "RepetitionCount",
        "count",
    ),
    "jeanie.recogniser.exercise.score": (
        "Score",
        "score",
    ),
    "jeanie.recogniser.explain.explain": (
        "Explanation",
        "explain",
    ),
    "jeanie.recogniser.labelling": ("label",),
    "jeanie.recogniser.search.find": ("find",),
    "jeanie.skeleton": (
        "LAYOUTS",
        "Layout",
        "Motion",
    ),
    "jeanie.skeleton.blocks": ("blocks",),
    "jeanie.skeleton.convert": ("convert",),
    "jeanie.skeleton.normalise": (
        "centre",
        "scale",
    ),
    "jeanie.training.config": ("TrainConfig",),
    "jeanie.training.recipes": (
        "RECIPES",
        "Recipe",
    ),
    "jeanie.training.run": ("Run",),
    "jeanie.training.train": ("train",),
    "jeanie.views": (
        "CAMERAS",
        "Camera",
        "CameraViews",
        "EulerViews",
    ),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name on its first use (PEP 562)."""
    if name == "__version__":
        value: Any = version("jeanie")
    elif name in _MODULES:
        value = getattr(import_module(_MODULES[name]), name)
    else:
        raise AttributeError(f"module 'jeanie' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
