"""Reports, their comparison, and the page: numbers against counting and SciPy, the page in a real browser."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from browser import needs_browser, read_page
from scipy import stats

from jeanie.datasets.synthetic.dataset import open_synthetic
from jeanie.errors import ConfigError
from jeanie.evaluation.evaluate import evaluate
from jeanie.evaluation.predict import Predictions
from jeanie.evaluation.protocols import PROTOCOLS
from jeanie.evaluation.protocols.splits import Columns, Split
from jeanie.evaluation.report.charts import draw_confusion, draw_dots, draw_histogram
from jeanie.evaluation.report.comparison import compare, compare_pair, render_markdown
from jeanie.evaluation.report.examples import find_examples
from jeanie.evaluation.report.html import render_html, write_html
from jeanie.evaluation.report.report import Report, pool_seeds
from jeanie.fewshot.episodes import Episodes
from jeanie.fewshot.model import FewShotModel

EVIL = '<script>alert("x")</script>'
CLASSES = ("bow", "clap", EVIL)


def rows_of(right, *, splits=1, episodes=1, seed=0):
    """Predictions that are right at the given places; queries in the order of split, then episode."""
    right = torch.as_tensor(right, dtype=torch.bool)
    count = len(right)
    place = torch.arange(count)
    truth = place % len(CLASSES)
    return Predictions(
        seed=torch.full((count,), seed),
        split=place * splits // count,
        episode=place % episodes,
        query=100 + place,
        truth=truth,
        predicted=torch.where(right, truth, (truth + 1) % len(CLASSES)),
        own=torch.where(right, 1.0, 2.0).double(),
        other=torch.full((count,), 1.5).double(),
    )


def report_of(right, *, method="ours", splits=1, episodes=1, **more):
    names = tuple(f"split {number}" for number in range(splits))
    rows = rows_of(right, splits=splits, episodes=episodes)
    return Report("toy", method, CLASSES, names, rows, way=3, shot=1, **more)


def draws(seed, count=60, share=0.7):
    return np.random.default_rng(seed).random(count) < share


def test_over_several_splits_the_interval_is_students_over_their_accuracies():
    right = draws(0)
    report = report_of(right, splits=4, episodes=5)
    accuracies = 100 * right.reshape(4, 15).mean(1)
    low, high = stats.t.interval(0.95, 3, loc=accuracies.mean(), scale=stats.sem(accuracies))
    assert report.over == "splits"
    assert report.accuracy == pytest.approx(accuracies.mean())
    assert report.interval == pytest.approx((low, high))
    assert report.ci95 == pytest.approx((high - low) / 2)
    assert [part.accuracy for part in report.splits] == pytest.approx(accuracies)
    assert [part.queries for part in report.splits] == [15] * 4


def test_all_splits_count_alike_whatever_their_size():
    rows = rows_of([True] * 30 + [False] * 10)
    rows = replace(rows, split=torch.tensor([0] * 30 + [1] * 10))
    report = Report("toy", "ours", CLASSES, ("a", "b"), rows, way=3, shot=1)
    assert report.accuracy == 50
    assert [part.queries for part in report.splits] == [30, 10]


def test_over_episodes_of_one_split_it_is_students_over_the_episodes():
    right = draws(1)
    report = report_of(right, episodes=6)
    accuracies = [100 * right[number::6].mean() for number in range(6)]
    expected = stats.t.interval(0.95, 5, loc=np.mean(accuracies), scale=stats.sem(accuracies))
    assert report.over == "episodes"
    assert report.interval == pytest.approx(expected)


def test_over_the_queries_of_one_episode_it_is_wilsons():
    right = draws(2)
    report = report_of(right)
    expected = stats.binomtest(int(right.sum()), 60).proportion_ci(method="wilson")
    assert report.over == "queries"
    assert report.accuracy == pytest.approx(100 * right.mean())
    assert report.interval == pytest.approx((100 * expected.low, 100 * expected.high))


def test_seeds_are_averaged_and_the_interval_is_over_them_where_there_is_one_split():
    parts = [report_of(draws(seed), episodes=3, seeds=(seed,)) for seed in (3, 4, 5)]
    report = pool_seeds(parts)
    accuracies = [100 * draws(seed).mean() for seed in (3, 4, 5)]
    assert (report.seeds, report.over, report.queries) == ((3, 4, 5), "seeds", 60)
    assert report.accuracy == pytest.approx(np.mean(accuracies))
    assert report.ci95 == pytest.approx(stats.t.ppf(0.975, 2) * stats.sem(accuracies))
    several = pool_seeds([report_of(draws(seed), splits=4, seeds=(seed,)) for seed in (3, 4)])
    means = 100 * (draws(3) * 0.5 + draws(4) * 0.5).reshape(4, 15).mean(1)
    assert several.over == "splits"
    assert [part.accuracy for part in several.splits] == pytest.approx(means)
    assert [part.queries for part in several.splits] == [15] * 4


def test_confusions_and_classes_are_counted():
    right = draws(6)
    report = report_of(right)
    counts = np.zeros((3, 3), int)
    for place, hit in enumerate(right):
        truth = place % 3
        counts[truth, truth if hit else (truth + 1) % 3] += 1
    assert report.confusion.tolist() == counts.tolist()
    assert report.per_class == pytest.approx({tag: 100 * counts[k, k] / 20 for k, tag in enumerate(CLASSES)})


def test_json_holds_what_was_promised_and_nothing_that_json_has_not():
    facts = report_of(draws(7), splits=2, seeds=(0,), variants={"other": rows_of([True, False, True])}).json()
    assert json.loads(json.dumps(facts, allow_nan=False)) == facts
    assert {"protocol", "method", "accuracy", "ci95", "seeds", "queries", "per_class"} <= facts.keys()
    assert facts["variants"]["other"]["accuracy"] == pytest.approx(200 / 3, abs=1e-5)
    assert facts["confusion"]["classes"] == list(CLASSES)


def test_markdown_shows_names_as_they_are():
    page = render_markdown([report_of(draws(8), method="a|b"), report_of(draws(9), method="plain")])
    assert "a\\|b" in page
    assert "<script>" not in page
    for table in re.findall(r"(?:^\|.*\n)+", page, re.MULTILINE):
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(widths) == 1


def test_methods_are_paired_over_splits_as_scipy_does():
    first, second = draws(10, share=0.8), draws(11, share=0.6)
    pair = compare_pair(report_of(first, splits=5), report_of(second, splits=5, method="other"))
    left, right = (100 * one.reshape(5, 12).mean(1) for one in (first, second))
    expected = stats.ttest_rel(left, right)
    interval = expected.confidence_interval(0.95)
    assert (pair.over, pair.units, pair.test) == ("splits", 5, "paired t-test over the splits")
    assert pair.p == pytest.approx(expected.pvalue)
    assert (pair.difference.low, pair.difference.high) == pytest.approx((interval.low, interval.high))
    assert pair.mcnemar is None


def test_over_one_episode_methods_are_paired_by_mcnemars_test():
    first, second = draws(12, share=0.8), draws(13, share=0.6)
    pair = compare_pair(report_of(first), report_of(second, method="other"))
    only = int((first & ~second).sum()), int((second & ~first).sum())
    assert (pair.first_only, pair.second_only) == only
    assert pair.p == pair.mcnemar == pytest.approx(stats.binomtest(only[0], sum(only)).pvalue)
    assert pair.difference.value == pytest.approx(100 * (first.mean() - second.mean()))
    assert (pair.over, pair.units) == ("queries", 60)


def test_over_several_episodes_of_one_split_both_tests_are_told():
    first, second = draws(14, share=0.8), draws(15, share=0.6)
    pair = compare_pair(report_of(first, episodes=6), report_of(second, episodes=6, method="other"))
    left, right = ([one[number::6].mean() for number in range(6)] for one in (first, second))
    assert pair.p == pytest.approx(stats.ttest_rel(left, right).pvalue)
    only = int((first & ~second).sum()), int((second & ~first).sum())
    assert pair.mcnemar == pytest.approx(stats.binomtest(only[0], sum(only)).pvalue)


def test_a_method_without_seeds_meets_every_seed_of_the_other():
    ours = pool_seeds([report_of(draws(seed), seeds=(seed,)) for seed in (16, 17, 18)])
    raw = report_of(draws(19), method="raw")
    pair = compare_pair(ours, raw)
    differences = [100 * (draws(seed).mean() - draws(19).mean()) for seed in (16, 17, 18)]
    assert (pair.over, pair.units) == ("seeds", 3)
    assert pair.p == pytest.approx(stats.ttest_1samp(differences, 0).pvalue)
    assert pair.difference.value == pytest.approx(np.mean(differences))
    assert compare_pair(raw, ours).difference.value == pytest.approx(-np.mean(differences))


def test_all_pairs_are_compared_and_their_p_values_adjusted():
    reports = [report_of(draws(seed), method=f"m{seed}") for seed in (20, 21, 22)]
    pairs = compare(reports)
    assert [(pair.first, pair.second) for pair in pairs] == [("m20", "m21"), ("m20", "m22"), ("m21", "m22")]
    assert min(pair.adjusted for pair in pairs) == pytest.approx(min(1, 3 * min(pair.p for pair in pairs)))
    assert all(pair.adjusted >= pair.p for pair in pairs)
    json.dumps([pair.json() for pair in pairs], allow_nan=False)


@pytest.mark.errors
def test_what_cannot_be_compared_is_refused():
    ours = report_of(draws(23))
    with pytest.raises(
        ConfigError, match="one protocol and the same splits, got toy with 1 and other with 1"
    ):
        compare_pair(ours, replace(ours, protocol="other"))
    with pytest.raises(ConfigError, match="answered different queries"):
        compare_pair(ours, report_of(draws(23, count=57)))
    shifted = replace(ours, predictions=replace(ours.predictions, query=ours.predictions.query + 1))
    with pytest.raises(ConfigError, match="answered different queries"):
        compare_pair(ours, shifted)
    with pytest.raises(ConfigError, match="have different queries"):
        pool_seeds([ours, shifted])
    with pytest.raises(ConfigError, match="has 2 seeds and ours 3; give both the same number"):
        compare_pair(pool_seeds([ours] * 2), pool_seeds([ours] * 3))
    with pytest.raises(ConfigError, match="at least one report"):
        render_html([])


def parse_chart(svg):
    """The elements of a chart, which is well-formed XML."""
    return list(ElementTree.fromstring(svg).iter())


def test_the_confusion_chart_has_a_cell_for_every_confusion_that_occurred():
    counts = torch.tensor([[8, 2, 0, 0], [0, 5, 0, 5], [0, 0, 0, 0], [1, 0, 0, 3]])
    cells = [one for one in parse_chart(draw_confusion(counts, ["a", EVIL, "never", "d"])) if len(one)]
    titles = [cell[0].text for cell in cells if cell.tag == "rect"]
    assert titles == [
        "a classified as a: 8 of 10",
        f"a classified as {EVIL}: 2 of 10",
        f"{EVIL} classified as {EVIL}: 5 of 10",
        f"{EVIL} classified as d: 5 of 10",
        "d classified as a: 1 of 4",
        "d classified as d: 3 of 4",
    ]
    cells = [cell for cell in cells if cell.tag == "rect"]
    assert [cell.get("class") for cell in cells] == ["hit", "miss", "hit", "miss", "miss", "hit"]
    assert [float(cell.get("fill-opacity")) for cell in cells] == [0.8, 0.2, 0.5, 0.5, 0.25, 0.75]
    columns = [float(cell.get("x")) for cell in cells]
    assert columns[0] == columns[4] < columns[1] == columns[2] < columns[3] == columns[5]


def test_the_histogram_counts_distances():
    rng = np.random.default_rng(0)
    own, other = rng.normal(1, 0.2, 300), rng.normal(1.5, 0.3, 300)
    paths = [
        one
        for one in parse_chart(draw_histogram(torch.tensor(own), torch.tensor(other)))
        if one.tag == "path"
    ]
    both = np.concatenate((own, other))
    low, high = both.min(), np.quantile(both, 0.995)
    expected = [np.histogram(np.clip(x, low, high), 40, (low, high))[0] for x in (own, other)]
    for path, counts in zip(paths, expected, strict=True):
        tops = [float(y) for y in re.findall(r"V([\d.]+)H", path.get("d"))]
        assert [180 - y for y in tops] == pytest.approx(168 * counts / np.max(expected), abs=0.06)


def test_distances_that_are_all_alike_have_a_histogram_too():
    alike = torch.ones(5, dtype=torch.float64)
    assert sum(one.tag == "path" for one in parse_chart(draw_histogram(alike, alike))) == 2


def test_dots_stand_at_their_values():
    chart = parse_chart(draw_dots({"bow": [0.0, 100.0], "clap": [50.0, None]}, ["ours", "raw"]))
    circles = [one for one in chart if one.tag == "circle"]
    assert [one[0].text for one in circles] == ["ours, bow: 0.0 %", "raw, bow: 100.0 %", "ours, clap: 50.0 %"]
    left, right, middle = (float(one.get("cx")) for one in circles)
    assert middle == pytest.approx((left + right) / 2)
    assert left < right


@pytest.fixture(scope="module")
def evaluation():
    """Two methods, with views and without, on a few clips whose labels mean harm, and example alignments."""
    clips = open_synthetic(subjects=3, takes=1, cameras=2, actions=["bow", "shake_hands", "clap"])
    harmful = {"bow": "bow", "shake_hands": "</script>" + EVIL, "clap": "a & b"}

    class Renamed:
        name, layout, motions = "renamed", clips.layout, clips.motions
        subjects, views = clips.subjects, clips.views
        labels = tuple(harmful[label] for label in clips.labels)

        def __len__(self):
            return len(clips)

        def __getitem__(self, index):
            return clips[index].replace(label=self.labels[index], name=f"{EVIL}{index}")

    dataset = Renamed()
    columns = Columns(dataset.labels, dataset.subjects, dataset.views, tuple(range(len(dataset))))
    test = Episodes(dataset.labels, way=3, queries=2, count=5, seed=0)
    classes = tuple(sorted(harmful.values()))
    splits = [Split("all", (), (), test, (), (), classes, 3, 1, (), columns)]
    raw = FewShotModel.raw("dtw").config.with_values({"inputs.prepare.frames": 12})
    configs = {
        f"views {EVIL}": raw.with_values({"views.kind": "euler", "views.azimuth": 30, "views.altitude": 15}),
        "raw": raw,
    }
    reports, examples = [], []
    for name, config in configs.items():
        model = FewShotModel(config)
        reports.append(evaluate(model, PROTOCOLS["synthetic"], dataset=dataset, splits=splits, method=name))
        examples += find_examples(model, reports[-1], dataset, splits, count=3)
    return dataset, reports, examples, splits, [FewShotModel(config) for config in configs.values()]


def test_examples_are_alignments_of_what_was_predicted(evaluation):
    dataset, reports, examples, _, models = evaluation
    assert len(examples) == 6
    for number, example in enumerate(examples):
        model, rows = models[number // 3], reports[number // 3].predictions
        at = [k for k in range(len(dataset)) if dataset[k].name == example.query.name]
        assert example.query.label == example.truth == dataset.labels[at[0]]
        assert example.support.label == example.predicted
        row = next(
            k for k in range(len(rows)) if rows.query[k] == at[0] and float(rows.own[k]) == example.own
        )
        nearest = rows.own[row] if example.truth == example.predicted else rows.other[row]
        assert example.distance == pytest.approx(float(nearest), rel=1e-5)
        steps = example.cost[tuple(example.path.T)]
        assert bool((example.steps >= steps - 1e-5).all())  # a cell's best view is no worse than the path's
        blocks = example.cost.shape
        assert example.path[0].tolist() == [0, 0]
        assert example.path[-1].tolist() == [blocks[0] - 1, blocks[1] - 1]
        assert len(example.query.poses) == blocks[0] == 12
        # the distance of DTW with hard minima is the sum of the path's costs over both lengths
        assert float(example.steps.sum()) / sum(blocks) == pytest.approx(example.distance, rel=1e-4)
        assert example.turns.shape == (len(example.path), 2 if model.views is not None else 0)
        assert set(example.turns.flatten().tolist()) <= {-30.0, -15.0, 0.0, 15.0, 30.0}


def test_examples_show_hits_and_misses_of_different_classes(evaluation):
    _, reports, examples, _, _ = evaluation
    for report, some in zip(reports, (examples[:3], examples[3:]), strict=True):
        right = [example.truth == example.predicted for example in some]
        misses = int((~report.predictions.is_correct).sum())
        assert right.count(False) == min(misses, 1)
        assert len({example.truth for example in some if example.truth == example.predicted}) > 1


class Tags(HTMLParser):
    """All elements and attributes, as a browser reads them."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def test_the_page_needs_nothing_else_and_runs_no_script_of_others(evaluation):
    _, reports, examples, _, _ = evaluation
    page = render_html(reports, examples=examples, title=f"title {EVIL}")
    reader = Tags()
    reader.feed(page)
    scripts = [attributes for tag, attributes in reader.found if tag == "script"]
    assert scripts == [{"type": "application/json", "id": "data"}, {}]
    assert not [tag for tag, _ in reader.found if tag in ("img", "iframe", "object", "embed", "base")]
    for _, attributes in reader.found:
        assert not {"src", "onload", "onerror", "onclick"} & attributes.keys()
        assert attributes.get("href") in (None, "data:,")
    assert "http" not in page.replace("http-equiv", "")
    assert "url(" not in page
    assert "alert" not in re.sub(r"&lt;script&gt;alert|\\u003cscript>alert", "", page)


