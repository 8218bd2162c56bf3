"""Animations: glTF in its variants, and BVH."""

import base64
import json
import struct

import numpy as np

from corpus.body import BODY, FRAMES, RATE, Case
from corpus.rigs import MIXAMO
from corpus.writers import text_file

PARENT = {"spine": "hip_center", "chest": "spine", "neck": "chest", "head": "neck",
          **{f"{side}_{joint}": parent.format(side=side) for side in ("left", "right") for joint, parent in
             (("clavicle", "chest"), ("shoulder", "{side}_clavicle"), ("elbow", "{side}_shoulder"),
              ("wrist", "{side}_elbow"), ("hip", "hip_center"), ("knee", "{side}_hip"), ("ankle", "{side}_knee"),
              ("foot", "{side}_ankle"))}}  # fmt: skip


def gltf_parts(names=MIXAMO):
    """A skin of nodes in centimetres under an armature with scale 0.01 that is turned, as Blender exports Mixamo.

    Bones are not turned, so translations of the nodes move them.
    """
    joints = list(names.values())
    index = {joint: at + 1 for at, joint in enumerate(joints)}
    half = float(np.sqrt(0.5))
    nodes = [
        {
            "name": "Armature",
            "scale": [0.01] * 3,
            "rotation": [half, 0.0, 0.0, half],
            "children": [index["hip_center"]],
        }
    ]
    times = (np.arange(FRAMES) / RATE).astype("<f4")
    chunks, views, accessors, samplers, channels = [times.tobytes()], [], [], [], []
    views.append({"buffer": 0, "byteOffset": 0, "byteLength": times.nbytes})
    accessors.append({"bufferView": 0, "componentType": 5126, "count": FRAMES, "type": "SCALAR", "min": [0.0],
                      "max": [float(times[-1])]})  # fmt: skip
    for name, joint in names.items():
        local = BODY[joint] - (BODY[PARENT[joint]] if joint in PARENT else 0)
        # the armature turns (x, y, z) into (x, -z, y), so its local space is (x, z, -y)
        values = (np.stack([local[:, 0], local[:, 2], -local[:, 1]], -1) * 100).astype("<f4")
        children = [index[child] for child, parent in PARENT.items() if parent == joint and child in index]
        nodes.append(
            {"name": name, "translation": values[0].tolist(), **({"children": children} if children else {})}
        )
        offset = sum(map(len, chunks))
        chunks.append(values.tobytes())
        views.append({"buffer": 0, "byteOffset": offset, "byteLength": values.nbytes})
        accessors.append(
            {"bufferView": len(views) - 1, "componentType": 5126, "count": FRAMES, "type": "VEC3"}
        )
        samplers.append({"input": 0, "output": len(accessors) - 1, "interpolation": "LINEAR"})
        channels.append(
            {"sampler": len(samplers) - 1, "target": {"node": len(nodes) - 1, "path": "translation"}}
        )
    binary = b"".join(chunks)
    document = {"asset": {"version": "2.0"}, "scene": 0, "scenes": [{"nodes": [0]}], "nodes": nodes,
                "skins": [{"joints": list(range(1, len(nodes)))}], "accessors": accessors, "bufferViews": views,
                "buffers": [{"byteLength": len(binary)}],
                "animations": [{"samplers": samplers, "channels": channels}]}  # fmt: skip
    return document, binary


def step(document, binary):
    """All curves jump from key to key."""
    for sampler in document["animations"][0]["samplers"]:
        sampler["interpolation"] = "STEP"
    return document, binary


def add_values(document, binary, values):
    """Append values to the buffer; return the buffer and the number of their view."""
    document["bufferViews"].append({"buffer": 0, "byteOffset": len(binary), "byteLength": values.nbytes})
    document["buffers"][0]["byteLength"] = len(binary) + values.nbytes
    return binary + values.tobytes(), len(document["bufferViews"]) - 1


def outputs(document, binary):
    """(accessor, its values) of every curve."""
    for sampler in document["animations"][0]["samplers"]:
        accessor = document["accessors"][sampler["output"]]
        view = document["bufferViews"][accessor["bufferView"]]
        yield accessor, np.frombuffer(binary, "<f4", 3 * FRAMES, view["byteOffset"]).reshape(FRAMES, 3)


def spline(document, binary):
    """Cubic splines with tangents of zero, as Blender exports curves that were not baked."""
    for accessor, values in list(outputs(document, binary)):
        keys = np.zeros((FRAMES, 3, 3), "<f4")
        keys[:, 1] = values
        binary, accessor["bufferView"] = add_values(document, binary, keys)
        accessor["count"] = 3 * FRAMES
    for sampler in document["animations"][0]["samplers"]:
        sampler["interpolation"] = "CUBICSPLINE"
    return document, binary


