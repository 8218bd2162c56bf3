"""Joint names of animation rigs and motion-capture programs in plain tables, and layouts that the user declares."""

import json

from corpus.body import RATE, Case, stack, z_up
from corpus.writers import TIME, npy_file, text_file, wide
from jeanie.skeleton.layout import LAYOUTS


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
    names = dict(middle)
    for joint, template in parts.items():
        names |= name_sides(template, joint)
    return names


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


CASES = {
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
}  # fmt: skip
