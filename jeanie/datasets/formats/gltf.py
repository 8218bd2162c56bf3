"""glTF 2.0 and GLB: skeletal animations, as game and avatar programs export them."""

import base64
import binascii
import json
import struct
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from jeanie.datasets.formats.build import make_motion
from jeanie.datasets.formats.files import get_point_limit, read_bytes
from jeanie.datasets.formats.gltf_curves import Curve, sample_curve
from jeanie.datasets.formats.json_files import expect_type
from jeanie.datasets.joint_names import MAX_JOINTS, find_hierarchy_layout
from jeanie.errors import DataError
from jeanie.skeleton.layout import Layout
from jeanie.skeleton.motion import Motion

__all__ = ["read_gltf"]

Floats = NDArray[np.float64]
MAX_GLTF_BYTES = 2**28
MAX_JSON_CHUNK = 2**25
MAX_NODES = 4096
_RATE = 30.0  # frames per second that a curve is sampled at if its keys are not evenly spaced
_TYPES = {5120: "b", 5121: "B", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}
_WIDTHS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT2": 4, "MAT3": 9, "MAT4": 16}
_CHANNELS = {"translation": 3, "rotation": 4, "scale": 3}


def read_gltf(
    path: str | Path, *, layout: Layout | None = None, aliases: Mapping[str, str] | None = None
) -> Motion:
    """Read the joints of the first skin (without a skin, the animated nodes) moved by the first animation.

    glTF prescribes metres, y up, right-handed. Curves are sampled at their own keys if these are evenly spaced, else 30
    times per second. Buffers are inside the file, or in files beside it.
    """
    path = Path(path)
    document, binary = _read_document(path)
    try:
        return _build_motion(path, _Asset(path, document, binary), layout, aliases)
    except (KeyError, TypeError, IndexError, ValueError, AttributeError, OverflowError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path}: not a valid glTF file: {type(error).__name__} {str(error)[:100]}") from None


def _build_motion(
    path: Path, asset: "_Asset", layout: Layout | None, aliases: Mapping[str, str] | None
) -> Motion:
    nodes = expect_type(path, asset.document.get("nodes"), list, "nodes")
    animations = asset.document.get("animations") or []
    if not animations:
        raise DataError(f"{path}: contains no animation; export it with its animation")
    if len(nodes) > MAX_NODES:
        raise DataError(f"{path}: {len(nodes)} nodes; at most {MAX_NODES} are read")
    parents = _find_parents(path, nodes)
    curves = _list_curves(path, asset, animations[0], len(nodes))
    joints = _list_joints(path, asset.document, curves, parents)
    times, rate = _choose_times(path, curves, len(nodes))
    positions = _compute_positions(nodes, parents, curves, times)[:, joints]
    names = [str(nodes[joint].get("name") or f"node_{joint}") for joint in joints]
    own_parents = _find_parents_within(joints, parents)
    file_layout, order = find_hierarchy_layout(
        names, own_parents, [False] * len(names), layout=layout, path=path, aliases=aliases, kind="gltf"
    )
    with np.errstate(over="ignore", invalid="ignore"):  # an overflow is a missing joint
        selected = positions[:, order].astype(np.float32)
    valid = np.isfinite(selected).all(-1) & (order >= 0)
    return make_motion(path, selected[:, None], file_layout, valid=valid[:, None], rate=rate)


