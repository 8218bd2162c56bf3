"""One short movement as every program writes it: small files, made here, for readers, fuzzing and the docs.

``BODY`` has the true positions of all joints in metres, y up, seen by a camera that looks along +z. Each entry of
``CASES`` writes them to a file as its origin does, and says how the file is read.
"""

import base64
import gzip
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

import numpy as np

from jeanie.skeleton.layout import LAYOUTS

__all__ = ["BODY", "CASES", "RATE", "Case"]

FRAMES, RATE = 6, 30.0
_MIDDLE = {"hip_center": (0.95, 3.0), "spine": (1.15, 3.0), "torso": (1.15, 3.0), "chest": (1.3, 3.0),
           "spine_shoulder": (1.4, 3.0), "neck": (1.45, 3.0), "head": (1.62, 3.0), "nose": (1.6, 2.9)}  # fmt: skip
_SIDED = {  # x of the right side (the left one is mirrored), y, z
    "eye": (0.03, 1.64, 2.92), "eye_inner": (0.02, 1.64, 2.91), "eye_outer": (0.045, 1.64, 2.93),
    "ear": (0.08, 1.62, 3.0), "mouth": (0.025, 1.56, 2.92), "clavicle": (0.05, 1.42, 3.0),
    "shoulder": (0.2, 1.4, 3.0), "elbow": (0.25, 1.15, 3.02), "wrist": (0.27, 0.9, 2.97), "hand": (0.27, 0.82, 2.95),
    "hand_tip": (0.27, 0.76, 2.94), "thumb": (0.24, 0.82, 2.92), "pinky": (0.29, 0.8, 2.96),
    "index": (0.26, 0.78, 2.94),
    "hip": (0.1, 0.93, 3.0), "knee": (0.11, 0.5, 2.97), "ankle": (0.12, 0.08, 3.02), "heel": (0.12, 0.04, 3.06),
    "foot": (0.12, 0.03, 2.85), "big_toe": (0.12, 0.03, 2.85), "small_toe": (0.16, 0.03, 2.88),
}  # fmt: skip
_WAVING = (
    "right_elbow",
    "right_wrist",
    "right_hand",
    "right_hand_tip",
    "right_thumb",
    "right_pinky",
    "right_index",
)


def _make_body():
    """The right arm waves and the whole body sways."""
    body = {joint: np.tile(np.array((0.0, *place)), (FRAMES, 1)) for joint, place in _MIDDLE.items()}
    for joint, (x, y, z) in _SIDED.items():
        for side, sign in (("left", -1), ("right", 1)):
            body[f"{side}_{joint}"] = np.tile(np.array((sign * x, y, z)), (FRAMES, 1))
    phase = np.linspace(0, 2, FRAMES)
    for number, joint in enumerate(_WAVING):
        body[joint] = body[joint] + np.stack(
            [0.03 * number * np.sin(phase), 0.05 * number * phase, 0 * phase], -1
        )
    sway = np.stack([0.02 * np.sin(phase), 0 * phase, 0.01 * phase], -1)
    return {joint: positions + sway for joint, positions in body.items()}


BODY = _make_body()


@dataclass(frozen=True)
class Case:
    """A way to write a movement.

    ``write`` makes the file in a folder and returns its path. ``space`` is "metres", "hips" (metres around the hips),
    "relative" or "px". ``options`` are those of ``read_motion``. ``tolerance`` is in the unit of the space.
    """

    origin: str
    write: Callable[[Path], Path]
    form: str
    space: str = "metres"
    options: dict = field(default_factory=dict)
    tolerance: float = 2e-3
    rate: float | None = None
    needs: str | None = None


def stack(joints, body=None):
    """Positions [frame, joint, 3]."""
    return np.stack([(body or BODY)[joint] for joint in joints], 1)


MP = LAYOUTS["mediapipe33"].joints
COCO = LAYOUTS["coco17"].joints
HALPE = LAYOUTS["halpe26"].joints
# MediaPipe's own names in the order of its landmarks (mediapipe.solutions.pose.PoseLandmark)
MP_NAMES = [
    "NOSE", "LEFT_EYE_INNER", "LEFT_EYE", "LEFT_EYE_OUTER", "RIGHT_EYE_INNER", "RIGHT_EYE", "RIGHT_EYE_OUTER",
    "LEFT_EAR", "RIGHT_EAR", "MOUTH_LEFT", "MOUTH_RIGHT", "LEFT_SHOULDER", "RIGHT_SHOULDER", "LEFT_ELBOW",
    "RIGHT_ELBOW", "LEFT_WRIST", "RIGHT_WRIST", "LEFT_PINKY", "RIGHT_PINKY", "LEFT_INDEX", "RIGHT_INDEX", "LEFT_THUMB",
    "RIGHT_THUMB", "LEFT_HIP", "RIGHT_HIP", "LEFT_KNEE", "RIGHT_KNEE", "LEFT_ANKLE", "RIGHT_ANKLE", "LEFT_HEEL",
    "RIGHT_HEEL", "LEFT_FOOT_INDEX", "RIGHT_FOOT_INDEX",
]  # fmt: skip


def world(joints=MP):
    """World landmarks: metres around the middle of the hips, x to the right of the image, y down."""
    hips = (BODY["left_hip"] + BODY["right_hip"])[:, None] / 2
    return (stack(joints) - hips) * [-1, -1, 1]


def relative(joints=MP):
    """Image landmarks: parts of a square image of 2 m, y down; z like x, from the hips."""
    hips = (BODY["left_hip"] + BODY["right_hip"])[:, None] / 2
    return np.concatenate([0.5 - stack(joints)[..., :1] / 2, 0.95 - stack(joints)[..., 1:2] / 2,
                           (stack(joints) - hips)[..., 2:] / 2], -1)  # fmt: skip


def pixels(joints):
    """Pixels of an image of 1000 x 1000: x right, y down."""
    return relative(joints)[..., :2] * 1000


def with_values(points, *values):
    """Append constant values, such as a visibility, to every point."""
    more = [np.full((*points.shape[:-1], 1), value) for value in values]
    return np.concatenate([points, *more], -1)


def dicts(points, **more):
    """Landmarks of a frame as dicts."""
    return [{"x": x, "y": y, "z": z, "visibility": 0.98, **more} for x, y, z in points.tolist()]


def text_file(name, make):
    def write(folder):
        (folder / name).write_text(make(), encoding="utf-8")
        return folder / name

    return write


def json_file(name, make):
    return text_file(name, lambda: json.dumps(make()))


def npy_file(name, make):
    def write(folder):
        np.save(folder / name, make())
        return folder / name

    return write


def bytes_file(name, make):
    def write(folder):
        (folder / name).write_bytes(make())
        return folder / name

    return write


def npz_file(name, **make):
    def write(folder):
        np.savez(folder / name, **{key: array() for key, array in make.items()})
        return folder / name

    return write


def table(titles, rows, separator=","):
    lines = [separator.join(titles)] if titles else []
    return "\n".join([*lines, *(separator.join(map(str, row)) for row in rows)]) + "\n"


def wide(names, points, title="{name}_{axis}", axes="xyz", before=(), scale=1.0):
    """A table with one row per frame and a column for each axis of each name."""
    titles = [title.format(name=name, axis=axis) for name in names for axis in axes]
    rows = [
        [*(value(frame) for _, value in before), *np.round(points[frame].ravel() * scale, 6).tolist()]
        for frame in range(len(points))
    ]
    return table([*(name for name, _ in before), *titles], rows)


def long(names, points):
    rows = [
        [f, name, *np.round(points[f, j], 6).tolist(), 0.98]
        for f in range(FRAMES)
        for j, name in enumerate(names)
    ]
    return table(["frame", "landmark", "x", "y", "z", "visibility"], rows)


TIME = ("time", lambda frame: round(frame / RATE, 6))


def rig(names, **options):
    """A CSV table whose columns carry the names of a rig: name in the file -> joint."""
    return lambda: wide(list(names), stack(names.values()), before=[TIME], **options)


SIDES = (("left", "Left", "L", "l"), ("right", "Right", "R", "r"))


def name_sides(template, joint):
    """Names of both sides: {Side} is Left, {S} is L, {s} is l."""
    return {
        template.format(Side=long_, S=upper, s=lower): f"{side}_{joint}"
        for side, long_, upper, lower in SIDES
    }


def names_of(middle, **parts):
    """A dict name -> joint from middle joints and sided templates."""
    found = dict(middle)
    for joint, template in parts.items():
        found |= name_sides(template, joint)
    return found


