"""Export of encoders to ONNX, for programs without torch.

The graph contains only the encoder. It maps blocks to block features, both in the shapes of
``BlockEncoder``. The metadata of the file describe, as JSON under ``jeanie``, how to compute blocks from a motion
(preparation, streams, gains, blocks) and how to compare the features.
"""

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from jeanie._internal.files import write_atomically
from jeanie.errors import ConfigError, DataError
from jeanie.fewshot.model import FewShotModel
from jeanie.skeleton.blocks import compute_stride, count_blocks

__all__ = ["export_onnx", "read_description"]

METADATA = "jeanie"
FORMAT = 2
_OPSET = 18
_SECTIONS = (
    "inputs",
    "views",
    "encoder",
    "align",
    "weight",
    "unit",
    "mirror_penalty",
)  # of the configuration
_CLIPS, _BLOCKS = 3, 5  # size of the example that is traced; both are dynamic in the graph
_LIBRARIES = ("onnx", "onnxscript")


class _Encoders(nn.Module):
    """The encoders of a model and of its components, each with its own input and output."""

    def __init__(self, encoders: list[nn.Module]) -> None:
        super().__init__()
        self.encoders = nn.ModuleList(encoders)

    def forward(
        self, *blocks: Float[Tensor, "clip block length joint channel"]
    ) -> tuple[Float[Tensor, "clip output feature"], ...]:
        return tuple(encoder(x) for encoder, x in zip(self.encoders, blocks, strict=True))


def export_onnx(model: FewShotModel, path: str | Path) -> dict[str, Any]:
    """Write the encoder of a model to an ONNX file.

    The input ``blocks`` has shape ``[clip, block, length, joint, channel]`` and the dtype of the model. The output
    ``features`` has shape ``[clip, output, feature]``. The numbers of clips and blocks are dynamic. Each person and
    each view is a clip of the graph. Components of the model have their own inputs and outputs: ``blocks_1`` and
    ``features_1``, and so on.

    Args:
        model: The model.
        path: The file to write; its folder is created.

    Returns:
        The description in the metadata of the file.

    Raises:
        ConfigError: If the model has no layout, or the extra ``onnx`` is not installed.
    """
    onnx = _import_onnx()
    models = list(_iterate_models(model))
    encoders: list[nn.Module] = [deepcopy(part.encoder).eval().cpu() for part in models]
    description = {
        "format": FORMAT,
        "models": [_describe_model(part, number) for number, part in enumerate(models)],
    }
    examples = tuple(
        torch.zeros(_CLIPS, _BLOCKS, *_get_block_shape(part), dtype=part.dtype) for part in models
    )
    clip = torch.export.Dim("clip")
    dynamic = tuple({0: clip, 1: torch.export.Dim(f"block{_format_suffix(n)}")} for n in range(len(models)))
    with _silence_exporter():
        program = torch.onnx.export(
            _Encoders(encoders),
            examples,
            dynamo=True,
            opset_version=_OPSET,
            dynamic_shapes=(dynamic,),
            input_names=[f"blocks{_format_suffix(n)}" for n in range(len(models))],
            output_names=[f"features{_format_suffix(n)}" for n in range(len(models))],
            verbose=False,
        )
    assert program is not None
    proto = program.model_proto
    _strip_source_notes(proto.graph)
    proto.producer_name = METADATA
    onnx.helper.set_model_props(proto, {METADATA: json.dumps(description)})
    onnx.checker.check_model(proto)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_atomically(Path(path), proto.SerializeToString(deterministic=True))
    return description


def read_description(path: str | Path) -> dict[str, Any]:
    """Return the description in an ONNX file that ``export_onnx`` wrote.

    Raises:
        ConfigError: If the extra ``onnx`` is not installed.
        DataError: If the file cannot be read, or was not written by ``export_onnx``.
    """
    onnx = _import_onnx()
    try:
        proto = onnx.load(str(path))
        metadata = {entry.key: entry.value for entry in proto.metadata_props}
        description: dict[str, Any] = json.loads(metadata[METADATA])
    except (OSError, KeyError, ValueError, import_module("google.protobuf.message").DecodeError) as error:
        raise DataError(f"{path}: not an encoder that jeanie export-onnx wrote: {error}") from None
    return description


def _iterate_models(model: FewShotModel) -> Iterator[FewShotModel]:
    """Yield a model and all its components, in the order of ``Features.components``."""
    yield model
    for part in model.components:
        assert isinstance(part, FewShotModel)
        yield from _iterate_models(part)


def _format_suffix(number: int) -> str:
    return f"_{number}" if number else ""


def _get_block_shape(model: FewShotModel) -> tuple[int, int, int]:
    """Return the numbers of frames, joints and channels of a block."""
    if model.layout is None:
        raise ConfigError(
            "an exported encoder needs one layout, but this model accepts motions of any layout; set "
            "inputs.prepare.layout, such as 'core15'"
        )
    return model.encoder.block, len(model.layout), model.encoder.channels


def _describe_model(model: FewShotModel, number: int) -> dict[str, Any]:
    """Return everything that is needed to compute the blocks of a model and to compare its features."""
    length, joints, channels = _get_block_shape(model)
    assert model.layout is not None
    inputs, config = model.config.inputs, model.config.model_dump(mode="json")
    frames = inputs.prepare.frames
    blocks = None
    if frames is not None:
        blocks = int(count_blocks(torch.tensor([frames]), length, compute_stride(length, inputs.stride))[0])
    return {
        "input": f"blocks{_format_suffix(number)}",
        "output": f"features{_format_suffix(number)}",
        "shape": ["clip", "block", length, joints, channels],
        "dtype": str(model.dtype).removeprefix("torch."),
        "features": model.encoder.features,
        "blocks_per_output": model.encoder.stride,
        "frames": frames,
        "blocks": blocks,
        "streams": list(inputs.streams),
        "gains": list(inputs.gains) or [1.0] * len(inputs.streams),
        "layout": model.layout.to_dict(),
        **{section: config[section] for section in _SECTIONS},
    }


def _import_onnx() -> Any:
    """Return the package ``onnx``; the error of a missing package says how to install it."""
    for name in _LIBRARIES:
        try:
            import_module(name)
        except ImportError:
            raise ConfigError(f"ONNX needs {name}; pip install 'jeanie[onnx]'") from None
    return import_module("onnx")


@contextmanager
def _silence_exporter() -> Iterator[None]:
    """Hide the warnings of the exporter, which are about its internals and about libraries that are not needed."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _strip_source_notes(graph: Any) -> None:
    """Remove the notes on the source of every node, because they contain file names of this machine."""
    graph.ClearField("metadata_props")
    for part in (*graph.node, *graph.input, *graph.output, *graph.value_info, *graph.initializer):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