@needs_browser
def test_the_page_works_in_a_browser(evaluation, tmp_path):
    _, reports, examples, _, _ = evaluation
    page = write_html(reports, tmp_path / "page.html", examples=examples)
    flags = ("--disable-dev-shm-usage", "--enable-logging=stderr", "--virtual-time-budget=4000")
    done = read_page(page.as_uri(), tmp_path / "profile", *flags)
    assert done.returncode == 0
    assert [line for line in done.stderr.splitlines() if "CONSOLE" in line] == []
    reader = Tags()
    reader.feed(done.stdout)
    root = next(attributes for tag, attributes in reader.found if tag == "html")
    assert (root["data-ready"], root["data-errors"]) == ("6", "0")
    section = next(attributes for _, attributes in reader.found if attributes.get("id") == "alignments")
    assert section["data-playing"] == "true"
    hidden = [
        "hidden" in attributes for _, attributes in reader.found if "panel" in attributes.get("class", "")
    ]
    assert hidden == [False, True]
    assert re.search(r"step \d+ of \d+ · query block \d+ · support block \d+", done.stdout)
    assert len([tag for tag, _ in reader.found if tag == "script"]) == 2


def test_a_page_without_examples_has_no_player(evaluation):
    page = render_html(evaluation[1])
    assert 'data-part="play"' not in page
    assert '<script type="application/json" id="data">[]</script>' in page
