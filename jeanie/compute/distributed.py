"""Processes that train one model together, on one host or many: torch.distributed, started by ``torchrun``.

Every process has the whole model and takes every n-th episode of a step. All processes get all distances, so they
compute the same loss; then they sum their gradients. With a single process, all functions here do nothing.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module

import torch
from torch import Tensor, distributed

from jeanie.errors import ConfigError, DataError, JeanieError

__all__ = ["World", "join_process_group"]

CPU = torch.device("cpu")
_ERRORS: dict[str, type[JeanieError]] = {"ConfigError": ConfigError, "DataError": DataError}


@dataclass(frozen=True)
class World:
    """The group of processes: rank of this process, number of processes, and the device of this process."""

    rank: int = 0
    size: int = 1
    device: torch.device = CPU

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and prints."""
        return self.rank == 0

    def own_indices(self, count: int) -> range:
        """Return the indices, out of ``count``, that this process takes."""
        return range(self.rank, count, self.size)

    def reduce_sum(self, tensor: Tensor) -> Tensor:
        """Return the sum of a tensor over all processes, with the same bits in each."""
        if self.size == 1:
            return tensor
        total = tensor.to(self.device, copy=True)
        distributed.all_reduce(total)
        return total.to(tensor.device)

    def is_any(self, flag: bool) -> bool:
        """Return whether the flag is set in any process."""
        return bool(self.reduce_sum(torch.tensor(float(flag))) > 0)

    def sum_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Replace every gradient by its sum over all processes; a missing gradient counts as 0."""
        if self.size == 1:
            return
        weights = [weight for weight in parameters if weight.requires_grad]
        for dtype in {weight.dtype for weight in weights}:
            group = [weight for weight in weights if weight.dtype == dtype]
            grads = [torch.zeros_like(weight) if weight.grad is None else weight.grad for weight in group]
            total = self.reduce_sum(torch.cat([grad.flatten() for grad in grads]))
            for weight, part in zip(group, total.split([weight.numel() for weight in group]), strict=True):
                weight.grad = part.view_as(weight)

    def broadcast_tensors(self, tensors: Iterable[Tensor]) -> None:
        """Copy the values of the first process to all processes, in place."""
        if self.size == 1:
            return
        for tensor in tensors:
            values = tensor.detach().to(self.device, copy=True)
            values = values.to(torch.uint8) if values.dtype == torch.bool else values.contiguous()
            distributed.broadcast(values, 0)
            with torch.no_grad():
                tensor.copy_(values)

    def broadcast_from_first(self, function: Callable[[], bytes]) -> bytes:
        """Call ``function`` in the first process and return its result, or raise its error, in all processes."""
        if self.size == 1:
            return function()
        content = b""
        error: JeanieError | OSError | None = None
        if self.is_first:
            try:
                content = b"=" + function()
            except (JeanieError, OSError) as raised:
                error = raised
                content = f"{type(raised).__name__}:{raised}".encode()
        length = torch.tensor(len(content), device=self.device)
        distributed.broadcast(length, 0)
        data = torch.frombuffer(bytearray(content or bytes(int(length))), dtype=torch.uint8).to(self.device)
        distributed.broadcast(data, 0)
        content = data.cpu().numpy().tobytes()
        if error is not None:
            raise error
        if not content.startswith(b"="):
            name, _, message = content.decode().partition(":")
            raise _ERRORS.get(name, JeanieError)(message)
        return content[1:]


@contextmanager
def join_process_group(device: str | torch.device | None = None) -> Iterator[World]:
    """Join the processes that ``torchrun`` started (gloo on the CPU, nccl on CUDA); without it, this process alone.

    The default device is CUDA device LOCAL_RANK of the host if CUDA is available, otherwise the CPU. An existing
    process group is used and stays open.

    Raises:
        ConfigError: The device does not exist.
    """
    target_device = _select_device(device)
    if distributed.is_available() and distributed.is_initialized():
        yield World(distributed.get_rank(), distributed.get_world_size(), target_device)
    elif int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield World(device=target_device)
    else:
        if target_device.type == "cuda":
            torch.cuda.set_device(target_device)
        # The first optimiser step imports this module. If a process group exists then, the module keeps it alive, and
        # its threads sometimes abort the process at exit. So import it first.
        import_module("torch._dynamo")
        distributed.init_process_group("nccl" if target_device.type == "cuda" else "gloo")
        try:
            yield World(distributed.get_rank(), distributed.get_world_size(), target_device)
        finally:
            distributed.destroy_process_group()


def _select_device(device: str | torch.device | None) -> torch.device:
    try:
        selected = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    except RuntimeError as error:
        raise ConfigError(f"no device {device!r}: {error}") from None
    if selected.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"device {device!r}: torch finds no CUDA here; use device='cpu'")
    if str(selected) == "cuda":
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    return selected
