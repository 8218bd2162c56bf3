"""Encode the windows of recordings: windows of equal length are prepared in one step, from joints converted once."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Any
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from jeanie.encoders.fast_temporal import FastTemporalEncoder, can_run_fast
from jeanie.errors import JeanieError
from jeanie.fewshot.features import Features
from jeanie.fewshot.inputs import CANONICAL_FRAMES, Batch, arrange
from jeanie.fewshot.model import FewShotModel
from jeanie.skeleton.canonical_body import (
    BODY,
    CORE,
    append_path,
    average_over_time,
    normalise_bodies,
)
from jeanie.skeleton.convert import convert
from jeanie.skeleton.motion import Motion

__all__ = ["Segments", "encode_segments", "encode_windows", "get_fast_encoder"]

_TOGETHER = 64  # windows encoded at once: more do not fit into the cache of a processor core
_Core = tuple[torch.dtype, tuple[Tensor, Tensor] | None]
_cores: WeakKeyDictionary[Motion, _Core] = WeakKeyDictionary()
_encoders: WeakKeyDictionary[FewShotModel, tuple[tuple[int, ...], FastTemporalEncoder]] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class Segments:
    """Windows of one recording, and what the caller knows them by."""

    tag: Any
    motion: Motion
    windows: Sequence[tuple[int, int]]


def encode_windows(
    model: FewShotModel, motion: Motion, windows: Sequence[tuple[int, int]]
) -> Iterator[Features]:
    """Yield the support features of windows of one recording, in batches, in order.

    They equal the features of ``motion[start:end]`` for each window, up to rounding.
    """
    for _, features in encode_segments(model, [Segments(None, motion, windows)]):
        yield features


def encode_segments(
    model: FewShotModel,
    segments: Iterable[Segments],
    *,
    batch: int | None = None,
    on_error: Callable[[Any, Exception], None] | None = None,
) -> Iterator[tuple[list[tuple[Any, int]], Features]]:
    """Yield ((tag, number of the window), ...) and the support features of windows of many recordings, in order.

    Windows of one length are prepared in one step if a single person is visible in every frame and no joint is missing
    for a part of the time.

    Args:
        model: The model.
        segments: The windows. A recording is read when its windows are encoded.
        batch: Number of windows that are always encoded at once, so that the features of a window do not depend on the
            others; the last batch is filled up. By default a batch has as many windows as are fast.
        on_error: Called with the tag and the error of windows that cannot be prepared; without it, errors are raised.
    """
    step = batch or _TOGETHER
    fast = get_fast_encoder(model)
    names: list[tuple[Any, int]] = []
    waiting: list[_Input] = []

    def flush() -> tuple[list[tuple[Any, int]], Features]:
        count = min(step, len(names))
        done = names[:count]
        del names[:count]
        return done, _encode_inputs(model, fast, _take(waiting, count), step if batch is not None else count)

    for segment in segments:
        for first, prepared in _skip_errors(
            _prepare_segments(model, fast, segment, step), segment.tag, on_error
        ):
            if waiting and not waiting[0].fits(prepared):
                while names:
                    yield flush()
            waiting.append(prepared)
            names += [(segment.tag, first + at) for at in range(len(prepared))]
            while len(names) >= step:
                yield flush()
    while names:
        yield flush()


def _skip_errors(
    pieces: Iterator[tuple[int, "_Input"]], tag: Any, on_error: Callable[[Any, Exception], None] | None
) -> Iterator[tuple[int, "_Input"]]:
    try:
        yield from pieces
    except (JeanieError, OSError) as error:
        if on_error is None:
            raise
        on_error(tag, error)


@dataclass(frozen=True, eq=False)
class _Bodies:
    """Core joints of windows, all with the same number of frames, and which joints are known."""

    joints: Float[Tensor, "window frame 15 3"]
    present: Bool[Tensor, "window 15"]

    def __getitem__(self, windows: slice) -> "_Bodies":
        return _Bodies(self.joints[windows], self.present[windows])

    @classmethod
    def join(cls, parts: Sequence["_Bodies"]) -> "_Bodies":
        """Return the windows of all parts."""
        return cls(torch.cat([part.joints for part in parts]), torch.cat([part.present for part in parts]))

    def normalise(self) -> Batch:
        """Return a batch of canonical bodies."""
        count, frames = self.joints.shape[:2]
        bodies, valid = append_path(*normalise_bodies(self.joints, self.present), self.present)
        is_valid = valid[:, None, None].expand(count, 1, frames, valid.shape[1])
        return Batch(bodies[:, None], is_valid, torch.full((count,), frames), BODY)


@dataclass(frozen=True, eq=False)
class _Input:
    """Windows for the fast network, which get equal numbers of frames, or a batch for the model."""

    fast: _Bodies | None
    slow: Batch | None

    def __len__(self) -> int:
        return len(self.fast.joints) if self.fast is not None else len(self.slow or ())

    def fits(self, other: "_Input") -> bool:
        """Return whether both can be encoded at once."""
        return self.fast is not None and other.fast is not None

    def split(self, count: int) -> "tuple[_Input, _Input]":
        """Return the first windows and the others."""
        if self.fast is not None:
            return _Input(self.fast[:count], None), _Input(self.fast[count:], None)
        assert self.slow is not None
        return _Input(None, self.slow[slice(count)]), _Input(None, self.slow[slice(count, None)])


def _take(waiting: list[_Input], count: int) -> list[_Input]:
    """Remove and return the first ``count`` windows."""
    first_inputs: list[_Input] = []
    while count:
        first = waiting.pop(0)
        if len(first) > count:
            first, remaining = first.split(count)
            waiting.insert(0, remaining)
        first_inputs.append(first)
        count -= len(first)
    return first_inputs


def _encode_inputs(
    model: FewShotModel, fast: FastTemporalEncoder | None, inputs: Sequence[_Input], fill: int
) -> Features:
    """Return the features of windows; up to ``fill`` windows are added for the computation."""
    count = sum(map(len, inputs))
    parts = [part.fast for part in inputs if part.fast is not None]
    if parts:
        assert fast is not None
        parts += [parts[0][:1]] * (fill - count)
        values = fast(_arrange(model, _Bodies.join(parts).normalise()))[:count]
        counts = torch.full((count,), values.shape[1])
        if model.config.align.persons != "matched":
            return Features(values, counts)
        return Features(values, counts, second=values, paired=torch.zeros(count, dtype=torch.bool))
    (batch,) = (part.slow for part in inputs)
    assert batch is not None
    with torch.no_grad():
        return model.features(batch, "support")


@torch.inference_mode()
def _arrange(model: FewShotModel, batch: Batch) -> Float[Tensor, "window block number"]:
    blocks, _ = arrange(batch, model.config.inputs, None, model.hidden_joints)
    return blocks[:, 0].flatten(-3)


def _prepare_segments(
    model: FewShotModel, fast: FastTemporalEncoder | None, segment: Segments, step: int
) -> Iterator[tuple[int, _Input]]:
    """Yield the number of the first window and some prepared windows."""
    core = _get_core(model, segment.motion)
    frames = model.config.inputs.prepare.frames or CANONICAL_FRAMES
    is_fast = fast is not None and FastTemporalEncoder.takes(frames)
    first = 0
    for _, group in groupby(segment.windows, lambda window: window[1] - window[0]):
        windows = list(group)
        for at in range(0, len(windows), step):
            some = windows[at : at + step]
            if core is None:
                yield first, _Input(None, model.collate([segment.motion[start:end] for start, end in some]))
            else:
                bodies = _sample_windows(*core, some, frames)
                if is_fast:
                    yield first, _Input(bodies, None)
                else:
                    yield first, _Input(None, bodies.normalise().to(model.device, model.dtype))
            first += len(some)


def _get_core(
    model: FewShotModel, motion: Motion
) -> tuple[Float[Tensor, "frame 15 3"], Bool[Tensor, " 15"]] | None:
    """Return ``_convert_to_core`` of a recording, which is computed once as long as the motion lives."""
    if model.config.inputs.prepare.body != "canonical" or model.components:
        return None
    entry = _cores.get(motion)
    if entry is None or entry[0] != model.dtype:
        entry = model.dtype, _convert_to_core(model.dtype, motion)
        _cores[motion] = entry
    return entry[1]


def _convert_to_core(
    dtype: torch.dtype, motion: Motion
) -> tuple[Float[Tensor, "frame 15 3"], Bool[Tensor, " 15"]] | None:
    """Return the core joints of a recording and which of them are known, or None if windows are prepared one by one."""
    if motion.persons != 1 or not bool(motion.valid.flatten(1).any(1).all()):
        return None
    core = convert(motion, CORE)
    present = core.valid[:, 0].any(0)
    if not bool((core.valid[:, 0] == present).all()):
        return None
    joints = core.joints[:, 0]
    if core.layout.up == "z":
        x, y, z = joints.unbind(-1)
        joints = torch.stack([x, z, -y], -1)
    return joints.to(dtype), present


@lru_cache(64)
def _compute_resampling(length: int, frames: int, dtype: torch.dtype) -> Float[Tensor, "{frames} {length}"]:
    """Return the matrix that resamples ``length`` frames as ``average_over_time`` does."""
    return average_over_time(torch.eye(length, dtype=dtype)[:, :, None], frames)[..., 0].contiguous()


def _sample_windows(
    joints: Float[Tensor, "frame 15 3"],
    present: Bool[Tensor, " 15"],
    windows: Sequence[tuple[int, int]],
    frames: int,
) -> _Bodies:
    """Resample windows of equal length to ``frames`` frames."""
    length = windows[0][1] - windows[0][0]
    index = torch.tensor([start for start, _ in windows])[:, None] + torch.arange(length)
    resampling = _compute_resampling(length, frames, joints.dtype)
    sampled = (resampling @ joints.flatten(1)[index]).unflatten(-1, (-1, 3))
    return _Bodies(sampled, present.expand(len(windows), -1))


def get_fast_encoder(model: FewShotModel) -> FastTemporalEncoder | None:
    """Return the fast form of the network of a model, or None for other models. It follows changes of the weights."""
    network: Any = model.encoder.net[-1] if isinstance(model.encoder.net, torch.nn.Sequential) else None
    if (
        not can_run_fast(network)
        or model.components
        or model.hubness_correction is not None
        or model.config.views.kind != "none"
        or model.config.inputs.block != 1
        or model.config.inputs.stride != 1.0
        or model.device.type != "cpu"
    ):
        return None
    versions = tuple(value for weight in model.parameters() for value in (weight.data_ptr(), weight._version))
    entry = _encoders.get(model)
    if entry is None or entry[0] != versions:
        entry = versions, FastTemporalEncoder(network)
        _encoders[model] = entry
    return entry[1]
