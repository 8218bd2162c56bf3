"""Pickles read without running them: plain ones whole, a real sample, and hostile ones as data errors."""

import os
import pickle
import struct
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from jeanie.datasets.formats.pyskl import open_pyskl
from jeanie.datasets.formats.safe_pickle import load_pickle
from jeanie.errors import DataError

SAMPLE = Path(os.environ.get("JEANIE_DATA", "/nonexistent")) / "pyskl-sample/mmaction2_sample.pkl"
recordings = pytest.mark.skipif(
    not SAMPLE.is_file(), reason="needs the recording pyskl-sample in $JEANIE_DATA"
)
RANDOM = np.random.default_rng(5)


@pytest.fixture
def write_pickle(write_file):
    return partial(write_file, name="a.pkl")


def plain(value):
    """A value out of load_pickle with its arrays unwrapped."""
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(plain, value))
    return getattr(value, "value", value)


def same(a, b):
    if isinstance(b, np.ndarray):
        return (
            isinstance(a, np.ndarray) and a.dtype == b.dtype and a.shape == b.shape and bool((a == b).all())
        )
    if isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in b)
    if isinstance(b, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


VALUES = {
    "numbers and text": {
        "a": [1, -1, 255, 65536, 2**31, -(2**63), 2**100, 1.5, True, None, "é", b"\x00\xff"],
        3: (),
    },
    "tuples": ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), [(), []]),
    "floats": [RANDOM.normal(size=(2, 3, 4)).astype(kind) for kind in ("f2", "f4", "f8", ">f4")],
    "integers": [
        np.arange(6).astype(kind).reshape(2, 3) for kind in ("i1", "i2", "i4", "i8", "u1", ">i2", "?")
    ],
    "orders": [np.asfortranarray(RANDOM.normal(size=(3, 4))), np.zeros((0, 5)), np.array(2.5)],
    "shared": [shared := np.arange(3.0), shared, [shared]],
}


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_plain_pickles_of_every_protocol_are_read(write_pickle, value, protocol):
    path = write_pickle(pickle.dumps(value, protocol))
    assert same(plain(load_pickle(path)), value)


def test_numpy_scalars_become_numbers(write_pickle):
    path = write_pickle(pickle.dumps([np.int64(7), np.float32(0.5), np.bool_(True)]))
    assert load_pickle(path) == [7, 0.5, True]


