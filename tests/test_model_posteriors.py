"""Posteriors against exact ones, computed by quadrature elsewhere, with the priors used there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from models import counts

import gstudy as gs
from gstudy.model.sampling import fit

if TYPE_CHECKING:
    from gstudy.study.estimable import Assessment

REFERENCES = {
    row["id"]: row
    for row in json.loads(
        (Path(__file__).parent / "oracles" / "references.json").read_text(encoding="utf-8")
    )["references"]
}
ONE_FACET = [name for name in REFERENCES if name.startswith("exact_logit_1facet")]
SEPARATED = [name for name in ONE_FACET if "separation" in name or "all_zero" in name]
CROSSED = "exact_logit_crossed_4x3_n5"
PRIORS = {"mu": {"dist": "Normal", "mu": 0.0, "sigma": 1.5}}
HALF_NORMAL = {"dist": "HalfNormal", "sigma": 1.0}

# Default tests reach this bulk ESS in every quantity; the slow ones ten times as much.
ESS, MUCH_ESS = 2_000, 20_000
MOST_DRAWS = 64_000


def one_facet(name: str) -> Assessment:
    given = REFERENCES[name]["input"]
    priors = PRIORS | {"sd(task)": HALF_NORMAL}
    return counts(given["k"], given["n"], priors=priors, keep=["task"])


def crossed() -> Assessment:
    import pandas as pd
    from designs import checked

    given = REFERENCES[CROSSED]["input"]
    study = gs.Study(
        successes="k",
        trials="n",
        object="system",
        facets=[
            gs.Facet("task", role="legitimate"),
            gs.Facet("rollout", role="legitimate", column="n", nested_in=["system", "task"]),
        ],
        interactions="none",
        priors=PRIORS | {"sd(system)": HALF_NORMAL, "sd(task)": HALF_NORMAL},
    )
    rows = [
        (s, t, k, 5) for s, row in enumerate(given["K_system_by_task"]) for t, k in enumerate(row)
    ]
    return checked(study, pd.DataFrame(rows, columns=["system", "task", "k", "n"]))


def quantities(result: gs.Fit) -> dict[str, np.ndarray]:
    """The reference's names, each measured through the public functions."""
    if result.study.object is None:
        return {
            "mu": result.mu,
            "sigma": result.sd("task"),
            "icc_latent": gs.icc(result, "task", scale="logit").draws.to_numpy(),
            "icc_observed": gs.icc(result, "task").draws.to_numpy(),
            "marginal_p": gs.score(result).draws.to_numpy(),
        }
    design = {"task": 3, "rollout": 5}
    latent: dict[str, Any] = {"scale": "logit", "system": "new"}
    return {
        "mu": result.mu,
        "sigma_system": result.sd("system"),
        "sigma_task": result.sd("task"),
        "icc_system_latent": gs.icc(result, "system", **latent).draws.to_numpy(),
        "icc_task_latent": gs.icc(result, "task", **latent).draws.to_numpy(),
        "Phi_system(T=3,n=5)": gs.phi(result, design, scale="logit").draws.to_numpy(),
        "Erho2_system(T=3,n=5)": gs.generalizability(
            result, design, scale="logit"
        ).draws.to_numpy(),
    }


def sampled(found: Assessment, ess: int) -> dict[str, np.ndarray]:
    """Draws with at least this bulk ESS in every quantity, and no divergence."""
    from arviz_stats.base import array_stats

    draws = ess
    while True:
        result = fit(
            found.study,
            found,
            seed=20,
            draws=draws,
            tune=1500,
            sampler="direct",
            target_accept=0.97,
            progress=False,
        )
        assert result.diagnostics.divergences == 0
        measured = {name: np.squeeze(values) for name, values in quantities(result).items()}
        if min(array_stats.ess(values) for values in measured.values()) >= ess:
            return measured
        draws *= 3
        assert draws <= MOST_DRAWS, "the sampler is too slow to be tested"


def compare(name: str, measured: dict[str, np.ndarray]) -> None:
    """Means to 4 MCSE + 5e-4, quantiles to 4 MCSE + 2e-3, the reference's own error included."""
    from arviz_stats.base import array_stats

    reference = REFERENCES[name]
    for quantity, expected in reference["expected"]["posterior"].items():
        draws, own = measured[quantity], expected.get("mcse", 0.0)
        slack = 0.0 if own else 5e-4
        error = np.hypot(array_stats.mcse(draws, method="mean"), own)
        assert draws.mean() == pytest.approx(expected["mean"], abs=4 * error + slack), quantity
        for key, probability in (("q5", 0.05), ("q50", 0.5), ("q95", 0.95)):
            error = array_stats.mcse(draws, method="quantile", prob=probability)
            assert np.quantile(draws, probability) == pytest.approx(
                expected[key], abs=4 * float(np.hypot(error, own)) + 2e-3
            ), (quantity, key)


@pytest.mark.reference
@pytest.mark.parametrize("name", ONE_FACET)
def test_one_facet(name: str) -> None:
    compare(name, sampled(one_facet(name), ESS))


@pytest.mark.reference
def test_two_crossed_facets() -> None:
    compare(CROSSED, sampled(crossed(), ESS))


@pytest.mark.slow
@pytest.mark.reference
@pytest.mark.parametrize("name", SEPARATED)
def test_separated_to_a_third_of_the_error(name: str) -> None:
    compare(name, sampled(one_facet(name), MUCH_ESS))


@pytest.mark.slow
@pytest.mark.reference
def test_two_crossed_facets_to_a_third_of_the_error() -> None:
    compare(CROSSED, sampled(crossed(), MUCH_ESS))


def test_three_iccs_of_airline_are_told_apart() -> None:
    """The ANOVA value lies in the score-scale interval; the logit-scale ICC is another number."""
    study, trials = gs.example("airline")
    with pytest.warns(gs.EstimabilityWarning):
        result = fit(study, trials, seed=1, sampler="direct", progress=False)
    anova = gs.anova_icc(trials, facet="task").value
    assert anova == pytest.approx(0.404584368959, abs=1e-12)
    score, logit = gs.icc(result, "task"), gs.icc(result, "task", scale="logit")
    (row,) = score.summary(0.95).to_dict("records")
    assert row["lower"] < anova < row["upper"]
    assert logit.draws.mean() > score.draws.mean() + 0.1
    assert "score scale" in str(score)
    assert "logit scale" in str(logit)
