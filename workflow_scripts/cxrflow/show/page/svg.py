"""Line charts as inline SVG. Colours and type come from the page's CSS.

Drawn here rather than by matplotlib so that a chart follows the reader's light or dark scheme,
stays a few kilobytes, and keeps its text readable at a phone's width.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

WIDTH = 310  # user units; about pixels, since charts are shown at most a little larger
MINUS = "−"


@dataclass(frozen=True)
class ChartLine:
    """A line of a chart. ``style`` is a CSS class (``train``, ``validate``, ``series0`` …)."""

    name: str
    style: str
    xs: Sequence[float]
    ys: Sequence[float]
    dots: bool = False


def ticks(low: float, high: float) -> list[float]:
    """Round numbers that cover ``low`` to ``high``: multiples of 1, 2, 2.5 or 5 times ten to n."""
    span = high - low
    if span <= 0:
        return [low]
    raw = span / 4  # about so many ticks
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


def tick_text(value: float) -> str:
    """A tick's number, short, thousands as k."""
    if abs(value) >= 10_000:
        return f"{value / 1000:g}k".replace("-", MINUS)
    return f"{value:g}".replace("-", MINUS)


def _spread(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 0.5
    return low - margin, high + margin


def line_chart(
    series: Sequence[ChartLine],
    label: str,
    x_label: str,
    *,
    y_label: str = "",
    height: int = 190,
    x_range: tuple[float, float] | None = None,
    y_range: tuple[float, float] | None = None,
    marker: float | None = None,
    diagonal: bool = False,
) -> Markup:
    """Lines over a common x.

    Args:
        label: what a screen reader says instead of the picture.
        marker: an x with a vertical line, such as the step whose weights were kept.
        diagonal: draw the line of chance of a ROC curve.
    """
    start, end, top, bottom = (56 if y_label else 40), 10, 8, 34  # margins
    every_x = [x for line in series for x in line.xs]
    every_y = [y for line in series for y in line.ys]
    x_low, x_high = x_range or (min(every_x), max(every_x))
    y_low, y_high = y_range or _spread(every_y)
    x_scale = (WIDTH - start - end) / ((x_high - x_low) or 1)
    y_scale = (height - top - bottom) / ((y_high - y_low) or 1)

    def place(x: float, y: float) -> str:
        return f"{start + (x - x_low) * x_scale:.1f},{height - bottom - (y - y_low) * y_scale:.1f}"

    elements = []
    for value in ticks(y_low, y_high):
        x, y = place(x_low, value).split(",")
        elements.append(f'<path class="grid" d="M{x} {y}H{WIDTH - end}"/>')
        elements.append(
            f'<text x="{start - 6}" y="{float(y) + 4:.1f}" class="end">{tick_text(value)}</text>'
        )
    for value in ticks(x_low, x_high):
        x = place(value, y_low).split(",")[0]
        elements.append(
            f'<text x="{x}" y="{height - bottom + 15}" class="mid">{tick_text(value)}</text>'
        )
    elements.append(f'<path class="axis" d="M{start} {height - bottom}H{WIDTH - end}"/>')
    elements.append(
        f'<text x="{(start + WIDTH - end) / 2}" y="{height - 4}" class="mid">{escape(x_label)}'
        "</text>"
    )
    if y_label:
        turned = f"translate(12 {(top + height - bottom) / 2}) rotate(-90)"
        elements.append(f'<text class="mid" transform="{turned}">{escape(y_label)}</text>')
    if diagonal:
        ends = f"M{place(x_low, y_low)}L{place(x_high, y_high)}"
        elements.append(f'<path class="chance" d="{ends}"/>')
    if marker is not None:
        x = place(marker, y_low).split(",")[0]
        elements.append(f'<path class="kept" d="M{x} {top}V{height - bottom}"/>')
    for line in series:
        points = [place(x, y) for x, y in zip(line.xs, line.ys, strict=True)]
        if len(points) > 1:
            elements.append(f'<path class="line {line.style}" d="M{"L".join(points)}"/>')
        if line.dots or len(points) == 1:
            elements += [
                f'<circle class="dot {line.style}" cx="{cx}" cy="{cy}" r="3"/>'
                for cx, cy in (point.split(",") for point in points)
            ]
    return _svg("chart", WIDTH, height, label, elements)


def _svg(style: str, width: int, height: int, label: str, elements: Sequence[str]) -> Markup:
    opening = f'<svg class="{style}" viewBox="0 0 {width} {height}" role="img"'
    return Markup(f'{opening} aria-label="{escape(label)}">{"".join(elements)}</svg>')


@dataclass(frozen=True)
class Interval:
    """A value between its ends. ``style`` is a CSS class as a line's."""

    style: str
    value: float
    low: float
    high: float


def interval_chart(intervals: Sequence[Interval], label: str) -> Markup:
    """Values with their intervals, one below the other, over a common axis.

    Args:
        label: what a screen reader says instead of the picture.
    """
    width, row, side = 190, 15, 14
    low = min(interval.low for interval in intervals)
    high = max(interval.high for interval in intervals)
    low, high = _spread([low, high])
    height = row * len(intervals) + 18

    def place(value: float) -> str:
        return f"{side + (value - low) / (high - low) * (width - 2 * side):.1f}"

    marks = ticks(low, high)
    elements = [f'<path class="grid" d="M{place(mark)} 2V{height - 15}"/>' for mark in marks]
    elements += [
        f'<text class="mid" x="{place(mark)}" y="{height - 3}">{tick_text(mark)}</text>'
        for mark in marks[:: max(1, len(marks) - 1)]
    ]
    for number, interval in enumerate(intervals):
        y = row * number + 10
        ends = f"M{place(interval.low)} {y}H{place(interval.high)}"
        elements.append(f'<path class="line whole {interval.style}" d="{ends}"/>')
        elements.append(
            f'<circle class="dot {interval.style}" cx="{place(interval.value)}" cy="{y}" r="4"/>'
        )
    return _svg("chart intervals", width, height, label, elements)