def _read_document(path: Path) -> tuple[dict[str, Any], bytes]:
    """Return the JSON of a glTF or GLB file, and the binary chunk of the latter."""
    data = read_bytes(path, MAX_GLTF_BYTES)
    text, binary = data, b""
    if data[:4] == b"glTF":
        if len(data) < 20 or struct.unpack_from("<L", data, 4)[0] != 2:
            raise DataError(f"{path}: not a GLB file of version 2; export glTF 2.0")
        size = struct.unpack_from("<L", data, 12)[0]
        if data[16:20] != b"JSON" or 20 + size > len(data):
            raise DataError(f"{path}: a GLB file that is cut short or damaged")
        text = data[20 : 20 + size]
        if data[24 + size : 28 + size] == b"BIN\x00":
            binary = data[28 + size : 28 + size + struct.unpack_from("<L", data, 20 + size)[0]]
    is_embedded = data[:4] != b"glTF"  # a buffer may be inside the JSON as base64: one long string
    if len(text) > (MAX_GLTF_BYTES if is_embedded else MAX_JSON_CHUNK) or text.count(b",") > 2**22:
        raise DataError(f"{path}: {len(text)} bytes of JSON, too much for one recording")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not glTF: {str(error)[:120]}") from None
    return expect_type(path, document, dict, "the file"), binary


class _Asset:
    """The accessors of a document, each checked against the size of its buffer."""

    def __init__(self, path: Path, document: dict[str, Any], binary: bytes) -> None:
        self.path, self.document, self._binary = path, document, binary
        self._buffers: dict[int, bytes] = {}

    def read(self, index: int, max_values: int) -> Floats:
        """Return accessor ``index`` as numbers [element, width]."""
        accessor = self.document["accessors"][index]
        width, count = _WIDTHS[accessor["type"]], int(accessor["count"])
        if not 0 < count * width <= max_values:
            raise DataError(
                f"{self.path}: accessor {index} has {count} elements; at most {max_values} numbers"
            )
        dtype = np.dtype(_TYPES[accessor["componentType"]])
        values = np.zeros((count, width))
        if "bufferView" in accessor:
            start = int(accessor.get("byteOffset", 0))
            view = self._read_view(accessor["bufferView"], start, dtype, count, width)
            with np.errstate(invalid="ignore"):  # NumPy warns of signalling NaNs
                values = view.astype(np.float64)
        if "sparse" in accessor:
            self._replace_sparse(index, accessor["sparse"], values, dtype)
        if accessor.get("normalized") and dtype.kind in "iu":
            values = np.maximum(values / np.iinfo(dtype).max, -1.0)
        return values

    def _read_view(
        self, index: int, offset: int, dtype: np.dtype[Any], count: int, width: int
    ) -> NDArray[Any]:
        """Return [count, width] values of a buffer view."""
        view = self.document["bufferViews"][index]
        buffer = self._read_buffer(view.get("buffer", 0))
        stride = int(view.get("byteStride") or dtype.itemsize * width)
        start = int(view.get("byteOffset", 0)) + offset
        stop = start + max(0, count - 1) * stride + dtype.itemsize * width
        if count < 1 or start < 0 or stride < dtype.itemsize or stop > len(buffer):
            raise DataError(f"{self.path}: {count} elements beyond the buffer of view {index}")
        return np.ndarray((count, width), dtype, buffer, start, (stride, dtype.itemsize))

    def _replace_sparse(self, index: int, sparse: Any, values: Floats, dtype: np.dtype[Any]) -> None:
        """Replace the elements of an accessor that are stored apart, by their indices."""
        count, places, parts = int(sparse["count"]), sparse["indices"], sparse["values"]
        if not 0 < count <= len(values):
            raise DataError(f"{self.path}: accessor {index} replaces {count} of {len(values)} elements")
        kind = np.dtype(_TYPES[places["componentType"]])
        at = self._read_view(places["bufferView"], int(places.get("byteOffset", 0)), kind, count, 1)[:, 0]
        if kind.kind != "u" or int(at.max()) >= len(values):
            raise DataError(f"{self.path}: accessor {index} replaces elements that do not exist")
        start = int(parts.get("byteOffset", 0))
        values[at] = self._read_view(parts["bufferView"], start, dtype, count, values.shape[1])

    def _read_buffer(self, index: int) -> bytes:
        if index not in self._buffers:
            self._buffers[index] = self._load_buffer(index)
        return self._buffers[index]

    def _load_buffer(self, index: int) -> bytes:
        uri = self.document["buffers"][index].get("uri")
        if uri is None:
            return self._binary
        if uri.startswith("data:"):
            try:
                return base64.b64decode(uri.partition(",")[2], validate=True)
            except (binascii.Error, ValueError) as error:
                raise DataError(f"{self.path}: buffer {index} is not base64: {error}") from None
        name = PurePosixPath(unquote(uri))
        if name.is_absolute() or ".." in name.parts or "://" in uri or "\\" in uri:
            raise DataError(f"{self.path}: buffer {uri[:60]!r} is not a file beside this one")
        return read_bytes(self.path.parent / name, MAX_GLTF_BYTES)