def sparse(document, binary):
    """Accessors without a view whose elements are all replaced."""
    at = np.arange(FRAMES, dtype="<u2")
    for accessor, values in list(outputs(document, binary)):
        binary, places = add_values(document, binary, at)
        binary, parts = add_values(document, binary, values)
        del accessor["bufferView"]
        accessor["sparse"] = {"count": FRAMES, "indices": {"bufferView": places, "componentType": 5123},
                              "values": {"bufferView": parts}}  # fmt: skip
    return document, binary


def matrices(document, binary):
    """The armature has a matrix, column by column, instead of a scale and a rotation."""
    armature = document["nodes"][0]
    del armature["scale"], armature["rotation"]
    armature["matrix"] = [0.01, 0, 0, 0, 0, 0, 0.01, 0, 0, -0.01, 0, 0, 0, 0, 0, 1]
    return document, binary


def glb_file(change=lambda document, binary: (document, binary)):
    return lambda folder: glb(folder, *change(*gltf_parts()))


def glb(folder, document, binary):
    text = json.dumps(document).encode()
    text += b" " * (-len(text) % 4)
    binary += b"\x00" * (-len(binary) % 4)
    size = 28 + len(text) + len(binary)
    data = struct.pack("<4sLL", b"glTF", 2, size) + struct.pack("<L4s", len(text), b"JSON") + text
    (folder / "dance.glb").write_bytes(data + struct.pack("<L4s", len(binary), b"BIN\x00") + binary)
    return folder / "dance.glb"


def gltf_embedded(folder):
    document, binary = gltf_parts()
    document["buffers"][0]["uri"] = (
        "data:application/octet-stream;base64," + base64.b64encode(binary).decode()
    )
    (folder / "dance.gltf").write_text(json.dumps(document))
    return folder / "dance.gltf"


def gltf_beside(folder):
    document, binary = gltf_parts()
    document["buffers"][0]["uri"] = "dance%20data.bin"
    (folder / "dance data.bin").write_bytes(binary)
    (folder / "dance.gltf").write_text(json.dumps(document))
    return folder / "dance.gltf"


def bvh():
    """Mixamo's names in a BVH file whose joints all have position channels, as Blender can export them."""
    lines = ["HIERARCHY"]
    names = {joint: name for name, joint in MIXAMO.items()}
    order = []

    def add(joint, depth):
        order.append(joint)
        pad = "  " * depth
        lines.append(f"{pad}{'ROOT' if depth == 0 else 'JOINT'} {names[joint]}\n{pad}{{\n{pad}  OFFSET 0 0 0")
        lines.append(f"{pad}  CHANNELS 6 Xposition Yposition Zposition Xrotation Yrotation Zrotation")
        for child, parent in PARENT.items():
            if parent == joint:
                add(child, depth + 1)
        lines.append(f"{pad}}}")

    add("hip_center", 0)
    rows = []
    for frame in range(FRAMES):
        row = []
        for joint in order:
            local = BODY[joint][frame] - (BODY[PARENT[joint]][frame] if joint in PARENT else 0)
            row += [*(f"{value * 100:.4f}" for value in local), "0", "0", "0"]
        rows.append(" ".join(row))
    return "\n".join([*lines, "MOTION", f"Frames: {FRAMES}", f"Frame Time: {1 / RATE:.6f}", *rows]) + "\n"


CASES = {
    "GLB": Case("Blender, Mixamo armature", glb_file(), "gltf", rate=RATE),
    "GLB, steps": Case("STEP interpolation", glb_file(step), "gltf", rate=RATE),
    "GLB, cubic splines": Case("CUBICSPLINE interpolation", glb_file(spline), "gltf", rate=RATE),
    "GLB, sparse accessors": Case("sparse accessors", glb_file(sparse), "gltf", rate=RATE),
    "GLB, matrices": Case("a node with a matrix", glb_file(matrices), "gltf", rate=RATE),
    "glTF with embedded buffers": Case("glTF Embedded", gltf_embedded, "gltf", rate=RATE),
    "glTF with a file beside it": Case("glTF Separate", gltf_beside, "gltf", rate=RATE),
    "BVH, Mixamo": Case("Blender, Motion Capture export", text_file("a.bvh", bvh), "bvh", rate=RATE),
}  # fmt: skip
