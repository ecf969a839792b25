"""The budget as one bar: what the whole variance is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gstudy.display import percent, shortened
from gstudy.report.style import INK, alarm_of, clean, new_axes, plain, refuse, write_above
from gstudy.variance.budgets import VarianceBudget

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot_budget_whole"]

_HEIGHT_INCHES = 1.9
_LEGEND_INCHES = 0.2
_INSIDE = 0.06
# Smaller ones are one segment.
_SMALL = 0.005
_LABEL = 40
# Segments from dark to light, so that neighbours differ in grey too.
_DARKEST, _LIGHTEST = 0.05, 0.95
_DARK = 0.5


def plot_budget_whole(
    budget: VarianceBudget, *, level: float = 0.95, ax: Axes | None = None
) -> tuple[Figure, Axes]:
    """The variance of the reported score as one stacked bar, the largest source first.

    Parameters
    ----------
    budget : VarianceBudget
    level : float
        Taken as by the other plots; means have no interval here.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    figure : matplotlib.figure.Figure
    axes : matplotlib.axes.Axes

    Raises
    ------
    QuantityError
        For what is no budget, and a level outside (0, 1).

    See Also
    --------
    plot_budget : the same as bars with intervals.

    Examples
    --------
    >>> import gstudy as gs
    >>> study = gs.Study(score="passed", facets=[gs.Facet("task", role="legitimate")])
    >>> vc = gs.assume(study, {"task": 9.0}, mu=0.0, scale="logit")
    >>> figure, axes = gs.plot_budget_whole(gs.variance_budget(vc, {"task": 100}))
    >>> len(axes.patches)
    2
    """
    if not isinstance(budget, VarianceBudget):
        raise refuse(
            "a budget",
            budget,
            "what gs.variance_budget returns",
            "Such as gs.plot_budget_whole(gs.variance_budget(fit)).",
        )
    frame = budget.summary(level).sort_values("share", ascending=False, kind="stable")
    frame = _larger(frame)
    figure, ax, own = new_axes(ax, _HEIGHT_INCHES + _LEGEND_INCHES * ((len(frame) + 1) // 2))
    _draw(ax, frame)
    ticks = np.linspace(0, 1, 6)
    ax.set_xticks(ticks, [percent(tick, 0) for tick in ticks])
    ax.set_yticks([])
    ax.set_xlim(0, 1)
    ax.set_ylim(-0.5, 0.5)
    clean(ax, xlabel="share of the variance of the reported score")
    ax.spines["left"].set_visible(False)
    alarm = alarm_of(budget.notes)
    kind = "assumed components" if budget.assumed else "posterior mean shares, without intervals"
    title = f"The whole variance: {budget.estimand}"
    write_above(ax, title, [f"{budget.scale} scale; {kind}"], alarm=alarm, inches=7.0)
    if own:
        figure.legend(loc="outside lower left", ncols=2, frameon=False, fontsize=9)
    else:
        ax.legend(loc="upper center", frameon=False, fontsize=9)
    return figure, ax


def _larger(frame: pd.DataFrame) -> pd.DataFrame:
    """The sources that can be seen, and one row for all others."""
    import pandas as pd

    kept = frame.loc[frame["share"] >= _SMALL, ["share", "role"]]
    rest = frame[(frame["share"] < _SMALL) & (frame["share"] > 0)]
    if not len(rest):
        return kept
    name = f"{len(rest)} smaller source{'s' if len(rest) > 1 else ''}"
    role = ", ".join(dict.fromkeys(rest["role"]))
    last = pd.DataFrame({"share": [rest["share"].sum()], "role": [role]}, index=[name])
    return pd.concat([kept, last])


def _draw(ax: Axes, frame: pd.DataFrame) -> None:
    from matplotlib import colormaps

    map_ = colormaps["cividis"]
    tones = np.linspace(_DARKEST, _LIGHTEST, max(len(frame), 2))
    names = shortened([str(name) for name in frame.index], _LABEL)
    left = 0.0
    for tone, name, share, role in zip(
        tones, names, frame["share"].tolist(), frame["role"].tolist(), strict=False
    ):
        label = f"{plain(name)}  {percent(share)}  ({role})"
        ax.barh(0, share, left=left, height=0.72, color=map_(tone), edgecolor="white", label=label)
        if share >= _INSIDE:
            ax.text(
                left + share / 2,
                0,
                percent(share, 0),
                ha="center",
                va="center",
                fontsize=9.5,
                color="white" if tone < _DARK else INK,
            )
        left += share
