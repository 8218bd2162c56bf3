"""Names of the classes of public data sets whose files number them."""

from collections.abc import Mapping
from itertools import islice
from types import MappingProxyType

__all__ = ["CLASS_NAMES", "get_class_name"]

# Li, Zhang and Liu, Action recognition based on a bag of 3D points, CVPRW 2010, in the order of the files a01 to a20
_MSR = """high arm wave;horizontal arm wave;hammer;hand catch;forward punch;high throw;draw X;draw tick;draw circle;hand
clap;two hand wave;side boxing;bend;forward kick;side kick;jogging;tennis swing;tennis serve;golf swing;pick up and
throw"""

# Yun et al., Two-person interaction detection using body-pose features and multiple instance learning, CVPRW 2012:
# folders 01 to 08
_SBU = "approaching;departing;kicking;pushing;shaking hands;hugging;exchanging;punching"

# Wang et al., Cross-view action modeling, learning and recognition, CVPR 2014: files a01 to a12 without a07 and a10
_UCLA = {
    1: "pick up with one hand",
    2: "pick up with two hands",
    3: "drop trash",
    4: "walk around",
    5: "sit down",
    6: "stand up",
    8: "donning",
    9: "doffing",
    11: "throw",
    12: "carry",
}

# Rahmani et al., Histogram of oriented principal components for cross-view action recognition, TPAMI 2016
_UWA = """one hand waving;one hand punching;two hand waving;two hand punching;sitting down;standing up;vibrating;falling
down;holding chest;holding head;holding back;walking;irregular walking;lying down;turning around;drinking;phone
answering;bending;jumping jack;running;picking up;putting down;kicking;jumping;dancing;mopping
floor;sneezing;sitting down (chair);squatting;coughing"""

# Liu et al., NTU RGB+D 120, TPAMI 2019; A1 to A120 in the words of ROSE Lab, which publishes the data set
_NTU = """drink water;eat meal;brush teeth;brush hair;drop;pick up;throw;sit down;stand up;clapping;reading;writing;tear
up paper;put on jacket;take off jacket;put on a shoe;take off a shoe;put on glasses;take off glasses;put on a
hat/cap;take off a hat/cap;cheer up;hand waving;kicking something;reach into pocket;hopping;jump up;phone call;play
with phone/tablet;type on a keyboard;point to something;taking a selfie;check time (from watch);rub two hands;nod
head/bow;shake head;wipe face;salute;put palms together;cross hands in front;sneeze/cough;staggering;falling
down;headache;chest pain;back pain;neck pain;nausea/vomiting;fan self;punch/slap;kicking;pushing;pat on back;point
finger;hugging;giving object;touch pocket;shaking hands;walking towards;walking apart;put on headphone;take off
headphone;shoot at basket;bounce ball;tennis bat swing;juggle table tennis ball;hush;flick hair;thumb up;thumb
down;make OK sign;make victory sign;staple book;counting money;cutting nails;cutting paper;snap fingers;open
bottle;sniff/smell;squat down;toss a coin;fold paper;ball up paper;play magic cube;apply cream on face;apply cream on
hand;put on bag;take off bag;put object into bag;take object out of bag;open a box;move heavy objects;shake
fist;throw up cap/hat;capitulate;cross arms;arm circles;arm swings;run on the spot;butt kicks;cross toe touch;side
kick;yawn;stretch oneself;blow nose;hit with object;wield knife;knock over;grab stuff;shoot with gun;step on
foot;high-five;cheers and drink;carry object;take a photo;follow;whisper;exchange things;support
somebody;rock-paper-scissors"""


def _number(text: str) -> dict[int, str]:
    return {number: " ".join(name.split()) for number, name in enumerate(text.split(";"), 1)}


CLASS_NAMES: Mapping[str, Mapping[int, str]] = MappingProxyType(
    {
        "msraction3d": _number(_MSR),
        "sbu": _number(_SBU),
        "nw-ucla": _UCLA,
        "uwa3d-multiview": _number(_UWA),
        "ntu60": dict(islice(_number(_NTU).items(), 60)),
        "ntu120": _number(_NTU),
    }
)
"""Names by data set and number."""


def get_class_name(dataset: str, tag: str | int | None) -> str:
    """Return the name of a class; a class without a name is called by its tag.

    >>> get_class_name("msraction3d", 7), get_class_name("my folder", "wave")
    ('draw X', 'wave')
    """
    return CLASS_NAMES.get(dataset, {}).get(tag, str(tag)) if isinstance(tag, int) else str(tag)