MIXAMO = names_of(
    {"mixamorig:Hips": "hip_center", "mixamorig:Spine": "spine", "mixamorig:Spine1": "chest", "mixamorig:Neck": "neck",
     "mixamorig:Head": "head"},
    clavicle="mixamorig:{Side}Shoulder", shoulder="mixamorig:{Side}Arm", elbow="mixamorig:{Side}ForeArm",
    wrist="mixamorig:{Side}Hand", hip="mixamorig:{Side}UpLeg", knee="mixamorig:{Side}Leg", ankle="mixamorig:{Side}Foot",
    foot="mixamorig:{Side}ToeBase",
)  # fmt: skip
VICON = names_of(
    {"Waist": "hip_center", "Torso": "torso", "Neck": "neck", "Head": "head"}, clavicle="{S}Collar",
    shoulder="{S}UpperArm", elbow="{S}LowerArm", wrist="{S}Hand", hip="{S}UpperLeg", knee="{S}LowerLeg",
    ankle="{S}Foot", foot="{S}Toes",
)  # fmt: skip
OPTITRACK = names_of(
    {"Hip": "hip_center", "Ab": "spine", "Chest": "chest", "Neck": "neck", "Head": "head"}, clavicle="{S}Shoulder",
    shoulder="{S}UArm", elbow="{S}FArm", wrist="{S}Hand", hip="{S}Thigh", knee="{S}Shin", ankle="{S}Foot",
    foot="{S}Toe",
)  # fmt: skip
XSENS = names_of(
    {"Pelvis": "hip_center", "L3": "spine", "T8": "chest", "Neck": "neck", "Head": "head"}, clavicle="{Side}Shoulder",
    shoulder="{Side}UpperArm", elbow="{Side}ForeArm", wrist="{Side}Hand", hip="{Side}UpperLeg", knee="{Side}LowerLeg",
    ankle="{Side}Foot", foot="{Side}Toe",
)  # fmt: skip
ROKOKO = names_of(
    {"Hips": "hip_center", "Spine": "spine", "Chest": "chest", "Neck": "neck", "Head": "head"},
    clavicle="{Side}Shoulder", shoulder="{Side}Arm", elbow="{Side}Forearm", wrist="{Side}Hand", hip="{Side}Thigh",
    knee="{Side}Shin", ankle="{Side}Foot", foot="{Side}Toe",
)  # fmt: skip
BLENDER = names_of(
    {"hips": "hip_center", "spine": "spine", "chest": "chest", "neck": "neck", "head": "head"},
    clavicle="shoulder.{S}", shoulder="upper_arm.{S}", elbow="forearm.{S}", wrist="hand.{S}", hip="thigh.{S}",
    knee="shin.{S}", ankle="foot.{S}", foot="toe.{S}",
)  # fmt: skip
UNREAL = names_of(
    {"pelvis": "hip_center", "spine_01": "spine", "spine_02": "chest", "neck_01": "neck", "head": "head"},
    clavicle="clavicle_{s}", shoulder="upperarm_{s}", elbow="lowerarm_{s}", wrist="hand_{s}", hip="thigh_{s}",
    knee="calf_{s}", ankle="foot_{s}", foot="ball_{s}",
)  # fmt: skip
BIPED = names_of(
    {"Bip01 Pelvis": "hip_center", "Bip01 Spine": "spine", "Bip01 Spine1": "chest", "Bip01 Neck": "neck",
     "Bip01 Head": "head"},
    clavicle="Bip01 {S} Clavicle", shoulder="Bip01 {S} UpperArm", elbow="Bip01 {S} Forearm", wrist="Bip01 {S} Hand",
    hip="Bip01 {S} Thigh", knee="Bip01 {S} Calf", ankle="Bip01 {S} Foot", foot="Bip01 {S} Toe0",
)  # fmt: skip
ASF = names_of(
    {"root": "hip_center", "lowerback": "spine", "thorax": "chest", "lowerneck": "neck", "head": "head"},
    shoulder="{s}humerus", elbow="{s}radius", wrist="{s}wrist", hip="{s}femur", knee="{s}tibia", ankle="{s}foot",
    foot="{s}toes",
)  # fmt: skip
KINECT = names_of(
    {"SpineBase": "hip_center", "SpineMid": "spine", "SpineShoulder": "spine_shoulder", "Neck": "neck", "Head": "head"},
    shoulder="Shoulder{Side}", elbow="Elbow{Side}", wrist="Wrist{Side}", hand="Hand{Side}", hip="Hip{Side}",
    knee="Knee{Side}", ankle="Ankle{Side}", foot="Foot{Side}", hand_tip="HandTip{Side}", thumb="Thumb{Side}",
)  # fmt: skip
OWN = {"Kopf": "head", "Hals": "neck", "Rumpf": "torso", "SchulterL": "left_shoulder", "EllbogenL": "left_elbow",
       "HandL": "left_hand", "SchulterR": "right_shoulder", "EllbogenR": "right_elbow", "HandR": "right_hand",
       "HuefteL": "left_hip", "KnieL": "left_knee", "FussL": "left_foot", "HuefteR": "right_hip",
       "KnieR": "right_knee", "FussR": "right_foot"}  # fmt: skip


def z_up(points):
    """The same points with z up: (x, y, z) -> (x, -z, y)."""
    return np.stack([points[..., 0], -points[..., 2], points[..., 1]], -1)


def own_layout(name, dump):
    """A CSV table with names of its own in centimetres, z up, and the layout file that declares them."""

    def write(folder):
        (folder / name).write_text(dump({"name": "lab", "unit": "cm", "up": "z", "aliases": OWN}))
        path = folder / "clip.csv"
        path.write_text(wide(list(OWN), z_up(stack(OWN.values())), before=[TIME], scale=100))
        return path

    return write


def to_toml(row):
    lines = [f"{key} = {json.dumps(value)}" for key, value in row.items() if key != "aliases"]
    return "\n".join(
        [*lines, "[aliases]", *(f'"{name}" = "{joint}"' for name, joint in row["aliases"].items())]
    )


def openpose_person(frame, joints=LAYOUTS["openpose25"].joints):
    points = with_values(pixels(joints), 0.9)[frame]
    return {"person_id": [-1], "pose_keypoints_2d": np.round(points, 3).ravel().tolist(), "face_keypoints_2d": [],
            "hand_left_keypoints_2d": [], "hand_right_keypoints_2d": [], "pose_keypoints_3d": []}  # fmt: skip


def openpose_frame(frame):
    return {"version": 1.3, "people": [openpose_person(frame)]}


def openpose_folder(folder):
    """What --write_json makes: one file per frame."""
    place = folder / "json"
    place.mkdir()
    for frame in range(FRAMES):
        (place / f"video_{frame:012}_keypoints.json").write_text(json.dumps(openpose_frame(frame)))
    return place


def coco_person(frame, joints=COCO, **more):
    points = np.round(with_values(pixels(joints), 0.9)[frame], 3)
    return {"keypoints": points.ravel().tolist(), "score": 2.9, "category_id": 1, **more}


def mmpose_instance(frame, joints=COCO):
    points = pixels(joints)[frame]
    box = [[*points.min(0).tolist(), *points.max(0).tolist()]]
    return {
        "keypoints": points.tolist(),
        "keypoint_scores": [0.9] * len(points),
        "bbox": box,
        "bbox_score": 0.99,
    }


def whole_body(frame):
    """COCO-WholeBody: 17 points of the body, then feet, face and hands."""
    return [*mmpose_instance(frame)["keypoints"], *[[500.0, 500.0]] * 116]


def azure():
    positions = stack(LAYOUTS["azure32"].joints) * [-1000, -1000, 1000]
    frames = [
        {
            "bodies": [
                {"body_id": 1, "joint_orientations": [[1.0, 0.0, 0.0, 0.0]] * 32, "joint_positions": row}
            ],
            "frame_id": frame,
            "num_bodies": 1,
            "timestamp_usec": 100_000 + round(frame * 1e6 / RATE),
        }
        for frame, row in enumerate(positions.tolist())
    ]
    return {"bone_list": [["SPINE_CHEST", "SPINE_NAVEL"]], "frames": frames, "joint_names": ["PELVIS"]}


# the 23 segments of MVN with where they start
MVN = {"Pelvis": "hip_center", "L5": "spine", "L3": "spine", "T12": "chest", "T8": "chest", "Neck": "neck",
       "Head": "head",
       **{f"{Side}{part}": f"{side}_{joint}" for side, Side in (("right", "Right"), ("left", "Left")) for part, joint in
          (("Shoulder", "clavicle"), ("UpperArm", "shoulder"), ("ForeArm", "elbow"), ("Hand", "wrist"))},
       **{f"{Side}{part}": f"{side}_{joint}" for side, Side in (("right", "Right"), ("left", "Left")) for part, joint in
          (("UpperLeg", "hip"), ("LowerLeg", "knee"), ("Foot", "ankle"), ("Toe", "foot"))}}  # fmt: skip


