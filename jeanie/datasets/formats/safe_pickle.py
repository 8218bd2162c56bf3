"""Read pickles of plain data without executing them.

A pickle is a program that may call anything. This interpreter knows only dicts, lists, tuples, text, numbers and
numpy arrays of numbers. It imports nothing, calls nothing by name, and allocates nothing for a size that the file
only declares.
"""

import pickletools
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from jeanie.datasets.formats.files import is_small_file
from jeanie.errors import DataError

__all__ = ["load_pickle"]

MAX_PICKLE_BYTES = 2**34
MAX_LINE_BYTES = 2**16
MAX_SMALL_FILE_INSTRUCTIONS = 2**21
_NUMBERS = re.compile(r"[<>|=]?(?:[fiu][248]|[iub]1)")


class _Type:
    """Replaces numpy.dtype while a pickle is read: created by name, then given its byte order."""

    def __init__(self, name: Any, *_: object) -> None:
        if not isinstance(name, str) or not _NUMBERS.fullmatch(name):
            raise DataError("it contains an array of something other than numbers")
        self.dtype: np.dtype[Any] = np.dtype(name)

    def build(self, state: tuple[Any, ...]) -> None:
        if state[1] not in ("<", ">", "=", "|"):
            raise DataError("it contains an array with an unknown byte order")
        self.dtype = self.dtype.newbyteorder(state[1])


class _Array:
    """Replaces numpy.ndarray while a pickle is read; ``value`` is the array after its bytes are read."""

    def __init__(self, *_: object) -> None:
        self.value: NDArray[Any] | None = None

    def build(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, fortran, data = state
        self.value = _from_buffer(data, kind, shape, "F" if fortran else "C")


def _from_buffer(data: Any, kind: Any, shape: Any, order: Any = "C") -> NDArray[Any]:
    raw = data.encode("latin-1") if isinstance(data, str) else data  # Python 2 wrote bytes as text
    if not isinstance(raw, bytes | bytearray) or not isinstance(kind, _Type) or not isinstance(shape, tuple):
        raise DataError("it contains an array that is not a plain array of numbers")
    flat = np.frombuffer(raw, kind.dtype) if raw else np.empty(0, kind.dtype)
    return flat.reshape(shape, order="F" if order == "F" else "C")


def _make_scalar(kind: Any, data: Any) -> Any:
    return _from_buffer(data, kind, ()).item()


def _encode(text: Any, encoding: Any) -> bytes:
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise DataError("it contains bytes in an encoding that pickles do not use")
    return text.encode("latin-1")


def _make_empty_bytes() -> bytes:
    """Return b"", which old protocols write as a call of ``bytes`` without arguments."""
    return b""


@dataclass(frozen=True)
class _Call:
    """A function that a pickle may call; ``_CALLS`` has the names that numpy's pickles use."""

    make: Callable[..., Any]


_CALLS = {
    "numpy dtype": _Call(_Type),
    "numpy ndarray": _Call(_Array),
    "_codecs encode": _Call(_encode),
    "__builtin__ bytes": _Call(_make_empty_bytes),
    "numpy.core.multiarray _reconstruct": _Call(_Array),
    "numpy._core.multiarray _reconstruct": _Call(_Array),
    "numpy.core.multiarray scalar": _Call(_make_scalar),
    "numpy._core.multiarray scalar": _Call(_make_scalar),
    "numpy.core.numeric _frombuffer": _Call(_from_buffer),
    "numpy._core.numeric _frombuffer": _Call(_from_buffer),
}


@dataclass
class _Machine:
    """The stack, its marks and the memo of a pickle.

    ``text_left`` is how many characters may still be encoded as bytes: no pickle encodes a text twice.
    """

    text_left: int
    stack: list[Any] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def pop(self) -> Any:
        return self.stack.pop()

    def mark(self, _: Any) -> None:
        self.marks.append(len(self.stack))

    def cut(self) -> list[Any]:
        """Remove and return everything above the last mark."""
        start = self.marks.pop()
        items = self.stack[start:]
        del self.stack[start:]
        return items

    def drop(self, _: Any) -> None:
        self.cut()

    def find(self, name: str) -> None:
        if name not in _CALLS:
            raise DataError(f"it refers to {name[:80].replace(' ', '.')}, which no recording needs")
        self.push(_CALLS[name])

    def find_on_stack(self, _: Any) -> None:
        name, module = self.pop(), self.pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise DataError("it refers to an object without a name")
        self.find(f"{module} {name}")

    def call(self, _: Any) -> None:
        arguments, function = self.pop(), self.pop()
        if not isinstance(function, _Call) or not isinstance(arguments, tuple):
            raise DataError("it calls something that is not an array")
        self._count_text(arguments)
        self.push(function.make(*arguments))

    def _count_text(self, values: tuple[Any, ...]) -> None:
        self.text_left -= sum(len(value) for value in values if isinstance(value, str))
        if self.text_left < 0:
            raise DataError("it encodes the same text again and again")

    def build(self, _: Any) -> None:
        state = self.pop()
        if not isinstance(self.stack[-1], _Array | _Type) or not isinstance(state, tuple):
            raise DataError("it changes something that is not an array")
        self._count_text(state)
        self.stack[-1].build(state)

    def extend(self, items: list[Any]) -> None:
        if not isinstance(self.stack[-1], list):
            raise DataError("it appends to something that is not a list")
        self.stack[-1].extend(items)

    def update(self, items: list[Any]) -> None:
        if not isinstance(self.stack[-1], dict):
            raise DataError("it sets keys of something that is not a dict")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, str | bytes | int | float):  # hashing a nested tuple may take forever
                raise DataError("it contains a dict with keys that are neither text nor numbers")
            self.stack[-1][key] = value

    def tail(self, count: int) -> list[Any]:
        """Remove and return the last values of the stack."""
        return [self.pop() for _ in range(count)][::-1]

    def get(self, index: Any) -> None:
        self.push(self.memo[int(index)])

    def put(self, index: Any) -> None:
        self.memo[len(self.memo) if index is None else int(index)] = self.stack[-1]

    def new_dict(self, _: Any) -> None:
        items = self.cut()
        self.push({})
        self.update(items)


