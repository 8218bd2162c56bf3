"""Charts of a report as SVG text: no script, no library; colours come from the page's style sheet."""

import math
from collections.abc import Mapping, Sequence
from html import escape

import torch
from jaxtyping import Float, Int
from torch import Tensor

__all__ = ["bars", "confusion_chart", "dots", "histogram"]

Number = float | int

_BINS = 40
_NAMED = 45  # classes beyond which names would be too small to read


def _svg(width: Number, height: Number, parts: Sequence[str], said: str, kind: str = "") -> str:
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" width="{width:g}" class="{kind}" role="img" '
        f'aria-label="{escape(said)}">{"".join(parts)}</svg>'
    )


def _text(x: Number, y: Number, text: object, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(str(text))}</text>'


def _line(x1: Number, y1: Number, x2: Number, y2: Number, kind: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def bars(value: Number, low: Number, high: Number, chance: Number, place: int) -> str:
    """An accuracy in percent with its interval and the level of chance, on a line from 0 to 100."""
    width, middle = 220.0, 9.0

    def x(percent: Number) -> float:
        return 2 + (width - 4) * min(100.0, max(0.0, percent)) / 100

    parts = [
        f'<rect x="2" y="{middle - 5}" width="{width - 4}" height="10" rx="5" class="track"/>',
        f'<rect x="2" y="{middle - 5}" width="{x(value) - 2:.1f}" height="10" rx="5" class="fill c{place % 6}"/>',
        _line(x(chance), 1, x(chance), 17, "chance"),
        _line(x(low), middle, x(high), middle, "whisker"),
        _line(x(low), middle - 4, x(low), middle + 4, "whisker"),
        _line(x(high), middle - 4, x(high), middle + 4, "whisker"),
    ]
    return _svg(width, 18, parts, f"{value:.1f} percent, from {low:.1f} to {high:.1f}", "bar")


def dots(rows: Mapping[str, Sequence[Number | None]], methods: Sequence[str]) -> str:
    """One line a row (a class, a split) with a dot for each method, in percent."""
    left, right, top, step = 190.0, 30.0, 26.0, 20.0
    width, height = 940.0, top + step * len(rows) + 6

    def x(percent: Number) -> float:
        return left + (width - left - right) * percent / 100

    parts = []
    for tick in range(0, 101, 20):
        parts += [
            _line(x(tick), top - 4, x(tick), height - 4, "grid"),
            _text(x(tick), 14, tick, "tick", "middle"),
        ]
    for number, (name, values) in enumerate(rows.items()):
        y = top + step * (number + 0.5)
        there = [value for value in values if value is not None]
        parts.append(_text(left - 12, y + 4, _cut(name, 28), "name", "end"))
        if there:
            parts.append(_line(x(min(there)), y, x(max(there)), y, "span"))
        for place, value in enumerate(values):
            if value is not None:
                told = escape(f"{methods[place]}, {name}: {value:.1f} %")
                apart = 3.5 * (place - (len(values) - 1) / 2)  # dots at one value stay all in sight
                parts.append(
                    f'<circle cx="{x(value):.1f}" cy="{y + apart:.1f}" r="4.5" class="dot c{place % 6}">'
                    f"<title>{told}</title></circle>"
                )
    return _svg(width, height, parts, f"accuracy of {', '.join(methods)}", "dots")


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def confusion_chart(counts: Int[Tensor, "truth predicted"], names: Sequence[str]) -> str:
    """Rows are true classes, columns predicted ones; the darker a cell, the larger its share of the row."""
    asked = torch.nonzero(counts.sum(1) + counts.sum(0))[:, 0].tolist()
    count = len(asked)
    named = count <= _NAMED
    cell = max(3.0, min(26.0, 560 / max(1, count)))
    left = top = 130.0 if named else 10.0
    parts = []
    for row, truth in enumerate(asked):
        total = int(counts[truth].sum())
        y = top + cell * row
        if named:
            parts.append(_text(left - 8, y + cell / 2 + 4, _cut(names[truth], 18), "name", "end"))
            place = f'transform="translate({left + cell * (row + 0.5) + 4:.1f} {top - 8:.1f}) rotate(-55)"'
            parts.append(f'<text {place} class="name">{escape(_cut(names[truth], 18))}</text>')
        for column, predicted in enumerate(asked):
            hits = int(counts[truth, predicted])
            if hits:
                kind = "hit" if truth == predicted else "miss"
                parts.append(
                    f'<rect x="{left + cell * column:.1f}" y="{y:.1f}" width="{cell - 1:.1f}" '
                    f'height="{cell - 1:.1f}" class="{kind}" fill-opacity="{hits / total:.3f}"><title>'
                    f"{escape(names[truth])} said to be {escape(names[predicted])}: {hits} of {total}"
                    "</title></rect>"
                )
    frame = (
        f'<rect x="{left - 1}" y="{top - 1}" width="{cell * count + 1:.1f}" height="{cell * count + 1:.1f}"'
    )
    parts.insert(0, frame + ' class="frame"/>')
    extra = 60.0 if named else 10.0
    return _svg(left + cell * count + extra, top + cell * count + 10, parts, "confusion matrix", "confusion")


def histogram(own: Float[Tensor, " row"], other: Float[Tensor, " row"]) -> str:
    """Distances to the own class and to the nearest other class, as two steps over one axis."""
    both = torch.cat((own, other))
    both = both[both.isfinite()]
    low, high = float(both.min()), float(both.quantile(0.995)) if len(both) < 2**24 else float(both.max())
    high = high if high > low else low + 1
    width, height, left, bottom = 460.0, 220.0, 12.0, 40.0
    counts = [torch.histc(values.clamp(low, high), _BINS, low, high) for values in (own, other)]
    most = max(1.0, float(torch.stack(counts).max()))
    step = (width - 2 * left) / _BINS
    parts = []
    for kind, values in zip(("own", "other"), counts, strict=True):
        heights = [(height - bottom - 12) * float(value) / most for value in values]
        points = [f"M{left:.1f} {height - bottom:.1f}"]
        for number, tall in enumerate(heights):
            points.append(f"V{height - bottom - tall:.1f}H{left + step * (number + 1):.1f}")
        parts.append(f'<path d="{"".join(points)}V{height - bottom:.1f}Z" class="step {kind}"/>')
    parts.append(_line(left, height - bottom, width - left, height - bottom, "axis"))
    for tick in _ticks(low, high):
        at = left + (width - 2 * left) * (tick - low) / (high - low)
        parts.append(_line(at, height - bottom, at, height - bottom + 4, "axis"))
        parts.append(_text(at, height - bottom + 18, f"{tick:g}", "tick", "middle"))
    parts.append(_text(width / 2, height - 4, "distance", "tick", "middle"))
    return _svg(width, height, parts, "distances to the own and to the nearest other class", "histogram")


def _ticks(low: Number, high: Number) -> list[float]:
    """Three to seven round numbers from ``low`` to ``high``."""
    power = 10.0 ** math.floor(math.log10((high - low) / 6))
    step = next(power * factor for factor in (1, 2, 5, 10) if (high - low) / (power * factor) <= 6)
    return [round(step * n, 12) for n in range(math.ceil(low / step), math.floor(high / step) + 1)]
