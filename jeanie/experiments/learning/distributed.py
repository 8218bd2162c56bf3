"""Several processes, on one host or many, that train one model: torch.distributed, started by ``torchrun``.

Every process holds the whole model. Of a step's episodes process r of n takes every n-th; all distances are
gathered, so each process sees the same loss, and the gradients are added up. In a single process nothing of
this does anything.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module

import torch
from torch import Tensor, distributed

from jeanie.errors import ConfigError, DataError, JeanieError

__all__ = ["World", "joined"]

CPU = torch.device("cpu")
_ERRORS: dict[str, type[JeanieError]] = {"ConfigError": ConfigError, "DataError": DataError}


@dataclass(frozen=True)
class World:
    """Which of how many processes this is, and the device that it computes on."""

    rank: int = 0
    size: int = 1
    device: torch.device = CPU

    @property
    def first(self) -> bool:
        """Whether this is the process that writes files and speaks."""
        return self.rank == 0

    def share(self, count: int) -> range:
        """Which of ``count`` things this process takes."""
        return range(self.rank, count, self.size)

    def added(self, tensor: Tensor) -> Tensor:
        """The sum of a tensor over all processes, the same to the last bit in each."""
        if self.size == 1:
            return tensor
        total = tensor.to(self.device, copy=True)
        distributed.all_reduce(total)
        return total.to(tensor.device)

    def any(self, flag: bool) -> bool:
        """Whether the flag is up in any process."""
        return bool(self.added(torch.tensor(float(flag))) > 0)

    def add_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Put the sum over all processes in place of every gradient; a missing one counts as 0."""
        learnt = [weight for weight in parameters if weight.requires_grad]
        if self.size == 1:
            return
        for dtype in {weight.dtype for weight in learnt}:
            group = [weight for weight in learnt if weight.dtype == dtype]
            grads = [torch.zeros_like(one) if one.grad is None else one.grad for one in group]
            total = self.added(torch.cat([grad.flatten() for grad in grads]))
            for weight, part in zip(group, total.split([one.numel() for one in group]), strict=True):
                weight.grad = part.view_as(weight)

    def equalise(self, tensors: Iterable[Tensor]) -> None:
        """Give every process the first one's values, in place."""
        if self.size == 1:
            return
        for tensor in tensors:
            values = tensor.detach().to(self.device, copy=True)
            values = values.to(torch.uint8) if values.dtype == torch.bool else values.contiguous()
            distributed.broadcast(values, 0)
            with torch.no_grad():
                tensor.copy_(values)

    def told(self, work: Callable[[], bytes]) -> bytes:
        """What ``work`` gives in the first process, in every one; an error that it raises is raised in all."""
        if self.size == 1:
            return work()
        content = b""
        error: JeanieError | OSError | None = None
        if self.first:
            try:
                content = b"=" + work()
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
            kind, _, said = content.decode().partition(":")
            raise _ERRORS.get(kind, JeanieError)(said)
        return content[1:]


@contextmanager
def joined(device: str | torch.device | None = None) -> Iterator[World]:
    """The processes that ``torchrun`` started together (gloo on the CPU, nccl on CUDA), or this one alone.

    Without ``device`` it is CUDA where there is some, the LOCAL_RANK-th device of the host. A process group
    that is there already is used and left as it is.
    """
    chosen = _device(device)
    if distributed.is_available() and distributed.is_initialized():
        yield World(distributed.get_rank(), distributed.get_world_size(), chosen)
    elif int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield World(device=chosen)
    else:
        if chosen.type == "cuda":
            torch.cuda.set_device(chosen)
        # the first step of an optimiser loads this; loaded while there is a group, it keeps the group, whose threads
        # then outlive it, and now and then abort the process when it ends
        import_module("torch._dynamo")
        distributed.init_process_group("nccl" if chosen.type == "cuda" else "gloo")
        try:
            yield World(distributed.get_rank(), distributed.get_world_size(), chosen)
        finally:
            distributed.destroy_process_group()


def _device(device: str | torch.device | None) -> torch.device:
    try:
        wanted = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    except RuntimeError as error:
        raise ConfigError(f"no device {device!r}: {error}") from None
    if wanted.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"device {device!r}: torch finds no CUDA here; use device='cpu'")
    if str(wanted) == "cuda":
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    return wanted