def _find_parents(path: Path, nodes: list[Any]) -> list[int]:
    parents = [-1] * len(nodes)
    for index, node in enumerate(nodes):
        for child in node.get("children", ()):
            if not 0 <= child < len(nodes) or parents[child] >= 0 or child == index:
                raise DataError(f"{path}: node {child} has two parents, or does not exist")
            parents[child] = index
    for index in range(len(nodes)):
        above, steps = index, 0
        while above >= 0 and steps <= len(nodes):
            above, steps = parents[above], steps + 1
        if above >= 0:
            raise DataError(f"{path}: the nodes form a cycle through node {index}")
    return parents


def _list_curves(path: Path, asset: _Asset, animation: Any, nodes: int) -> dict[tuple[int, str], Curve]:
    """Return the curves of an animation by node and channel."""
    limit = 4 * get_point_limit(path)
    curves: dict[tuple[int, str], Curve] = {}
    keys: dict[int, Floats] = {}
    total = 0
    for channel in animation["channels"]:
        target, sampler = channel["target"], animation["samplers"][channel["sampler"]]
        node, kind = target.get("node"), target.get("path")
        if kind not in _CHANNELS or node is None or not 0 <= node < nodes:
            continue  # morph targets move no joint
        if sampler["input"] not in keys:
            keys[sampler["input"]] = asset.read(sampler["input"], limit)[:, 0]
        times, values = keys[sampler["input"]], asset.read(sampler["output"], limit)
        total += values.size
        way = sampler.get("interpolation", "LINEAR")
        rows = 3 * len(times) if way == "CUBICSPLINE" else len(times)
        if values.shape != (rows, _CHANNELS[kind]) or total > limit or not np.isfinite(times).all():
            raise DataError(
                f"{path}: {kind} of node {node} has {values.shape[0]} values for {len(times)} keys"
            )
        if (np.diff(times) < 0).any():
            raise DataError(f"{path}: keys of {kind} of node {node} are not in order")
        curves[node, kind] = Curve(times, values, way)
    if not curves:
        raise DataError(f"{path}: its animation moves no joints")
    return curves


def _list_joints(
    path: Path, document: dict[str, Any], curves: Mapping[tuple[int, str], Curve], parents: list[int]
) -> list[int]:
    """Return the joints of the first skin, else the animated nodes, parents first."""
    skins = document.get("skins") or []
    joints = set(skins[0]["joints"]) if skins else {node for node, _ in curves}
    if not joints <= set(range(len(parents))) or len(joints) > MAX_JOINTS:
        raise DataError(f"{path}: {len(joints)} joints, or joints that do not exist")
    return sorted(joints, key=lambda joint: (_count_ancestors(joint, parents), joint))


def _count_ancestors(joint: int, parents: list[int]) -> int:
    count = 0
    while parents[joint] >= 0:
        joint, count = parents[joint], count + 1
    return count


def _find_parents_within(joints: list[int], parents: list[int]) -> list[int]:
    """Return for each joint the place of its nearest ancestor among the joints, -1 without one."""
    place = {joint: index for index, joint in enumerate(joints)}
    own_parents = []
    for joint in joints:
        above = parents[joint]
        while above >= 0 and above not in place:
            above = parents[above]
        own_parents.append(place.get(above, -1))
    return own_parents


