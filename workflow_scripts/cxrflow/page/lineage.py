"""Which model was made from which: a small layered drawing, parents above children.

Every model stands one row below its lowest parent. An arrow that skips a row passes through a gap
left for it there, so that it never runs behind a box.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup, escape

from cxrflow.names import anchor, short_name

BOX, SLOT, GAP, ROW, HIGH = 176, 16, 12, 88, 46  # widths of a box and of a gap, in user units
SMALLEST = 0.8  # of its size; where that is too wide for the page, the drawing is scrolled


@dataclass(frozen=True)
class Node:
    """A model: what it is called, a line below it, and the whole names of what it was made from."""

    name: str
    detail: str
    parents: tuple[str, ...]


@dataclass(frozen=True)
class Place:
    """The middle of a box or gap, and its row."""

    x: float
    row: int

    @property
    def top(self) -> float:
        """Upper edge of the row."""
        return 2 + self.row * ROW


def depths(nodes: Mapping[str, Node]) -> dict[str, int]:
    """How many steps each model is from one that was made from nothing."""
    found: dict[str, int] = {}

    def depth(name: str) -> int:
        if name not in found:
            above = [depth(parent) for parent in nodes[name].parents if parent in nodes]
            found[name] = 1 + max(above, default=-1)
        return found[name]

    for name in nodes:
        depth(name)
    return found


def layout(nodes: Mapping[str, Node]) -> tuple[dict[str, Place], dict[tuple[str, str], list[str]]]:
    """Places of boxes and gaps, and the items that each arrow (parent, child) visits in order."""
    level = depths(nodes)
    rows: list[dict[str, list[str]]] = [{} for _ in range(max(level.values()) + 1)]
    routes: dict[tuple[str, str], list[str]] = {}
    for name, node in nodes.items():
        rows[level[name]][name] = []
        for parent in node.parents:
            if parent not in nodes:
                continue
            route = [parent]
            for number in range(level[parent] + 1, level[name]):
                gap = f"{parent}→{name}/{number}"
                rows[number][gap] = [route[-1]]
                route.append(gap)
            rows[level[name]][name].append(route[-1])
            routes[parent, name] = [*route, name]
    places: dict[str, Place] = {}
    widths = [sum(_width(item, nodes) + GAP for item in row) + GAP for row in rows]
    for number, row in enumerate(rows):
        # An item stands as far to the left as those above it do, so that arrows cross little.
        left = {item: _mean([places[one].x for one in above]) for item, above in row.items()}
        x = (max(widths) - widths[number]) / 2 + GAP
        for item in sorted(row, key=lambda item: left[item]):
            width = _width(item, nodes)
            places[item] = Place(x + width / 2, number)
            x += width + GAP
    return places, routes


def _width(item: str, nodes: Mapping[str, Node]) -> int:
    return BOX if item in nodes else SLOT


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def draw_lineage(nodes: Mapping[str, Node], paper: str) -> Markup:
    """The drawing of a paper; each box is a link to the model's curves."""
    places, routes = layout(nodes)
    width = max(place.x for place in places.values()) + BOX / 2 + GAP
    height = max(place.top for place in places.values()) + HIGH + 4
    tip = f"tip-{paper}"
    parts = [_arrow([places[item] for item in route], tip) for route in routes.values()]
    for name, node in nodes.items():
        x, y = places[name].x, places[name].top
        parts.append(
            f'<a href="#model-{escape(anchor(name))}">'
            f'<rect x="{x - BOX / 2}" y="{y}" width="{BOX}" height="{HIGH}" rx="7"/>'
            f'<text class="mid name" x="{x}" y="{y + 20}">{escape(node.name)}</text>'
            f'<text class="mid" x="{x}" y="{y + 36}">{escape(node.detail)}</text></a>'
        )
    said = "; ".join(
        f"{node.name} from {' and '.join(map(short_name, node.parents)) or 'nothing'}"
        for node in nodes.values()
    )
    opening = (
        f'<svg class="lineage" viewBox="0 0 {width} {height}" '
        f'style="width:100%;min-width:{SMALLEST * width:.0f}px;max-width:{width}px" '
        f'role="group" aria-label="{escape(said)}">'
        f'<defs><marker id="{tip}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path class="tip" d="M0 0L8 4L0 8z"/></marker></defs>'
    )
    return Markup(opening + "".join(parts) + "</svg>")


def _arrow(route: list[Place], tip: str) -> str:
    path = f"M{route[0].x} {route[0].top + HIGH}"
    for above, below in zip(route, route[1:], strict=False):
        start, end = above.top + HIGH, below.top - 2
        half = (start + end) / 2
        path += f"C{above.x} {half} {below.x} {half} {below.x} {end}"
        if below is not route[-1]:
            path += f"V{below.top + HIGH}"
    return f'<path class="arrow" marker-end="url(#{tip})" d="{path}"/>'
