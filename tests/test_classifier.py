"""The scikit-learn estimator: scikit-learn's own checks, its tools, and the distances of the model."""

import pickle
import subprocess
import sys
import warnings
from functools import partial

import joblib
import numpy as np
import pytest
import tiny_task
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import estimator_checks_generator

import jeanie
from jeanie.classifier import JeanieClassifier
from jeanie.errors import ConfigError, ShapeError
from jeanie.fewshot.model import FewShotModel

MOTIONS = [tiny_task.dataset()[number] for number in range(20)]
LABELS = [f"gesture {motion.label}" for motion in MOTIONS]
ARRAYS = [motion.joints[:, 0].numpy() for motion in MOTIONS]


@pytest.fixture(scope="module")
def classifier():
    return JeanieClassifier("dtw").fit(MOTIONS, LABELS)


PARAMETER_CHECKS = (
    "check_get_params_invariance",
    "check_set_params",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
)
TABLE_CHECKS = (
    "check_classifiers_one_label",
    "check_classifiers_regression_target",
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_dont_overwrite_parameters",
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_estimator_tags_renamed",
    "check_estimators_fit_returns_self",
    "check_f_contiguous_array_estimator",
    "check_fit2d_1sample",
    "check_fit_check_is_fitted",
    "check_fit_score_takes_y",
    "check_mixin_order",
    "check_pipeline_consistency",
    "check_readonly_memmap_input",
    "check_requires_y_none",
    "check_supervised_y_no_nan",
    "check_valid_tag_types",
    "check_dict_unchanged",
    "check_estimators_overwrite_params",
    "check_estimators_pickle",
    "check_estimators_unfitted",
    "check_fit_idempotent",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
)


class TableClassifier(JeanieClassifier):
    """The classifier for rows of a table, which scikit-learn's checks give: each row is a pose."""

    def _read_samples(self, X):
        rows = np.nan_to_num(np.asarray(X, dtype=np.float64))  # NaN: a missing joint
        directions = np.random.default_rng(0).normal(size=(rows.shape[1], 3, 15, 3))
        rest = np.random.default_rng(1).normal(size=(15, 3))
        return super()._read_samples(rest + np.einsum("nc,ctjx->ntjx", rows, directions))


