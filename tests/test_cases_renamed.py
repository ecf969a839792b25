"""Metamorphic: names and labels are data. Odd ones give the numbers of plain ones, bit for bit."""

from __future__ import annotations

import html
import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from designs import checked, grid
from onefacet import sampled

import gstudy as gs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gstudy.fits.fitted import Fit

PLAIN = ("model", "item", "style", "judge", "run")
# Names within names, beside the words that results use themselves.
ODD = ("ta", "task", "tasks", "task 2", "residual <i>σ")
COLUMNS = ("a:b|c*", "(.*)[0]", "<b>tasks</b>", "Prüfer σ²", "run\\d+")
LABELS = {
    "model": ["p:q", "p", "<script>alert(1)</script>"],
    "item": ["1|2", "1", "*", "(.*)", "[0]", "β:γ", "a\\b", "\"quoted\" & 'single'"],
    "style": ["sd(task)", "task", "all trials"],
    "judge": ["<b>new</b>", "{0}%s"],
    # Only whole numbers are an order, over which drift is looked for.
    "run": ["1", "2"],
}
SECRETS = ("<script>", "<b>", "<i>")


@dataclass(frozen=True)
class Renamed:
    """The same trials under one set of names."""

    names: Mapping[str, str]
    study: gs.Study
    table: pd.DataFrame
    labels: Mapping[str, Sequence[str]]
    fit: Fit

    def label(self, facet: str, place: int) -> str:
        return self.labels[facet][place]

    def of_one_kind(self) -> pd.DataFrame:
        """The trials of one style and one judge."""
        kept = pd.Series(True, index=self.table.index)
        for facet in ("style", "judge"):
            kept &= self.table[self.study.facet(self.names[facet]).column] == self.label(facet, 0)
        return self.table[kept]


def study_under(names: Mapping[str, str], columns: Mapping[str, str]) -> gs.Study:
    model, item, style, judge, run = (names[name] for name in PLAIN)
    return gs.Study(
        score="score",
        object=model,
        facets=[
            gs.Facet(model, role="object", column=columns["model"]),
            gs.Facet(item, role="legitimate", column=columns["item"]),
            gs.Facet(style, role="legitimate", column=columns["style"]),
            gs.Facet(judge, role="error", column=columns["judge"]),
            gs.Facet(
                run,
                role="legitimate",
                nested_in=[model, item, style],
                column=columns["run"],
            ),
        ],
        rollout=run,
        interactions=[f"{model}:{item}"],
    )


def renamed(names: Sequence[str], columns: Sequence[str], table: pd.DataFrame) -> Renamed:
    named, placed = dict(zip(PLAIN, names, strict=True)), dict(zip(PLAIN, columns, strict=True))
    study = study_under(named, placed)
    own = table.rename(columns=placed)
    found = checked(study, own)
    labels = {
        name: found.cells.labels[facet]
        for name, facet in named.items()
        if facet in found.cells.labels
    }
    return Renamed(named, study, own, labels, sampled(study, found, draws=200, tune=300))


@pytest.fixture(scope="module")
def both() -> tuple[Renamed, Renamed]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gs.ConvergenceWarning)
        table = grid(LABELS, seed=4)
        odd = renamed(ODD, COLUMNS, table)
        # Each number is the place of its label in the order that the study keeps labels in.
        numbers = table.assign(
            **{
                name: [f"{odd.labels[name].index(x):03d}" for x in table[name]]
                for name in odd.labels
            }
        )
        return renamed(PLAIN, PLAIN, numbers), odd


def equal(one: Any, other: Any) -> None:
    """The same draws and the same numbers in the summary, bit for bit, whatever they are called."""
    if hasattr(one, "draws"):
        draws = [getattr(x.draws, "to_dataarray", lambda x=x: x.draws)() for x in (one, other)]
        np.testing.assert_array_equal(*(d.to_numpy() for d in draws))
    tables = [x.summary().select_dtypes("number") for x in (one, other)]
    assert tables[0].shape == tables[1].shape
    np.testing.assert_array_equal(*(t.to_numpy() for t in tables))


def test_the_draws_are_the_same_bits(both: tuple[Renamed, Renamed]) -> None:
    plain, odd = both
    assert len(plain.fit.components) == len(odd.fit.components) == 6
    np.testing.assert_array_equal(plain.fit.mu, odd.fit.mu)
    for name, other in zip(plain.fit.components, odd.fit.components, strict=True):
        np.testing.assert_array_equal(plain.fit.sd(name), odd.fit.sd(other))
        np.testing.assert_array_equal(plain.fit.effects(name), odd.fit.effects(other))


