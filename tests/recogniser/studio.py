"""Clips of five actions by four persons, in a studio without sensor errors that matter."""

from jeanie.datasets.synthetic.dataset import open_synthetic

ACTIONS = ("squat", "kick_forward", "jumping_jack", "bow", "wave_both_arms")
STUDIO = open_synthetic(subjects=4, takes=2, cameras=1, actions=ACTIONS, noise=0.5, missing=0)


def clip(action, subject=0, take=0):
    return STUDIO[STUDIO.names.index(f"{action}_s{subject:02d}_t{take:02d}_centre")]
