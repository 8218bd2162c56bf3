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
    """Names of both sides: {side} is left, {Side} is Left, {S} is L, {s} is l."""
    return {
        template.format(side=side, Side=long_, S=upper, s=lower): f"{side}_{joint}"
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


OWN = {"Kpf": "head", "Hls": "neck", "Rmpf": "torso", "SchL": "left_shoulder", "EllL": "left_elbow",
       "HandL": "left_hand", "SchR": "right_shoulder", "EllR": "right_elbow", "HandR": "right_hand",
       "HftL": "left_hip", "KnL": "left_knee", "FsL": "left_foot", "HftR": "right_hip",
       "KnR": "right_knee", "FsR": "right_foot"}  # fmt: skip


def name_words(middle, sided, template, left, right):
    """Names of the core joints in another language: head, neck, torso, then the parts of both sides."""
    names = dict(zip(middle.split(), ("head", "neck", "torso"), strict=True))
    parts = ("shoulder", "elbow", "hand", "hip", "knee", "foot")
    for word, part in zip(sided.split(), parts, strict=True):
        names[template.format(part=word, side=left)] = f"left_{part}"
        names[template.format(part=word, side=right)] = f"right_{part}"
    return names


LANGUAGES = {
    "German": name_words("Kopf Hals Rumpf", "Schulter Ellbogen Hand Hüfte Knie Fuß", "{side}{part}", "Linke", "Rechte"),
    "German, short sides": name_words(
        "Kopf Nacken Oberkörper", "Schulter Ellenbogen Hand Huefte Knie Fuss", "{part}_{side}", "li", "re"),
    "French": name_words("Tête Cou Tronc", "Épaule Coude Main Hanche Genou Pied", "{part}_{side}", "gauche", "droite"),
    "French, letters": name_words("Tete Cou Tronc", "Epaule Coude Main Hanche Genou Pied", "{part} {side}", "G", "D"),
    "Spanish": name_words("Cabeza Cuello Torso", "Hombro Codo Mano Cadera Rodilla Pie", "{part}{side}", "Izq", "Der"),
    "Italian": name_words("Testa Collo Tronco", "Spalla Gomito Mano Anca Ginocchio Piede", "{part}_{side}", "sx", "dx"),
    "Portuguese": name_words(
        "Cabeça Pescoço Tronco", "Ombro Cotovelo Mão Quadril Joelho Pé", "{part} {side}", "esquerdo", "direito"),
    "Dutch": name_words("Hoofd Nek Romp", "Schouder Elleboog Hand Heup Knie Voet", "{side}{part}", "Linker", "Rechter"),
}  # fmt: skip


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
    **{f"CSV, {language}": Case(f"{language} names: {next(iter(names))}, {list(names)[3]}",
        text_file("a.csv", rig(names)), "csv", rate=RATE) for language, names in LANGUAGES.items()},
    "CSV, one word before all names": Case("FreeMoCap: body_left_shoulder", text_file("a.csv", rig(
        {f"body_{joint}": joint for joint in LAYOUTS["core15"].joints})), "csv", rate=RATE),
    "CSV, names of the Azure Kinect SDK": Case("K4ABT_JOINT_SHOULDER_LEFT", text_file("a.csv", rig(
        {"K4ABT_JOINT_" + "_".join(reversed(joint.split("_"))).upper(): joint
         for joint in LAYOUTS["core15"].joints})), "csv", rate=RATE),
    "CSV, ARKit": Case("neck_1_joint, left_upLeg_joint", text_file("a.csv", rig(names_of(
        {"hips_joint": "hip_center", "spine_1_joint": "hip_center", "spine_2_joint": "hip_center",
         "spine_4_joint": "spine", "spine_6_joint": "chest", "spine_7_joint": "chest", "neck_1_joint": "neck",
         "head_joint": "head"},
        clavicle="{side}_shoulder_1_joint", shoulder="{side}_arm_joint", elbow="{side}_forearm_joint",
        wrist="{side}_hand_joint", hip="{side}_upLeg_joint", knee="{side}_leg_joint", ankle="{side}_foot_joint",
        foot="{side}_toes_joint"))), "csv", rate=RATE),
    "CSV, Apple Vision": Case("left_shoulder_1_joint without an arm", text_file("a.csv", rig(names_of(
        {"root": "hip_center", "neck_1_joint": "neck", "head_joint": "head"}, shoulder="{side}_shoulder_1_joint",
        elbow="{side}_forearm_joint", wrist="{side}_hand_joint", hip="{side}_upLeg_joint", knee="{side}_leg_joint",
        ankle="{side}_foot_joint"))), "csv", rate=RATE),
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
