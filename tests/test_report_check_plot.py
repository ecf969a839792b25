"""The plot of a posterior check: what is drawn is what the summary says."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib.pyplot as plt
import numpy as np
import pytest
from handmade import small_fit
from matplotlib.colors import to_hex

from gstudy.errors import QuantityError
from gstudy.questions.posterior_checks import PosteriorCheck, posterior_check
from gstudy.report.check_plot import plot_posterior_check


@pytest.fixture(scope="module")
def check() -> PosteriorCheck:
    return posterior_check(small_fit(), seed=1, draws=200)


@pytest.fixture(autouse=True)
def close_figures() -> Iterator[None]:
    yield
    plt.close("all")


def test_rows_are_those_of_the_table_standardised(check: PosteriorCheck) -> None:
    figure, ax = plot_posterior_check(check)
    frame = check.summary()
    assert len(ax.get_yticks()) == len(frame)
    assert figure is ax.figure
    [bands] = ax.collections
    ends = np.array([segment[:, 0] for segment in bands.get_segments()])
    unit = frame["sd"].where(frame["sd"] > 0, 1.0)
    for side, column in ((0, "lower"), (1, "upper")):
        np.testing.assert_allclose(ends[:, side], (frame[column] - frame["median"]) / unit)
    points = np.concatenate([line.get_xydata() for line in ax.lines if line.get_marker() != "None"])
    points = points[points[:, 1].argsort()]
    away = ((frame["observed"] - frame["median"]) / unit).clip(-6, 6)
    np.testing.assert_allclose(points[:, 0], away[frame["observed"].notna()])


def test_scale_level_and_values_are_named(check: PosteriorCheck) -> None:
    _, ax = plot_posterior_check(check, level=0.8)
    texts = "\n".join([ax.get_title(loc="left"), *(text.get_text() for text in ax.texts)])
    assert "Posterior check" in texts
    assert "score scale" in texts
    assert "80% of replicates" in texts
    row = check.summary(0.8).iloc[0]
    assert f"{row['observed']:.3f}  [{row['lower']:.3f}, {row['upper']:.3f}]" in texts
    assert "sds" in ax.get_xlabel()


def test_verdicts_differ_in_mark_and_colour(check: PosteriorCheck) -> None:
    import pandas as pd

    observed = check.observed.assign(observed=check.observed["observed"].to_numpy(copy=True))
    values = observed["observed"].to_numpy(copy=True)
    median = check.summary()["median"].to_numpy()
    values[0], values[1] = median[0] + 100.0, median[1]
    observed["observed"] = pd.Series(values, index=observed.index)
    moved = PosteriorCheck(check.draws, observed, check.scale, check.estimand, check.notes)
    _, ax = plot_posterior_check(moved)
    marks = {
        (line.get_marker(), to_hex(str(line.get_color())))
        for line in ax.lines
        if len(line.get_xdata())
    }
    assert (">", "#d55e00") in marks
    assert ("o", "#0072b2") in marks


def test_it_draws_where_it_is_told(check: PosteriorCheck) -> None:
    _, ax = plt.subplots()
    figure, drawn = plot_posterior_check(check, ax=ax)
    assert drawn is ax
    assert figure is ax.figure
    assert ax.get_legend() is not None


def test_what_is_no_check_is_named() -> None:
    with pytest.raises(QuantityError, match="this plot is of a posterior check"):
        plot_posterior_check("check")
