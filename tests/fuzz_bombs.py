"""Files that unpack, parse or claim to be far larger than they are: every reader must stay within its promise.

    python tests/fuzz_bombs.py [NAME ...]

Writes one file at a time, reads it in a forked process, and prints one JSON line per file: its outcome, the peak
resident memory in bytes (of the reading process or of its child process) and the processor time in seconds. The exit
code is 1 if a reader does not stay within its promise.
"""

import io
import json
import os
import pickle
import resource
import signal
import struct
import sys
import tempfile
import zipfile
import zlib
from importlib import import_module
from pathlib import Path

import numpy as np

from jeanie.datasets import read_motion
from jeanie.errors import DataError
from jeanie.skeleton.layout import LAYOUTS

__all__ = ["BOMBS", "is_within_promise", "main"]

SIZE = 2**26  # the largest file that the promise covers
CPU_SECONDS = 10
MEMORY = 2**30


def repeat(text, head=b"", tail=b"", size=SIZE):
    """Return ``head``, then ``text`` as often as it fits into the size, then ``tail``."""
    return head + text * ((size - len(head) - len(tail)) // len(text)) + tail


def pack(members, compression=zipfile.ZIP_DEFLATED):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression, compresslevel=1) as archive:
        for name, parts in members.items():
            with archive.open(name, "w") as file:
                for part in parts:
                    file.write(part)
    return buffer.getvalue()


def npy_header(shape, dtype="<f4"):
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    return b"\x93NUMPY\x01\x00" + (118).to_bytes(2, "little") + text.ljust(117).encode() + b"\n"


