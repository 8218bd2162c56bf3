"""Published exemplars and cameras of the protocols, and where to get each data set."""

from itertools import combinations, permutations

from jeanie.evaluation.protocols.rules import Cameras

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
    "PAIRS_EXEMPLARS",
    "SYNTHETIC_CAMERAS",
    "UWA_EXEMPLARS",
    "UWA_VIEWS",
]

# The exemplars that the paper's authors released: the first take of subject 1 for the second half of the
# actions, and of subject 2 for action 27 of UWA3D Activity.
MSR_EXEMPLARS = tuple(f"a{action}_s01_e01" for action in range(11, 21))

PAIRS_EXEMPLARS = tuple(f"a{action:02}_s01_e01" for action in range(7, 13))
UWA_EXEMPLARS = tuple(f"a{action}e01s{2 if action == 27 else 1:02}" for action in range(16, 31))

# Every sixth class of NTU RGB+D is novel; exemplars are fixed by the data set's authors (Liu et al. 2019), and
# by the paper for NTU-60.
NTU60_EXEMPLARS = tuple(f"S001C003P008R001A{action:03}" for action in range(1, 60, 6))
NTU120_EXEMPLARS = NTU60_EXEMPLARS + tuple(f"S018C003P008R001A{action:03}" for action in range(61, 120, 6))
NTU120_NOVEL = tuple(range(1, 120, 6))

# Clips of Northwestern-UCLA with a single frame.
NW_UCLA_ONE_FRAME = ("a02_s09_e04_v02", "a02_s09_e04_v03")


def _build_cameras(names: dict[str, str | int], *rows: tuple[str, str]) -> tuple[Cameras, ...]:
    """Return choices of cameras from rows of names: cameras of training and supports, camera of the queries."""
    choices = []
    for trained, tested in rows:
        cameras = tuple(names[name] for name in trained.split("+"))
        choices.append(Cameras(f"{trained} to {tested}", cameras, cameras, (names[tested],)))
    return tuple(choices)


# Camera 1 of NTU RGB+D stands between the others, which are 45 degrees to its left and right. No paper says which of
# 2 and 3 is the left one. It does not matter: every action is performed facing each of them.
NTU_HORIZONTAL = _build_cameras(
    {"left": 2, "centre": 1, "right": 3}, ("left", "centre"), ("left", "right"), ("left+centre", "right")
)
NTU_VERTICAL = _build_cameras(
    {"bottom": "bottom", "centre": "centre", "top": "top"},
    ("bottom", "centre"),
    ("bottom", "top"),
    ("bottom+centre", "top"),
)
# two training cameras and one of the two others for the test: 12 combinations
UWA_VIEWS = tuple(
    Cameras(f"{first}+{second} to {tested}", (first, second), (first, second), (tested,))
    for first, second in combinations(range(1, 5), 2)
    for tested in range(1, 5)
    if tested not in (first, second)
)
# Six ordered pairs of different cameras, then each camera with itself. Training uses all cameras except that of the
# queries.
NW_UCLA_PAIRS = tuple(
    Cameras(f"{support} to {query}", tuple(view for view in (1, 2, 3) if view != query), (support,), (query,))
    for support, query in (*permutations((1, 2, 3), 2), (1, 1), (2, 2), (3, 3))
)

# supports come from the centre; neither training nor validation uses the cameras of the queries
SYNTHETIC_CAMERAS = (Cameras("centre to right+top", ("centre", "left"), ("centre",), ("right", "top")),)

_PLACE = "unpack it into $JEANIE_DATA/{0}, or run: jeanie prepare {0} FOLDER $JEANIE_DATA/{0}"
_NTU = (
    "request it at https://rose1.ntu.edu.sg/dataset/actionRecognition/ ({0}) and put the list of samples with missing "
    "skeletons (https://github.com/shahroudy/NTURGB-D) next to the files; "
)
# data set -> where to get it and what to run
GET = {
    "msraction3d": "https://sites.google.com/view/wanqingli/data-sets/msr-action3d (skeleton data in real world "
    "coordinates); ",
    "action-pairs": "http://www.cs.ucf.edu/~oreifej/HON4D.html; ",
    "uwa3d": "http://staffhome.ecm.uwa.edu.au/~00053650/databases.html, or the HDF5 file of the paper's authors; ",
    "uwa3d-multiview": "http://staffhome.ecm.uwa.edu.au/~00053650/databases.html, or if that is offline the link in "
    "https://github.com/shlizee/Predict-Cluster/issues/12; ",
    "ntu60": _NTU.format("nturgbd_skeletons_s001_to_s017.zip"),
    "ntu120": _NTU.format("nturgbd_skeletons_s001_to_s017.zip and nturgbd_skeletons_s018_to_s032.zip"),
    "kinetics": "the Kinetics-skeleton archive that https://github.com/yysijie/st-gcn links; ",
    "nw-ucla": "the folder all_sqe that https://github.com/Uason-Chen/CTR-GCN links; ",
    "sbu": "https://www3.cs.stonybrook.edu/~kyun/research/kinect_interaction/index.html (the clean version); ",
}
GET = {name: text + _PLACE.format(name) for name, text in GET.items()} | {
    "synthetic": "no download: the data is generated"
}
