"""Every row of the paper's tables runs what its printed text says.

The oracle reads the text of a row, and what the paper says about the whole table, and nothing else of ours. What it
expects is compared with the measurement that the grid makes.
"""

import functools
import re
from pathlib import Path

import pytest

from jeanie.paper.tables import get_table, list_cells, load_tables

SYMBOLS = ("\N{GREEK SMALL LETTER ALPHA}", "L", "\N{GREEK SMALL LETTER SIGMA}", "\N{GREEK SMALL LETTER GAMMA}",
           "±azimuth", "±altitude")  # fmt: skip
OURS = "small"  # our own table; its rows are no claims of the paper
# What the paper says about whole tables, by name: captions and sections, not rows.
BOTH_SIDES = {
    "uwa3d-fvm",
    "ntu120-multiview-fvm",
    "ntu120-fvm",
    "kinetics",
    "figure-layers-views",
}  # Suppl., FVM
EULER = {"kinetics"}  # "we simply use Euler angles for the camera viewpoint simulation"
# rows whose text does not name their views: the paper's captions and sections do
VIEWS_BY_CAPTION = {
    "camera-simulation": 2,
    "ntu120-multiview": 2,
    "backbones": 2,
    "figure-azimuth": 1,
    "figure-altitude": 1,
}
SOFT_DTW_BY_CAPTION = {"blocks", "figure-alpha", "figure-gamma", "figure-layers", "figure-sigma"}


def claim_views(table, text):
    """(kind, number of angles, sides) that the text claims."""
    alone = re.search(r"\(V\)|\+ ?V\(|\+ ?V$", text)
    angles = 2 if re.search(r"2V", text) else 1 if alone else VIEWS_BY_CAPTION.get(table, 0)
    if re.search(r"\(FVM\)|\(JEANIE\)|\+FVM|\+JEANIE", text) and not angles:
        angles = 2
    if "view. align" in text:
        angles = 2
    if not angles:
        return "none", 0, "query"
    if "Euler simple" in text:
        kind = "euler-simple"
    elif "Euler" in text or table in EULER:
        kind = "euler"
    else:
        kind = "camera"
    two_sided = "FVM" in text or "JEANIE" in text
    both = "crossval.*" in text or "best variant" in text or (table in BOTH_SIDES and two_sided)
    return kind, angles, "both" if both else "query"


def claim_method(table, text, views):
    """How blocks are aligned, as our configuration names it."""
    if "VA*" in text or "temp. align" in text or "temp. & view" in text:
        return "jeanie"
    if re.search(r"Matching Nets|Proto", text):
        return "pool-time" if views else "pool"
    if re.search(r"-DML", text) or "no soft-DTW" in text:
        return "pool"
    if "FVM" in text:
        return "fvm"
    if "2V+Transformer" in text and "JEANIE" not in text:
        return "pool-views"
    if re.search(r"soft-DTW|JEANIE|frontal|Traj|align", text) or table in VIEWS_BY_CAPTION:
        return "jeanie"
    if "baseline)" in text and re.search(r"same|novel", text):
        return "jeanie"  # "Baseline is soft-DTW"
    if table in SOFT_DTW_BY_CAPTION or table == "figure-layers-views":
        return "jeanie"
    return "pool"  # a backbone alone


def claim_loss(text):
    if "v.1" in text:
        return "squared"
    if "v.2" in text:
        return "absolute"
    if re.search(r"Matching Nets|Proto", text):
        return "cross-entropy"
    return "multi-similarity" if "DML" in text else "similarity"


def claim_metric(table, text):
    if re.search(r"Proto", text):
        return "sqeuclidean", None
    if re.search(r"Matching|DML", text):
        return "cosine", None
    if table == "backbones" and "RBF" not in text:
        return "euclidean", None
    return "rbf", None if table == "figure-sigma" else 2.0


def claim_graph(table, text):
    if table == "figure-gamma-views":  # labelled sgc_vt_gamma in the paper
        return "sgc"
    found = re.search(r"S²GC|APPNP|SGC|GCN", text)
    return {"S²GC": "s2gc", "APPNP": "appnp", "SGC": "sgc", "GCN": "gcn"}[found[0] if found else "S²GC"]


@functools.cache
def list_measured():
    """(table, text of the row, number of the column, measurement) of every cell."""
    return tuple(
        (name, table.rows[placed.row].name, placed.column, placed.cell)
        for name, table in load_tables().items()
        if name != OURS
        for placed in list_cells(table, table.full)
    )


CASES = [
    (name, row.name)
    for name, table in load_tables().items()
    if name != OURS
    for row in table.rows
    if row.method
]