def mvnx():
    segments = "".join(
        f'<segment label="{name}" id="{at}"><points/></segment>' for at, name in enumerate(MVN, 1)
    )
    rows = z_up(stack(MVN.values()))
    frame = '<frame time="{t}" index="{i}" type="{kind}"><orientation>1 0 0 0</orientation>'
    frame += "<position>{p}</position></frame>"
    body = [frame.format(t=0, i="", kind="tpose", p=" ".join(["0"] * 3 * len(MVN)))]
    body += [frame.format(t=round(i * 1000 / 30), i=i, kind="normal", p=" ".join(f"{v:.6f}" for v in row.ravel()))
             for i, row in enumerate(rows)]  # fmt: skip
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<mvnx xmlns="http://www.xsens.com/mvn/mvnx" version="4">'
        '<mvn version="2022.0"/><comment></comment><subject label="s1" frameRate="30" segmentCount="23">'
        f'<segments>{segments}</segments><frames segmentCount="23">{"".join(body)}</frames></subject></mvnx>'
    )


def pelvis_markers():
    """Front and back markers of a pelvis whose hips are those of the body, by Bell's regression."""
    left, right = BODY["left_hip"], BODY["right_hip"]
    width = np.linalg.norm(right - left, axis=-1, keepdims=True) / 0.72
    side, front = np.array([1.0, 0.0, 0.0]), np.array([0.0, 0.0, -1.0])
    middle = (left + right) / 2 + width * (0.19 * front + 0.30 * np.array([0.0, 1.0, 0.0]))
    back = middle - 0.2 * front
    return middle - side * width / 2, middle + side * width / 2, back - 0.04 * side, back + 0.04 * side


def around(joint, *offsets):
    """Markers around a joint whose mean is the joint."""
    return [BODY[joint] + np.array(offset) for offset in offsets]


def plug_in_gait():
    """Vicon's Plug-in Gait: marker -> positions."""
    la, ra, lp, rp = pelvis_markers()
    head = around("head", (-0.07, 0, -0.08), (0.07, 0, -0.08), (-0.07, 0, 0.08), (0.07, 0, 0.08))
    markers = dict(zip(("LFHD", "RFHD", "LBHD", "RBHD"), head, strict=True))
    markers |= dict(zip(("C7", "CLAV"), around("neck", (0, 0, 0.06), (0, 0, -0.06)), strict=True))
    markers |= dict(zip(("T10", "STRN"), around("spine", (0, 0, 0.1), (0, 0, -0.1)), strict=True))
    markers |= {"LASI": la, "RASI": ra, "LPSI": lp, "RPSI": rp}
    for side, letter in (("left", "L"), ("right", "R")):
        for marker, joint in (("SHO", "shoulder"), ("ELB", "elbow"), ("FIN", "hand"), ("KNE", "knee"), ("ANK", "ankle"),
                              ("HEE", "heel"), ("TOE", "foot")):  # fmt: skip
            markers[letter + marker] = BODY[f"{side}_{joint}"]
        markers |= dict(zip((f"{letter}WRA", f"{letter}WRB"), around(f"{side}_wrist", (0.03, 0, 0), (-0.03, 0, 0)),
                            strict=True))  # fmt: skip
    return markers


def cast():
    """Bony landmarks of the CAST protocol, as Qualisys names them."""
    la, ra, lp, rp = pelvis_markers()
    markers = {"L_IAS": la, "R_IAS": ra, "L_IPS": lp, "R_IPS": rp, "SGL": BODY["head"], "TV10": BODY["spine"]}
    markers |= dict(zip(("CV7", "SJN"), around("neck", (0, 0, 0.06), (0, 0, -0.06)), strict=True))
    for side, letter in (("left", "L"), ("right", "R")):
        pairs = {"elbow": ("HLE", "HME"), "wrist": ("RSP", "USP"), "knee": ("FLE", "FME"), "ankle": ("FAL", "TAM"),
                 "foot": ("FM1", "FM5")}  # fmt: skip
        markers |= {f"{letter}_SAE": BODY[f"{side}_shoulder"], f"{letter}_FCC": BODY[f"{side}_heel"],
                    f"{letter}_HM2": BODY[f"{side}_hand"]}  # fmt: skip
        for joint, names in pairs.items():
            for name, place in zip(
                names, around(f"{side}_{joint}", (0.03, 0, 0), (-0.03, 0, 0)), strict=True
            ):
                markers[f"{letter}_{name}"] = place
    return markers


def baseline():
    """OptiTrack's Baseline (37): marker -> positions."""
    la, ra, lp, rp = pelvis_markers()
    markers = {
        "WaistLFront": la,
        "WaistRFront": ra,
        "WaistLBack": lp,
        "WaistRBack": rp,
        "BackTop": BODY["neck"],
    }
    head = around("head", (0, 0.08, 0), (0, -0.04, -0.08), (0, -0.04, 0.08))
    markers |= dict(zip(("HeadTop", "HeadFront", "HeadSide"), head, strict=True))
    back = around("spine", (0, 0, -0.2), (-0.1, 0, 0.1), (0.1, 0, 0.1))
    markers |= dict(zip(("Chest", "BackLeft", "BackRight"), back, strict=True))
    for side, letter in (("left", "L"), ("right", "R")):
        for marker, joint in (("ShoulderTop", "shoulder"), ("ElbowOut", "elbow"), ("HandOut", "hand"),
                              ("KneeOut", "knee"), ("AnkleOut", "ankle")):  # fmt: skip
            markers[letter + marker] = BODY[f"{side}_{joint}"]
        for joint, names in (("wrist", ("WristOut", "WristIn")), ("foot", ("ToeOut", "ToeIn"))):
            places = around(f"{side}_{joint}", (0.03, 0, 0), (-0.03, 0, 0))
            markers |= {f"{letter}{name}": place for name, place in zip(names, places, strict=True)}
        markers |= {f"{letter}{name}": BODY[f"{side}_knee"] + 0.1 for name in ("Thigh", "Shin", "UArmHigh")}
    return markers


def motive(columns, *, units="Meters", scale=1.0, version="1.23", words=True):
    """Motive's CSV export: (type, name, positions or None for a rotation) per point."""
    facts = (f"Format Version,{version},Take Name,Take 1,Take Notes,,Capture Frame Rate,{RATE:f},Export Frame Rate,"
             f"{RATE:f},Rotation Type,Quaternion,Length Units,{units},Coordinate Space,Global")  # fmt: skip
    rows = [["", word if words else ""] for word in ("Type", "Name", "ID", "")] + [
        ["Frame", "Time (Seconds)"]
    ]
    for kind, name, places in columns:
        axes, value = ("XYZW", "Rotation") if places is None else ("XYZ", "Position")
        for axis in axes:
            for row, cell in zip(rows, (kind, name, "AB:12", value, axis), strict=True):
                row.append(cell)
    lines = [facts, "", *(",".join(row) for row in rows)]
    for frame in range(FRAMES):
        cells = [[0, 0, 0, 1] if places is None else [format_cell(v * scale) for v in places[frame]]
                 for _, _, places in columns]  # fmt: skip
        lines.append(
            ",".join([str(frame), f"{frame / RATE:.6f}", *(str(cell) for row in cells for cell in row)])
        )
    return "\n".join(lines) + "\n"


def format_cell(value):
    return "" if np.isnan(value) else f"{value:.6f}"


def motive_bones():
    """A skeleton of Motive: its root bone has the name of the skeleton, every bone a rotation and a position."""
    bones = [(f"Anna:{'Anna' if name == 'Hip' else name}", joint) for name, joint in OPTITRACK.items()]
    columns = [("Bone", name, places) for name, joint in bones for places in (None, BODY[joint])]
    other = [
        ("Bone Marker", "Anna:HeadTop", BODY["head"] + 0.2),
        ("Marker", "Unlabeled 1402", BODY["head"] * np.nan),
    ]
    return motive([*columns, *other], units="Millimeters", scale=1000)


def nexus(markers):
    """The ASCII export of Nexus: a section Devices, then Trajectories in millimetres, z up."""
    points = z_up(stack(markers, markers)) * 1000
    names = ",".join(f",,Patient:{name}" for name in markers)
    rows = [",".join([str(f + 1), "0", *map(format_cell, points[f].ravel())]) for f in range(FRAMES)]
    devices = ["Devices", "1000", ",,Force", "Frame,Sub Frame,Fx", ",,N", "1,0,0.5", "1,1,0.6", ""]
    head = ["Trajectories", f"{RATE:g}", names, "Frame,Sub Frame" + ",X,Y,Z" * len(markers),
            "," + ",mm" * 3 * len(markers)]  # fmt: skip
    return "\n".join([*devices, *head, *rows, ""]) + "\n"