def _choose_times(
    path: Path, curves: Mapping[tuple[int, str], Curve], nodes: int
) -> tuple[Floats, float | None]:
    """Return the times to sample at and their rate: those of the densest curve if it is even, else 30 per second."""
    keys = max((curve.times for curve in curves.values()), key=len)
    last = max(float(curve.times[-1]) for curve in curves.values())
    steps = np.diff(keys)
    step = float(np.median(steps)) if len(steps) else 0.0
    if (
        len(steps)
        and step > 1e-4
        and np.allclose(steps, step, rtol=0.02, atol=1e-4)
        and keys[-1] >= last - step
    ):
        times, rate = keys, round(1 / step, 2)
    else:
        if not 0 <= last < 1e6:
            raise DataError(f"{path}: an animation of {last:g} seconds; cut it into clips")
        times, rate = np.arange(int(last * _RATE) + 1) / _RATE, _RATE
    if 2 * len(times) * nodes > get_point_limit(path):
        raise DataError(
            f"{path}: {len(times)} frames x {nodes} nodes is more than a glTF file may hold; cut it"
        )
    return times, rate if len(times) > 1 else None


@np.errstate(over="ignore", invalid="ignore")  # an overflow is a missing joint
def _compute_positions(
    nodes: list[Any], parents: list[int], curves: Mapping[tuple[int, str], Curve], times: Floats
) -> Floats:
    """Compute the positions [frame, node, 3] of all nodes: M[node] = M[parent] T R S."""
    order = sorted(range(len(nodes)), key=lambda node: _count_ancestors(node, parents))
    positions = np.zeros((len(times), len(nodes), 3))
    linear: dict[int, Floats] = {}
    waiting = [sum(1 for parent in parents if parent == node) for node in range(len(nodes))]
    for node in order:
        shift, matrix = _compute_local(nodes[node], node, curves, times)
        parent = parents[node]
        if parent >= 0:
            above = linear[parent]
            shift = positions[:, parent] + np.einsum("fab,fb->fa", above, shift)
            matrix = above @ matrix
            waiting[parent] -= 1
            if not waiting[parent]:
                del linear[parent]
        positions[:, node] = shift
        if waiting[node]:
            linear[node] = matrix
    return positions


def _compute_local(
    node: Any, index: int, curves: Mapping[tuple[int, str], Curve], times: Floats
) -> tuple[Floats, Floats]:
    """Return the local shift [frame, 3] and the linear part [frame, 3, 3] of a node."""
    if "matrix" in node and not any((index, kind) in curves for kind in _CHANNELS):
        transform = np.array(node["matrix"], np.float64).reshape(4, 4).T
        return np.broadcast_to(transform[:3, 3], (len(times), 3)), np.broadcast_to(
            transform[:3, :3], (len(times), 3, 3)
        )
    defaults = {"translation": [0.0] * 3, "rotation": [0.0, 0.0, 0.0, 1.0], "scale": [1.0] * 3}
    values = {}
    for kind, width in _CHANNELS.items():
        curve = curves.get((index, kind))
        fixed = np.array(node.get(kind, defaults[kind]), np.float64).reshape(width)
        values[kind] = (
            np.broadcast_to(fixed, (len(times), width))
            if curve is None
            else sample_curve(curve, times, is_rotation=kind == "rotation")
        )
    return values["translation"], _make_rotation_matrices(values["rotation"]) * values["scale"][:, None, :]


def _make_rotation_matrices(quaternions: Floats) -> Floats:
    """Return rotations [frame, 3, 3] of quaternions (x, y, z, w)."""
    x, y, z, w = np.moveaxis(quaternions / np.linalg.norm(quaternions, axis=-1, keepdims=True), -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), -1, 0)
