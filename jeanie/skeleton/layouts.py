"""Common skeletons as data: joints in the order of the files, each with its parent joint.

A joint is written ``name<parent``; a joint without a parent is the root of its tree. Left and right are those of the
person. If a skeleton has no torso joint, the mean of the joints in ``centre`` is used as its torso.
"""

from typing import Any

__all__ = ["ROWS"]

_ARMS_AND_LEGS = """
    left_shoulder<spine_shoulder left_elbow<left_shoulder left_wrist<left_elbow left_hand<left_wrist
    right_shoulder<spine_shoulder right_elbow<right_shoulder right_wrist<right_elbow right_hand<right_wrist
    left_hip<hip_center left_knee<left_hip left_ankle<left_knee left_foot<left_ankle
    right_hip<hip_center right_knee<right_hip right_ankle<right_knee right_foot<right_ankle
"""

_SMPL = """
    hip_center left_hip<hip_center right_hip<hip_center spine<hip_center left_knee<left_hip right_knee<right_hip
    chest<spine left_ankle<left_knee right_ankle<right_knee spine_shoulder<chest
    left_foot<left_ankle right_foot<right_ankle neck<spine_shoulder
    left_clavicle<spine_shoulder right_clavicle<spine_shoulder head<neck
    left_shoulder<left_clavicle right_shoulder<right_clavicle left_elbow<left_shoulder right_elbow<right_shoulder
    left_wrist<left_elbow right_wrist<right_elbow
"""


def _row(joints: str, root: str, torso: str, **rest: Any) -> dict[str, Any]:
    """Return one layout in the form of a layout file: names, bones as (parent, child) names, other keys."""
    tokens = [token.partition("<") for token in joints.split()]
    return {
        "joints": [joint for joint, _, _ in tokens],
        "bones": [[parent, joint] for joint, _, parent in tokens if parent],
        "root": root,
        "torso": torso,
        **rest,
    }