def qualisys(markers):
    """A TSV export of Qualisys Track Manager with titles."""
    points = z_up(stack(markers, markers)) * 1000
    head = {"NO_OF_FRAMES": FRAMES, "NO_OF_CAMERAS": 8, "NO_OF_MARKERS": len(markers), "FREQUENCY": f"{RATE:g}",
            "NO_OF_ANALOG": 0, "ANALOG_FREQUENCY": 0, "DESCRIPTION": "--",
            "TIME_STAMP": "2024-05-02, 10:00:00.000\t1234.5", "DATA_INCLUDED": "3D",
            "MARKER_NAMES": "\t".join(markers)}  # fmt: skip
    lines = [f"{key}\t{value}" for key, value in head.items()]
    lines.append("\t".join(["Frame", "Time", *(f"{name} {axis}" for name in markers for axis in "XYZ")]))
    lines += [
        "\t".join([str(f + 1), f"{f / RATE:.5f}", *map(format_cell, points[f].ravel())])
        for f in range(FRAMES)
    ]
    return "\n".join(lines) + "\n"


def sports():
    """Qualisys' sports marker set, as a project names it: Q_HeadL."""
    markers = {
        name: places for name, places in baseline().items() if not name.startswith(("Head", "Back", "Chest"))
    }
    markers |= dict(
        zip(("HeadL", "HeadR", "HeadFront"), around("head", (-1, 0, 0), (1, 0, 0), (0, 0, 0)), strict=True)
    )
    markers |= {
        "SpineThoracic2": BODY["neck"],
        "SpineThoracic12": BODY["spine"] + 0.1,
        "Chest": BODY["spine"] - 0.1,
    }
    return {f"Q_{name.replace('ToeOut', 'Forefoot5').replace('ToeIn', 'Forefoot2')}": places
            for name, places in markers.items()}  # fmt: skip


def opencap():
    """Markers of OpenCap's augmenter beside its key points."""
    markers = {"Neck": BODY["neck"], "Nose": BODY["nose"], "C7_study": BODY["neck"]}
    for side, letter in (("left", "L"), ("right", "r")):
        big = letter.upper()
        markers |= {f"{big}Shoulder": BODY[f"{side}_shoulder"], f"{big}HJC_study": BODY[f"{side}_hip"],
                    f"{letter}_shoulder_study": BODY[f"{side}_shoulder"], f"{letter}_toe_study": BODY[f"{side}_foot"],
                    f"{letter}_calc_study": BODY[f"{side}_heel"]}  # fmt: skip
        for joint, names in (("knee", ("knee", "mknee")), ("ankle", ("ankle", "mankle")),
                             ("elbow", ("lelbow", "melbow")), ("wrist", ("lwrist", "mwrist"))):  # fmt: skip
            places = around(f"{side}_{joint}", (0.04, 0, 0), (-0.04, 0, 0))
            markers |= {f"{letter}_{name}_study": place for name, place in zip(names, places, strict=True)}
    return markers


def deeplabcut():
    names = [f"{name}" for name in COCO]
    points = with_values(pixels(COCO), 0.9)
    rows = [["scorer", *["DLC_net"] * 3 * len(names)], ["bodyparts", *(n for n in names for _ in range(3))],
            ["coords", *["x", "y", "likelihood"] * len(names)]]  # fmt: skip
    rows += [[f, *np.round(points[f].ravel(), 3).tolist()] for f in range(FRAMES)]
    return table(None, rows)


def c3d_file(make, prefix=""):
    """A C3D file of ezc3d: millimetres, z up."""

    def write(folder):
        markers = make()
        made = import_module("ezc3d").c3d()
        made["parameters"]["POINT"]["RATE"]["value"] = [RATE]
        made["parameters"]["POINT"]["UNITS"]["value"] = ["mm"]
        made["parameters"]["POINT"]["LABELS"]["value"] = tuple(prefix + name for name in markers)
        points = z_up(stack(markers, markers)) * 1000
        made["data"]["points"] = np.concatenate([points, np.ones((*points.shape[:2], 1))], -1).transpose(
            2, 1, 0
        )
        made.write(str(folder / "walk.c3d"))
        return folder / "walk.c3d"

    return write


def trc(make=plug_in_gait):
    """OpenSim's TRC of the same markers: millimetres, y up."""
    markers = make()
    points = stack(markers, markers) * 1000
    head = "\t".join(f"{name}\t\t" for name in markers)
    axes = "\t".join(f"X{at}\tY{at}\tZ{at}" for at in range(1, len(markers) + 1))
    rows = "\n".join("\t".join([str(f + 1), f"{f / RATE:.5f}", *(f"{v:.3f}" for v in points[f].ravel())])
                     for f in range(FRAMES))  # fmt: skip
    fields = (
        "DataRate\tCameraRate\tNumFrames\tNumMarkers\tUnits\tOrigDataRate\tOrigDataStartFrame\tOrigNumFrames"
    )
    values = f"{RATE:g}\t{RATE:g}\t{FRAMES}\t{len(markers)}\tmm\t{RATE:g}\t1\t{FRAMES}"
    return f"PathFileType\t4\t(X/Y/Z)\twalk.trc\n{fields}\n{values}\nFrame#\tTime\t{head}\n\t\t{axes}\n\n{rows}\n"


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


def holistic():
    """543 landmarks of MediaPipe Holistic: face, left hand, pose, right hand."""
    points = np.zeros((FRAMES, 543, 3))
    points[:, 489:522] = relative()
    return points


def tutorial_rows():
    """Rows of 1,662 numbers of the sign-language tutorial: pose with visibility, then face and hands."""
    return np.concatenate([with_values(relative(), 0.9).reshape(FRAMES, 132), np.zeros((FRAMES, 1530))], 1)


def two_headers():
    """A table of pandas whose columns have two levels, and an index."""
    names = [name for name in MP_NAMES for _ in "xyz"]
    rows = [["", *names], ["", *"xyz" * 33], ["frame", *[""] * 99]]
    return table(None, [*rows, *([f, *world()[f].ravel().round(6).tolist()] for f in range(FRAMES))])


def both_spaces():
    titles = [f"{name}{kind}_{axis}" for kind in ("", "_world") for name in MP_NAMES for axis in "xyz"]
    rows = np.concatenate([relative().reshape(FRAMES, 99), world().reshape(FRAMES, 99)], 1)
    return table(titles, rows.round(6).tolist())


def named_points(frame, **more):
    """Key points of TensorFlow.js: dicts with a name."""
    return [{"x": x, "y": y, "score": 0.9, "name": name, **more}
            for name, (x, y) in zip(COCO, pixels(COCO)[frame].tolist(), strict=True)]  # fmt: skip


def ultralytics(frame):
    x, y = pixels(COCO)[frame].T.tolist()
    return {"name": "person", "class": 0, "confidence": 0.91, "box": {"x1": 1.0, "y1": 2.0, "x2": 3.0, "y2": 4.0},
            "keypoints": {"x": x, "y": y, "visible": [0.9] * len(x)}}  # fmt: skip


def azure_by_name():
    """Joints by their names in the SDK: PELVIS, SPINE_NAVEL, HANDTIP_LEFT."""
    words = {"hip_center": "PELVIS", "spine": "SPINE_NAVEL", "chest": "SPINE_CHEST"}
    sided = [joint.partition("_") for joint in LAYOUTS["azure32"].joints]
    names = [words.get("".join(parts)) or (f"{parts[2].replace('_', '')}_{parts[0]}" if parts[2] else parts[0]).upper()
             for parts in sided]  # fmt: skip
    return {"frames": [{"timestamp_usec": frame["timestamp_usec"], "bodies": [{"body_id": 1, "joints": {
        name: {"position": dict(zip("xyz", place, strict=True)), "confidence_level": 2}
        for name, place in zip(names, frame["bodies"][0]["joint_positions"], strict=True)}}]}
        for frame in azure()["frames"]]}  # fmt: skip


def frames_of(points, **more):
    return [dicts(row, **more) for row in points]


