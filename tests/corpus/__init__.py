"""One short movement as every program writes it: small files, made here, for readers, fuzzing and the docs.

``BODY`` has the true positions of all joints in metres, y up, seen by a camera that looks along +z. Each entry of
``CASES`` writes them to a file as its origin does, and says how the file is read. ``PYTHONPATH=tests python -m corpus``
writes docs/tested_files.md.
"""

from corpus import animations, captures, keypoints, landmarks, named, rigs, sensors, tables
from corpus.body import BODY, FRAMES, RATE, Case, stack, z_up
from corpus.page import render_page

__all__ = ["BODY", "CASES", "FRAMES", "RATE", "Case", "render_page", "stack", "z_up"]

CASES = (
    landmarks.CASES
    | keypoints.CASES
    | sensors.CASES
    | captures.CASES
    | rigs.CASES
    | animations.CASES
    | tables.CASES
    | named.CASES
)
