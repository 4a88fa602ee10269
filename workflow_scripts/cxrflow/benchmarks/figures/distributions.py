"""Values of several groups beside each other, as one small PNG."""

from collections.abc import Mapping

from numpy.typing import ArrayLike

from cxrflow.benchmarks.result import png_of


def draw_distributions(groups: Mapping[str, ArrayLike], label: str) -> bytes:
    """A box of each group (quartiles, whiskers to 1.5 of their distance), the first on top."""
    from matplotlib.figure import Figure

    canvas = Figure(figsize=(6.4, 0.6 + 0.36 * len(groups)), dpi=110, layout="constrained")
    axes = canvas.add_subplot()
    axes.axvline(0, color="0.8", linewidth=1)
    axes.boxplot(
        list(groups.values()),
        tick_labels=list(groups),
        orientation="horizontal",
        widths=0.6,
        showmeans=True,
        meanprops={"marker": "o", "markersize": 3, "markerfacecolor": "C0", "markeredgewidth": 0},
        medianprops={"color": "C0"},
        flierprops={"marker": ".", "markersize": 3},
    )
    axes.invert_yaxis()
    axes.set_xlabel(label)
    axes.grid(axis="x", color="0.93")
    axes.spines[["top", "right"]].set_visible(False)
    return png_of(canvas)
