"""The figure that given axes stand in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gstudy.errors import QuantityError, explain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["figure_of"]


def figure_of(ax: Axes) -> Figure:
    """The whole figure of axes, also of axes in a part of one.

    Raises
    ------
    QuantityError
        For what is no axes, and axes that were taken out of their figure.
    """
    from matplotlib.axes import Axes

    if not isinstance(ax, Axes):
        raise QuantityError(
            explain("ax is no axes", given=type(ax).__name__, do="Make them by plt.subplots().")
        )
    figure = ax.get_figure(root=True)
    if figure is None:
        raise QuantityError(
            explain(
                "these axes are in no figure", do="Make them by plt.subplots(), or leave out ax."
            )
        )
    return figure