def list_checks():
    """The checks that scikit-learn runs for samples that are not rows, and those that apply by way of rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that checks with rows are left out
        yield from (
            partial(check, estimator) for estimator, check in estimator_checks_generator(JeanieClassifier())
        )
    for names, estimator in (
        (PARAMETER_CHECKS, JeanieClassifier("dtw")),
        (TABLE_CHECKS, TableClassifier("dtw", layout="core15")),
    ):
        for name in names:
            yield partial(getattr(estimator_checks, name), "JeanieClassifier", clone(estimator))


def name_check(check):
    return check.func.__name__ if hasattr(check.func, "__name__") else check.func.func.__name__


@pytest.mark.parametrize("check", list_checks(), ids=name_check)
def test_the_checks_of_scikit_learn_pass(check):
    assert find_failure(check) is None


def find_failure(check):
    """Return what a check of scikit-learn finds wrong, or None."""
    try:
        check()
    except AssertionError as failure:
        return repr(failure)
    return None


def test_distances_are_those_of_the_model(classifier):
    expected = FewShotModel.raw("dtw").distances(MOTIONS[:6], MOTIONS).double().numpy()
    distances, index = classifier.kneighbors(MOTIONS[:6], n_neighbors=20)
    np.testing.assert_allclose(distances, np.sort(expected, 1), rtol=1e-4, atol=1e-5)
    assert index[:, 0].tolist() == list(range(6))
    assert classifier.kneighbors(MOTIONS[:6], return_distance=False).shape == (6, 1)


def test_neighbours_of_the_examples_leave_themselves_out(classifier):
    index = classifier.kneighbors(n_neighbors=3, return_distance=False)
    assert all(number not in row for number, row in enumerate(index.tolist()))


def test_prediction_is_the_most_probable_class(classifier):
    probabilities = classifier.predict_proba(MOTIONS)
    np.testing.assert_allclose(probabilities.sum(1), 1)
    assert (
        classifier.classes_[probabilities.argmax(1)].tolist()
        == classifier.predict(MOTIONS).tolist()
        == LABELS
    )


def test_the_mean_of_several_neighbours_counts():
    one, three = (JeanieClassifier("dtw", n_neighbors=count).fit(MOTIONS, LABELS) for count in (1, 3))
    table, index = one.kneighbors(MOTIONS[:2], n_neighbors=20)
    own = [
        np.sort(row[np.asarray(LABELS)[order] == LABELS[0]])[:3]
        for row, order in zip(table, index, strict=True)
    ]
    np.testing.assert_allclose(three._class_distances(MOTIONS[:2])[:, 0], np.mean(own, 1))


def test_arrays_with_a_layout_are_motions(classifier):
    by_array = JeanieClassifier("dtw", layout="core15").fit(ARRAYS, LABELS)
    assert by_array.predict(ARRAYS[:5]).tolist() == classifier.predict(MOTIONS[:5]).tolist()
    stacked = np.stack([array[:10] for array in ARRAYS])
    assert JeanieClassifier("dtw", layout=tiny_task.LAYOUT).fit(stacked, LABELS).score(stacked, LABELS) == 1


def score_by_hand(neighbours):
    """Return the accuracy on each half of the motions, with the other half as examples."""
    distances, labels = FewShotModel.raw("dtw").distances(MOTIONS, MOTIONS).numpy(), np.asarray(LABELS)
    scores = []
    for known, unknown in StratifiedKFold(2).split(LABELS, LABELS):
        means = {
            label: np.sort(distances[np.ix_(unknown, known[labels[known] == label])], 1)[:, :neighbours].mean(
                1
            )
            for label in sorted(set(LABELS))
        }
        nearest = np.asarray(list(means))[np.stack(list(means.values())).argmin(0)]
        scores.append(float((nearest == labels[unknown]).mean()))
    return scores


def test_the_tools_of_scikit_learn_work():
    scores = [score_by_hand(count) for count in (1, 2)]
    assert cross_val_score(JeanieClassifier("dtw"), MOTIONS, LABELS, cv=2).tolist() == pytest.approx(
        scores[0]
    )
    search = GridSearchCV(JeanieClassifier("dtw"), {"n_neighbors": [1, 2]}, cv=2).fit(MOTIONS, LABELS)
    assert search.cv_results_["mean_test_score"].tolist() == pytest.approx(
        [np.mean(folds) for folds in scores]
    )
    middle = FunctionTransformer(lambda motions: [motion[1:-1] for motion in motions])
    pipeline = make_pipeline(middle, JeanieClassifier("dtw")).fit(MOTIONS, LABELS)
    assert pipeline.score(MOTIONS, LABELS) == 1


def test_a_fitted_classifier_survives_pickling_and_cloning(classifier):
    again = pickle.loads(pickle.dumps(classifier))  # noqa: S301
    assert again.predict(MOTIONS[:3]).tolist() == classifier.predict(MOTIONS[:3]).tolist()
    with pytest.raises(NotFittedError):
        clone(classifier).predict(MOTIONS)


@pytest.mark.processes
def test_folds_run_in_worker_processes(tmp_path):
    joblib.dump(JeanieClassifier("dtw").fit(MOTIONS[:4], LABELS[:4]), tmp_path / "classifier")
    assert joblib.load(tmp_path / "classifier").n_samples_fit_ == 4
    expected = cross_val_score(JeanieClassifier("dtw"), MOTIONS, LABELS, cv=2)
    parallel = cross_val_score(JeanieClassifier("dtw"), MOTIONS, LABELS, cv=2, n_jobs=2)
    np.testing.assert_array_equal(parallel, expected)


@pytest.mark.errors
def test_wrong_samples_and_parameters_are_explained(classifier):
    with pytest.raises(ConfigError, match="need the layout of their joints"):
        JeanieClassifier("dtw").fit(ARRAYS, LABELS)
    with pytest.raises(ShapeError, match=r"sample 0 needs shape \[frame, joint, 3\]"):
        classifier.predict([np.zeros((4, 5))])
    with pytest.raises(ShapeError, match=r"use \[motion\]"):
        classifier.predict(MOTIONS[0])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        JeanieClassifier("dtw").fit(MOTIONS, LABELS[:3])
    with pytest.raises(ConfigError, match="n_neighbors is 1 or more"):
        JeanieClassifier("dtw", n_neighbors=0).fit(MOTIONS, LABELS)
    with pytest.raises(ConfigError, match="n_neighbors is 1 to 20"):
        classifier.kneighbors(MOTIONS, n_neighbors=21)
    with pytest.raises(ConfigError, match="model needs 'shipped'"):
        JeanieClassifier(3).fit(MOTIONS, LABELS)


@pytest.mark.plain
def test_the_classifier_is_public_and_imported_on_first_use():
    assert jeanie.JeanieClassifier is JeanieClassifier
    code = "import jeanie, sys; print('sklearn' in sys.modules, jeanie.JeanieClassifier, 'sklearn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split()[::3] == ["False", "True"]