CASES = {
    # --- MediaPipe Pose (python/solutions/pose and tasks; landmark.proto)
    "mediapipe world, JSON lines": Case("one json.dumps per frame", text_file("a.jsonl", lambda: "".join(
        json.dumps({"frame": f, "pose_world_landmarks": row}) + "\n" for f, row in enumerate(frames_of(world())))),
        "mediapipe", "hips"),
    "mediapipe MessageToDict": Case("google.protobuf.json_format.MessageToDict(results.pose_landmarks)", json_file(
        "a.json", lambda: [{"landmark": row} for row in frames_of(relative())]), "mediapipe", "relative"),
    "mediapipe MessageToDict, world": Case("MessageToDict(results.pose_world_landmarks)", json_file(
        "a.json", lambda: [{"landmark": row} for row in frames_of(world())]), "mediapipe", "hips"),
    "mediapipe dict by name": Case("{landmark.name: {x, y, z}} per frame", json_file("a.json", lambda: [
        dict(zip(MP_NAMES, row, strict=True)) for row in frames_of(relative())]), "mediapipe", "relative"),
    "mediapipe dicts with a name": Case("list of {name, x, y, z}", json_file("a.json", lambda: [
        [{"name": name, **one} for name, one in zip(MP_NAMES, row, strict=True)] for row in frames_of(world())]),
        "mediapipe", "hips"),
    "mediapipe dicts with an index": Case("list of {id, x, y, z}, unordered", json_file("a.json", lambda: [
        [{"id": at, **one} for at, one in reversed(list(enumerate(row)))] for row in frames_of(world())]),
        "mediapipe", "hips"),
    "mediapipe image and world": Case("both results per frame", json_file("a.json", lambda: {"fps": 30, "frames": [
        {"pose_landmarks": a, "pose_world_landmarks": b} for a, b in zip(frames_of(relative()), frames_of(world()),
        strict=True)]}), "mediapipe", "hips", rate=30.0),
    "mediapipe image with size": Case("pose_landmarks of a square video", json_file("a.json", lambda: {
        "width": 800, "height": 800, "frames": [{"pose_landmarks": row} for row in frames_of(relative())]}),
        "mediapipe", "relative"),
    "mediapipe tasks": Case("PoseLandmarkerResult of @mediapipe/tasks-vision", json_file("a.json", lambda: [
        {"landmarks": [a], "worldLandmarks": [b]} for a, b in zip(frames_of(relative()), frames_of(world()),
        strict=True)]), "mediapipe", "hips"),
    "mediapipe dict by frame": Case("{frame number: landmarks}", json_file("a.json", lambda: {
        str(f): {"landmarks": row} for f, row in enumerate(frames_of(relative()))}), "mediapipe", "relative"),
    "BlazePose of TensorFlow.js": Case("pose-detection estimatePoses", json_file("a.json", lambda: [
        {"score": 0.9, "keypoints": [{**one, "name": name.lower()} for name, one in zip(MP_NAMES, a, strict=True)],
         "keypoints3D": [{**one, "name": name.lower()} for name, one in zip(MP_NAMES, b, strict=True)]}
        for a, b in zip(frames_of(relative()), frames_of(world()), strict=True)]), "mediapipe", "hips"),
    "mediapipe npy": Case("np.save of [T, 33, 3]", npy_file("a.npy", world), "npy", "hips"),
    "mediapipe npy, image, visibility": Case("np.save of [T, 33, 4]", npy_file(
        "a.npy", lambda: with_values(relative(), 0.9)), "npy", "relative"),
    "mediapipe npy, rows of 99": Case("np.save of flattened frames", npy_file(
        "a.npy", lambda: world().reshape(FRAMES, 99)), "npy", "hips"),
    "mediapipe npy, rows of 132": Case("keypoints of the sign-language tutorials: x, y, z, visibility", npy_file(
        "a.npy", lambda: with_values(relative(), 0.9).reshape(FRAMES, 132)), "npy", "relative"),
    "mediapipe npz": Case("np.savez(keypoints=[T, 33, 5])", npz_file(
        "a.npz", keypoints=lambda: with_values(world(), 0.9, 0.8), fps=lambda: np.array(30)), "npz", "hips", rate=30.0),
    "mediapipe npy, y turned up": Case("np.save after y = -y and x = -x", npy_file(
        "a.npy", lambda: world() * [-1, -1, 1]), "npy", "hips"),
    "mediapipe CSV by name": Case("columns NOSE_x, NOSE_y, NOSE_z", text_file(
        "a.csv", lambda: wide(MP_NAMES, relative(), before=[("frame", int)])), "csv", "relative"),
    "mediapipe CSV by name, world": Case("columns nose_x, ... of world landmarks", text_file(
        "a.csv", lambda: wide([name.lower() for name in MP_NAMES], world(), before=[TIME])), "csv", "hips", rate=RATE),
    "mediapipe CSV x0": Case("columns x0, y0, z0, v0", text_file("a.csv", lambda: wide(
        range(33), with_values(world(), 0.9), "{axis}{name}", "xyzv")), "csv", "hips"),
    "mediapipe CSV 0_x": Case("columns 0_x, 0_y, 0_z", text_file("a.csv", lambda: wide(range(33), relative())), "csv",
        "relative"),
    "mediapipe CSV with a class": Case("class, x1, y1, z1, v1, ..., the body-language tutorial", text_file(
        "a.csv", lambda: wide(range(1, 34), with_values(relative(), 0.9), "{axis}{name}", "xyzv",
        before=[("class", lambda f: "wave")])), "csv", "relative"),
    "mediapipe CSV, one row per landmark": Case("frame, landmark, x, y, z", text_file(
        "a.csv", lambda: long(MP_NAMES, relative())), "csv", "relative"),
    "mediapipe CSV, one row per index": Case("frame, landmark (number), x, y, z", text_file(
        "a.csv", lambda: long(range(33), world())), "csv", "hips"),
    "mediapipe CSV without a header": Case("np.savetxt of rows of 99", text_file("a.csv", lambda: table(
        None, world().reshape(FRAMES, 99).round(6).tolist())), "csv", "hips"),
    "mediapipe tasks, Python": Case("PoseLandmarkerResult with presence, per person", json_file("a.json", lambda: [
        {"pose_landmarks": [a], "pose_world_landmarks": [b]} for a, b in zip(frames_of(relative(), presence=0.9),
        frames_of(world(), presence=0.9), strict=True)]), "mediapipe", "hips"),
    "mediapipe holistic": Case("MessageToDict of holistic results, camel case, hands missing", json_file(
        "a.json", lambda: [{"poseLandmarks": {"landmark": row}, "leftHandLandmarks": None, "faceLandmarks": {
        "landmark": row * 14}} for row in frames_of(relative())]), "mediapipe", "relative"),
    "mediapipe, microseconds": Case("time stamps of LIVE_STREAM", json_file("a.json", lambda: {"frames": [
        {"timestamp_us": round(f * 1e6 / RATE), "world_landmarks": row} for f, row in enumerate(frames_of(world()))]}),
        "mediapipe", "hips", rate=RATE),
    "mediapipe, milliseconds": Case("timestamp_ms of VIDEO mode, 25 per second", json_file("a.json", lambda: [
        {"timestamp_ms": 40 * f, "landmarks": row} for f, row in enumerate(frames_of(relative()))]),
        "mediapipe", "relative", rate=25.0),
    "mediapipe, header apart": Case("{metadata: {fps, width, height}, frames}", json_file("a.json", lambda: {
        "metadata": {"fps": 30, "width": 800, "height": 800}, "frames": [{"landmarks": row} for row in
        frames_of(relative())]}), "mediapipe", "relative", rate=30.0),
    "mediapipe, wide image": Case("1600 x 800: x in parts of the width", json_file("a.json", lambda: {
        "width": 1600, "height": 800, "frames": [{"pose_landmarks": [{"x": x, "y": 2 * y, "z": z} for x, y, z in row]}
        for row in relative().tolist()]}), "mediapipe", "relative"),
    "mediapipe dict by frame_0": Case("{frame_0: landmarks}", json_file("a.json", lambda: {
        f"frame_{f}": row for f, row in enumerate(frames_of(relative()))}), "mediapipe", "relative"),
    "mediapipe per person": Case("{frames: [{people: [{landmarks}]}]}", json_file("a.json", lambda: {"frames": [
        {"frame": f, "people": [{"id": 1, "landmarks": row}]} for f, row in enumerate(frames_of(relative()))]}),
        "mediapipe", "relative"),
    "mediapipe lmList": Case("cvzone and PoseModule: [id, x, y] in pixels", json_file("a.json", lambda: [
        [[at, x, y] for at, (x, y) in enumerate(row)] for row in pixels(MP).tolist()]), "mediapipe", "px"),
    "mediapipe lmList with z": Case("[id, x, y, z]", json_file("a.json", lambda: [
        [[at, *point] for at, point in enumerate(row)] for row in relative().tolist()]), "mediapipe", "relative"),
    "mediapipe without z": Case("{x, y} per landmark", json_file("a.json", lambda: [
        [{"x": 1000 * x, "y": 1000 * y} for x, y, _ in row] for row in relative().tolist()]), "mediapipe", "px"),
    "mediapipe flat lists": Case("99 numbers per frame", json_file("a.json", lambda: world().reshape(
        FRAMES, 99).tolist()), "mediapipe", "hips"),
    "mediapipe flat keypoints": Case("{frame, keypoints: 132 numbers}", json_file("a.json", lambda: [
        {"frame": f, "keypoints": row} for f, row in enumerate(with_values(relative(), 0.9).reshape(
        FRAMES, 132).tolist())]), "mediapipe", "relative"),
    "ML Kit": Case("{type, position: {x, y, z}, inFrameLikelihood}", json_file("a.json", lambda: [
        {"landmarks": [{"type": at, "position": {"x": 1000 * x, "y": 1000 * y, "z": 1000 * z},
        "inFrameLikelihood": 0.9} for at, (x, y, z) in enumerate(row)]} for row in relative().tolist()]),
        "mediapipe", "px"),
    "mediapipe gzip": Case("gzip of JSON", bytes_file("a.json.gz", lambda: gzip.compress(json.dumps(
        frames_of(world())).encode())), "mediapipe", "hips"),
    "mediapipe CSV gzip": Case("DataFrame.to_csv(a.csv.gz)", bytes_file("a.csv.gz", lambda: gzip.compress(
        wide(MP_NAMES, world()).encode())), "csv", "hips"),
    "mediapipe npz, image and world": Case("np.savez of both with visibility and times", npz_file(
        "a.npz", pose_landmarks=relative, pose_world_landmarks=world, visibility=lambda: np.ones((FRAMES, 33)),
        timestamps=lambda: np.arange(FRAMES) / RATE), "npz", "hips", rate=RATE),
    "mediapipe npy, 2-D": Case("np.save of [T, 33, 2] in pixels", npy_file("a.npy", lambda: pixels(MP)), "npy", "px"),
    "mediapipe npy, 543": Case("holistic landmarks of a sign-language contest", npy_file("a.npy", holistic), "npy",
        "relative"),
    "mediapipe npy, rows of 1662": Case("keypoints of the sign-language tutorial with face and hands", npy_file(
        "a.npy", tutorial_rows), "npy", "relative"),
    "mediapipe text": Case("np.savetxt with spaces", text_file("a.txt", lambda: "\n".join(
        " ".join(f"{value:.6f}" for value in row) for row in world().reshape(FRAMES, 99))), "csv", "hips"),
    "mediapipe CSV with an index": Case("DataFrame.to_csv with its index", text_file(
        "a.csv", lambda: wide(MP_NAMES, world(), before=[("", int)])), "csv", "hips"),
    "mediapipe CSV, two headers": Case("columns with two levels", text_file("a.csv", two_headers), "csv", "hips"),
    "mediapipe CSV, image and world": Case("NOSE_x and NOSE_world_x", text_file("a.csv", both_spaces), "csv", "hips"),
    "mediapipe CSV, dots": Case("columns NOSE.x, NOSE.visibility", text_file("a.csv", lambda: wide(
        MP_NAMES, with_values(world(), 0.9), "{name}.{axis}", ["x", "y", "z", "visibility"])), "csv", "hips"),
    "mediapipe CSV landmark_00_x": Case("numbers with zeros before them", text_file("a.csv", lambda: wide(
        [f"{at:02}" for at in range(33)], world(), "landmark_{name}_{axis}")), "csv", "hips"),
    "mediapipe CSV, rows by time": Case("timestamp, landmark, x, y, z", text_file("a.csv", lambda: table(
        ["timestamp", "landmark", "x", "y", "z"], [[round(f / RATE, 6), name, *world()[f, j].round(6).tolist()]
        for f in range(FRAMES) for j, name in enumerate(MP_NAMES)])), "csv", "hips", rate=RATE),
    "mediapipe CSV, rows without names": Case("frame, x, y, z: 33 rows per frame", text_file("a.csv", lambda: table(
        ["frame", "x", "y", "z"], [[f, *world()[f, j].round(6).tolist()] for f in range(FRAMES) for j in range(33)])),
        "csv", "hips"),
    # --- OpenPose (doc/02_output.md)
    "OpenPose folder": Case("--write_json", openpose_folder, "openpose", "px"),
    "OpenPose list": Case("the files of a video in one list", json_file(
        "a.json", lambda: [openpose_frame(f) for f in range(FRAMES)]), "openpose", "px"),
    "OpenPose dict by frame": Case("{file name: frame}", json_file(
        "a.json", lambda: {f"{f:012}": openpose_frame(f) for f in range(FRAMES)}), "openpose", "px"),
    "OpenPose JSON lines": Case("one frame per line", text_file("a.jsonl", lambda: "".join(
        json.dumps(openpose_frame(f)) + "\n" for f in range(FRAMES))), "openpose", "px"),
    "OpenPose npy": Case("np.save of datum.poseKeypoints per frame", npy_file("a.npy", lambda: with_values(
        pixels(LAYOUTS["openpose25"].joints), 0.9)), "npy", "px"),
    # --- COCO and its relatives
    "COCO annotations": Case("cocodataset.org/#format-data", json_file("a.json", lambda: {
        "images": [{"id": f, "file_name": f"{f}.jpg"} for f in range(FRAMES)], "categories": [{"id": 1}],
        "annotations": [coco_person(f, image_id=f, id=f) for f in range(FRAMES)]}), "coco", "px"),
    "COCO results": Case("result_keypoints.json of MMPose and ViTPose", json_file("a.json", lambda: [
        coco_person(f, image_id=f) for f in range(FRAMES)]), "coco", "px"),
    "AlphaPose": Case("alphapose-results.json, tracked", json_file("a.json", lambda: [
        coco_person(f, image_id=f"{f}.jpg", box=[1, 2, 3, 4], idx=1) for f in reversed(range(FRAMES))]), "coco", "px"),
    "AlphaPose, Halpe": Case("alphapose-results.json, 26 points", json_file("a.json", lambda: [
        coco_person(f, HALPE, image_id=f"{f}.jpg", idx=1) for f in range(FRAMES)]), "coco", "px"),
    "MMPose demo": Case("topdown_demo_with_mmdet.py --save-predictions", json_file("a.json", lambda: {
        "meta_info": {"dataset_name": "coco", "num_keypoints": 17},
        "instance_info": [{"frame_id": f + 1, "instances": [mmpose_instance(f)]} for f in range(FRAMES)]}),
        "coco", "px"),
    "MMPose inferencer": Case("MMPoseInferencer pred_out_dir of a video", json_file("a.json", lambda: [
        {"frame_id": f, "instances": [mmpose_instance(f)]} for f in range(FRAMES)]), "coco", "px"),
    "MMPose whole body": Case("133 points of COCO-WholeBody", json_file("a.json", lambda: [
        {"frame_id": f, "instances": [{"keypoints": whole_body(f), "keypoint_scores": [0.9] * 133}]}
        for f in range(FRAMES)]), "coco", "px"),
    "easy_ViTPose": Case("inference.py --save-json: [y, x, score]", json_file("a.json", lambda: {
        "keypoints": [{"0": with_values(pixels(LAYOUTS["vitpose25"].joints)[f][:, ::-1], 0.9).tolist()}
                      for f in range(FRAMES)], "skeleton": {"0": "nose"}}), "coco", "px"),
    "AlphaPose, by image": Case("--format open", json_file("a.json", lambda: {f"{f}.jpg": {
        "version": "AlphaPose v0.3", "bodies": [{"joints": coco_person(f)["keypoints"]}]} for f in range(FRAMES)}),
        "coco", "px"),
    "Ultralytics": Case("results.to_json() of YOLO pose models, one list per frame", json_file("a.json", lambda: [
        [ultralytics(f)] for f in range(FRAMES)]), "coco", "px"),
    "MoveNet": Case("pose-detection of TensorFlow.js", json_file("a.json", lambda: [
        [{"score": 0.9, "keypoints": named_points(f)}] for f in range(FRAMES)]), "coco", "px"),
    "PoseNet": Case("{part, position: {x, y}, score}", json_file("a.json", lambda: [{"score": 0.9, "keypoints": [
        {"part": one["name"], "position": {"x": one["x"], "y": one["y"]}, "score": 0.9} for one in named_points(f)]}
        for f in range(FRAMES)]), "coco", "px"),
    "OpenPifPaf": Case("openpifpaf.video --json-output", text_file("a.jsonl", lambda: "".join(json.dumps(
        {"frame": f + 1, "predictions": [coco_person(f, bbox=[1, 2, 3, 4])]}) + "\n" for f in range(FRAMES))), "coco",
        "px"),
    "COCO CSV, numbered": Case("columns x0, y0, c0 of 17 key points", text_file("a.csv", lambda: wide(
        range(17), with_values(pixels(COCO), 0.9), "{axis}{name}", "xyc")), "csv", "px"),
    "COCO npy": Case("np.save of [T, 17, 3]", npy_file("a.npy", lambda: with_values(pixels(COCO), 0.9)), "npy", "px"),
    # --- Azure Kinect, Xsens
    "Azure Kinect": Case("offline_processor of Azure-Kinect-Samples", json_file("a.json", azure), "azure-kinect",
        rate=RATE),
    "Azure Kinect, by name": Case("joints by their names in the SDK", json_file("a.json", azure_by_name),
        "azure-kinect", rate=RATE),
    "Azure Kinect, frames alone": Case("a list of frames", json_file("a.json", lambda: azure()["frames"]),
        "azure-kinect", rate=RATE),
    "Xsens MVNX": Case("MVN Analyze, export MVNX", text_file("a.mvnx", mvnx), "mvnx", rate=RATE),
    # --- markers
    "C3D, Plug-in Gait": Case("Vicon Nexus", c3d_file(plug_in_gait, "Patient:"), "c3d", rate=RATE, needs="ezc3d"),
    "C3D, CAST": Case("Qualisys Track Manager", c3d_file(cast), "c3d", rate=RATE, needs="ezc3d"),
    "TRC, Plug-in Gait": Case("OpenSim", text_file("a.trc", trc), "trc", rate=RATE),
    "TRC, OpenCap": Case("OpenCap with the marker augmenter", text_file("a.trc", lambda: trc(opencap)), "trc",
        rate=RATE),
    "C3D, OptiTrack Baseline": Case("Motive, export C3D", c3d_file(baseline, "Anna_"), "c3d", rate=RATE, needs="ezc3d"),
    "Motive CSV, bones": Case("Motive 3, export CSV of a skeleton: mm, quaternions", text_file("a.csv", motive_bones),
        "motive", rate=RATE),
    "Motive CSV, markers": Case("Motive, Baseline (37): cm", text_file("a.csv", lambda: motive(
        [("Marker", f"Anna:{name}", places) for name, places in baseline().items()], units="Centimeters", scale=100)),
        "motive", rate=RATE),
    "Motive CSV 1.22": Case("Motive 2, Conventional (39), no words in the header", text_file("a.csv", lambda: motive(
        [("Skeleton Marker", f"S1:{name}", places) for name, places in plug_in_gait().items()], version="1.22",
        words=False)), "motive", rate=RATE),
    "Nexus CSV": Case("Nexus, export ASCII with devices", text_file("a.csv", lambda: nexus(plug_in_gait())), "nexus",
        rate=RATE),
    "Nexus text": Case("Nexus, export ASCII with tabs", text_file(
        "a.txt", lambda: nexus(plug_in_gait()).partition("Trajectories")[1]
        + nexus(plug_in_gait()).partition("Trajectories")[2].replace(",", "\t")), "nexus", rate=RATE),
    "Qualisys TSV": Case("Qualisys Track Manager, export TSV", text_file("a.tsv", lambda: qualisys(cast())), "qualisys",
        rate=RATE),
    "Qualisys TSV, sports": Case("sports marker set", text_file("a.tsv", lambda: qualisys(sports())), "qualisys",
        rate=RATE),
    "DeepLabCut": Case("analyze_videos(save_as_csv=True)", text_file("a.csv", deeplabcut), "deeplabcut", "px"),
    # --- names of rigs, in a table
    "CSV, Mixamo": Case("names of Mixamo", text_file("a.csv", rig(MIXAMO)), "csv", rate=RATE),
    "CSV, Vicon": Case("LUpperArm, Waist", text_file("a.csv", rig(VICON)), "csv", rate=RATE),
    "CSV, OptiTrack": Case("LUArm, Ab of Motive", text_file("a.csv", rig(OPTITRACK)), "csv", rate=RATE),
    "CSV, Xsens": Case("segments of MVN", text_file("a.csv", rig(XSENS)), "csv", rate=RATE),
    "CSV, Rokoko": Case("LeftThigh of Rokoko Studio", text_file("a.csv", rig(ROKOKO)), "csv", rate=RATE),
    "CSV, Blender": Case("upper_arm.L of Rigify", text_file("a.csv", rig(BLENDER)), "csv", rate=RATE),
    "CSV, Unreal": Case("upperarm_l", text_file("a.csv", rig(UNREAL)), "csv", rate=RATE),
    "CSV, 3ds Max Biped": Case("Bip01 L UpperArm", text_file("a.csv", rig(BIPED)), "csv", rate=RATE),
    "CSV, Acclaim ASF": Case("lhumerus", text_file("a.csv", rig(ASF)), "csv", rate=RATE),
    "CSV, Kinect v2": Case("SpineBase, HandTipLeft", text_file("a.csv", rig(KINECT)), "csv", rate=RATE),
    "CSV, unit in the header": Case("head_x (mm)", text_file(
        "a.csv", rig(VICON, title="{name}_{axis} (mm)", scale=1000)), "csv", rate=RATE),
    "CSV, x first": Case("columns x_LUpperArm", text_file("a.csv", rig(VICON, title="{axis}_{name}")), "csv",
        rate=RATE),
    # --- declared
    "CSV, own names, TOML": Case("a laboratory's export: cm, z up", own_layout("lab.toml", to_toml), "csv",
        options={"layout": "lab.toml"}, rate=RATE),
    "CSV, own names, JSON": Case("a laboratory's export: cm, z up", own_layout("lab.json", json.dumps), "csv",
        options={"layout": "lab.json"}, rate=RATE),
    "CSV, inches, -z up": Case("declared by unit and up", text_file("a.csv", lambda: wide(
        list(VICON), stack(VICON.values())[..., [0, 2, 1]] * [1, 1, -1], scale=1 / 0.0254)), "csv",
        options={"unit": "in", "up": "-z", "rate": 25.0}, rate=25.0),
    "npy of an own layout": Case("np.save of [T, 15, 3], centimetres, z up", npy_file(
        "a.npy", lambda: z_up(stack(LAYOUTS["core15"].joints)) * 100), "npy",
        options={"layout": "core15", "unit": "cm", "up": "z"}),
    "left-handed": Case("Unity: y up, left-handed", text_file("a.csv", lambda: wide(
        list(VICON), stack(VICON.values()) * [-1, 1, 1])), "csv", options={"mirror": True}),
    # --- animations
    "GLB": Case("Blender, Mixamo armature", glb_file(), "gltf", rate=RATE),
    "GLB, steps": Case("STEP interpolation", glb_file(step), "gltf", rate=RATE),
    "GLB, cubic splines": Case("CUBICSPLINE interpolation", glb_file(spline), "gltf", rate=RATE),
    "GLB, sparse accessors": Case("sparse accessors", glb_file(sparse), "gltf", rate=RATE),
    "GLB, matrices": Case("a node with a matrix", glb_file(matrices), "gltf", rate=RATE),
    "glTF with embedded buffers": Case("glTF Embedded", gltf_embedded, "gltf", rate=RATE),
    "glTF with a file beside it": Case("glTF Separate", gltf_beside, "gltf", rate=RATE),
    "BVH, Mixamo": Case("Blender, Motion Capture export", text_file("a.bvh", bvh), "bvh", rate=RATE),
}  # fmt: skip

