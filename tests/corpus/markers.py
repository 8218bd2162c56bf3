"""Marker sets: the positions of their markers on the body."""

import numpy as np

from corpus.body import BODY


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
