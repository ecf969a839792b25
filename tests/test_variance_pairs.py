"""Two given systems: the variance of their difference, by numbers, pairs of trials, simulation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from designs import grid, study_of, within
from exact import by_pairs, exact_source
from handmade import small_fit
from scipy.special import expit
from sources import fitted, logit_source, one

import gstudy as gs
from gstudy.errors import QuantityError
from gstudy.variance.basis import basis_of
from gstudy.variance.kernel import logistic_covariance, logistic_mean
from gstudy.variance.pairs import cross_components, pair_of, shared_weights

if TYPE_CHECKING:
    from gstudy.fits.fitted import Fit

FACETS = {"facets": ["task", "env", "rollout"], "nested": {"rollout": ["system", "task", "env"]}}


def two_systems(oracle: Any) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """The crossed model of the oracle with the effects of two systems."""
    cases = oracle("extra")["cases"]
    model, expected = cases["phi_finite_facet"], cases["difference_two_systems"]
    effects = dict(zip("AB", expected["u"], strict=True))
    source = logit_source(
        model["logit_sd"], model["mu"], object="system", effects=effects, **FACETS
    )
    return source, model["design"], expected


def test_the_difference_of_two_systems_equals_numbers_computed_elsewhere(oracle: Any) -> None:
    source, design, expected = two_systems(oracle)
    latent = basis_of(source).latent
    assert latent is not None
    sets, values = cross_components(latent, "A", "B")
    found = {latent.structure.name(s): v.item() for s, v in zip(sets, values, strict=True)}
    assert found == pytest.approx(expected["cross_components"], abs=1e-9)
    pair = pair_of(source, "A", "B", design)
    assert pair.covariance.item() == pytest.approx(expected["covariance"], abs=1e-10)
    assert pair.difference.item() == pytest.approx(expected["variance_of_difference"], abs=1e-10)
    assert abs(pair.difference.item() - expected["WRONG_sharing_system_interactions"]) > 0.01
    assert (pair.data + pair.rerun).item() == pytest.approx(pair.difference.item(), rel=1e-12)
    assert pair.smallest_gap().item() == pytest.approx(1.959964 * pair.difference.item() ** 0.5)


def test_the_parts_of_one_system_are_those_of_its_budget(oracle: Any) -> None:
    source, design, _ = two_systems(oracle)
    pair = pair_of(source, "A", "B", design)
    alone = gs.assume(
        study_of("task", "env", within("rollout", "task", "env")),
        {"task": 1.8**2 + 0.9**2, "env": 0.6**2 + 0.7**2, "task:env": 0.25},
        mu=0.5 + 0.8,
        scale="logit",
    )
    own = one(gs.variance_budget(alone, design).variance)
    assert (pair.first.sum() + pair.noise[0]).item() == pytest.approx(own, rel=1e-10)


def test_systems_are_swapped_without_a_change(oracle: Any) -> None:
    source, design, _ = two_systems(oracle)
    forth, back = pair_of(source, "A", "B", design), pair_of(source, "B", "A", design)
    assert forth.difference.item() == pytest.approx(back.difference.item(), rel=1e-12)
    assert (forth.means == back.means[::-1]).all()


# ------------------------------------------------------- all ordered pairs of trials, one by one


def ragged(**levels: Any) -> pd.DataFrame:
    """Two systems that share some tasks, unevenly; rollout labels are used again everywhere."""
    table = grid({"system": "ABC", "task": range(7), **levels, "rollout": range(2)})
    place = table["task"].astype(int)
    keep = (table["system"] == "C") | np.where(table["system"] == "A", place < 4, place > 1)
    table = table[keep]
    rng = np.random.default_rng(5)
    return table[(rng.random(len(table)) < 0.75) | (table["rollout"] == 0)]


ROLLOUT = within("rollout", "system", "task", "env")
PLAIN = study_of(
    "task",
    "env",
    ROLLOUT,
    object="system",
    interactions=["system:task", "system:env", "task:env"],
)
BY_TASK = study_of(
    "task",
    "env",
    ROLLOUT,
    object="system",
    interactions=["system:env", "task:env"],
    average="task",
)
OWN = study_of(
    gs.Facet("task", role="legitimate", varies="system"),
    "env",
    ROLLOUT,
    object="system",
    interactions=["task:env"],
)
JUDGED = study_of(
    "task",
    gs.Facet("env", role="error"),
    within("rollout", "system", "task"),
    object="system",
    interactions=["system:task"],
)
HELD = study_of(
    "task",
    gs.Facet("env", role="controlled"),
    ROLLOUT,
    object="system",
    interactions=["system:task", "system:env", "task:env"],
)
GRADED = study_of(
    "task", "env", ROLLOUT, object="system", interactions=["system:task"], family="gaussian"
)
HELD_TWICE = study_of(
    "task",
    gs.Facet("env", role="controlled"),
    gs.Facet("mode", role="controlled"),
    ROLLOUT,
    object="system",
    interactions=["system:task", "system:env", "task:env"],
)
CASES = {
    "held_twice": HELD_TWICE,
    "plain": PLAIN,
    "by_task": BY_TASK,
    "own": OWN,
    "judged": JUDGED,
    "held": HELD,
    "graded": GRADED,
}


class Trials:
    """The trials of a fit's systems, with what each one's linear predictor is made of."""

    def __init__(self, fit: Fit, rows: pd.DataFrame, labels: tuple[str, str]) -> None:
        self.fit, self.study = fit, fit.study
        self.rows = rows[rows["system"].isin(labels)].astype(str).reset_index(drop=True)
        self.held = {f for c in fit.design.fixed for f in c.facets}

    def labels(self, facets: Any) -> list[tuple[str, ...]]:
        names = [f for f in self.fit.design.cells.facets if f in facets]
        return list(self.rows[names].itertuples(index=False, name=None))

    def known(self, component: Any) -> bool:
        """Whether its effects are given with the system."""
        return "system" in component.facets and component.facets <= {"system", *self.held}

    def weights(self) -> np.ndarray:
        """+ for B, - for A, as the study averages."""
        rows, sign = self.rows, np.where(self.rows["system"] == "B", 1.0, -1.0)
        if self.study.averaged_over is None:
            return np.asarray(sign / rows.groupby("system")["task"].transform("size"))
        within_task = rows.groupby(["system", "task"])["env"].transform("size")
        return np.asarray(sign / within_task / rows.groupby("system")["task"].transform("nunique"))

    def means(self) -> np.ndarray:
        """Mean linear predictor of each trial, (n_draws, n_trials)."""
        fit, found = self.fit, np.repeat(self.fit.mu.ravel()[:, None], len(self.rows), axis=1)
        for component in fit.design.cells.components:
            if component.fixed:
                effects, facets = fit.fixed(component.name), component.facets
            elif self.known(component):
                effects, facets = fit.effects(component.name), component.facets
            else:
                continue
            texts = [":".join(key) for key in self.labels(facets)]
            own = [str(x) for x in effects.coords[component.name].values]
            found += effects.values.reshape(len(found), -1)[:, [own.index(t) for t in texts]]
        return found

    def shared(self) -> np.ndarray:
        """Covariance of the linear predictors of each pair, (n_draws, n_trials, n_trials)."""
        n, fit = len(self.rows), self.fit
        total = np.zeros((fit.mu.size, n, n))
        system = list(self.rows["system"])
        for component in fit.design.components:
            if self.known(component):
                continue
            keys = self.labels(component.facets)
            same = np.array([[a == b for a in keys] for b in keys], dtype=float)
            if component.varies is None:
                total += same * fit.sd(component.name).ravel()[:, None, None] ** 2
                continue
            correlation = fit.correlation(component.name).values.reshape(fit.mu.size, 3, 3)
            sds = np.stack([fit.own_sd(component.name, s).ravel() for s in "ABC"], axis=1)
            places = ["ABC".index(s) for s in system]
            covariance = (correlation * sds[:, :, None] * sds[:, None, :])[:, places][..., places]
            total += same * covariance
        return total

    def variance(self) -> np.ndarray:
        """Var(B - A) by enumeration, (n_draws,)."""
        weights, means, shared = self.weights(), self.means(), self.shared()
        product = weights[:, None] * weights[None, :]
        if self.study.family == "gaussian":
            noise = self.fit.sd("residual").ravel() ** 2 * (weights**2).sum()
            return np.asarray((shared * product).sum(axis=(1, 2)) + noise)
        totals = np.diagonal(shared, axis1=1, axis2=2)
        n = len(weights)
        i, j = (x.ravel() for x in np.meshgrid(range(n), range(n), indexing="ij"))
        pairs = logistic_covariance(
            means[:, i], means[:, j], totals[:, i], totals[:, j], shared[:, i, j]
        )
        expected = logistic_mean(means, totals)
        pairs[:, i == j] = (expected * (1 - expected))[:, i[i == j]]
        return np.asarray((pairs * product.ravel()).sum(axis=1))


@pytest.mark.parametrize("case", CASES)
def test_the_variance_equals_the_sum_over_all_ordered_pairs_of_trials(case: str) -> None:
    levels = {"mode": "pq"} if case == "held_twice" else {}
    rows = ragged(env="xy", **levels)
    # As many draws as there are levels would let arrays of the wrong shape meet.
    fit = fitted(CASES[case], rows, shape=(2, 3))
    pair = pair_of(fit, "A", "B")
    expected = Trials(fit, rows, ("A", "B")).variance()
    np.testing.assert_allclose(pair.difference.ravel(), expected, rtol=0, atol=1e-10)
    # Without the covariance it is another number.
    apart = pair.first.sum(axis=0) + pair.second.sum(axis=0) + pair.noise.sum(axis=0)
    assert (np.abs(apart.ravel() - expected) > 1e-6).all()


@pytest.mark.parametrize("bank", [7, 14])
def test_a_bank_takes_both_systems_own_level_weights_out(bank: int) -> None:
    """A ran level x more often, B level y: the claim of each is at its own weights."""
    rng = np.random.default_rng(4)
    rows = [
        {"system": s, "task": t, "c": c, "try": r}
        for s, often in (("A", "x"), ("B", "y"))
        for t in range(6)
        for c in "xy"
        for r in range(int(rng.integers(1, 3)) + 2 * (c == often))
    ]
    table = pd.DataFrame(rows).groupby(["system", "task", "c"], as_index=False).size()
    study = gs.Study(
        successes="k", trials="n", object="system", interactions=["task:c"], keep=["task:c"],
        facets=[
            gs.Facet("task", role="legitimate", universe=bank),
            gs.Facet("c", role="controlled"),
        ],
    )  # fmt: skip
    level, effect = {"x": -0.7, "y": 0.7}, {"A": 0.4, "B": -0.3}
    source = exact_source(
        study, table.rename(columns={"size": "n"}).assign(k=0), {"system": 0.5, "task": 1.2,
        "task:c": 0.8}, 0.1, fixed={(c,): b for c, b in level.items()}, effects=effect,
    )  # fmt: skip
    count = {s: sum(row["system"] == s for row in rows) for s in "AB"}
    sign = {"A": -1.0, "B": 1.0}
    weights = [sign[row["system"]] / count[row["system"]] for row in rows]
    claim = [
        ({"system": s, "task": t, "c": c}, w / bank)
        for s in "AB"
        for c in "xy"
        for w in [
            sum(
                w
                for row, w in zip(rows, weights, strict=True)
                if (row["system"], row["c"]) == (s, c)
            )
        ]
        for t in range(bank)
    ]
    expected = by_pairs(
        rows, weights, {("task",): 1.2, ("task", "c"): 0.8},
        lambda row: 0.1 + level[row["c"]] + effect[row["system"]],
        claim=claim, claimed=[("task",), ("task", "c")],
    )  # fmt: skip
    assert pair_of(source, "A", "B").difference.item() == pytest.approx(expected, abs=1e-10)


def test_rollouts_with_the_same_labels_are_never_shared() -> None:
    rows = ragged(env="xy")
    fit = fitted(JUDGED, rows, shape=(2, 2))
    assert "system:task:rollout" in fit.components
    pair = pair_of(fit, "A", "B")
    moving = [bool(s & {"rollout"}) for s in pair.sets]
    assert any(moving)
    assert not pair.crossed[moving].any()
    basis = basis_of(fit)
    assert not shared_weights(basis, ("A", "B"), [frozenset({"task", "rollout"})])[0].any()


def test_systems_without_a_task_in_common_do_not_covary() -> None:
    study = study_of(
        "task", within("rollout", "system", "task"), object="system", interactions=["system:task"]
    )
    rows = ragged()
    apart = rows[~((rows["system"] == "B") & (rows["task"].astype(int) < 4))]
    assert not pair_of(fitted(study, apart, shape=(2, 2)), "A", "B").covariance.any()
    assert (pair_of(fitted(study, rows, shape=(2, 2)), "A", "B").covariance > 0).all()


def test_a_negative_correlation_makes_a_negative_covariance() -> None:
    study = study_of(
        gs.Facet("task", role="legitimate", varies="system"),
        within("rollout", "system", "task"),
        object="system",
    )
    rows = grid({"system": "AB", "task": range(6), "rollout": range(2)})
    fit = fitted(study, rows, shape=(2, 3))
    # A view: the draws of the fit themselves.
    values = fit.posterior["posterior"]["corr(task)"].values
    values[..., 0, 1] = values[..., 1, 0] = -0.6
    pair = pair_of(fit, "A", "B")
    assert (pair.covariance < 0).all()
    means = [fit.mu + fit.effects("system").values[..., k] for k in (0, 1)]
    sds = [fit.own_sd("task", label) for label in "AB"]
    expected = logistic_covariance(*means, sds[0] ** 2, sds[1] ** 2, -0.6 * sds[0] * sds[1]) / 6
    np.testing.assert_allclose(pair.covariance, expected, atol=1e-12)


def test_the_variance_of_a_difference_equals_simulated_studies(oracle: Any) -> None:
    source, _, _ = two_systems(oracle)
    pair = pair_of(source, "A", "B", {"task": 6, "env": 2, "rollout": 1})
    rng, n = np.random.default_rng(3), 40_000
    task, env = rng.normal(0, 1.8, (n, 6, 1)), rng.normal(0, 0.6, (n, 1, 2))
    both = 0.5 + task + env + rng.normal(0, 0.5, (n, 6, 2))
    scores = []
    for effect in (0.8, -0.5):
        own = rng.normal(0, 0.9, (n, 6, 1)) + rng.normal(0, 0.7, (n, 1, 2))
        scores.append((rng.random((n, 6, 2)) < expit(both + effect + own)).mean(axis=(1, 2)))
    simulated = np.var(scores[1] - scores[0])
    # The sd of a variance over n studies is sqrt(2 / n) of it: .7%.
    assert pair.difference.item() == pytest.approx(simulated, rel=0.03)


def test_a_finite_bank_takes_its_share_of_data_noise_away(oracle: Any) -> None:
    model = oracle("extra")["cases"]["phi_finite_facet"]
    study = study_of(
        gs.Facet("task", role="legitimate", universe=20), within("rollout", "system", "task"),
        object="system",
    )  # fmt: skip
    variances = {k: model["logit_sd"][k] ** 2 for k in ("system", "task", "system:task")}
    source = gs.assume(study, variances, mu=0.5, scale="logit", effects={"A": 0.8, "B": -0.5})
    whole = pair_of(source, "A", "B", {"task": 20, "rollout": 3})
    assert np.abs(whole.data).max() < 1e-15
    assert whole.rerun.item() == pytest.approx(whole.noise.sum())
    half = pair_of(source, "A", "B", {"task": 10, "rollout": 3})
    unlimited = pair_of(
        logit_source(
            {k: v**0.5 for k, v in variances.items()}, 0.5, facets=["task", "rollout"],
            nested={"rollout": ["system", "task"]}, object="system",
            effects={"A": 0.8, "B": -0.5},
        ),
        "A", "B", {"task": 10, "rollout": 3},
    )  # fmt: skip
    assert half.data.item() == pytest.approx(unlimited.data.item() * 0.5, rel=1e-10)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (("A", "Z"), r"no system is called 'Z'.*Allowed: A, B:1, C/2"),
        (("A", "B"), r"no system is called 'B'"),
        (("A", "A"), r"a system is compared with itself. Given: 'A'"),
    ],
)
def test_two_different_fitted_systems_are_needed(labels: tuple[str, str], message: str) -> None:
    with pytest.raises(QuantityError, match=message):
        pair_of(small_fit(), *labels)


def test_a_source_of_one_system_is_refused() -> None:
    alone = logit_source({"task": 1.0}, 0.0, facets=["task"])
    with pytest.raises(QuantityError, match=r"by a fit of both of them.*knows no system"):
        pair_of(alone, "A", "B", {"task": 3})
    study = study_of("task", object="system")
    known = gs.assume(study, {"task": 1.0}, mu=0.0, scale="logit", effects={"A": 0.5})
    with pytest.raises(QuantityError, match=r"only 'A'.*gs\.fit_by"):
        pair_of(known, "A", "B", {"task": 3})
