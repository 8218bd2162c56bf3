"""The MLP per joint of the graph encoder; on the CPU, one call of the compiled kernel computes it.

The layers are narrow, so torch spends more time on reading and writing activations than on the matrix products. The
kernel computes a few rows at a time through all layers. Its backward pass computes the activations again, so that
training stores only the input.
"""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from jeanie.encoders.matrix_product import is_plain_call
from jeanie.kernel.library import LAYERS, LayerAddresses, MlpJob, get_address, get_layout, is_available, run

__all__ = ["JointMlp"]

_LINEAR, _NORM, _DROPOUT = (0, 3, 7), (1, 4, 8), 6  # places in the Sequential
_PARAMETERS = (
    4 * LAYERS
)  # weight and bias of the linear layer, weight and bias of the LayerNorm, for each layer


class JointMlp(nn.Sequential):
    """Linear layers with LayerNorm, ReLU and dropout over the numbers of every joint in a block.

    With 3 channels its sizes are the 3M, 6M and 9M of the paper.

    Args:
        numbers: Numbers per joint: frames times channels.
        width: Features per joint.
        dropout: Dropout before the last linear layer.
    """

    def __init__(self, numbers: int, width: int, dropout: float) -> None:
        super().__init__(
            nn.Linear(numbers, 2 * numbers),
            nn.LayerNorm(2 * numbers),
            nn.ReLU(inplace=True),  # the gradient of LayerNorm does not need its output
            nn.Linear(2 * numbers, 3 * numbers),
            nn.LayerNorm(3 * numbers),
            nn.ReLU(inplace=True),
            nn.Dropout(dropout),
            nn.Linear(3 * numbers, width),
            nn.LayerNorm(width),
        )

    def forward(
        self, blocks: Float[Tensor, "*batch length joint channel"]
    ) -> Float[Tensor, "*batch joint width"]:
        """Return the features of every joint of every block."""
        if not self._can_use_kernel(blocks):
            rows = _arrange_rows(blocks)
            for part in self:
                rows = part(rows)
            return rows
        parts: Any = self
        noise = None
        if self.training and parts[_DROPOUT].p:
            keep = 1 - parts[_DROPOUT].p
            shape = (*blocks.shape[:-3], blocks.shape[-2], parts[_LINEAR[-1]].in_features)
            noise = blocks.new_empty(shape).bernoulli_(keep).div_(keep)  # the random numbers of nn.Dropout
        function: Any = _Mlp
        result: Tensor = function.apply(blocks, noise, parts[_NORM[0]].eps, *self._list_parameters())
        return result

    def _list_parameters(self) -> list[Tensor]:
        parts: Any = self
        places = zip(_LINEAR, _NORM, strict=True)
        return [
            tensor for i, j in places for part in (parts[i], parts[j]) for tensor in (part.weight, part.bias)
        ]

    def _can_use_kernel(self, blocks: Tensor) -> bool:
        """Return whether the kernel can run: a plain call on the CPU, and no hook that needs the steps in between."""
        return (
            is_plain_call(blocks)
            and blocks.dtype in (torch.float32, torch.float64)
            and blocks.numel() > 0
            and not any(part._forward_hooks or part._forward_pre_hooks for part in self)
            and is_available()
        )


def _arrange_rows(blocks: Tensor) -> Tensor:
    """Return the blocks as [*batch, joint, frame and channel]."""
    return blocks.transpose(-3, -2).flatten(-2)


def _compute_with_torch(
    blocks: Tensor, noise: Tensor | None, epsilon: float, parameters: Sequence[Tensor]
) -> Tensor:
    """Return the features from operations of torch, which can be differentiated any number of times."""
    x = _arrange_rows(blocks)
    for layer in range(LAYERS):
        weight, bias, scale, shift = parameters[4 * layer : 4 * layer + 4]
        x = functional.layer_norm(functional.linear(x, weight, bias), (len(bias),), scale, shift, epsilon)
        x = x.relu() if layer < LAYERS - 1 else x
        if noise is not None and layer == LAYERS - 2:
            x = x * noise
    return x


def _prepare_job(
    blocks: Tensor, noise: Tensor | None, epsilon: float, parameters: Sequence[Tensor]
) -> MlpJob:
    dtype, (items, frames, joints, channels) = blocks.dtype, blocks.shape
    sizes = [len(bias) for bias in parameters[1::4]]
    address, _, size = get_layout(blocks, dtype, 0)
    return MlpJob(
        x=address, strides=blocks.stride(), x_size=size,
        noise=get_address(noise, dtype, items * joints * sizes[-2]),
        layers=_list_addresses(parameters, [frames * channels, *sizes], dtype),
        items=items, frames=frames, joints=joints, channels=channels,
        sizes=tuple(sizes), threads=torch.get_num_threads(), epsilon=epsilon,
    )  # fmt: skip


