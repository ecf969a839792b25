"""Plots of designs: what is drawn is what the results say, and no label is cut."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from designs import study_of, within
from handmade import small_fit
from matplotlib.collections import LineCollection
from sources import fitted

import gstudy as gs
from gstudy.planning.prices import price
from gstudy.planning.terms import score_terms
from gstudy.questions.convergence_curves import LIKE_THESE, THESE, Convergence
from gstudy.report.ticks import amount, round_numbers
from gstudy.report.width_grids import width_grid

PRICES = {"task": 25.0, "rollout": 0.4}
LEVELS = {"task": (8, 400), "rollout": (1, 16)}


@pytest.fixture(autouse=True)
def close_figures() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def fit() -> gs.Fit:
    return small_fit()


def curve(groups: tuple[str, ...] = ("all",), *, graded: bool = False) -> Convergence:
    """Normal draws whose sd falls as the root of the rollouts, of tasks like these to a floor."""
    rng, rollouts = np.random.default_rng(1), [2, 4, 8, 16, 32]
    sd = 0.1 / np.sqrt(rollouts)[:, None, None, None]
    shape = (2, len(groups), len(rollouts), 2, 2, 300)
    values = 0.4 + rng.normal(size=shape) * np.stack([np.hypot(sd, 0.02), sd])[:, None]
    if graded:
        values[1] = np.nan
    coords: dict[str, Any] = {
        "estimand": [LIKE_THESE, THESE],
        "group": list(groups),
        "rollouts": rollouts,
        "resample": [0, 1],
        "chain": [0, 1],
        "draw": np.arange(300),
    }
    anova = pd.DataFrame(
        [
            {"group": g, "rollouts": n, "resample": r, "icc": 0.4 + 0.1 * r / n}
            for g, n, r in itertools.product(groups, rollouts, (0, 1))
        ]
    )
    draws = xr.DataArray(values, coords, tuple(coords))
    by = None if len(groups) == 1 else "system"
    return Convergence(draws, anova, "task", by, dict.fromkeys(groups, 164))


@pytest.fixture(scope="module")
def plots(fit: gs.Fit) -> dict[str, Callable[..., Any]]:
    steps = gs.next_steps(fit)
    frontier = gs.design_frontier(fit, budget=900, cost=PRICES, bounds={"rollout": (1, 8)})
    found = curve()
    return {
        "steps": lambda **how: gs.plot_next_steps(steps, **how),
        "frontier": lambda **how: gs.plot_frontier(frontier, **how),
        "grid": lambda **how: gs.plot_design_grid(fit, LEVELS, cost=PRICES, target=0.1, **how),
        "convergence": lambda **how: gs.plot_convergence(found, **how),
    }


NAMES = ["steps", "frontier", "grid", "convergence"]


def texts(ax: Any) -> str:
    return "\n".join([ax.get_title(loc="left"), *(text.get_text() for text in ax.texts)])


def intervals(ax: Any, along: int) -> np.ndarray:
    """Ends of the lines along an axis, (n, 2)."""
    lines = [c for c in ax.collections if isinstance(c, LineCollection)]
    return np.array([s[:, along] for c in lines for s in c.get_segments()])


@pytest.mark.parametrize("name", NAMES)
def test_each_draws_where_it_is_told_and_names_its_scale(plots: dict, name: str) -> None:
    _, given = plt.subplots()
    figure, ax = plots[name](ax=given, level=0.8)
    assert ax is given
    assert figure is given.figure
    assert "score scale" in texts(ax)
    assert "80% equal-tailed interval" in texts(ax)
    own_figure, own_ax = plots[name]()
    assert own_ax.figure is own_figure
    with pytest.raises(gs.QuantityError, match="level is not a proportion"):
        plots[name](level=95)
    for wrong in (5, "ax", given.figure, [given]):
        with pytest.raises(gs.QuantityError, match="ax is no axes"):
            plots[name](ax=wrong)


@pytest.mark.parametrize("draw", [gs.plot_next_steps, gs.plot_frontier, gs.plot_convergence])
def test_what_it_is_not_of_is_named(draw: Callable[..., Any]) -> None:
    with pytest.raises(gs.QuantityError, match="this plot is of"):
        draw("something else")


@pytest.mark.parametrize("name", NAMES)
def test_no_text_is_cut(plots: dict, name: str) -> None:
    figure, ax = plots[name]()
    figure.canvas.draw()
    whole = figure.bbox
    written = [*ax.texts, ax.title, ax._left_title, ax.xaxis.label, ax.yaxis.label]
    # Ticks beyond the limits are not drawn.
    for axis, (low, high) in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, sorted(ax.get_ylim()))):
        ticks = zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=True)
        written += [label for place, label in ticks if low <= place <= high]
    written += [text for legend in figure.legends for text in legend.get_texts()]
    for text in written:
        if text.get_text():
            box = text.get_window_extent()
            assert box.x0 >= whole.x0 - 1, text.get_text()
            assert box.x1 <= whole.x1 + 1, text.get_text()
            assert box.y0 >= whole.y0 - 1, text.get_text()
            assert box.y1 <= whole.y1 + 1, text.get_text()


def test_bars_are_the_half_widths_by_kind(fit: gs.Fit) -> None:
    steps = gs.next_steps(fit, cost=PRICES)
    _, ax = gs.plot_next_steps(steps, level=0.8)
    labels = [text.get_text() for text in ax.get_yticklabels()]
    frame = steps.summary(0.8).loc[labels]
    assert sorted(labels) == sorted(step.name for step in steps.steps)
    kinds = list(dict.fromkeys(frame["kind"]))
    assert kinds[:3] == ["now", "more levels", "floor"]
    assert all(frame.loc[frame["kind"] == kind, "mean"].is_monotonic_increasing for kind in kinds)
    bars = sorted((bar.get_y(), bar.get_width()) for bar in ax.patches)
    np.testing.assert_allclose([width for _, width in bars], 100 * frame["mean"], rtol=1e-12)
    ends = 100 * frame[["lower", "upper"]].to_numpy()
    # A white line under a dark one.
    np.testing.assert_allclose(intervals(ax, 0), np.concatenate([ends, ends]), rtol=1e-12)
    assert f"cost +{amount(frame.loc['task: 8 to 16', 'added_cost'])}" in texts(ax)
    # One task has more than 2.5 times the half-width of eight: its bar is cut.
    assert f"{100 * frame.loc['task: 1 level', 'mean']:.1f} \N{RIGHTWARDS ARROW}" in texts(ax)
    assert 100 * frame.loc["task: 1 level", "mean"] > ax.get_xlim()[1]
    assert "arrow: the bar is longer" in texts(ax)


def test_kinds_of_steps_differ_in_grey() -> None:
    from matplotlib.colors import to_rgb

    from gstudy.report.next_steps_plot import _LOOKS

    looks = [(np.dot(to_rgb(c), (0.2126, 0.7152, 0.0722)), hatch) for c, hatch in _LOOKS.values()]
    for (grey, hatch), (other, other_hatch) in itertools.combinations(looks, 2):
        assert hatch != other_hatch or abs(grey - other) > 0.08


def test_assumed_components_have_no_intervals() -> None:
    study = study_of("task", within("rollout", "task"))
    vc = gs.assume(study, {"task": 0.1, "rollout": 0.14}, mean=0.6)
    drawn = [
        gs.plot_next_steps(gs.next_steps(vc, {"task": 50, "rollout": 1})),
        gs.plot_frontier(gs.design_frontier(vc, budget=40)),
        gs.plot_design_grid(vc, {"task": (10, 100), "rollout": (1, 4)}, target=0.1),
    ]
    for _, ax in drawn:
        assert "assumed components, no intervals" in texts(ax)
        assert "equal-tailed" not in texts(ax)
        assert not len(intervals(ax, 0))


def test_a_frontier_is_its_designs(fit: gs.Fit) -> None:
    found = gs.design_frontier(
        fit, budget=900, cost=PRICES, bounds={"rollout": (1, 8)}, coverage=0.9
    )
    _, ax = gs.plot_frontier(found, level=0.8)
    frame = found.summary(0.8)
    assert "90% interval" in frame.attrs["estimand"]
    assert "90% interval" in ax.get_title(loc="left")
    for line in ax.lines:
        np.testing.assert_allclose(line.get_xdata(), frame["cost"])
        np.testing.assert_allclose(line.get_ydata(), 100 * frame["mean"])
    assert ax.lines[0].get_drawstyle() == "steps-post"
    np.testing.assert_allclose(intervals(ax, 1), 100 * frame[["lower", "upper"]])
    last = found.designs[-1]
    assert f"{last['task']} \N{MULTIPLICATION SIGN} {last['rollout']}" in texts(ax)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("cost", "half-width of the score, points")
    trials = gs.design_frontier(fit, budget=30, goal="phi")
    _, ax = gs.plot_frontier(trials)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("cost, trials", "Phi")


def test_the_grid_is_the_budget_of_each_design(fit: gs.Fit) -> None:
    ends = {"task": (2, 5), "rollout": (1, 4)}
    terms = score_terms(fit)
    grid = width_grid(terms, ends, gs.Design({}), PRICES, 0.9, 0.8)
    for i, j in ((0, 0), (0, -1), (-1, 0), (-1, -1)):
        design = {"task": round(grid.x[j]), "rollout": round(grid.y[i])}
        width = gs.variance_budget(fit, design).half_width(0.9).to_numpy()
        assert grid.mean[i, j] == pytest.approx(width.mean(), rel=1e-12)
        assert grid.lower[i, j] == pytest.approx(np.quantile(width, 0.1), rel=1e-12)
        assert grid.upper[i, j] == pytest.approx(np.quantile(width, 0.9), rel=1e-12)
        assert grid.cost[i, j] == pytest.approx(price(fit.study, PRICES, design), rel=1e-12)


def test_a_grid_honours_pins_and_judge_patterns() -> None:
    study = study_of("task", within("rollout", "task"), gs.Facet("judge", role="error"))
    rows = [
        {"task": t, "rollout": r, "judge": j, "score": (t + r * j) % 2}
        for t, r, j in itertools.product(range(5), range(2), range(3))
    ]
    fit = fitted(study, rows, shape=(1, 30))
    ends = {"task": (3, 7), "rollout": (1, 3)}
    for others in (
        gs.Design({"judge": 3}, judges="round robin"),
        gs.Design({"judge": 2}, pin=["task"]),
    ):
        grid = width_grid(score_terms(fit, pin=list(others.pin)), ends, others, None, 0.95, 0.9)
        for i, j in ((0, 1), (-1, -1), (1, 0)):
            if others.judges != "all":
                assert set(grid.x) == {3, 4, 5, 6, 7}
            elif (i, j) != (-1, -1):
                continue
            levels = {"task": round(grid.x[j]), "rollout": round(grid.y[i]), **others}
            design = others.replace(levels=levels)
            width = gs.variance_budget(fit, design).half_width(0.95).to_numpy()
            assert grid.mean[i, j] == pytest.approx(width.mean(), rel=1e-10)
    _, ax = gs.plot_design_grid(fit, ends, design=gs.Design({"judge": 3}, judges="round robin"))
    assert "with judge 3; judges: round robin" in texts(ax)


def test_lines_stand_where_their_numbers_are(fit: gs.Fit) -> None:
    """Of assumed components the half-width is z sqrt(a / n_task + b / (n_task n_rollout))."""
    study = study_of("task", within("rollout", "task"))
    a, b, target = 0.1, 0.14, 0.06
    vc = gs.assume(study, {"task": a, "rollout": b}, mean=0.6)
    _, ax = gs.plot_design_grid(vc, {"task": (20, 300), "rollout": (1, 8)}, target=target)
    [line] = [
        found
        for found in ax.collections
        if found.get_linewidths().size and found.get_linewidths()[0] == pytest.approx(2.8)
    ]
    x, y = np.concatenate([path.vertices for path in line.get_paths()]).T
    width = 1.959964 * np.sqrt(a / x + b / (x * y))
    # Lines are straight between the points of the grid.
    np.testing.assert_allclose(width, target, rtol=2e-3)
    assert f"\N{PLUS-MINUS SIGN}{100 * target:g}" in texts(ax)
    assert "thick: half-width 6.0 points" in texts(ax)
    _, ax = gs.plot_design_grid(vc, {"task": (20, 300), "rollout": (1, 8)}, target=0.001)
    assert "half-width 0.1 points: less than that of all designs" in texts(ax)
    # Trials are counted where nothing is priced.
    assert "dashed: trials" in texts(ax)
    priced = study_of("task", within("rollout", "task"), cost=PRICES)
    vc = gs.assume(priced, {"task": a, "rollout": b}, mean=0.6)
    _, ax = gs.plot_design_grid(vc, {"task": (20, 300), "rollout": (1, 8)})
    assert "dashed: cost" in texts(ax)


@pytest.mark.parametrize(
    ("levels", "how", "message"),
    [
        ({"task": (1, 9)}, {}, "two facets"),
        ({"task": (1, 9), "rollout": (3, 3)}, {}, "the first below the second"),
        ({"task": (0, 9), "rollout": (1, 3)}, {}, "the first below the second"),
        ({"task": (1.5, 9), "rollout": (1, 3)}, {}, "whole numbers"),
        ({"task": (True, 9), "rollout": (1, 3)}, {}, "whole numbers"),
        ("task", {}, "two facets"),
        ({"tsak": (1, 9), "rollout": (1, 3)}, {}, "tsak"),
        (LEVELS, {"target": -0.1}, "target is not usable"),
        (LEVELS, {"cost": {"judge": 1}}, "unknown facet 'judge'"),
        (LEVELS, {"coverage": 2}, "coverage"),
    ],
)
def test_levels_that_make_no_grid_are_refused(
    fit: gs.Fit, levels: Any, how: dict[str, Any], message: str
) -> None:
    with pytest.raises(gs.QuantityError, match=message):
        gs.plot_design_grid(fit, levels, **how)


def test_a_grid_ends_at_a_universe() -> None:
    study = study_of(gs.Facet("task", role="legitimate", universe=50), within("rollout", "task"))
    vc = gs.assume(study, {"task": 0.1, "rollout": 0.14}, mean=0.6)
    with pytest.raises(gs.QuantityError, match="more levels than its universe"):
        gs.plot_design_grid(vc, {"task": (10, 60), "rollout": (1, 4)})
    gs.plot_design_grid(vc, {"task": (10, 50), "rollout": (1, 4)})


def test_curves_have_both_estimands_and_marks() -> None:
    found = curve()
    _, ax = gs.plot_convergence(found, level=0.8)
    frame = found.summary(0.8).droplevel(0)
    for label, prefix in (("tasks like these", ""), ("these tasks", "these_")):
        line = next(line for line in ax.lines if line.get_label() == label)
        np.testing.assert_allclose(line.get_ydata(), frame[f"{prefix}mean"])
    ends = frame[["lower", "upper"]], frame[["these_lower", "these_upper"]]
    np.testing.assert_allclose(intervals(ax, 1), np.concatenate(ends))
    reached = found.stays_below(level=0.8).loc["all"]
    assert reached.notna().sum() == 3
    marks = {
        (line.get_marker(), 2 ** round(np.log2(line.get_xdata()[0])))
        for line in ax.lines
        if line.get_marker() in ("v", "*") and len(line.get_xdata())
    }
    wanted = {("v" if w == 0.1 else "*", int(n)) for (_, w), n in reached.dropna().items()}
    assert marks == wanted
    first = int(reached[THESE, 0.05])
    assert f"narrower than 0.05: tasks like these not reached, these tasks from {first}" in texts(
        ax
    )


def test_of_several_groups_one_is_named() -> None:
    found = curve(("A", "$B$"), graded=True)
    with pytest.raises(gs.QuantityError, match=r"of one group.*group="):
        gs.plot_convergence(found)
    with pytest.raises(gs.QuantityError, match="no group 'C'"):
        gs.plot_convergence(found, group="C")
    _, ax = gs.plot_convergence(found, group="$B$")
    assert ax.get_title(loc="left").endswith(r": \$B\$")
    # Graded scores have no ICC of the bank.
    assert "these tasks" not in [line.get_label() for line in ax.lines]
    assert "these tasks" not in texts(ax)


@pytest.mark.parametrize(("low", "high"), [(1, 4), (3, 60), (0.02, 0.9), (20, 20_000), (7, 8)])
def test_round_numbers_are_between_the_ends(low: float, high: float) -> None:
    found = round_numbers(low, high)
    assert found == sorted(found)
    assert all(low <= x <= high for x in found)
    assert len(found) <= 8


def test_a_frontier_of_every_goal_has_a_name_for_it() -> None:
    from gstudy.planning.goals import GOALS
    from gstudy.report import frontier_plot

    assert set(frontier_plot._GOALS) == set(GOALS)
