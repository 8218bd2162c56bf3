"""Draw the charts of a report as SVG text; colours come from the style sheet of the page."""

import math
from collections.abc import Mapping, Sequence
from html import escape

import torch
from jaxtyping import Float, Int
from torch import Tensor

__all__ = ["Curves", "draw_accuracy_bar", "draw_confusion", "draw_dots", "draw_histogram", "draw_training"]

Number = float
Curves = Mapping[str, Sequence[tuple[int, float, float, float | None]]]
"""Steps of a training by split: episode, loss, training accuracy and, if measured, validation accuracy in percent."""

_POINTS = 200  # per line of a training chart
_BINS = 40
_MAX_NAMES = 45  # with more classes the names would be too small to read


def _wrap_svg(width: Number, height: Number, parts: Sequence[str], description: str, kind: str = "") -> str:
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" width="{width:g}" class="{kind}" role="img" '
        f'aria-label="{escape(description)}">{"".join(parts)}</svg>'
    )


def _draw_text(x: Number, y: Number, text: object, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(str(text))}</text>'


def _draw_line(x1: Number, y1: Number, x2: Number, y2: Number, kind: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def draw_accuracy_bar(value: Number, low: Number, high: Number, chance: Number, color: int) -> str:
    """Draw an accuracy in percent with its interval and the chance level, on a line from 0 to 100."""
    width, middle = 220.0, 9.0

    def x(percent: Number) -> float:
        return 2 + (width - 4) * min(100.0, max(0.0, percent)) / 100

    parts = [
        f'<rect x="2" y="{middle - 5}" width="{width - 4}" height="10" rx="5" class="track"/>',
        f'<rect x="2" y="{middle - 5}" width="{x(value) - 2:.1f}" height="10" rx="5" class="fill c{color % 6}"/>',
        _draw_line(x(chance), 1, x(chance), 17, "chance"),
        _draw_line(x(low), middle, x(high), middle, "whisker"),
        _draw_line(x(low), middle - 4, x(low), middle + 4, "whisker"),
        _draw_line(x(high), middle - 4, x(high), middle + 4, "whisker"),
    ]
    return _wrap_svg(width, 18, parts, f"{value:.1f} percent, from {low:.1f} to {high:.1f}", "bar")


def draw_dots(rows: Mapping[str, Sequence[Number | None]], methods: Sequence[str]) -> str:
    """Draw one line per row (a class or a split) with one dot per method, in percent."""
    left, right, top, step = 190.0, 30.0, 26.0, 20.0
    width, height = 940.0, top + step * len(rows) + 6

    def x(percent: Number) -> float:
        return left + (width - left - right) * percent / 100

    parts = []
    for tick in range(0, 101, 20):
        parts += [
            _draw_line(x(tick), top - 4, x(tick), height - 4, "grid"),
            _draw_text(x(tick), 14, tick, "tick", "middle"),
        ]
    for number, (name, values) in enumerate(rows.items()):
        y = top + step * (number + 0.5)
        present = [value for value in values if value is not None]
        parts.append(_draw_text(left - 12, y + 4, _shorten(name, 28), "name", "end"))
        if present:
            parts.append(_draw_line(x(min(present)), y, x(max(present)), y, "span"))
        for method, value in enumerate(values):
            if value is not None:
                title = escape(f"{methods[method]}, {name}: {value:.1f} %")
                offset = 3.5 * (method - (len(values) - 1) / 2)  # dots of equal values stay visible
                parts.append(
                    f'<circle cx="{x(value):.1f}" cy="{y + offset:.1f}" r="4.5" class="dot c{method % 6}">'
                    f"<title>{title}</title></circle>"
                )
    return _wrap_svg(width, height, parts, f"accuracy of {', '.join(methods)}", "dots")


def _shorten(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def draw_confusion(counts: Int[Tensor, "truth predicted"], names: Sequence[str]) -> str:
    """Draw a confusion matrix: rows are true classes, columns predicted ones, darker cells larger shares of the row."""
    used = torch.nonzero(counts.sum(1) + counts.sum(0))[:, 0].tolist()
    count = len(used)
    has_names = count <= _MAX_NAMES
    cell = max(3.0, min(26.0, 560 / max(1, count)))
    left = top = 130.0 if has_names else 10.0
    parts = []
    for row, truth in enumerate(used):
        total = int(counts[truth].sum())
        y = top + cell * row
        if has_names:
            parts.append(_draw_text(left - 8, y + cell / 2 + 4, _shorten(names[truth], 18), "name", "end"))
            transform = (
                f'transform="translate({left + cell * (row + 0.5) + 4:.1f} {top - 8:.1f}) rotate(-55)"'
            )
            parts.append(f'<text {transform} class="name">{escape(_shorten(names[truth], 18))}</text>')
        for column, predicted in enumerate(used):
            hits = int(counts[truth, predicted])
            if hits:
                kind = "hit" if truth == predicted else "miss"
                parts.append(
                    f'<rect x="{left + cell * column:.1f}" y="{y:.1f}" width="{cell - 1:.1f}" '
                    f'height="{cell - 1:.1f}" class="{kind}" fill-opacity="{hits / total:.3f}"><title>'
                    f"{escape(names[truth])} classified as {escape(names[predicted])}: {hits} of {total}"
                    "</title></rect>"
                )
    frame = (
        f'<rect x="{left - 1}" y="{top - 1}" width="{cell * count + 1:.1f}" height="{cell * count + 1:.1f}"'
    )
    parts.insert(0, frame + ' class="frame"/>')
    extra = 60.0 if has_names else 10.0
    return _wrap_svg(
        left + cell * count + extra, top + cell * count + 10, parts, "confusion matrix", "confusion"
    )


def draw_histogram(own: Float[Tensor, " row"], other: Float[Tensor, " row"]) -> str:
    """Draw the distances to the true class and to the nearest other class as two histograms over one axis."""
    distances = torch.cat((own, other))
    distances = distances[distances.isfinite()]
    low, high = (
        float(distances.min()),
        float(distances.quantile(0.995)) if len(distances) < 2**24 else float(distances.max()),
    )
    high = high if high > low else low + 1
    width, height, left, bottom = 460.0, 220.0, 12.0, 40.0
    counts = [torch.histc(values.clamp(low, high), _BINS, low, high) for values in (own, other)]
    largest = max(1.0, float(torch.stack(counts).max()))
    step = (width - 2 * left) / _BINS
    parts = []
    for kind, values in zip(("own", "other"), counts, strict=True):
        heights = [(height - bottom - 12) * float(value) / largest for value in values]
        points = [f"M{left:.1f} {height - bottom:.1f}"]
        for number, bar in enumerate(heights):
            points.append(f"V{height - bottom - bar:.1f}H{left + step * (number + 1):.1f}")
        parts.append(f'<path d="{"".join(points)}V{height - bottom:.1f}Z" class="step {kind}"/>')
    parts.append(_draw_line(left, height - bottom, width - left, height - bottom, "axis"))
    for tick in _choose_ticks(low, high):
        x = left + (width - 2 * left) * (tick - low) / (high - low)
        parts.append(_draw_line(x, height - bottom, x, height - bottom + 4, "axis"))
        parts.append(_draw_text(x, height - bottom + 18, f"{tick:g}", "tick", "middle"))
    parts.append(_draw_text(width / 2, height - 4, "distance", "tick", "middle"))
    return _wrap_svg(
        width, height, parts, "distances to the true class and to the nearest other class", "histogram"
    )


def draw_training(steps: Sequence[tuple[int, float, float, float | None]]) -> str:
    """Draw loss and accuracies of a training over its episodes; the lines are moving means."""
    width, height, left, right, bottom, top = 460.0, 220.0, 40.0, 34.0, 34.0, 10.0
    last = max(1, steps[-1][0])
    episodes = torch.tensor([step[0] for step in steps], dtype=torch.float64)
    losses, accuracies = _smooth([step[1] for step in steps]), _smooth([step[2] for step in steps])
    most = max(float(losses.max()), 1e-9)

    def x(episode: Number) -> float:
        return left + (width - left - right) * episode / last

    def y(share: Number) -> float:
        return height - bottom - (height - bottom - top) * share

    keep = torch.linspace(0, len(steps) - 1, min(len(steps), _POINTS)).long()
    parts = [_draw_line(left, y(0), width - right, y(0), "axis")]
    for values, scale, kind in ((losses, most, "own"), (accuracies, 100.0, "other")):
        points = " ".join(
            f"{x(episode):.1f},{y(value / scale):.1f}"
            for episode, value in zip(episodes[keep].tolist(), values[keep].tolist(), strict=True)
        )
        parts.append(f'<polyline points="{points}" class="curve {kind}" fill="none"/>')
    for episode, _, _, validation in steps:
        if validation is not None:
            title = f"<title>episode {episode}: validation {validation:.1f} %</title>"
            parts.append(
                f'<circle cx="{x(episode):.1f}" cy="{y(validation / 100):.1f}" r="4" class="dot c1">{title}</circle>'
            )
    for share in (0.0, 0.5, 1.0):
        parts.append(_draw_text(left - 6, y(share) + 4, f"{most * share:.2g}", "tick", "end"))
        parts.append(_draw_text(width - right + 6, y(share) + 4, f"{100 * share:g}", "tick"))
    parts.append(_draw_text((left + width - right) / 2, height - 6, f"{last} episodes", "tick", "middle"))
    return _wrap_svg(width, height, parts, "loss and accuracy over the training episodes", "training")


def _smooth(values: Sequence[Number]) -> Float[Tensor, " step"]:
    """Return the mean of each value with its neighbours, a fiftieth of all values wide."""
    series = torch.tensor(values, dtype=torch.float64)
    half = max(1, len(series) // 100)
    total = torch.cat([series.new_zeros(1), series.cumsum(0)])
    index = torch.arange(len(series))
    low, high = (index - half).clamp_min(0), (index + half + 1).clamp_max(len(series))
    return (total[high] - total[low]) / (high - low)


def _choose_ticks(low: Number, high: Number) -> list[float]:
    """Return three to seven round numbers from ``low`` to ``high``."""
    power = 10.0 ** math.floor(math.log10((high - low) / 6))
    step = next(power * factor for factor in (1, 2, 5, 10) if (high - low) / (power * factor) <= 6)
    return [round(step * n, 12) for n in range(math.ceil(low / step), math.floor(high / step) + 1)]
