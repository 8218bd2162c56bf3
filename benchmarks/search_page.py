"""The page with the results of ``search.py``."""

# ruff: noqa: E501 (tables)
import platform
from collections.abc import Callable
from typing import Any

import numpy as np


def quantile(rows: list[dict[str, Any]], share: float, key: str = "cpu") -> float:
    """Return a quantile of a measure."""
    return float(np.quantile([row[key] for row in rows], share))


def describe_share(share: float | None) -> str:
    """Return a share in percent."""
    return "not measured" if share is None else f"{100 * share:.1f} %"


def describe_sizes(facts: dict[str, Any]) -> list[str]:
    """Return the table of archives of growing length."""
    lines = [
        "## Archives of growing length\n",
        "Made from CMU by `benchmarks/scaled_archive.py`: time-warped, mirrored, with arms of other recordings. Searches",
        "are exact, or use an index that was built for a recall of 95 % or 99 %; median and 95th",
        "percentile of the examples in CPU seconds, recall of these searches (in brackets: the one that `jeanie index`",
        "stored), and peak memory with the pages of memory-mapped files (in brackets: memory of its own at the end). The",
        "examples were not used to select the settings of the index. Samples: searches that select the settings and measure",
        "the stored recall, and their CPU seconds.\n",
        "| hours | windows | features, GB | index, GB | index, CPU s | samples | examples | exact | 95 % | 99 % | recall 95 % | recall 99 % | exact, MB | index, MB | commit |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for size in facts["sizes"]:
        runs = [size[name] for name in ("exact", "95%", "99%")]
        times = [f"{quantile(run['rows'], 0.5):.2f}, {quantile(run['rows'], 0.95):.2f}" for run in runs]
        recalls = [f"{100 * run['recall']:.1f} % ({describe_share(run['stored'])})" for run in runs[1:]]
        row = [
            f"{size['hours']:.1f}", f"{size['windows']}", f"{size['feature_bytes'] / 1e9:.2f}", f"{size['index_bytes'] / 1e9:.3f}",
            f"{size['build_cpu']:.0f}", f"{size['samples']} ({size['measure_cpu']:.0f} s)", f"{len(runs[0]['rows'])}", *times, *recalls,
            *(f"{run['memory']:.0f} ({run['own']:.0f})" for run in (runs[0], runs[2])), size["commit"],
        ]  # fmt: skip
        lines.append(f"| {' | '.join(row)} |")
    return [*lines, ""]


def estimate_sizes(facts: dict[str, Any]) -> list[str]:
    """Return the table of what larger archives would take, from the two largest ones that were measured."""
    last = facts["sizes"][-1]
    per_hour = last["windows"] / last["hours"]
    cost = facts["encoding"]["cpu"] / facts["encoding"]["windows"]
    lines = [
        "## Estimates\n",
        f"Assumed: {per_hour:.0f} windows per hour, {1000 * cost:.2f} CPU ms to encode a window (measured on "
        f"{facts['encoding']['windows']} windows on a machine that was busy with other work), bytes per window as measured. "
        "The time of a search follows the line through the two largest archives, of building an index "
        "hours^1.5 from the largest. Larger archives than the last row of the table above were not measured.\n",
        "| hours | windows | features, GB | index, GB | encoding, core hours | index, core hours | exact search, s | search with index (99 %), s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for hours in (1000, 100_000):
        windows = hours * per_hour
        row = [
            f"{hours}", f"{windows:.2g}", f"{windows * last['feature_bytes'] / last['windows'] / 1e9:.0f}",
            f"{windows * last['index_bytes'] / last['windows'] / 1e9:.1f}", f"{windows * cost / 3600:.1f}",
            f"{extend(facts, lambda size: size['build_cpu'], hours, is_power=True) / 3600:.1f}",
            f"{extend(facts, lambda size: quantile(size['exact']['rows'], 0.5), hours):.0f}",
            f"{extend(facts, lambda size: quantile(size['99%']['rows'], 0.5), hours):.1f}",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(row)} |")
    return [*lines, ""]


def extend(
    facts: dict[str, Any], measure: Callable[[dict[str, Any]], float], hours: float, *, is_power: bool = False
) -> float:
    """Return a measure at more hours, on the line through the two largest archives or as hours^1.5 from the largest."""
    (x0, y0), (x1, y1) = ((size["hours"], measure(size)) for size in facts["sizes"][-2:])
    if is_power:
        return float(y1 * (hours / x1) ** 1.5)  # windows times cells, which are 2 sqrt(windows)
    return float(y1 + (hours - x1) * (y1 - y0) / (x1 - x0))


def write_page(facts: dict[str, Any]) -> str:
    """Return the page of the results."""
    lines = [
        "# Speed of search in motion capture\n",
        "Written by `benchmarks/search.py`. A search finds the ten segments that are nearest to",
        f"two seconds of a clip. {platform.machine()}, torch {facts['torch']}, one thread. Times are CPU seconds of the",
        "process, because the machine was busy with other work.\n",
    ]
    if "versions" in facts:
        part = facts["versions"]
        now, before = part["now"], part["before"]
        windows = now["rows"][0]["windows"]
        lines += [
            f"## Against the version before ({facts['before']})\n",
            f"All of CMU, 7.5 hours: {windows} windows, {len(now['rows'])} examples. Both versions (now: {facts['now']}) searched for the same",
            "examples in one run, in turn, each in a process of its own, with the features of all windows in its cache; half of the",
            "examples with one version, then with the other, then the other half. Ratios are those of the medians. First",
            f"searches: one clip in {part['every']}, {now['first']['rows'][0]['windows']} windows, without a cache.",
            ("Both found the same segments." if part["same"] else "The segments differ.") + "\n",
            "| | before | now | ratio |",
            "|---|---|---|---|",
        ]
        table = [
            ("first search, ms per window", *(version["first_ms"] for version in (before, now)), 2),
            ("bytes per window", *(version["bytes"] / windows for version in (before, now)), 0),
            ("size of the features, GB", *(version["bytes"] / 1e9 for version in (before, now)), 3),
            ("later search, median seconds", *(quantile(version["rows"], 0.5) for version in (before, now)), 2),
            ("later search, 95th percentile", *(quantile(version["rows"], 0.95) for version in (before, now)), 2),
            ("peak memory, MB", *(version["memory"] for version in (before, now)), 0),
            ("windows aligned in full, median", *(quantile(version["rows"], 0.5, "compared") for version in (before, now)), 0),
        ]  # fmt: skip
        lines += [f"| {name} | {a:.{d}f} | {b:.{d}f} | {a / b:.1f} |" for name, a, b, d in table]
        lines.append("")
    if len(facts.get("sizes", [])) > 1:
        lines += [*describe_sizes(facts), *estimate_sizes(facts)]
    lines += facts.get("notes", [])
    return "\n".join(lines).rstrip() + "\n"
