"""Evidence for the answer to one query, from the nearest examples of the gallery."""

import torch
from jaxtyping import Float
from torch import Tensor

from jeanie.recogniser.background import log_distance
from jeanie.recogniser.confidence import compute_evidence
from jeanie.recogniser.gallery import GallerySnapshot, NearestExamples
from jeanie.recogniser.library.labels import NEGATIVE_PREFIX
from jeanie.recogniser.proportions import compare_proportions, measure_proportions
from jeanie.skeleton import Motion

__all__ = ["compute_answer_evidence"]


def compute_answer_evidence(
    label: str,
    motion: Motion,
    distances: dict[str, float],
    nearest_examples: NearestExamples,
    snapshot: GallerySnapshot,
) -> Float[Tensor, " 13"]:
    """Return the evidence for the nearest action of a motion. Its negative examples count as another action.

    Recordings for calibration that are copies of the query or of an example of the action do not count.
    """
    others = [
        distance
        for other, distance in distances.items()
        if other != label and (other == NEGATIVE_PREFIX + label or not other.startswith(NEGATIVE_PREFIX))
    ]
    action = snapshot.actions.index(label)
    row = int(nearest_examples.rows[action])
    nearest, *_ = logs = log_distance(torch.tensor([distances[label], *others]))
    members, recordings = snapshot.members[row].clone(), snapshot.recordings
    is_copy = snapshot.members[snapshot.action == action, :recordings].isinf().any(0)
    is_copy |= nearest_examples.calibration.isinf()
    members[:recordings].masked_fill_(is_copy, torch.inf)
    own_logs = torch.cat([logs[1:], nearest_examples.calibration.masked_fill(is_copy, torch.inf).to(logs)])
    return compute_evidence(
        nearest,
        min(logs[1:], default=nearest),
        snapshot.background[row].with_members(members),
        nearest_examples.background.with_members(own_logs),
        snapshot.within_action[action],
        1 + len(others),
        int(own_logs.isfinite().sum()),
        compare_proportions(measure_proportions(motion), snapshot.proportions[row]),
    )
