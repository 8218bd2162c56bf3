"""Files of body-tracking sensors: Azure Kinect, ZED cameras and the suits of Xsens."""

from corpus.body import RATE, Case, stack, z_up
from corpus.writers import json_file, text_file
from jeanie.skeleton.layout import LAYOUTS


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


def zed_frames(joints, bodies=lambda body: [body], missing=None):
    """Bodies of the ZED SDK: its camera looks along -z. ``missing`` is written for a point that is not seen."""
    frames = {}
    for frame, row in enumerate((stack(joints) * [-1, 1, -1]).tolist()):
        body = {
            "action_state": "IDLE",
            "confidence": 86.2,
            "id": 3,
            "keypoint": row,
            "keypoint_confidence": [90.0] * len(row),
            "tracking_state": "OK",
            "unique_object_id": "4fe0",
        }
        time = 1_700_000_000_000_000_000 + round(frame * 1e9 / RATE)
        frames[str(time // 10**6)] = {
            "body_list": bodies(body),
            "is_new": True,
            "is_tracked": True,
            "timestamp": time,
        }
    return frames


def zed_70():
    """The 70 points with whole hands; the points of the hands that BODY_38 lacks are not seen."""
    joints = LAYOUTS["zed38"].joints[:30]
    hands = {
        33: "left_thumb",
        53: "right_thumb",
        34: "left_index",
        54: "right_index",
        41: "left_hand_tip",
        61: "right_hand_tip",
        46: "left_pinky",
        66: "right_pinky",
    }
    frames = zed_frames([*joints, *(hands.get(point, "head") for point in range(30, 70))])
    for frame in frames.values():
        for point in set(range(30, 70)) - set(hands):
            frame["body_list"][0]["keypoint"][point] = [None] * 3
    return frames


# BODY_38 with the joints of the body that the corpus has: its middle finger ends at the tip of the hand
ZED_38 = [joint.replace("middle", "hand_tip") for joint in LAYOUTS["zed38"].joints]


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


CASES = {
    "Azure Kinect": Case("offline_processor of Azure-Kinect-Samples", json_file("a.json", azure), "azure-kinect",
        rate=RATE),
    "Azure Kinect, by name": Case("joints by their names in the SDK", json_file("a.json", azure_by_name),
        "azure-kinect", rate=RATE),
    "Azure Kinect, frames alone": Case("a list of frames", json_file("a.json", lambda: azure()["frames"]),
        "azure-kinect", rate=RATE),
    "ZED, 18 points": Case("JSON export sample of the ZED SDK, BODY_18", json_file("bodies.json",
        lambda: zed_frames(LAYOUTS["openpose18"].joints)), "zed", rate=RATE),
    "ZED, 34 points": Case("JSON export sample of the ZED SDK in C++, a list", json_file("bodies.json",
        lambda: list(zed_frames(LAYOUTS["zed34"].joints).values())), "zed", rate=RATE),
    "ZED, 38 points": Case("the same in Python, older: bodies in a dict", json_file("bodies.json",
        lambda: zed_frames(ZED_38, lambda body: {"0": body})), "zed", rate=RATE),
    "ZED, 70 points": Case("JSON export sample of the ZED SDK, BODY_70", json_file("bodies.json", zed_70), "zed",
        rate=RATE),
    "Xsens MVNX": Case("MVN Analyze, export MVNX", text_file("a.mvnx", mvnx), "mvnx", rate=RATE),
}  # fmt: skip
