"""Plots of results: what is drawn is what the results say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from handmade import fit_by_hand, small_fit, small_study

import gstudy as gs
from gstudy.report.icc_plot import joint_region
from gstudy.report.ridges import density
from gstudy.report.style import COLOURS
from gstudy.study.estimable import assess


@pytest.fixture(autouse=True)
def close_figures() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def joint() -> gs.Fit:
    return small_fit()


@pytest.fixture(scope="module")
def own() -> gs.Fit:
    """Each system has its own sds."""
    facets = [
        gs.Facet("task", role="legitimate", varies="system"),
        gs.Facet("rollout", role="legitimate", nested_in=["system", "task"]),
    ]
    study = gs.Study(score="passed", object="system", facets=facets)
    return fit_by_hand(assess(study, small_study()[1]))


@pytest.fixture(scope="module")
def results(joint: gs.Fit, own: gs.Fit) -> dict[str, tuple[Callable[..., Any], Any]]:
    board = gs.scores(own)
    return {
        "icc": (gs.plot_icc, board),
        "accuracy": (gs.plot_accuracy_icc, board),
        "tasks": (gs.plot_tasks, gs.task_table(joint)),
        "priors": (gs.plot_priors, joint),
        "difference": (gs.plot_difference, gs.compare_systems(joint, "A", "B:1", margin=0.02)),
        "whole": (gs.plot_budget_whole, gs.variance_budget(joint)),
    }


NAMES = ["icc", "accuracy", "tasks", "priors", "difference", "whole"]


def texts(ax: Any) -> str:
    return "\n".join([ax.get_title(loc="left"), *(text.get_text() for text in ax.texts)])


@pytest.mark.parametrize("name", NAMES)
def test_each_draws_where_it_is_told_and_names_its_scale(results: dict, name: str) -> None:
    draw, result = results[name]
    _, given = plt.subplots()
    figure, ax = draw(result, ax=given)
    assert ax is given
    assert figure is given.figure
    assert f"{'logit' if name == 'priors' else 'score'} scale" in texts(ax)
    own_figure, own_ax = draw(result)
    assert own_ax.figure is own_figure
    if name != "whole":
        assert "95%" in texts(own_ax)


@pytest.mark.parametrize("name", NAMES)
def test_what_it_is_not_of_is_named(results: dict, name: str) -> None:
    with pytest.raises(gs.QuantityError, match="this plot is of"):
        results[name][0]("something else")


@pytest.mark.parametrize("name", NAMES)
def test_a_level_that_is_none_is_refused(results: dict, name: str) -> None:
    draw, result = results[name]
    with pytest.raises(gs.QuantityError, match="level is not a proportion"):
        draw(result, level=95)


def intervals(ax: Any) -> np.ndarray:
    """Ends of the horizontal lines, (n, 2)."""
    from matplotlib.collections import LineCollection

    lines = [c for c in ax.collections if isinstance(c, LineCollection)]
    return np.array([s[:, 0] for c in lines for s in c.get_segments()])


def test_icc_ridges_are_sorted_with_their_intervals(results: dict) -> None:
    board = results["icc"][1]
    _, ax = gs.plot_icc(board, level=0.8)
    order = sorted(map(str, board.observed.index), key=lambda x: -board.icc.sel(system=x).median())
    assert [text.get_text() for text in ax.get_yticklabels()] == order
    expected = [np.quantile(board.icc.sel(system=label), [0.1, 0.9]) for label in order]
    np.testing.assert_allclose(intervals(ax), expected, rtol=1e-12)
    assert "80% equal-tailed" in texts(ax)


def test_iccs_by_name_and_one_alone_can_be_drawn(joint: gs.Fit) -> None:
    one = gs.icc(joint, "task")
    assert [t.get_text() for t in gs.plot_icc(one)[1].get_yticklabels()] == ["ICC(task)"]
    _, ax = gs.plot_icc({"$a_1$": one, "b": one})
    # A dollar sign in a label is no formula.
    assert next(iter(ax.get_yticklabels())).get_text() == r"\$a_1\$"


def test_a_board_without_iccs_has_no_such_plot(joint: gs.Fit) -> None:
    board = gs.scores(joint)
    for draw in (gs.plot_icc, gs.plot_accuracy_icc):
        with pytest.raises(gs.QuantityError, match="own variances"):
            draw(board)


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_a_region_holds_that_share_of_the_draws(level: float) -> None:
    from matplotlib.path import Path

    rng = np.random.default_rng(3)
    z = rng.multivariate_normal([0.5, -1.0], [[0.3, 0.2], [0.2, 0.5]], 4000)
    pairs = 1 / (1 + np.exp(-z))
    region = joint_region(pairs[:, 0], pairs[:, 1], level)
    assert region is not None
    inside = Path(np.column_stack(region)).contains_points(pairs).mean()
    # The outline is a polygon of 200 corners.
    assert inside == pytest.approx(level, abs=0.002)
    assert joint_region(np.full(10, 0.5), np.full(10, 0.2), level) is None


def test_tasks_are_rows_sorted_or_columns_when_many(joint: gs.Fit) -> None:
    table = gs.task_table(joint)
    frame = table.summary()
    _, ax = gs.plot_tasks(table)
    np.testing.assert_allclose(intervals(ax), frame[["lower", "upper"]])
    assert len(ax.get_yticklabels()) == len(frame)
    study = gs.Study(successes="k", trials="n", facets=[gs.Facet("task", role="legitimate")])
    import pandas as pd

    rows = pd.DataFrame({"task": range(200), "k": np.arange(200) % 5, "n": 4})
    many = gs.task_table(fit_by_hand(assess(study, rows), shape=(2, 50)))
    _, ax = gs.plot_tasks(many)
    shown = many.summary()
    [bars] = ax.collections
    ends = np.array([segment[:, 1] for segment in bars.get_segments()])
    np.testing.assert_allclose(ends, shown[["lower", "upper"]])
    assert f"{many.n_dead} dead" in texts(ax)
    line = next(line for line in ax.lines if line.get_label() == "expected")
    np.testing.assert_allclose(line.get_ydata(), shown["mean"])


def test_priors_stand_at_their_density(joint: gs.Fit) -> None:
    _, ax = gs.plot_priors(joint)
    labels = [text.get_text() for text in ax.get_yticklabels()]
    assert labels[0].startswith("mu  ~ Normal(")
    assert any(label.startswith("sd(task)  ~ HalfNormal(") for label in labels)
    dashed = [line for line in ax.lines if line.get_linestyle() == "--"]
    assert len(dashed) == len(labels) == 1 + len(joint.components)
    x, y = dashed[0].get_data()
    height = 0.0 - np.asarray(y)
    prior = np.exp(joint.design.mu_prior.logpdf(np.asarray(x)))
    np.testing.assert_allclose(height / height.max(), prior / prior.max(), rtol=1e-9)


def test_the_difference_is_in_points_with_its_margin(results: dict) -> None:
    comparison = results["difference"][1]
    _, ax = gs.plot_difference(comparison)
    summary = comparison.summary()
    np.testing.assert_allclose(intervals(ax), 100 * summary[["lower", "upper"]], rtol=1e-12)
    assert "worse by more than 2 points" in texts(ax)
    assert f"P(better) {100 * summary['p_better'].iloc[0]:.0f}%" in texts(ax)
    assert "B:1 minus A" in texts(ax)


def test_the_whole_is_made_of_all_shares(results: dict) -> None:
    _, ax = gs.plot_budget_whole(results["whole"][1])
    widths = [patch.get_width() for patch in ax.patches]
    assert sum(widths) == pytest.approx(1.0, rel=1e-9)
    assert widths == sorted(widths, reverse=True) or "smaller" in str(
        ax.get_legend_handles_labels()[1][-1]
    )


def test_a_density_stays_where_values_can_be() -> None:
    values = np.random.default_rng(1).beta(0.6, 3.0, 4000)
    found = density(values, (0.0, 1.0))
    assert found is not None
    grid, pdf = found
    assert grid.min() >= 0
    assert np.trapezoid(pdf, grid) == pytest.approx(1.0, abs=0.03)
    assert density(np.full(50, 0.3)) is None


def test_neighbouring_colours_differ_in_grey() -> None:
    from matplotlib.colors import to_rgb

    grey = [float(np.dot(to_rgb(colour), (0.2126, 0.7152, 0.0722))) for colour in COLOURS]
    assert np.abs(np.diff(grey)).min() > 0.08