DESIGN = {"item": 20, "style": 2, "judge": 1, "run": 3}
OF_A_FIT: dict[str, Callable[[Renamed], Any]] = {
    "score": lambda r: gs.score(r.fit),
    "score of one": lambda r: gs.score(r.fit, system=r.label("model", 1)),
    "components": lambda r: gs.variance_components(r.fit),
    "components, logit, new": lambda r: gs.variance_components(r.fit, scale="logit", system="new"),
    "budget": lambda r: gs.variance_budget(r.fit),
    "budget of a design": lambda r: gs.variance_budget(
        r.fit, {r.names[f]: n for f, n in DESIGN.items()}
    ),
    "phi": lambda r: gs.phi(r.fit),
    "generalizability": lambda r: gs.generalizability(r.fit),
    "sem": lambda r: gs.sem(r.fit),
    "icc of items": lambda r: gs.icc(r.fit, r.names["item"], system="new"),
    "icc of styles": lambda r: gs.icc(r.fit, r.names["style"], system="new"),
    "icc of judges": lambda r: gs.icc(r.fit, r.names["judge"], system="new"),
    "phi of items": lambda r: gs.phi(r.fit, object=r.names["item"]),
    "re-run noise": lambda r: gs.rerun_noise(r.fit),
    "noises": lambda r: gs.noises(r.fit),
    "posterior check": lambda r: gs.posterior_check(r.fit, draws=100, seed=3),
    "sensitivity": lambda r: gs.prior_sensitivity(r.fit),
    "prior predictive": lambda r: gs.prior_predictive(r.study, r.table, draws=100, seed=3),
    "two systems": lambda r: gs.compare_systems(
        r.fit, r.label("model", 0), r.label("model", 2), margin=0.02, seed=3
    ),
    "leaderboard": lambda r: gs.scores(r.fit),
    "anova": lambda r: gs.anova_icc(r.table, r.names["item"], by=r.names["model"], study=r.study),
    "mean squares": lambda r: gs.anova_components(r.table, r.study),
    "clustered": lambda r: gs.clustered_se(r.table, r.names["item"], study=r.study),
    "paired": lambda r: gs.paired_noise(
        r.of_one_kind(),
        r.label("model", 0),
        r.label("model", 2),
        study=r.study,
        task=r.names["item"],
    ),
}


def quiet(ask: Callable[[Renamed], Any], given: Renamed) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gs.EstimabilityWarning)
        return ask(given)


SLOW = ("prior predictive",)
# Written for the wide pages of leaderboards.
WIDTH = {"leaderboard": 100}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in OF_A_FIT]
)
def test_every_public_result_has_the_same_numbers_and_escapes_names(
    name: str, both: tuple[Renamed, Renamed]
) -> None:
    plain, odd = (quiet(OF_A_FIT[name], one) for one in both)
    equal(plain, odd)
    escaped(odd, both[1])
    text = str(odd)
    assert max(map(len, text.splitlines())) <= WIDTH.get(name, 80)
    assert "\x1b" not in text


def escaped(result: Any, of: Renamed) -> None:
    """No tag of a name or label is a tag of the page; all that the page shows is text."""
    page = result._repr_html_()
    tags = set(re.findall(r"</?([a-zA-Z0-9]+)", page))
    assert not tags & {"script", "b", "i"}, tags
    shown = html.unescape(re.sub(r"<[^>]*>", " ", page))
    for secret in SECRETS:
        assert page.count(html.escape(secret)) == shown.count(secret)
    # No label ends a cell of the Markdown table.
    rows = [row for row in result.table().markdown().splitlines() if row.startswith("|")]
    assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1


def test_the_check_has_the_same_numbers_and_escapes_names(both: tuple[Renamed, Renamed]) -> None:
    plain, odd = (one.fit.design for one in both)
    numbers = [x.summary()[["levels", "trials_per_level"]].to_numpy() for x in (plain, odd)]
    np.testing.assert_array_equal(*numbers)
    assert [r.verdict for r in plain.rows] == [r.verdict for r in odd.rows]
    assert plain.notes == odd.notes == ()
    page = odd._repr_html_()
    assert not set(re.findall(r"</?([a-zA-Z0-9]+)", page)) & {"script", "b", "i"}
    assert html.escape("residual <i>σ") in page


def test_names_are_found_by_their_own_spelling_only(both: tuple[Renamed, Renamed]) -> None:
    """A name that contains another is another."""
    fit = both[1].fit
    task, tasks = fit.sd("task"), fit.sd("tasks")
    assert not np.array_equal(task, tasks)
    assert not np.array_equal(tasks, fit.sd("task 2"))
    for wrong in ("tas", "task.", "task 22", "(task)", "TASK", "task*"):
        with pytest.raises(
            gs.QuantityError, match=f"no component is named {re.escape(repr(wrong))}"
        ):
            fit.sd(wrong)
    for wrong in ("P", "p:", "script", "&lt;script&gt;alert(1)&lt;/script&gt;"):
        with pytest.raises(gs.QuantityError, match="no system is named"):
            gs.score(fit, system=wrong)


def test_a_file_keeps_names_and_labels(both: tuple[Renamed, Renamed], tmp_path: Any) -> None:
    odd = both[1]
    path = tmp_path / "odd.nc"
    odd.fit.save(path)
    loaded = gs.load(path)
    equal(gs.score(odd.fit), gs.score(loaded))
    assert list(gs.score(loaded).summary().index) == list(odd.labels["model"])
    assert loaded.components == odd.fit.components


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::gstudy.errors.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::gstudy.errors.EstimabilityWarning")
def test_own_fits_of_odd_labels_have_their_rates(both: tuple[Renamed, Renamed]) -> None:
    """A level's seed is made from its label, so that here only the data are the same."""
    odd = both[1]
    how: dict[str, Any] = {"seed": 2, "draws": 100, "tune": 300, "progress": False}
    fits = [gs.fit_by(one.study, one.table, by=one.names["model"], **how) for one in both]
    assert tuple(fits[1]) == tuple(odd.labels["model"])
    for a, b in zip(fits[0].values(), fits[1].values(), strict=True):
        assert a.design.cells.digest() != b.design.cells.digest()
        np.testing.assert_array_equal(a.design.cells.successes, b.design.cells.successes)
        assert gs.score(a).summary()["rate"].iloc[0] == gs.score(b).summary()["rate"].iloc[0]