def _list_addresses(
    tensors: Sequence[Tensor], sizes: Sequence[int], dtype: torch.dtype
) -> tuple[LayerAddresses, ...]:
    layers = []
    for layer in range(LAYERS):
        weight, *vectors = tensors[4 * layer : 4 * layer + 4]
        before, after = sizes[layer : layer + 2]
        layers.append(
            LayerAddresses(
                get_address(weight, dtype, before * after),
                *(get_address(vector, dtype, after) for vector in vectors),
            )
        )
    return tuple(layers)


def _make_contiguous(tensors: Sequence[Tensor | None]) -> list[Any]:
    return [None if x is None else x.resolve_neg().contiguous() for x in tensors]


def _flatten_batch(blocks: Tensor) -> Float[Tensor, "item length joint channel"]:
    """Return the blocks with one batch axis; blocks of simulated views need no copy."""
    return blocks.resolve_neg().reshape(-1, *blocks.shape[-3:])


def _run_forward(
    blocks: Tensor, noise: Tensor | None, epsilon: float, parameters: Sequence[Tensor]
) -> Float[Tensor, "*batch joint width"]:
    noise, *parameters = _make_contiguous([noise, *parameters])
    out = blocks.new_empty(*blocks.shape[:-3], blocks.shape[-2], len(parameters[-1]))
    flat = _flatten_batch(blocks)  # the address of a copy is valid as long as the copy
    job = _prepare_job(flat, noise, epsilon, parameters)
    job.out = get_address(out, blocks.dtype, out.numel())
    run("mlp", job, blocks.dtype)
    return out


def _run_backward(
    grad: Tensor,
    blocks: Tensor,
    noise: Tensor | None,
    epsilon: float,
    parameters: Sequence[Tensor],
    needs_input: bool,
) -> list[Tensor]:
    """Return the gradients of all parameters, and after them that of the blocks if it is needed."""
    grad, noise, *parameters = _make_contiguous([grad, noise, *parameters])
    gradients = [torch.empty_like(x) for x in parameters]
    grad_blocks = blocks.new_empty(blocks.shape) if needs_input else None
    flat, dtype = _flatten_batch(blocks), blocks.dtype
    job = _prepare_job(flat, noise, epsilon, parameters)
    sizes = [blocks.shape[-3] * blocks.shape[-1], *(len(bias) for bias in parameters[1::4])]
    job.gradients = _list_addresses(gradients, sizes, dtype)
    job.grad_out = get_address(grad, dtype, grad.numel())
    job.grad_x = get_address(grad_blocks, dtype, blocks.numel())
    run("mlp", job, dtype)
    return gradients if grad_blocks is None else [*gradients, grad_blocks]


# operators of torch, so that counters of operations and other dispatch modes see the calls
_library = torch.library.Library("jeanie", "FRAGMENT")
_library.define("joint_mlp(Tensor blocks, Tensor? noise, float epsilon, Tensor[] parameters) -> Tensor")
_library.define(
    "joint_mlp_backward(Tensor grad, Tensor blocks, Tensor? noise, float epsilon, Tensor[] parameters, "
    "bool needs_input) -> Tensor[]"
)
_library.impl("joint_mlp", _run_forward, "CPU")
_library.impl("joint_mlp_backward", _run_backward, "CPU")


class _Mlp(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, blocks: Tensor, noise: Tensor | None, epsilon: float, *parameters: Tensor
    ) -> Tensor:
        ctx.save_for_backward(blocks, noise, *parameters)
        ctx.epsilon = epsilon
        out: Tensor = torch.ops.jeanie.joint_mlp(blocks, noise, epsilon, list(parameters))
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        blocks, noise, *parameters = ctx.saved_tensors
        needs_input, _, _, *needed = ctx.needs_input_grad
        if torch.is_grad_enabled():  # the gradient will be differentiated
            inputs = [
                x for x, need in zip([blocks, *parameters], [needs_input, *needed], strict=True) if need
            ]
            out = _compute_with_torch(blocks, noise, ctx.epsilon, parameters)
            results = iter(torch.autograd.grad(out, inputs, grad, create_graph=True))
            of_blocks, *of_parameters = (next(results) if need else None for need in (needs_input, *needed))
            return (of_blocks, None, None, *of_parameters)
        results = torch.ops.jeanie.joint_mlp_backward(
            grad, blocks, noise, ctx.epsilon, parameters, needs_input
        )
        gradients = (x if need else None for x, need in zip(results, needed, strict=False))
        return (results[_PARAMETERS] if needs_input else None, None, None, *gradients)