def _ignore(_: _Machine, __: Any) -> None:
    """Ignore an instruction that only other readers need."""


_LITERALS = """INT BININT BININT1 BININT2 LONG LONG1 LONG4 FLOAT BINFLOAT STRING BINSTRING SHORT_BINSTRING
    BINBYTES SHORT_BINBYTES BINBYTES8 BYTEARRAY8 UNICODE BINUNICODE SHORT_BINUNICODE BINUNICODE8"""
_INSTRUCTIONS: dict[str, Callable[[_Machine, Any], None]] = {
    **dict.fromkeys(_LITERALS.split(), _Machine.push),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), _Machine.get),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"), _Machine.put),
    **dict.fromkeys(("PROTO", "FRAME", "STOP"), _ignore),
    "NONE": lambda machine, _: machine.push(None),
    "NEWTRUE": lambda machine, _: machine.push(True),
    "NEWFALSE": lambda machine, _: machine.push(False),
    "EMPTY_DICT": lambda machine, _: machine.push({}),
    "EMPTY_LIST": lambda machine, _: machine.push([]),
    "EMPTY_TUPLE": lambda machine, _: machine.push(()),
    "MARK": _Machine.mark,
    "POP": lambda machine, _: machine.stack.pop(),
    "POP_MARK": _Machine.drop,
    "DUP": lambda machine, _: machine.push(machine.stack[-1]),
    "TUPLE": lambda machine, _: machine.push(tuple(machine.cut())),
    "TUPLE1": lambda machine, _: machine.push(tuple(machine.tail(1))),
    "TUPLE2": lambda machine, _: machine.push(tuple(machine.tail(2))),
    "TUPLE3": lambda machine, _: machine.push(tuple(machine.tail(3))),
    "LIST": lambda machine, _: machine.push(machine.cut()),
    "DICT": _Machine.new_dict,
    "APPEND": lambda machine, _: machine.extend(machine.tail(1)),
    "APPENDS": lambda machine, _: machine.extend(machine.cut()),
    "SETITEM": lambda machine, _: machine.update(machine.tail(2)),
    "SETITEMS": lambda machine, _: machine.update(machine.cut()),
    "GLOBAL": _Machine.find,
    "STACK_GLOBAL": _Machine.find_on_stack,
    "REDUCE": _Machine.call,
    "BUILD": _Machine.build,
}


@dataclass
class _BoundedFile:
    """A file that refuses to read more bytes than it has, so that a declared size allocates nothing."""

    file: IO[bytes]
    left: int

    def tell(self) -> int:
        return 0

    def read(self, size: int) -> bytes:
        if not 0 <= size <= self.left:
            raise DataError(f"{size} bytes expected, {self.left} are left")
        self.left -= size
        return self.file.read(size)

    def readline(self) -> bytes:
        line = self.file.readline(MAX_LINE_BYTES)
        self.left -= len(line)
        return line


def load_pickle(path: str | Path) -> Any:
    """Return the value of a pickle of dicts, lists, tuples, text, numbers and numpy arrays of numbers.

    An array is in the attribute ``value`` of the object in its place, or is that object.

    Raises:
        DataError: The pickle contains anything else, or is damaged. Nothing of it was executed.
    """
    path = Path(path)
    try:
        size = path.stat().st_size
        if not path.is_file() or size > MAX_PICKLE_BYTES:
            raise DataError(f"no file of at most {MAX_PICKLE_BYTES} bytes")
        with path.open("rb") as file:
            return _run(
                _BoundedFile(file, size), MAX_SMALL_FILE_INSTRUCTIONS if is_small_file(path) else None
            )
    except DataError as error:
        raise DataError(f"{path}: not a pickle of recordings, or damaged: {error}") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None
    except Exception as error:  # a damaged program raises anything: IndexError, KeyError, ...
        cause = f"{type(error).__name__} {str(error)[:80]}".strip()
        raise DataError(f"{path}: not a pickle of recordings, or damaged: {cause}") from None


def _run(file: _BoundedFile, most: int | None) -> Any:
    """Execute at most ``most`` instructions and return the value on top of the stack."""
    machine = _Machine(text_left=file.left)
    for count, (instruction, argument, _) in enumerate(pickletools.genops(file)):  # type: ignore[arg-type]
        if count == most:
            raise DataError(f"it has more than {most} instructions")
        execute = _INSTRUCTIONS.get(instruction.name)
        if execute is None:
            raise DataError(f"it uses the instruction {instruction.name}, which no recording needs")
        execute(machine, argument)
    return machine.pop()
