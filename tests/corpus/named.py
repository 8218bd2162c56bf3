"""JSON files of frames whose joints have names: game engines, sensors and programs of one's own."""

import json

from corpus.body import CORE, FRAMES, RATE, Case, stack
from corpus.rigs import ROKOKO, VICON
from corpus.writers import json_file, npy_file, text_file
from jeanie.skeleton.layout import LAYOUTS


def points_of(names, frame, write=list):
    """A dict name -> point of a frame."""
    return {
        name: write(point.round(5).tolist())
        for name, point in zip(names, stack(names.values())[frame], strict=True)
    }


def xyz(point):
    return dict(zip("xyz", point, strict=True))


def bones(frame):
    """Bones as Unity's JsonUtility writes them: left-handed positions, and rotations."""
    points = points_of(ROKOKO, frame, xyz)
    return [{"boneName": name, "position": point | {"x": -point["x"]}, "rotation": {"x": 0, "y": 0, "z": 0, "w": 1}}
            for name, point in points.items()]  # fmt: skip


CASES = {
    "JSON, lists by name": Case("[{Head: [x, y, z], ...}]", json_file("a.json", lambda: [
        points_of(VICON, f) for f in range(FRAMES)]), "json-joints"),
    "JSON, dicts by name": Case("{fps, frames: [{Head: {x, y, z}}]}", json_file("a.json", lambda: {
        "fps": RATE, "frames": [points_of(VICON, f, xyz) for f in range(FRAMES)]}), "json-joints", rate=RATE),
    "JSON, joints in frames": Case("{frames: [{time, joints: {...}}]}", json_file("a.json", lambda: {"frames": [
        {"time": f / RATE, "joints": points_of(VICON, f, xyz)} for f in range(FRAMES)]}), "json-joints", rate=RATE),
    "JSON, list of joints": Case("[{name, position: {x, y, z}}] per frame", json_file("a.json", lambda: {"frames": [
        {"timestamp": f / RATE, "joints": [{"name": name, "position": point}
                                           for name, point in points_of(VICON, f, xyz).items()]}
        for f in range(FRAMES)]}), "json-joints", rate=RATE),
    "JSON of Unity": Case("JsonUtility: boneName, position, rotation; left-handed", json_file("a.json", lambda: {
        "frames": [{"time": f / RATE, "bones": bones(f)} for f in range(FRAMES)]}), "json-joints",
        options={"mirror": True}, rate=RATE),
    "JSON, names apart": Case("{joint_names, positions: [T, V, 3]}", json_file("a.json", lambda: {
        "fps": RATE, "joint_names": list(VICON), "positions": stack(VICON.values()).tolist()}), "json-joints",
        rate=RATE),
    "JSON lines, by name": Case("one frame per line", text_file("a.jsonl", lambda: "\n".join(
        json.dumps({"t": f / RATE, "joints": points_of(VICON, f)}) for f in range(FRAMES))), "json-joints", rate=RATE),
    "JSON, several bodies": Case("{bodies: [{id, joints}]}", json_file("a.json", lambda: {"frames": [
        {"bodies": [{"id": 72057, "joints": points_of(VICON, f, xyz)}]} for f in range(FRAMES)]}), "json-joints"),
    "JSON, lists with a layout": Case("[T, V, 3] of an own layout", json_file("a.json", lambda: (
        stack(CORE).tolist())), "mediapipe", options={"layout": "core15"}),
    "npy, persons first": Case("[person, frame, joint, 3], as pyskl orders them", npy_file("a.npy", lambda: (
        stack(CORE)[None])), "npy", options={"layout": "core15"}),
    "npy of a body model": Case("HumanML3D: 22 joints of SMPL", npy_file("a.npy", lambda: (
        stack(LAYOUTS["smpl22"].joints))), "npy", options={"layout": "smpl22"}),
    "npy, 3-D COCO": Case("[T, 17, 3] in millimetres", npy_file("a.npy", lambda: (
        1000 * stack(LAYOUTS["coco17"].joints))), "npy", options={"layout": "coco17", "unit": "mm"}),
}  # fmt: skip