ROWS: dict[str, dict[str, Any]] = {
    # Kinect v2, NTU RGB+D 60 and 120. The hand is the parent of hand tip and thumb.
    "ntu25": _row(
        f"""hip_center spine<hip_center neck<spine_shoulder head<neck {_ARMS_AND_LEGS} spine_shoulder<spine
        left_hand_tip<left_hand left_thumb<left_hand right_hand_tip<right_hand right_thumb<right_hand""",
        "hip_center",
        "spine",
    ),
    # Kinect v1: NW-UCLA, 3D Action Pairs.
    "kinect20": _row(
        f"hip_center spine<hip_center spine_shoulder<spine head<spine_shoulder {_ARMS_AND_LEGS}",
        "hip_center",
        "spine",
    ),
    # MSRAction3D: left and right joints alternate.
    "msr20": _row(
        """left_shoulder<neck right_shoulder<neck neck<spine spine<hip_center
        left_hip<hip_center right_hip<hip_center hip_center
        left_elbow<left_shoulder right_elbow<right_shoulder
        left_wrist<left_elbow right_wrist<right_elbow left_hand<left_wrist right_hand<right_wrist
        left_knee<left_hip right_knee<right_hip left_ankle<left_knee right_ankle<right_knee
        left_foot<left_ankle right_foot<right_ankle head<neck""",
        "hip_center",
        "spine",
    ),
    # OpenNI/NITE in the order of UWA3D: the torso comes after the arms.
    "openni15": _row(
        """head<neck neck<torso left_shoulder<neck left_elbow<left_shoulder left_hand<left_elbow
        right_shoulder<neck right_elbow<right_shoulder right_hand<right_elbow torso
        left_hip<torso left_knee<left_hip left_foot<left_knee
        right_hip<torso right_knee<right_hip right_foot<right_knee""",
        "torso",
        "torso",
    ),
    # Key points of images. There is no torso joint: the nose is the root; shoulders and hips are the centre.
    "coco17": _row(
        """nose left_eye<nose right_eye<nose left_ear<left_eye right_ear<right_eye
        left_shoulder<nose right_shoulder<nose left_elbow<left_shoulder right_elbow<right_shoulder
        left_wrist<left_elbow right_wrist<right_elbow left_hip<left_shoulder right_hip<right_shoulder
        left_knee<left_hip right_knee<right_hip left_ankle<left_knee right_ankle<right_knee""",
        "nose",
        "nose",
        centre=["left_shoulder", "right_shoulder", "left_hip", "right_hip"],
        unit="px",
        dims=2,
    ),
    # OpenPose's COCO model, Kinetics-skeleton: close-ups often lack the hips, so the neck is the centre.
    "openpose18": _row(
        """nose<neck neck right_shoulder<neck right_elbow<right_shoulder right_wrist<right_elbow
        left_shoulder<neck left_elbow<left_shoulder left_wrist<left_elbow
        right_hip<neck right_knee<right_hip right_ankle<right_knee left_hip<neck left_knee<left_hip
        left_ankle<left_knee right_eye<nose left_eye<nose right_ear<right_eye left_ear<left_eye""",
        "neck",
        "neck",
        unit="px",
        dims=2,
    ),
    # OpenPose BODY_25.
    "openpose25": _row(
        """nose<neck neck<hip_center right_shoulder<neck right_elbow<right_shoulder right_wrist<right_elbow
        left_shoulder<neck left_elbow<left_shoulder left_wrist<left_elbow hip_center
        right_hip<hip_center right_knee<right_hip right_ankle<right_knee
        left_hip<hip_center left_knee<left_hip left_ankle<left_knee
        right_eye<nose left_eye<nose right_ear<right_eye left_ear<left_eye
        left_big_toe<left_ankle left_small_toe<left_big_toe left_heel<left_ankle
        right_big_toe<right_ankle right_small_toe<right_big_toe right_heel<right_ankle""",
        "hip_center",
        "hip_center",
        centre=["neck", "hip_center"],
        unit="px",
        dims=2,
    ),
    # AlphaPose's Halpe full body: COCO, then head, neck, hip and feet.
    "halpe26": _row(
        """nose<head left_eye<nose right_eye<nose left_ear<left_eye right_ear<right_eye
        left_shoulder<neck right_shoulder<neck left_elbow<left_shoulder right_elbow<right_shoulder
        left_wrist<left_elbow right_wrist<right_elbow left_hip<hip_center right_hip<hip_center
        left_knee<left_hip right_knee<right_hip left_ankle<left_knee right_ankle<right_knee
        head<neck neck<hip_center hip_center left_big_toe<left_ankle right_big_toe<right_ankle
        left_small_toe<left_big_toe right_small_toe<right_big_toe left_heel<left_ankle right_heel<right_ankle""",
        "hip_center",
        "hip_center",
        centre=["neck", "hip_center"],
        unit="px",
        dims=2,
    ),
    # easy_ViTPose's COCO with neck, hip and feet.
    "vitpose25": _row(
        """nose<neck left_eye<nose right_eye<nose left_ear<left_eye right_ear<right_eye neck<hip_center
        left_shoulder<neck right_shoulder<neck left_elbow<left_shoulder right_elbow<right_shoulder
        left_wrist<left_elbow right_wrist<right_elbow left_hip<hip_center right_hip<hip_center hip_center
        left_knee<left_hip right_knee<right_hip left_ankle<left_knee right_ankle<right_knee
        left_big_toe<left_ankle left_small_toe<left_big_toe left_heel<left_ankle
        right_big_toe<right_ankle right_small_toe<right_big_toe right_heel<right_ankle""",
        "hip_center",
        "hip_center",
        centre=["neck", "hip_center"],
        unit="px",
        dims=2,
    ),
    # Human3.6M with 17 joints: the output of 2-D to 3-D lifting networks.
    "h36m17": _row(
        """hip_center right_hip<hip_center right_knee<right_hip right_ankle<right_knee
        left_hip<hip_center left_knee<left_hip left_ankle<left_knee spine<hip_center neck<spine
        nose<neck head<nose left_shoulder<neck left_elbow<left_shoulder left_wrist<left_elbow
        right_shoulder<neck right_elbow<right_shoulder right_wrist<right_elbow""",
        "hip_center",
        "spine",
    ),
    # Body models SMPL and SMPL-X: HumanML3D has the first 22 joints, SMPL two hands more.
    "smpl22": _row(_SMPL, "hip_center", "spine"),
    "smpl24": _row(
        f"{_SMPL} left_hand<left_wrist right_hand<right_wrist",
        "hip_center",
        "spine",
    ),
    # MediaPipe Pose, world landmarks in metres. From 7 on, odd indices are left. Its foot index is the big toe.
    "mediapipe33": _row(
        """nose left_eye_inner<nose left_eye<left_eye_inner left_eye_outer<left_eye
        right_eye_inner<nose right_eye<right_eye_inner right_eye_outer<right_eye
        left_ear<left_eye_outer right_ear<right_eye_outer left_mouth<nose right_mouth<nose
        left_shoulder<nose right_shoulder<nose left_elbow<left_shoulder right_elbow<right_shoulder
        left_wrist<left_elbow right_wrist<right_elbow left_pinky<left_wrist right_pinky<right_wrist
        left_index<left_wrist right_index<right_wrist left_thumb<left_wrist right_thumb<right_wrist
        left_hip<left_shoulder right_hip<right_shoulder left_knee<left_hip right_knee<right_hip
        left_ankle<left_knee right_ankle<right_knee left_heel<left_ankle right_heel<right_ankle
        left_big_toe<left_ankle right_big_toe<right_ankle""",
        "nose",
        "nose",
        centre=["left_shoulder", "right_shoulder", "left_hip", "right_hip"],
    ),
    # Azure Kinect body tracking: pelvis, spine navel, spine chest, then the limbs.
    "azure32": _row(
        """hip_center spine<hip_center chest<spine neck<chest
        left_clavicle<chest left_shoulder<left_clavicle left_elbow<left_shoulder left_wrist<left_elbow
        left_hand<left_wrist left_hand_tip<left_hand left_thumb<left_wrist
        right_clavicle<chest right_shoulder<right_clavicle right_elbow<right_shoulder right_wrist<right_elbow
        right_hand<right_wrist right_hand_tip<right_hand right_thumb<right_wrist
        left_hip<hip_center left_knee<left_hip left_ankle<left_knee left_foot<left_ankle
        right_hip<hip_center right_knee<right_hip right_ankle<right_knee right_foot<right_ankle
        head<neck nose<head left_eye<head left_ear<head right_eye<head right_ear<head""",
        "hip_center",
        "spine",
    ),
    # Body tracking of ZED cameras, BODY_34 and BODY_38, with the names of Azure Kinect and MediaPipe.
    "zed34": _row(
        """hip_center spine<hip_center chest<spine neck<chest
        left_clavicle<chest left_shoulder<left_clavicle left_elbow<left_shoulder left_wrist<left_elbow
        left_hand<left_wrist left_hand_tip<left_hand left_thumb<left_wrist
        right_clavicle<chest right_shoulder<right_clavicle right_elbow<right_shoulder right_wrist<right_elbow
        right_hand<right_wrist right_hand_tip<right_hand right_thumb<right_wrist
        left_hip<hip_center left_knee<left_hip left_ankle<left_knee left_foot<left_ankle
        right_hip<hip_center right_knee<right_hip right_ankle<right_knee right_foot<right_ankle
        head<neck nose<head left_eye<head left_ear<head right_eye<head right_ear<head
        left_heel<left_ankle right_heel<right_ankle""",
        "hip_center",
        "spine",
    ),
    "zed38": _row(
        """hip_center spine<hip_center chest<spine spine_shoulder<chest neck<spine_shoulder nose<neck
        left_eye<nose right_eye<nose left_ear<left_eye right_ear<right_eye
        left_clavicle<spine_shoulder right_clavicle<spine_shoulder
        left_shoulder<left_clavicle right_shoulder<right_clavicle left_elbow<left_shoulder
        right_elbow<right_shoulder left_wrist<left_elbow right_wrist<right_elbow
        left_hip<hip_center right_hip<hip_center left_knee<left_hip right_knee<right_hip
        left_ankle<left_knee right_ankle<right_knee left_big_toe<left_ankle right_big_toe<right_ankle
        left_small_toe<left_big_toe right_small_toe<right_big_toe left_heel<left_ankle right_heel<right_ankle
        left_thumb<left_wrist right_thumb<right_wrist left_index<left_wrist right_index<right_wrist
        left_middle<left_wrist right_middle<right_wrist left_pinky<left_wrist right_pinky<right_wrist""",
        "hip_center",
        "spine",
    ),
    # CMU motion capture as BVH: a joint is where its bone starts, so hip_joint, lower_back, neck_base,
    # clavicle and finger_base have the position of their parent.
    "cmu31": _row(
        """hip_center left_hip_joint<hip_center left_hip<left_hip_joint left_knee<left_hip
        left_ankle<left_knee left_foot<left_ankle
        right_hip_joint<hip_center right_hip<right_hip_joint right_knee<right_hip
        right_ankle<right_knee right_foot<right_ankle lower_back<hip_center spine<lower_back chest<spine
        neck_base<chest neck<neck_base head<neck
        left_clavicle<chest left_shoulder<left_clavicle left_elbow<left_shoulder left_wrist<left_elbow
        left_finger_base<left_wrist left_hand<left_finger_base left_thumb<left_wrist
        right_clavicle<chest right_shoulder<right_clavicle right_elbow<right_shoulder right_wrist<right_elbow
        right_finger_base<right_wrist right_hand<right_finger_base right_thumb<right_wrist""",
        "hip_center",
        "spine",
    ),
    # The same without the joints that coincide with another and without the thumbs.
    "cmu22": _row(
        """hip_center left_hip<hip_center left_knee<left_hip left_ankle<left_knee left_foot<left_ankle
        right_hip<hip_center right_knee<right_hip right_ankle<right_knee right_foot<right_ankle
        spine<hip_center neck<spine head<neck left_clavicle<spine left_shoulder<left_clavicle
        left_elbow<left_shoulder left_wrist<left_elbow left_hand<left_wrist right_clavicle<spine
        right_shoulder<right_clavicle right_elbow<right_shoulder right_wrist<right_elbow
        right_hand<right_wrist""",
        "hip_center",
        "spine",
    ),
}

# The joints of OpenNI in the order of SBU Kinect Interaction. They are also the core that layouts are converted to.
_CORE = """head<neck neck<torso torso left_shoulder<neck left_elbow<left_shoulder left_hand<left_elbow
    right_shoulder<neck right_elbow<right_shoulder right_hand<right_elbow
    left_hip<torso left_knee<left_hip left_foot<left_knee
    right_hip<torso right_knee<right_hip right_foot<right_knee"""
ROWS["sbu15"] = _row(_CORE, "torso", "torso")
ROWS["core15"] = _row(_CORE, "torso", "torso")
