"""Names and places that the protocols are made of: exemplars, cameras, and where each data set is had."""

from itertools import combinations, permutations

from jeanie.experiments.protocols.rules import Cameras

__all__ = [
    "GET",
    "MSR_EXEMPLARS",
    "NTU60_EXEMPLARS",
    "NTU120_EXEMPLARS",
    "NTU120_NOVEL",
    "NTU_HORIZONTAL",
    "NTU_VERTICAL",
    "NW_UCLA_ONE_FRAME",
    "NW_UCLA_PAIRS",
    "SYNTHETIC_CAMERAS",
    "UWA_VIEWS",
]

# The released exemplars of the paper's authors: the first take of subject 1 for actions 11 to 20.
MSR_EXEMPLARS = tuple(f"a{action}_s01_e01" for action in range(11, 21))

# Every sixth class of NTU RGB+D is novel; exemplars are fixed by the data set's authors (Liu et al. 2019), and
# by the paper for NTU-60.
NTU60_EXEMPLARS = tuple(f"S001C003P008R001A{action:03}" for action in range(1, 60, 6))
NTU120_EXEMPLARS = NTU60_EXEMPLARS + tuple(f"S018C003P008R001A{action:03}" for action in range(61, 120, 6))
NTU120_NOVEL = tuple(range(1, 120, 6))

# Clips of Northwestern-UCLA with a single frame.
NW_UCLA_ONE_FRAME = ("a02_s09_e04_v02", "a02_s09_e04_v03")


def _toward(names: dict[str, str | int], *steps: tuple[str, str]) -> tuple[Cameras, ...]:
    """Cameras that are trained on and give the supports, and others that give the queries, by their names."""
    rows = []
    for trained, asked in steps:
        seen = tuple(names[name] for name in trained.split("+"))
        rows.append(Cameras(f"{trained} to {asked}", seen, seen, (names[asked],)))
    return tuple(rows)


# Camera 1 of NTU RGB+D stands between the others, which stand 45 degrees to its sides; which of 2 and 3 is the
# left one is nowhere printed and does not matter: every action is performed facing each of them.
NTU_HORIZONTAL = _toward(
    {"left": 2, "centre": 1, "right": 3}, ("left", "centre"), ("left", "right"), ("left+centre", "right")
)
NTU_VERTICAL = _toward(
    {"bottom": "bottom", "centre": "centre", "top": "top"},
    ("bottom", "centre"),
    ("bottom", "top"),
    ("bottom+centre", "top"),
)
# two cameras train, one of the two others is tested: 12 combinations
UWA_VIEWS = tuple(
    Cameras(f"{one}+{two} to {asked}", (one, two), (one, two), (asked,))
    for one, two in combinations(range(1, 5), 2)
    for asked in range(1, 5)
    if asked not in (one, two)
)
# Six ordered pairs of different cameras, then each camera with itself. A split that trains does so on all
# cameras but that of the queries.
NW_UCLA_PAIRS = tuple(
    Cameras(f"{one} to {two}", tuple(view for view in (1, 2, 3) if view != two), (one,), (two,))
    for one, two in (*permutations((1, 2, 3), 2), (1, 1), (2, 2), (3, 3))
)

# supports from the centre; the cameras of the queries are seen neither in training nor in validation
SYNTHETIC_CAMERAS = (Cameras("centre to right+top", ("centre", "left"), ("centre",), ("right", "top")),)

_PLACE = "unpack it into $JEANIE_DATA/{0}, or run: jeanie prepare {0} FOLDER $JEANIE_DATA/{0}"
_NTU = (
    "request it at https://rose1.ntu.edu.sg/dataset/actionRecognition/ ({0}) and put the list of samples with missing "
    "skeletons (https://github.com/shahroudy/NTURGB-D) beside the files; "
)
# data set -> where it is had and what to run
GET = {
    "msraction3d": "https://sites.google.com/view/wanqingli/data-sets/msr-action3d (skeleton data in real world "
    "coordinates); ",
    "action-pairs": "http://www.cs.ucf.edu/~oreifej/HON4D.html; ",
    "uwa3d": "http://staffhome.ecm.uwa.edu.au/~00053650/databases.html, or the HDF5 file of the paper's authors; ",
    "uwa3d-multiview": "http://staffhome.ecm.uwa.edu.au/~00053650/databases.html, or where that is offline the link in "
    "https://github.com/shlizee/Predict-Cluster/issues/12; ",
    "ntu60": _NTU.format("nturgbd_skeletons_s001_to_s017.zip"),
    "ntu120": _NTU.format("nturgbd_skeletons_s001_to_s017.zip and nturgbd_skeletons_s018_to_s032.zip"),
    "kinetics": "the Kinetics-skeleton archive that https://github.com/yysijie/st-gcn links; ",
    "nw-ucla": "the folder all_sqe that https://github.com/Uason-Chen/CTR-GCN links; ",
    "sbu": "https://www3.cs.stonybrook.edu/~kyun/research/kinect_interaction/index.html (the clean version); ",
}
GET = {name: text + _PLACE.format(name) for name, text in GET.items()} | {
    "synthetic": "nothing to get: it is generated"
}