@pytest.mark.parametrize(("table", "text"), CASES, ids=[f"{a}: {b}" for a, b in CASES])
def test_a_row_runs_what_its_text_says(table, text):
    said = text
    if text.startswith("ditto"):  # repeats the row above the first ditto
        names = [row.name for row in get_table(table).rows]
        said = next(n for n in reversed(names[: names.index(text)]) if not n.startswith("ditto")) + text
    kind, angles, sides = claim_views(table, said)
    cells = [cell for name, row, _, cell in list_measured() if (name, row) == (table, text)]
    assert cells
    for cell in cells:
        model, train = cell.recipe.model, cell.recipe.train
        views = model.views
        assert views.kind == kind
        if angles:
            swept = table in ("figure-azimuth", "figure-altitude")
            ranges = {views.azimuth, views.altitude}
            assert len(ranges - {0}) > 0
            assert sum(angle > 0 for angle in (views.azimuth, views.altitude)) == angles
            assert views.step == 15
            assert swept or ranges <= {0, 45}
            assert views.sides == sides
        assert model.align.method == claim_method(table, said, angles)
        searches = "crossval" in said or "best variant" in said
        assert bool(cell.searches) == searches
        assert (cell.tune_trials is not None) == searches
        assert ("loss.target" in cell.searches) == ("loss v." in text)  # "c is a small constant we tuned"
        assert train.loss.kind == claim_loss(text)
        metric, sigma = claim_metric(table, text)
        assert model.align.metric == metric
        if sigma is not None:
            assert model.align.sigma == sigma
        assert model.align.classes == (
            "prototype" if "Proto" in text else "attention" if "Matching" in text else "supports"
        )
        if "image" not in text and "DML" not in text and "VA" not in text:
            assert model.encoder.graph == claim_graph(table, text)
            assert model.encoder.transformer == ("Transformer" in text)
        shift = re.search(r"(\d)-max shift", text)
        best = 2 if "best variant" in text and table == "ntu60" else 1
        if model.align.method == "jeanie":
            assert model.align.shift == (int(shift[1]) if shift else best)
        assert model.inputs.prepare.flat == text.startswith("2D")
        assert cell.data == ("kinetics-3d" if text.startswith("3D") else "")
        assert (train.queries, train.query_classes) == (1, 1)


def test_the_swept_values_are_those_of_the_headings():
    symbols = dict(zip(SYMBOLS, ("encoder.alpha", "encoder.layers", "align.sigma", "align.gamma",
                                 "views.azimuth", "views.altitude"), strict=True))  # fmt: skip
    seen = set()
    for name, _, column, cell in list_measured():
        heading = get_table(name).columns[column].name
        symbol, equals, value = heading.partition(" = ")
        if equals and symbol in symbols:
            part, field = symbols[symbol].split(".")
            assert getattr(getattr(cell.recipe.model, part), field) == float(value), (name, heading)
            seen.add(symbol)
        if "gamma" in name:
            assert not cell.recipe.model.align.relative, name  # the absolute gamma
    assert seen == set(symbols)


def test_two_rows_of_one_table_are_never_the_same_measurement():
    """A fixed range and a searched range are two measurements, for example."""
    for name in load_tables():
        keys = {}
        for placed in list_cells(get_table(name), get_table(name).full):
            keys.setdefault(placed.cell.key, set()).add(placed.row)
        assert all(len(rows) == 1 for rows in keys.values()), name


def test_the_table_of_the_results_page_shares_trainings_and_searches_c_alone():
    table = get_table(str(Path(__file__).parents[2] / "benchmarks" / "paper_small.toml"))
    cells = list_cells(table, table.full)
    runs = [{p.cell.run_key for p in cells if p.column == column} for column in (0, 1, 2)]
    assert runs[0] == runs[1]  # 10-way and 5-way
    assert len(runs[0]) == len(table.rows) * 3
    assert not runs[0] & runs[2]
    assert {(p.column, p.cell.limit) for p in cells} == {(0, 40), (1, 40), (2, None)}
    searched = {table.rows[p.row].name: p.cell.searches for p in cells if p.cell.searches}
    assert searched == {"Table 2: loss v.1": ("loss.target",), "Table 2: loss v.2": ("loss.target",)}


def test_sizes_and_episodes_are_those_that_the_paper_prints():
    printed = {  # d, d', hidden, heads, depth, L, dropout, episodes (Suppl., network and training)
        "ntu60": (64, 100, 128, 12, 6, 6, 0.1, 100_000),
        "ntu120": (128, 200, 256, 12, 6, 6, 0.1, 200_000),
        "kinetics": (256, 500, 512, 12, 12, 6, 0.1, 500_000),
    }
    small = (32, 50, 64, 6, 6, 6, 0.5, 10_000)
    for name, _, column, cell in list_measured():
        data = re.match("ntu60|ntu120|kinetics|.", cell.protocol)[0]
        encoder, expected = cell.recipe.model.encoder, printed.get(data, small)
        assert cell.recipe.train.episodes == expected[-1]
        if encoder.kind == "graph" and "layers" not in name:
            sizes = ("width", "features", "hidden", "heads", "depth", "layers", "dropout")
            assert tuple(getattr(encoder, size) for size in sizes) == expected[:-1], (name, column)
