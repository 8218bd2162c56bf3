"""Encoders as ONNX: the network of a model for programs without torch, with a description of what it reads.

The graph is the encoder alone: blocks in, block features out, both as ``BlockEncoder`` has them. What comes before it
(the motion's preparation, streams, gains, blocks) is described in the file's metadata under ``jeanie``, as JSON; what
comes after it is an alignment of features.
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
FORMAT = 1
_OPSET = 18
_KEPT = ("inputs", "views", "encoder", "align", "weight", "unit", "mirror_penalty")  # of the configuration
_CLIPS, _BLOCKS = 3, 5  # of the example that is traced; both are free in the graph
_NEEDED = ("onnx", "onnxscript")


class _Encoders(nn.Module):
    """The encoders of a model and of those beside it, each with an input and an output of its own."""

    def __init__(self, encoders: list[nn.Module]) -> None:
        super().__init__()
        self.encoders = nn.ModuleList(encoders)

    def forward(
        self, *blocks: Float[Tensor, "clip block length joint channel"]
    ) -> tuple[Float[Tensor, "clip output feature"], ...]:
        return tuple(encoder(one) for encoder, one in zip(self.encoders, blocks, strict=True))


def export_onnx(model: FewShotModel, path: str | Path) -> dict[str, Any]:
    """Write the encoder of a model as an ONNX file; what the file says of itself.

    The input ``blocks`` is ``[clip, block, length, joint, channel]`` in the model's dtype, the output ``features`` is
    ``[clip, output, feature]``; numbers of clips and blocks are free. Persons and views are clips to the graph.
    Models beside the first have inputs and outputs of their own: ``blocks_1`` and ``features_1``, and so on.
    """
    onnx = _import_onnx()
    branches = list(_branches(model))
    encoders: list[nn.Module] = [deepcopy(one.encoder).eval().cpu() for one in branches]
    description = {
        "format": FORMAT,
        "branches": [_describe_component(one, number) for number, one in enumerate(branches)],
    }
    examples = tuple(torch.zeros(_CLIPS, _BLOCKS, *_block_shape(one), dtype=one.dtype) for one in branches)
    clip = torch.export.Dim("clip")
    free = tuple({0: clip, 1: torch.export.Dim(f"block{_suffix(n)}")} for n in range(len(branches)))
    with _quietly():
        program = torch.onnx.export(
            _Encoders(encoders),
            examples,
            dynamo=True,
            opset_version=_OPSET,
            dynamic_shapes=(free,),
            input_names=[f"blocks{_suffix(n)}" for n in range(len(branches))],
            output_names=[f"features{_suffix(n)}" for n in range(len(branches))],
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
    """What an ONNX file that ``export_onnx`` wrote says of itself; needs ``onnx``."""
    onnx = _import_onnx()
    try:
        proto = onnx.load(str(path))
        known = {one.key: one.value for one in proto.metadata_props}
        described: dict[str, Any] = json.loads(known[METADATA])
    except (OSError, KeyError, ValueError, import_module("google.protobuf.message").DecodeError) as error:
        raise DataError(f"{path}: not an encoder that jeanie export-onnx wrote: {error}") from None
    return described


def _branches(model: FewShotModel) -> Iterator[FewShotModel]:
    """A model and all that are beside it, in the order in which ``Features.beside`` holds them."""
    yield model
    for part in model.components:
        assert isinstance(part, FewShotModel)
        yield from _branches(part)


def _suffix(number: int) -> str:
    return f"_{number}" if number else ""


def _block_shape(model: FewShotModel) -> tuple[int, int, int]:
    """Frames, joints and channels of a block."""
    if model.layout is None:
        raise ConfigError(
            "an exported encoder reads one layout, this model keeps each recording's own; set "
            "inputs.prepare.layout to one, such as 'core15'"
        )
    return model.encoder.block, len(model.layout), model.encoder.channels


def _describe_component(model: FewShotModel, number: int) -> dict[str, Any]:
    """Everything that must be known to make a branch's blocks and to compare its features."""
    length, joints, channels = _block_shape(model)
    assert model.layout is not None
    inputs, kept = model.config.inputs, model.config.model_dump(mode="json")
    frames = inputs.prepare.frames
    blocks = None
    if frames is not None:
        blocks = int(count_blocks(torch.tensor([frames]), length, compute_stride(length, inputs.stride))[0])
    return {
        "input": f"blocks{_suffix(number)}",
        "output": f"features{_suffix(number)}",
        "shape": ["clip", "block", length, joints, channels],
        "dtype": str(model.dtype).removeprefix("torch."),
        "features": model.encoder.features,
        "blocks_an_output": model.encoder.stride,
        "frames": frames,
        "blocks": blocks,
        "streams": list(inputs.streams),
        "gains": list(inputs.gains) or [1.0] * len(inputs.streams),
        "layout": model.layout.to_dict(),
        **{key: kept[key] for key in _KEPT},
    }


def _import_onnx() -> Any:
    """The package ``onnx``, or an error that says how to get what is missing."""
    for name in _NEEDED:
        try:
            import_module(name)
        except ImportError:
            raise ConfigError(f"ONNX needs {name}; pip install 'jeanie[onnx]'") from None
    return import_module("onnx")


@contextmanager
def _quietly() -> Iterator[None]:
    """Without the exporter's remarks on itself and on libraries that are not needed here."""
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
    """Take off what the exporter notes of the source of every node: it names files of this machine."""
    graph.ClearField("metadata_props")
    for part in (*graph.node, *graph.input, *graph.output, *graph.value_info, *graph.initializer):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