def test_pickles_of_python_2_and_of_both_numpy_generations_are_read(write_pickle):
    old = (
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR(I1\n(I2\ntcnumpy\ndtype\n(S'f4'\nI0\nI1\n"
        b"tR(I3\nS'<'\nNNNI-1\nI-1\nI0\ntbI00\nU\x08\x00\x00\x80?\x00\x00\x00@tb."
    )
    for data in (old, old.replace(b"numpy.core", b"numpy._core")):
        assert plain(load_pickle(write_pickle(data))).tolist() == [1.0, 2.0]


class Evil:
    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (str(self.marker),)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_calls_in_a_pickle_are_not_executed(tmp_path, write_pickle, protocol):
    marker = tmp_path / "was here"
    path = write_pickle(pickle.dumps({"annotations": [Evil(marker)]}, protocol))
    with pytest.raises(DataError, match=r"a\.pkl.*it refers to posix\.mkdir"):
        load_pickle(path)
    assert not marker.exists()
    pickle.loads(path.read_bytes())  # noqa: S301 -- the file is ours: it shows that the test would notice
    assert marker.exists()


FUNCTION = b"\x80\x02cnumpy\ndtype\n"
NESTED = b"\x80\x02)" + b"q\x000h\x00h\x00\x86" * 60  # a tuple of twice itself, sixty times
HOSTILE = {
    "empty": (b"", "bytes expected, 0 are left|pickle"),
    "no pickle": (b"hello world", "GET|no such|memo|Error"),
    "no end": (b"\x80\x02]", "bytes expected, 0 are left|exhausted"),
    "an empty stack": (b"\x80\x02.", "IndexError"),
    "no mark": (b"\x80\x02t.", "IndexError"),
    "no memo": (b"\x80\x02h\x05.", "KeyError 5"),
    "builtins": (b"c__builtin__\neval\n(S'1'\ntR.", r"it refers to __builtin__\.eval"),
    "a dotted name": (b"\x80\x04\x8c\x05numpy\x8c\x0cdtype.__call\x93.", r"it refers to numpy\.dtype"),
    "a name that is a list": (b"\x80\x04]]\x93.", "without a name"),
    "an instance": (b"(i__builtin__\nlist\n.", "the instruction INST"),
    "a new object": (b"\x80\x02cnumpy\ndtype\n)\x81.", "the instruction NEWOBJ"),
    "an extension": (b"\x80\x02\x82\x01.", "the instruction EXT1"),
    "a persistent id": (b"Pfile\n.", "the instruction PERSID"),
    "a set": (b"\x80\x04\x8f.", "the instruction EMPTY_SET"),
    "a call of a list": (b"\x80\x02])R.", "it calls something that is not an array"),
    "a changed function": (FUNCTION + b"}b.", "it changes something that is not an array"),
    "a changed list": (b"\x80\x02])b.", "it changes something that is not an array"),
    "objects": (FUNCTION + b"(U\x01O\x89\x88tR.", "something other than numbers"),
    "records": (FUNCTION + b"(U\x05f4,f4\x89\x88tR.", "something other than numbers"),
    "a list as a key": (b"\x80\x02}]K\x01s.", "neither text nor numbers"),
    "a nested key": (NESTED.replace(b"\x80\x02)", b"\x80\x02})", 1) + b"K\x01s.", "neither text nor numbers"),
    "a list that is a dict": (b"\x80\x02}K\x01a.", "not a list"),
    "a claim of bytes": (b"\x80\x04\x8e" + struct.pack("<Q", 2**40) + b"x.", "bytes expected, 2 are left"),
    "a claim of text": (b"\x80\x02X" + struct.pack("<I", 2**32 - 1) + b"x.", "bytes expected, 2 are left"),
    "a claim of a bytearray": (b"\x80\x05\x96" + struct.pack("<Q", 2**50) + b"x.", "bytes expected"),
    "a claim of a long": (b"\x80\x02\x8b" + struct.pack("<i", 2**31 - 1) + b"x.", "bytes expected"),
    "a long line": (b"I" + b"1" * 100_000 + b"\n.", "no newline"),
    "an encoding": (
        b"\x80\x02c_codecs\nencode\nU\x01aU\x05utf-7\x86R.",
        "an encoding that pickles do not use",
    ),
}


@pytest.mark.errors
@pytest.mark.parametrize(("data", "message"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_and_damaged_pickles_are_data_errors(write_pickle, data, message):
    path = write_pickle(data)
    with pytest.raises(DataError, match=rf"a\.pkl: not a pickle of recordings, or damaged.*({message})"):
        load_pickle(path)


def test_a_memo_index_of_four_thousand_million_allocates_nothing(write_pickle):
    path = write_pickle(b"\x80\x02]r" + struct.pack("<I", 2**32 - 1) + b".")
    assert load_pickle(path) == []


@pytest.mark.errors
def test_error_messages_do_not_print_values_that_grow(write_pickle):
    """Lists that hold the list before twice: small in memory, 2^60 characters when printed."""
    bomb = b"\x80\x02]" + b"q\x00](h\x00h\x00e" * 60
    started = time.process_time()
    for data in (
        bomb + b".",
        b"\x80\x02}U\x0bannotations](}U\tframe_dir" + bomb[2:] + b"s}U\x08keypoint" + bomb[2:] + b"ses.",
    ):
        with pytest.raises(DataError):
            open_pyskl(write_pickle(data))[0]
    assert time.process_time() - started < 5


def test_every_cut_of_a_pickle_is_an_error(write_pickle):
    data = pickle.dumps({"annotations": [{"keypoint": np.ones((1, 2, 17, 2))}]})
    for size in range(len(data)):
        with pytest.raises(DataError):
            load_pickle(write_pickle(data[:size]))


class Trusted(pickle.Unpickler):
    """The library's own machine, held to numpy's names."""

    def find_class(self, module, name):
        assert (module, name) in {
            ("numpy.core.multiarray", "_reconstruct"),
            ("numpy", "ndarray"),
            ("numpy", "dtype"),
            ("_codecs", "encode"),
        }
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


@recordings
def test_the_real_sample_equals_what_the_library_reads():
    with SAMPLE.open("rb") as file:
        truth = Trusted(file).load()
    assert same(plain(load_pickle(SAMPLE)), truth)
    assert len(truth["annotations"]) == 100