CORE = LAYOUTS["core15"].joints


def core(before=(TIME,), **options):
    """A plain table of 15 joints, the base of the variations below."""
    return wide(CORE, stack(CORE), before=list(before), **options)


def map_cells(text, change):
    """Change every cell below the header."""
    first, *lines = text.splitlines()
    return "\n".join([first, *(",".join(map(change, line.split(","))) for line in lines)]) + "\n"


def frame_folder(make):
    """A folder with one JSON file per frame."""

    def write(folder):
        (folder / "take").mkdir()
        for frame in range(FRAMES):
            (folder / "take" / f"frame_{frame + 9}.json").write_text(json.dumps(make(frame)))
        return folder / "take"

    return write


def records():
    return [{f"{name}_{axis}": relative()[f, j, at] for j, name in enumerate(MP_NAMES) for at, axis in enumerate("xyz")}
            for f in range(FRAMES)]  # fmt: skip


def with_units(text):
    first, *lines = text.splitlines()
    return "\n".join([first, ",".join(["s"] + ["m"] * 45), *lines]) + "\n"


TABLE = "csv"
CASES |= {
    # --- tables as spreadsheets and logging programs write them
    "CSV, UTF-16": Case("Excel, Unicode text: tabs", bytes_file("a.txt", lambda: core().replace(",", "\t").encode(
        "utf-16")), TABLE, rate=RATE),
    "CSV, UTF-16 without a mark": Case("Windows programs", bytes_file("a.csv", lambda: core().encode("utf-16-le")),
        TABLE, rate=RATE),
    "CSV, UTF-8 with a mark": Case("Excel, CSV UTF-8", bytes_file("a.csv", lambda: b"\xef\xbb\xbf" + core().encode()),
        TABLE, rate=RATE),
    "CSV, Windows-1252": Case("old programs: umlauts in the header", bytes_file("a.csv", lambda: core(
        before=[TIME, ("Prüfer", lambda _: "Jürgen")]).encode("cp1252")), TABLE, rate=RATE),
    "CSV, semicolons, decimal commas": Case("Excel in German", text_file("a.csv", lambda: core().replace(
        ",", ";").replace(".", ",")), TABLE, rate=RATE),
    "CSV, tabs, decimal commas": Case("LabVIEW in German", text_file("a.tsv", lambda: core().replace(
        ",", "\t").replace(".", ",")), TABLE, rate=RATE),
    "CSV, decimal commas in quotes": Case('"0,95"', text_file("a.csv", lambda: map_cells(core(), lambda cell: (
        f'"{cell.replace(".", ",")}"'))), TABLE, rate=RATE),
    "CSV, thousands": Case('"1,620.00" in millimetres', text_file("a.csv", lambda: map_cells(core(
        title="{name}_{axis} (mm)"), lambda cell: f'"{1000 * float(cell):,.2f}"')), TABLE, rate=RATE),
    "CSV, bars": Case("cells separated by |", text_file("a.csv", lambda: core().replace(",", "|")), TABLE, rate=RATE),
    "text, columns of spaces": Case("names and numbers separated by spaces", text_file("a.txt", lambda: core().replace(
        ",", "  ")), TABLE, rate=RATE),
    "CSV, numpy's header": Case("np.savetxt(header=...)", text_file("a.csv", lambda: "# " + core()), TABLE, rate=RATE),
    "CSV, sep=": Case("the first line that Excel understands", text_file("a.csv", lambda: "sep=;\n" + core().replace(
        ",", ";")), TABLE, rate=RATE),
    "CSV, empty first rows": Case("a table that does not start in A1", text_file("a.csv", lambda: (
        "," * 45 + "\n") * 3 + core()), TABLE, rate=RATE),
    "CSV, facts before the header": Case("a logger's facts about the recording", text_file("a.csv", lambda: (
        "Recording,session 4\nDate,2026-01-02\nRate,30\n\n" + core())), TABLE, rate=RATE),
    "CSV, comments before the header": Case("lines with #", text_file("a.csv", lambda: (
        "# sensor 3, room 12\n# one, two\n" + core())), TABLE, rate=RATE),
    "CSV, row of units": Case("s, m, m, ... below the header", text_file("a.csv", lambda: with_units(core())), TABLE,
        rate=RATE),
    "CSV, times in milliseconds": Case("Zeit (ms)", text_file("a.csv", lambda: core(
        before=[("Zeit (ms)", lambda f: f * 40)])), TABLE, rate=25.0),
    "CSV, plain times in milliseconds": Case("time: 0, 40, 80", text_file("a.csv", lambda: core(
        before=[("time", lambda f: f * 40)])), TABLE, rate=25.0),
    "CSV, clock times": Case("12:00:00.040", text_file("a.csv", lambda: core(
        before=[("Time", lambda f: f"12:00:{0.04 * f:06.3f}")])), TABLE, rate=25.0),
    "CSV, dates": Case("pandas.Timestamp", text_file("a.csv", lambda: core(
        before=[("timestamp", lambda f: f"2026-03-29 01:59:59.{40 * f:03}000")])), TABLE, rate=25.0),
    "CSV, names of persons": Case("person: anna", text_file("a.csv", lambda: core(
        before=[("person", lambda _: "anna"), TIME])), TABLE, rate=RATE),
    "CSV, quaternions": Case("x, y, z, qw, qx, qy, qz per joint", text_file("a.csv", lambda: wide(
        CORE, with_values(stack(CORE), 1.0, 0.0, 0.0, 0.5), axes=["x", "y", "z", "qw", "qx", "qy", "qz"],
        before=[TIME])), TABLE, rate=RATE),
    "CSV, positions and rotations": Case("Head.Position.X, Head.Rotation.X", text_file("a.csv", lambda: wide(
        CORE, with_values(stack(CORE), 90.0, 0.0, 45.0), "{name}.{axis}", [
            f"{kind}.{axis}" for kind in ("Position", "Rotation") for axis in "XYZ"], before=[TIME])), TABLE,
        rate=RATE),
    "CSV, translations": Case("head_tx, Maya", text_file("a.csv", lambda: core(title="{name}_t{axis}")), TABLE,
        rate=RATE),
    "CSV, separator at the end": Case("a comma after every row, not after the header", text_file(
        "a.csv", lambda: core().replace("\n", ",\n").replace(",\n", "\n", 1)), TABLE, rate=RATE),
    "CSV, JointType": Case("Kinect SDK: Frame, JointType, X, Y, Z, TrackingState", text_file("a.csv", lambda: table(
        ["Frame", "JointType", "X", "Y", "Z", "TrackingState"], [[f, name, *BODY[joint][f].round(6).tolist(), "Tracked"]
        for f in range(FRAMES) for name, joint in KINECT.items()])), TABLE),
    # --- tables in JSON
    "JSON records": Case("DataFrame.to_json(orient='records')", json_file("a.json", records), "json-table",
        "relative"),
    "JSON columns": Case("DataFrame.to_json()", json_file("a.json", lambda: {
        name: {str(f): row[name] for f, row in enumerate(records())} for name in records()[0]}), "json-table",
        "relative"),
    "JSON split": Case("DataFrame.to_json(orient='split')", json_file("a.json", lambda: {
        "columns": list(records()[0]), "index": list(range(FRAMES)),
        "data": [list(row.values()) for row in records()]}), "json-table", "relative"),
    "JSON rows per landmark": Case("[{frame, landmark, x, y, z}]", json_file("a.json", lambda: [
        {"frame": f, "landmark": name, "x": x, "y": y, "z": z} for f, row in enumerate(relative().tolist())
        for name, (x, y, z) in zip(MP_NAMES, row, strict=True)]), "json-table", "relative"),
    "JSON points by joint": Case("{Head: [[x, y, z], ...]}", json_file("a.json", lambda: {
        name: BODY[joint].tolist() for name, joint in KINECT.items()}), "json-table"),
    # --- MediaPipe in further ways
    "mediapipe, UTF-16": Case("PowerShell's > of a program's output", bytes_file("a.json", lambda: json.dumps(
        frames_of(relative())).encode("utf-16")), "mediapipe", "relative"),
    "mediapipe JSON lines with a header": Case("{fps} in the first line, a mark before it", bytes_file(
        "a.jsonl", lambda: b"\xef\xbb\xbf" + "\n".join(map(json.dumps, [{"fps": "30000/1001", "width": 800,
        "height": 800}, *({"landmarks": row} for row in frames_of(relative()))])).encode()),
        "mediapipe", "relative", rate=29.97),
    "mediapipe, lists by axis": Case("{x: [33], y: [33], z: [33]}", json_file("a.json", lambda: [
        dict(zip("xyz", row.T.tolist(), strict=True)) for row in relative()]), "mediapipe", "relative"),
    "mediapipe, capital letters": Case("{X, Y, Z}: C# serialisers", json_file("a.json", lambda: [
        [{"X": x, "Y": y, "Z": z} for x, y, z in row] for row in relative().tolist()]), "mediapipe", "relative"),
    "mediapipe, result in a frame": Case("{frame, result: {pose_landmarks}}", json_file("a.json", lambda: [
        {"frame": f, "result": {"pose_landmarks": [row]}} for f, row in enumerate(frames_of(relative()))]), "mediapipe",
        "relative"),
    "mediapipe folder": Case("one file of landmarks per frame", frame_folder(
        lambda f: {"pose_landmarks": frames_of(relative())[f]}), "mediapipe", "relative"),
    "MMPose folder": Case("one file per image", frame_folder(lambda f: {"instances": [mmpose_instance(f)]}), "coco",
        "px"),
}  # fmt: skip

SPACES = {
    "metres": "metres, y up",
    "hips": "metres from the middle of the hips, y up",
    "relative": "parts of the image, y up",
    "px": "pixels, y up",
}


def render_page():
    """docs/tested_files.md: one row per file."""
    lines = [
        "# Files that the tests write and read",
        "",
        f"Each of these {len(CASES)} files is written as its program or people write it, and read back: the joints,",
        "the unit, the rate and the absence of warnings are checked. `tests/corpus.py` makes the files, and",
        "`python tests/corpus.py` writes this page. [Formats](formats.md) explains the rules.",
        "",
        "| file | how it is made | format | read as | declared |",
        "|---|---|---|---|---|",
    ]
    for name, case in CASES.items():
        origin = case.origin.replace("|", "\\|")
        declared = ", ".join(f"`{key}={value!r}`" for key, value in case.options.items())
        lines.append(f"| {name} | {origin} | `{case.form}` | {SPACES[case.space]} | {declared} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    Path("docs/tested_files.md").write_text(render_page())
