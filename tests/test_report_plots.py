"""The plot of a budget: what is drawn is what the summary says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from handmade import fit_by_hand, small_fit, small_study
from matplotlib.axes import Axes

import gstudy as gs
from gstudy.report.plots import plot_budget
from gstudy.study.estimable import assess
from gstudy.variance.budgets import VarianceBudget


@pytest.fixture(scope="module")
def budget() -> VarianceBudget:
    return gs.variance_budget(small_fit())


@pytest.fixture(autouse=True)
def close_figures() -> Iterator[None]:
    yield
    plt.close("all")


def texts(ax: Axes) -> str:
    return "\n".join([ax.get_title(loc="left"), *(text.get_text() for text in ax.texts)])


def test_bars_are_the_sorted_shares_with_their_intervals(budget: VarianceBudget) -> None:
    figure, ax = plot_budget(budget)
    frame = budget.summary().sort_values("share", ascending=False)
    places = {bar.get_y() + bar.get_height() / 2: bar.get_width() for bar in ax.patches}
    widths = [width for _, width in sorted(places.items())]
    np.testing.assert_allclose(widths, frame["share"])
    assert [label.get_text() for label in ax.get_yticklabels()] == list(frame.index)
    # The largest is on top.
    assert ax.yaxis_inverted()
    [lines] = [c for c in ax.collections if hasattr(c, "get_segments")]
    ends = np.array([segment[:, 0] for segment in lines.get_segments()])
    np.testing.assert_allclose(ends, frame[["share_lower", "share_upper"]])
    assert figure is ax.figure


def test_title_and_caption_name_estimand_scale_level_and_width(budget: VarianceBudget) -> None:
    _, ax = plot_budget(budget, level=0.8)
    found = texts(ax)
    assert "Variance budget: the score of one system" in found
    assert "score scale" in found
    assert "80% equal-tailed intervals" in found
    width = budget.half_width().values
    low, high = np.quantile(width, [0.1, 0.9])
    assert f"±{100 * width.mean():.1f} points ({100 * low:.1f} to {100 * high:.1f})" in found


def test_given_axes_are_used(budget: VarianceBudget) -> None:
    figure, (left, right) = plt.subplots(1, 2)
    found, ax = plot_budget(budget, ax=right)
    assert found is figure
    assert ax is right
    assert not left.patches


def test_global_style_is_left_alone(budget: VarianceBudget) -> None:
    before = dict(mpl.rcParams)
    plot_budget(budget)
    assert dict(mpl.rcParams) == before


def test_roles_have_colours_and_a_legend_only_where_they_differ() -> None:
    study, trials = gs.example("panel")
    budget = gs.variance_budget(fit_by_hand(assess(study, trials)))
    figure, _ = plot_budget(budget)
    [legend] = figure.legends
    assert {text.get_text() for text in legend.get_texts()} == {"legitimate", "error"}
    _, ax = plot_budget(budget, ax=plt.subplots()[1])
    assert ax.get_legend() is not None
    plain, trials = gs.example("airline")
    figure, ax = plot_budget(gs.variance_budget(fit_by_hand(assess(plain, trials))))
    assert ax.get_legend() is None
    assert figure.legends == []


def test_long_and_odd_names_are_shortened_and_never_formulas(tmp_path: Path) -> None:
    _, frame = small_study()
    long = "a very long name of a facet that goes on and on"
    study = gs.Study(
        score="passed",
        facets=[
            gs.Facet(long, role="legitimate", column="task"),
            gs.Facet("cost $x_1$ and $\\frac", role="error", column="system"),
        ],
        interactions="none",
    )
    once = frame[frame["rollout"] == 0]
    figure, ax = plot_budget(gs.variance_budget(fit_by_hand(assess(study, once))))
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert any("…" in label and len(label) <= 30 for label in labels)
    # A formula that is not one would fail here.
    figure.savefig(tmp_path / "plot.png")


def test_residual_is_explained_with_what_it_includes(budget: VarianceBudget) -> None:
    _, ax = plot_budget(budget)
    assert "residual: chance in a single trial, and system:task:rollout" in texts(ax)
    study, trials = gs.example("panel")
    _, ax = plot_budget(gs.variance_budget(fit_by_hand(assess(study, trials))))
    assert texts(ax).endswith("residual: chance in a single trial")


def test_bars_are_as_thick_for_two_rows_as_for_ten() -> None:
    thickness = []
    for name in ("airline", "panel"):
        figure, ax = plot_budget(gs.variance_budget(fit_by_hand(assess(*gs.example(name)))))
        figure.canvas.draw()
        thickness.append(ax.patches[0].get_window_extent().height)
    assert 0.9 < thickness[0] / thickness[1] < 1.1


def test_a_stamp_is_drawn() -> None:
    fit = small_fit()
    short = fit_by_hand(fit.design, shape=(2, 20))
    _, ax = plot_budget(gs.variance_budget(short))
    assert "NOT CONVERGED" in texts(ax)


def test_assumed_components_have_no_intervals() -> None:
    study = gs.Study(score="passed", facets=[gs.Facet("task", role="legitimate")])
    vc = gs.assume(study, {"task": 3.0}, mu=0.0, scale="logit")
    _, ax = plot_budget(gs.variance_budget(vc, {"task": 100}))
    assert "assumed components, no intervals" in texts(ax)
    assert not ax.collections


def test_it_is_saved_as_a_png(budget: VarianceBudget, tmp_path: Path) -> None:
    figure, _ = plot_budget(budget)
    figure.savefig(tmp_path / "budget.png")
    assert (tmp_path / "budget.png").read_bytes().startswith(b"\x89PNG")


def test_a_level_that_is_none_is_refused(budget: VarianceBudget) -> None:
    with pytest.raises(gs.QuantityError, match="level is not a proportion"):
        plot_budget(budget, level=95)


@pytest.mark.parametrize("wrong", [None, "x", 1])
def test_a_plot_is_of_a_budget(wrong: VarianceBudget) -> None:
    with pytest.raises(gs.QuantityError, match="a plot is of a budget"):
        plot_budget(wrong)
