"""Any object with ``distances`` is a method: it is evaluated, reported and compared like a model."""

import pytest
import tiny_task
import torch
from own_parts import MeanPose, NoNumbers
from torch.testing import assert_close

from jeanie.errors import ShapeError
from jeanie.evaluation.custom_method import measure_method_distances
from jeanie.evaluation.evaluate import evaluate
from jeanie.evaluation.report.comparison import compare
from jeanie.evaluation.report.examples import find_examples
from jeanie.fewshot.model import FewShotModel


class Wrapped:
    """A model behind the interface of a method."""

    def __init__(self, model):
        self.model = model

    def distances(self, queries, supports):
        return self.model.distances(queries, supports)


def test_a_wrapped_model_has_the_report_of_the_model():
    dataset, split = tiny_task.dataset(), tiny_task.split()
    model = FewShotModel.raw("dtw")
    reports = [evaluate(one, "synthetic", dataset=dataset, splits=[split]) for one in (model, Wrapped(model))]
    for name in ("query", "truth", "predicted"):
        assert torch.equal(*(getattr(report.predictions, name) for report in reports))
    assert_close(*(report.predictions.own for report in reports), atol=1e-5, rtol=1e-5)
    assert [report.method for report in reports] == ["raw DTW", "Wrapped"]
    (pair,) = compare(reports)
    assert pair.difference.value == 0


def test_a_method_per_split_and_its_name():
    dataset, split = tiny_task.dataset(), tiny_task.split()
    report = evaluate(MeanPose(), "synthetic", dataset=dataset, splits=[split])
    assert report.method == "mean pose"
    by_split = evaluate(lambda _: MeanPose(), "synthetic", dataset=dataset, splits=[split])
    assert torch.equal(by_split.predictions.predicted, report.predictions.predicted)
    assert find_examples(MeanPose(), report, dataset, [split]) == ()


def test_only_needed_pairs_are_compared():
    dataset, method = tiny_task.dataset(), MeanPose()
    dense = torch.cartesian_prod(torch.arange(20), torch.arange(4))
    measure_method_distances(method, dataset.motions, *dense.T.contiguous())
    assert method.calls == [(16, 4), (4, 4)]
    method.calls.clear()
    queries = torch.arange(10)
    found = measure_method_distances(method, dataset.motions, queries, queries + 20)
    assert method.calls == [(1, 1)] * 10
    expected = [method.distances([dataset[i]], [dataset[i + 20]])[0][0] for i in range(10)]
    assert_close(found, torch.tensor(expected, dtype=torch.float64))


@pytest.mark.errors
def test_a_wrong_table_is_explained():
    with pytest.raises(ShapeError, match=r"needs to return numbers of shape \(1, 1\), got NaN"):
        measure_method_distances(
            NoNumbers(), tiny_task.dataset().motions, torch.tensor([0]), torch.tensor([1])
        )
