"""Measure the latency of one recognition for libraries of several sizes, compared with one pass of the encoder.

Enrols generated recordings of ten actions, 10 to 300 examples per action, and recognises others. Every round measures
each library once and the encoder once (preparing and encoding the query), so a busy machine affects all of them. The
report compares medians. Every answer is checked against a comparison with all examples. Writes docs/results/latency.md
and benchmarks/results/latency.json.
"""

import argparse
import json
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from jeanie.datasets.synthetic.action_table import ACTIONS
from jeanie.datasets.synthetic.dataset import open_synthetic
from jeanie.fewshot import FewShotModel
from jeanie.recogniser import Library, Recogniser
from jeanie.recogniser.background import BackgroundSet
from jeanie.recogniser.fingerprints import fingerprint
from jeanie.recogniser.gallery import PRUNING_SIZE
from jeanie.skeleton import Motion

ROOT = Path(__file__).resolve().parent.parent
CHOSEN = list(ACTIONS)[::7][:10]
LIMIT = 5.0


def measure_ms(work: Callable[[], object]) -> float:
    """Return the milliseconds of one call."""
    start = time.perf_counter()
    work()
    return 1e3 * (time.perf_counter() - start)


def open_recogniser(
    model: FewShotModel, background_set: BackgroundSet, examples: list[tuple[str, Motion]], folder: Path
) -> Recogniser:
    """Return a recogniser on a library file with some examples, which are already encoded."""
    library = Library(folder / f"{len(examples)}.db")
    library.add_many(examples)
    recogniser = Recogniser(model, library, background_set=background_set)
    recogniser.recognise(examples[0][1])
    return recogniser


def check_answer(recogniser: Recogniser, model: FewShotModel, query: Motion) -> int:
    """Check an answer against a comparison with every example. Return how many examples were aligned in full."""
    gallery = recogniser._gallery
    snapshot = gallery.take_snapshot()
    assert snapshot is not None
    with torch.no_grad():
        features = model.features(model.collate([query]), "query")
        distances = model.compare(features, snapshot.features)[0]
    (nearest,) = gallery.find_nearest(features, snapshot)
    for place in range(len(snapshot.actions)):
        expected = distances[snapshot.action == place].min()
        torch.testing.assert_close(nearest.distances[place], expected, rtol=1e-4, atol=1e-6)
    assert (
        snapshot.actions[int(nearest.distances.argmin())]
        == snapshot.actions[int(snapshot.action[distances.argmin()])]
    )
    return nearest.compared


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[10, 30, 100, 300], help="examples per action"
    )
    parser.add_argument("--rounds", type=int, default=60, help="number of rounds")
    parser.add_argument("--threads", type=int, default=1, help="number of torch threads")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    model = FewShotModel.load()
    background_set = BackgroundSet.for_model(model)
    subjects = max(2, -(-max(options.sizes) // 8))
    studio = open_synthetic(subjects=subjects, actions=CHOSEN)
    query_set = open_synthetic(seed=1, subjects=2, takes=1, cameras=2, actions=CHOSEN)
    by_action = {action: [i for i, label in enumerate(studio.labels) if label == action] for action in CHOSEN}
    with tempfile.TemporaryDirectory() as folder:
        recognisers = {}
        for size in options.sizes:
            examples = [(action, studio[i]) for action in CHOSEN for i in by_action[action][:size]]
            recognisers[size] = open_recogniser(model, background_set, examples, Path(folder))
            print(f"{len(examples)} examples enrolled", flush=True)
        queries = list(query_set.motions)
        aligned = {
            size: statistics.mean(check_answer(recogniser, model, q) for q in queries)
            for size, recogniser in recognisers.items()
        }
        times: dict[object, list[float]] = {"encoder": [], **{size: [] for size in recognisers}}
        brute: dict[int, list[float]] = {size: [] for size in recognisers}
        for turn in range(options.rounds):
            query = queries[turn % len(queries)]
            times["encoder"].append(measure_ms(lambda q=query: model.features(model.collate([q]), "query")))  # type: ignore[misc]
            with torch.no_grad():
                features = model.features(model.collate([query]), "query")
            for size, recogniser in recognisers.items():
                times[size].append(measure_ms(lambda r=recogniser, q=query: r.recognise(q)))  # type: ignore[misc]
                snapshot = recogniser._gallery.take_snapshot()
                with torch.no_grad():
                    brute[size].append(measure_ms(lambda s=snapshot, f=features: model.compare(f, s.targets)))  # type: ignore[misc]
        for recogniser in recognisers.values():
            recogniser.library.close()
    write_report(options, model, {key: statistics.median(values) for key, values in times.items()},
           {key: statistics.median(values) for key, values in brute.items()}, aligned)  # fmt: skip


def write_report(
    options: argparse.Namespace,
    model: FewShotModel,
    times: dict[object, float],
    brute: dict[int, float],
    aligned: dict[int, float],
) -> None:
    """Print and write the table; exit with an error if 100 examples take more than five passes of the encoder."""
    encoder = times["encoder"]
    lines = [
        "# Recognition latency",
        "",
        "Written by `benchmarks/recogniser.py`. A recognition reads the revision of the library, prepares and encodes",
        "the query, aligns it with the examples and with the background set, and computes the confidence. The table",
        "compares it with one pass of the encoder (preparing and encoding the query).",
        f"{len(CHOSEN)} actions, medians of {options.rounds} rounds in which all sizes run in turns, "
        f"{options.threads} thread{'s' * (options.threads > 1)},",
        f"{platform.machine()}, torch {torch.__version__}, model {fingerprint(model)[:8]}.",
        f"From {PRUNING_SIZE} examples on, exact bounds exclude examples that cannot be the nearest of their action.",
        "Every answer was checked against a comparison with all examples.",
        "",
        f"One pass of the encoder: {encoder:.2f} ms.",
        "",
        "| examples | recognition, ms | encoder passes | aligned in full | without bounds, ms |",
        "|---|---|---|---|---|",
    ]
    for size in options.sizes:
        count = size * len(CHOSEN)
        lines.append(
            f"| {count} | {times[size]:.2f} | {times[size] / encoder:.2f} | {100 * aligned[size] / count:.0f} % "
            f"| {brute[size]:.2f} |"
        )
    least, most = options.sizes[0], options.sizes[-1]
    if most > least:
        lines += [
            "",
            f"With {most / least:.0f} times as many examples, a recognition takes {times[most] / times[least]:.1f} "
            "times as long.",
        ]
    text = "\n".join([*lines, ""])
    print(text)
    (ROOT / "docs" / "results" / "latency.md").write_text(text)
    facts = {
        "model": fingerprint(model),
        "machine": platform.machine(),
        "threads": options.threads,
        "encoder_ms": encoder,
        "sizes": [
            {"examples": size * len(CHOSEN), "ms": times[size], "passes": times[size] / encoder}
            for size in options.sizes
        ],
    }
    (ROOT / "benchmarks" / "results" / "latency.json").write_text(json.dumps(facts, indent=1) + "\n")
    if 10 in options.sizes and times[10] > LIMIT * encoder:
        raise SystemExit(
            f"a recognition with 100 examples took {times[10] / encoder:.1f} encoder passes, the limit is {LIMIT}"
        )


if __name__ == "__main__":
    main()