def npz_zeros():
    frames = 300_000_000 // 180
    return pack({"joints.npy": [npy_header((frames, 15, 3)), *[bytes(2**24)] * (frames * 180 // 2**24)]})


def npz_limit():
    frames = 2**23 // 15
    buffer = io.BytesIO()
    about = {"format": "jeanie-motion", "version": 1, "layout": LAYOUTS["core15"].to_dict()}
    joints, valid = np.ones((frames, 1, 15, 3), np.float32), np.full((frames * 15 + 7) // 8, 255, np.uint8)
    np.savez_compressed(buffer, joints=joints, valid=valid, about=np.str_(json.dumps(about)))
    return buffer.getvalue()


def npz_hidden():
    """A member that claims few bytes and unpacks to a gigabyte."""
    data = bytearray(pack({"joints.npy": [bytes(2**24)] * 64}))
    place = data.rfind(b"PK\x01\x02") + 24
    data[place : place + 4] = struct.pack("<L", 1000)
    return bytes(data)


def npz_lzma():
    return pack({"joints.npy": [npy_header((2**20 // 180, 15, 3)), bytes(2**20)]}, zipfile.ZIP_LZMA)


def npz_members():
    """A list of a million members without names."""
    end = b"PK\x05\x06" + struct.pack("<HHHHLLH", 0, 0, 9, 9, SIZE - 26, 4, 0)
    return b"PK\x03\x04" + repeat(b"PK\x01\x02" + bytes(42), tail=end, size=SIZE - 4)


def mat_element(kind, content):
    return struct.pack("<LL", kind, len(content)) + content


def mat(rows, columns, compressed, names=(b"skeleton",)):
    """A MATLAB 5 file with matrices of zeros; those above 64 MB are cut off."""
    head = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<HH", 0x0100, 0x4D49)
    flags = mat_element(6, struct.pack("<LL", 6, 0))
    size = mat_element(5, struct.pack("<ll", rows, columns))
    numbers = rows * columns * 8
    elements = []
    for name in names:
        about = flags + size + mat_element(1, name.ljust(8))
        before = struct.pack("<LL", 14, len(about) + 8 + numbers) + about + struct.pack("<LL", 9, numbers)
        packed = zlib.compress(before + bytes(min(numbers, 2**26)), 1)
        elements.append(mat_element(15, packed) if compressed else before)
    return head + b"".join(elements)


def hdf5():
    h5py = import_module("h5py")
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        group = file.create_group("a01_s02_e01")
        group.create_dataset(
            "skeleton", (15, 3, 2**17), "f8", compression="gzip", data=np.zeros((15, 3, 2**17))
        )
        file.create_group("a02_s02_e01").create_dataset(
            "skeleton", (15, 3, 10**9), "f8", chunks=(15, 3, 1000)
        )
    return buffer.getvalue()


def mat73():
    h5py = import_module("h5py")
    buffer = io.BytesIO()
    with h5py.File(buffer, "w", userblock_size=512) as file:
        for index in range(24):
            file.create_dataset(f"x{index}", data=np.zeros(2**22), compression="gzip", chunks=(2**22,))
    return b"MATLAB 7.3 MAT-file".ljust(512) + buffer.getvalue()[512:]


def bvh_limit():
    joint = b"JOINT j%d {\nOFFSET 0 0 0\nCHANNELS 3 Xposition Yposition Zrotation\n}\n"
    frames = 2**19
    head = b"HIERARCHY\nROOT a\n{\nOFFSET 0 0 0\nCHANNELS 3 Xposition Yposition Zposition\n"
    head += b"".join(joint % j for j in range(7)) + b"}\nMOTION\nFrames: %d\nFrame Time: 1\n" % frames
    return head + b"1 2 3 4 5 6 7 8 9 1 2 3 4 5 6 7 8 9 1 2 3 4 5 6\n" * frames


def ntu_bodies():
    joint = b"1 1 1 0 0 0 0 0 0 0 0 2\n" * 25
    body = b"1\n1 0 0 0 0 0 0 0 0 0\n25\n" + joint
    count = (SIZE - 10) // len(body)
    return b"%d\n" % count + body * count


def pickle_encodings():
    """One long text that is encoded again and again."""
    text = b"X" + struct.pack("<L", 2**25) + b"a" * 2**25 + b"q\x00"
    again = b"c_codecs\nencode\nh\x00X\x06\x00\x00\x00latin1\x86R"
    return b"\x80\x02" + text + b"](" + again * 1000 + b"e."


def pickle_array():
    return pickle.dumps({"annotations": [{"keypoint": np.ones((1, 2**19, 40, 3), np.int8)}]}, 4)


def glb_bomb():
    """A GLB file whose accessors claim more than its buffer, many times over the same bytes."""
    nodes = [{"name": str(number)} for number in range(4000)]
    view = {"buffer": 0, "byteOffset": 0, "byteLength": 2**24}
    accessors = [
        {"bufferView": 0, "componentType": 5126, "count": 2**20, "type": "SCALAR"},
        {"bufferView": 0, "componentType": 5126, "count": 2**20, "type": "VEC3"},
    ]
    channels = [{"sampler": 0, "target": {"node": number, "path": "translation"}} for number in range(4000)]
    animation = {"samplers": [{"input": 0, "output": 1}], "channels": channels}
    document = {"nodes": nodes, "bufferViews": [view], "accessors": accessors, "animations": [animation],
                "buffers": [{"byteLength": 2**24}]}  # fmt: skip
    text = json.dumps(document).encode()
    head = struct.pack("<4sLLL4s", b"glTF", 2, 0, len(text), b"JSON") + text
    return head + struct.pack("<L4s", 2**24, b"BIN\x00") + bytes(2**24)


JSON_FRAME = b"[" + b",".join([b"[0.25,0.25,0.25]"] * 20) + b"],"
TRC = (
    b"PathFileType\t4\t(X/Y/Z)\ta.trc\nDataRate\tCameraRate\tNumFrames\tNumMarkers\tUnits\n"
    b"100\t100\t9\t1\tmm\nFrame#\tTime\tHead\t\t\n\t\tX1\tY1\tZ1\n"
)
BVH = (
    b"HIERARCHY\nROOT a\n{\n OFFSET 0 0 0\n CHANNELS 3 Xposition Yposition Zposition\n}\n"
    b"MOTION\nFrames: %d\nFrame Time: 1\n"
)
# name of a file -> its content; those named "limit" are just within the limits of their readers
BOMBS = {
    "limit.npz": npz_limit,
    "limit.json": lambda: repeat(JSON_FRAME, b'{"skeletons": [', JSON_FRAME[:-1] + b"]}", size=40_000_000),
    "limit.skeleton": ntu_bodies,
    "limit.bvh": bvh_limit,
    "limit.txt": lambda: repeat(b"1 2 3 4\n", size=8 * (2**22 - 4)),
    "limit.csv": lambda: repeat(b"1,2,3\n", b"h_x,h_y,h_z\n", size=6 * 2**20),
    "zeros.npz": npz_zeros,
    "hidden.npz": npz_hidden,
    "lzma.npz": npz_lzma,
    "members.npz": npz_members,
    "compressed.mat": lambda: mat(45, 2**22, True),
    "allowed.mat": lambda: mat(45, 2**17, True),
    "variables.mat": lambda: mat(1024, 8192, True, [b"x%d" % number for number in range(12)]),
    "claimed.mat": lambda: mat(45, 2**30 // 360, False),
    "version73.mat": mat73,
    "containers.hdf5": hdf5,
    "tokens.skeleton": lambda: repeat(b"12 "),
    "frames.skeleton": lambda: repeat(b"0\n", b"300000\n"),
    "long.skeleton": lambda: repeat(b"1"),
    "claimed.npy": lambda: npy_header((10**9, 33, 3)) + bytes(1000),
    "zeros.npy": lambda: npy_header((2**26 // 396, 33, 3)) + bytes(2**26 // 396 * 396),
    "elements.mvnx": lambda: repeat(b"<a/>", b"<mvnx>", b"</mvnx>"),
    "deep.mvnx": lambda: repeat(b"<a>", b"<mvnx>"),
    "text.mvnx": lambda: repeat(b"1 ", b'<mvnx><subject><segment label="a"/><frame><position>'),
    "entity.mvnx": lambda: b'<!DOCTYPE a [<!ENTITY b "' + b"c" * 2**20 + b'">]><mvnx>' + b"&b;" * 9999 + b"</mvnx>",
    "frames.mvnx": lambda: repeat(
        b"<frame><position>1 2 3</position></frame>", b'<mvnx><subject><segment label="a"/>', b"</subject></mvnx>"
    ),
    "claimed.glb": glb_bomb,
    "base64.gltf": lambda: repeat(b"AAAA", b'{"buffers":[{"uri":"data:,', b'"}],"nodes":[],"animations":[{}]}'),
    "long.csv": lambda: repeat(b"1,a,2,3,4\n", b"frame,joint,x,y,z\n"),
    "joints.csv": lambda: b"frame,joint,x,y,z\n" + b"".join(b"1,%d,2,3,4\n" % n for n in range(2**21)),
    "lines.jsonl": lambda: repeat(b'{"landmark":[]}\n'),
    "lists.json": lambda: repeat(b"[],", b'{"people": [', b"0]}"),
    "dicts.json": lambda: repeat(b'{"a":0},', b'{"skeletons": [', b"0]}"),
    "numbers.json": lambda: repeat(b"1.5,", b'{"skeletons": [', b"0]}"),
    "points.json": lambda: repeat(b"[0.1,0.22,0.33],", b'{"skeletons": [[', b"[0,0,0]]]}"),
    "floats.json": lambda: repeat(b"1.5,", b'{"skeletons": [', b"0]}", size=11 * 2**22),
    "deep.json": lambda: repeat(b"[", b'{"skeletons":'),
    "digits.json": lambda: repeat(b"9", b'{"skeletons":'),
    "blank.txt": lambda: repeat(b"\n", b"1 2 3\n"),
    "rows.txt": lambda: repeat(b"1 2 3\n"),
    "wide.txt": lambda: repeat(b"12 "),
    "a_world.txt": lambda: repeat(b"1 2 3 4\n"),
    "pairs.txt": lambda: repeat(b"0\n", b"400000 20\n"),
    "rows.csv": lambda: repeat(b"1,2,3\n", b"h_x,h_y,h_z\n"),
    "empty.csv": lambda: repeat(b",,1\n", b"h_x,h_y,h_z\n"),
    "wide.csv": lambda: repeat(b",", b"h_x,h_y,h_z\n"),
    "columns.csv": lambda: repeat(b"h_x,"),
    "quotes.csv": lambda: repeat(b'"\n', b'h_x,h_y,h_z\n"'),
    "rows.trc": lambda: repeat(b"1\t2\t3\t4\t5\n", TRC),
    "empty.trc": lambda: repeat(b"1\t\t\t\t\n", TRC),
    "rows.bvh": lambda: repeat(b"1 2 3\n", BVH % ((SIZE - 110) // 6)),
    "braces.bvh": lambda: repeat(b"{", b"HIERARCHY\n"),
    "joints.bvh": lambda: repeat(b"JOINT a\n{\n", b"HIERARCHY\nROOT a\n{\n"),
    "lists.pkl": lambda: repeat(b"]", b"\x80\x02", b"."),
    "memo.pkl": lambda: repeat(b"\x94", b"\x80\x04N", b"."),
    "encodings.pkl": pickle_encodings,
    "array.pkl": pickle_array,
}  # fmt: skip


def read_in_fork(path):
    """Return outcome, peak memory and processor time of ``read_motion`` in a forked process."""
    receive, send = os.pipe()
    process = os.fork()
    if not process:
        resource.setrlimit(resource.RLIMIT_CPU, (2 * CPU_SECONDS, 2 * CPU_SECONDS))
        try:
            outcome = f"Motion of {len(read_motion(path))} frames"
        except DataError as error:
            outcome = f"DataError: {error}"
        except BaseException as error:
            outcome = f"{type(error).__name__}: {error}"
        stop_child()
        os.write(send, outcome[:1000].encode())
        os._exit(0)
    os.close(send)
    _, status, usage = os.wait4(process, 0)
    with os.fdopen(receive, "rb") as file:
        outcome = file.read().decode()
    code = os.waitstatus_to_exitcode(status)
    if code:
        outcome = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    return {"outcome": outcome, "peak": usage.ru_maxrss * 1024, "seconds": usage.ru_utime + usage.ru_stime}


def stop_child():
    """End the child process of native parsers, so that its memory and time are counted."""
    import_module("jeanie.datasets.formats.isolated")._stop_child()


def is_within_promise(report):
    """Return whether a file ended in a motion, or in an error that names the file, within the limits."""
    outcome = report["outcome"]
    is_named = outcome.startswith("DataError: ") and report["name"] in outcome
    is_in_limits = report["peak"] <= MEMORY and report["seconds"] <= CPU_SECONDS
    return report["size"] <= SIZE and is_in_limits and (is_named or outcome.startswith("Motion of "))


def main(names):
    """Read the named bombs, by default all of them. Return 0 if all readers stay within their promise, else 1."""
    reports = []
    with tempfile.TemporaryDirectory() as folder:
        for name in names or BOMBS:
            path = Path(folder) / name
            path.write_bytes(BOMBS[name]())
            reports.append({"name": name, "size": path.stat().st_size, **read_in_fork(path)})
            sys.stdout.write(json.dumps(reports[-1]) + "\n")
            sys.stdout.flush()
            path.unlink()
    return 0 if all(map(is_within_promise, reports)) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
