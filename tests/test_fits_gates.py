"""Gates: each one fails alone, says which quantity and by how much, and what to do."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from gstudy.errors import ConvergenceWarning
from gstudy.fits.gates import Diagnostics, assess, stamp, warn_if_failed

SHAPE = (4, 500)


def normal(seed: int = 1, shape: tuple[int, int] = SHAPE) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def correlated(rho: float, seed: int = 1) -> np.ndarray:
    steps = normal(seed)
    for i in range(1, steps.shape[1]):
        steps[:, i] = rho * steps[:, i - 1] + np.sqrt(1 - rho**2) * steps[:, i]
    return steps


def quiet(**changes: np.ndarray) -> dict[str, np.ndarray]:
    return {"diverging": np.zeros(SHAPE, bool), "energy": normal(9)} | changes


def test_independent_draws_pass_every_gate() -> None:
    found = assess({"mu": normal(1), "sd(task)": normal(2)}, quiet())
    assert found.passed
    assert found.failures() == []
    assert list(found.frame.index) == ["mu", "sd(task)"]
    assert found.frame["ess_bulk"].between(1500, 2600).all()
    assert found.chains == 4
    assert found.draws == 500
    assert len(found.ebfmi) == 4
    assert found.summary()["passed"].all()
    assert str(found).startswith("gates passed: R-hat <= 1.00")


def test_numbers_are_those_of_arviz() -> None:
    import arviz as az

    draws = {"mu": normal(1), "sd(task)": correlated(0.8)}
    found = assess(draws, quiet()).frame
    posterior = xr.Dataset({name: (("chain", "draw"), values) for name, values in draws.items()})
    # ArviZ's own default takes the quantiles of its default interval.
    tail = az.ess(posterior, method="tail", prob=(0.05, 0.95))
    for name in draws:
        assert found.loc[name, "rhat"] == float(az.rhat(posterior)[name])
        assert found.loc[name, "ess_bulk"] == float(az.ess(posterior)[name])
        assert found.loc[name, "ess_tail"] == float(tail[name])


def test_shifted_chain_fails_r_hat_with_quantity_value_and_limit() -> None:
    shifted = normal()
    shifted[0] += 1.0
    [text] = [t for t in assess({"mu": shifted}, quiet()).failures() if "R-hat" in t]
    assert text.startswith("R-hat of mu is 1.09")
    assert text.endswith("(limit 1.01)")


def test_value_beside_the_limit_is_not_rounded_onto_it() -> None:
    frame = pd.DataFrame(
        {
            "rhat": [1.01003],
            "ess_bulk": [399.9],
            "ess_tail": [800.0],
            "kind": "parameter",
            "state": "varies",
        },
        index=["mu"],
    )
    texts = Diagnostics(frame, 0, (0.2999, 0.9), 4, 500).failures()
    assert texts == [
        "R-hat of mu is 1.0101 (limit 1.01)",
        "bulk ESS of mu is 399 (limit 400)",
        "E-BFMI of chain 0 is 0.29 (limit 0.3)",
    ]


def test_autocorrelated_draws_fail_both_ess() -> None:
    texts = assess({"mu": normal(), "sd(task)": correlated(0.97)}, quiet()).failures()
    assert any(
        t.startswith("bulk ESS of sd(task) is ") and t.endswith("(limit 400)") for t in texts
    )
    assert any(t.startswith("tail ESS of sd(task) is ") for t in texts)
    assert not any("of mu is" in t for t in texts)


def test_tail_ess_fails_alone() -> None:
    sticky = normal(3)
    sticky[:, 100:160] = np.sort(np.abs(sticky[:, 100:160])) + 3.0
    texts = assess({"mu": sticky}, quiet()).failures()
    assert any("tail ESS of mu" in t for t in texts)


@pytest.mark.parametrize(("count", "text"), [(1, "1 divergence (limit 0)"), (7, "7 divergences")])
def test_one_divergence_fails(count: int, text: str) -> None:
    diverging = np.zeros(SHAPE, bool)
    diverging[0, :count] = True
    found = assess({"mu": normal()}, quiet(diverging=diverging))
    assert found.divergences == count
    assert not found.passed
    assert found.failures()[0].startswith(text)


def test_low_energy_fails_and_names_the_chain() -> None:
    energy = normal(4)
    energy[2] = np.cumsum(energy[2])
    found = assess({"mu": normal()}, quiet(energy=energy))
    assert [t for t in found.failures() if t.startswith("E-BFMI of chain 2 is 0.")]
    assert not found.summary().loc["E-BFMI", "passed"]


def test_sampler_without_energy_has_no_energy_gate() -> None:
    found = assess({"mu": normal()}, {"diverging": np.zeros(SHAPE, bool)})
    assert found.passed
    assert found.ebfmi == ()
    assert "E-BFMI" not in found.summary().index


def test_constant_parameter_fails_and_constant_derived_quantity_passes() -> None:
    still = np.zeros(SHAPE)
    found = assess({"mu": normal(), "sd(task)": still}, quiet())
    assert found.failures() == ["sd(task) never moved"]
    assert assess({"mu": normal()}, quiet(), derived={"share(task)": still}).passed


def test_chains_that_stand_still_at_different_values_fail() -> None:
    still = np.repeat([[0.0], [0.0], [1.0], [1.0]], SHAPE[1], axis=1)
    texts = assess({"mu": normal()}, quiet(), derived={"share": still}).failures()
    assert texts[0] == "R-hat of share is over 10 (limit 1.01)"


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_value_that_is_not_finite_fails(value: float) -> None:
    broken = normal()
    broken[1, 3] = value
    found = assess({"mu": normal(), "sd(task)": broken}, quiet())
    assert found.failures() == ["sd(task) holds values that are not finite"]
    assert np.isnan(found.frame.loc["sd(task)", "rhat"])


def test_one_chain_says_that_it_has_no_r_hat() -> None:
    stats = {"diverging": np.zeros((1, 1000), bool), "energy": normal(2, (1, 1000))}
    found = assess({"mu": normal(1, (1, 1000))}, stats)
    assert found.failures() == ["one chain has no R-hat (at least 2 chains, better 4)"]
    assert "rhat" not in found.worst
    assert "nan" not in str(found)
    with pytest.warns(ConvergenceWarning, match="Sample 4 chains of 1000 draws"):
        warn_if_failed(found)


@pytest.mark.parametrize("draws", [1, 3])
def test_a_handful_of_draws_says_so_once(draws: int) -> None:
    shape = (4, draws)
    stats = {"diverging": np.zeros(shape, bool), "energy": normal(2, shape)}
    found = assess({"mu": normal(1, shape), "sd(task)": normal(2, shape)}, stats)
    assert found.failures() == [f"{draws} draws per chain are too few to tell anything (limit 4)"]


def test_few_draws_in_all_get_the_advice_to_draw_more() -> None:
    shape = (4, 50)
    found = assess({"mu": normal(1, shape)}, {"diverging": np.zeros(shape, bool)})
    with pytest.warns(ConvergenceWarning, match=r"200 draws in all are few: use draws=1000"):
        warn_if_failed(found)


def test_warning_is_one_and_names_what_to_do() -> None:
    diverging = np.zeros(SHAPE, bool)
    diverging[0, :3] = True
    found = assess({"mu": normal(), "sd(task)": correlated(0.99)}, quiet(diverging=diverging))
    with pytest.warns(ConvergenceWarning) as caught:
        warn_if_failed(found)
    [warning] = caught
    assert warning.filename == __file__
    text = str(warning.message)
    assert text.startswith("the fit has not converged: R-hat of sd(task) is ")
    assert "; and 1 more. Divergences bias the result: raise target_accept" in text


def test_low_ess_alone_gets_the_advice_to_sample_longer() -> None:
    with pytest.warns(ConvergenceWarning, match=r"Sample longer: draws=1000, tune=2000\."):
        warn_if_failed(assess({"mu": correlated(0.97)}, quiet()))


def test_passed_gates_warn_of_nothing() -> None:
    warn_if_failed(assess({"mu": normal()}, quiet()))


def test_worst_names_quantity_and_value() -> None:
    found = assess({"mu": normal(), "sd(task)": correlated(0.5)}, quiet())
    assert found.worst["ess_bulk"].quantity == "sd(task)"
    assert found.worst["ess_bulk"].value == found.frame["ess_bulk"].min()
    assert found.worst["rhat"].value == found.frame["rhat"].max()


def test_sample_stats_may_be_an_xarray_group() -> None:
    data = {name: (("chain", "draw"), values) for name, values in quiet().items()}
    tree = xr.DataTree.from_dict({"sample_stats": xr.Dataset(data)})
    from_tree = assess({"mu": normal()}, tree["sample_stats"])
    assert from_tree.ebfmi == assess({"mu": normal()}, quiet()).ebfmi


def test_written_down_and_read_back_it_is_the_same() -> None:
    broken = normal()
    broken[0, 0] = np.nan
    found = assess(
        {"mu": normal(), "sd(task)": broken},
        quiet(),
        derived={"share": np.zeros(SHAPE)},
        refits=["target_accept 0.95: 3 divergences"],
    )
    text = json.dumps(found.to_dict(), allow_nan=False)
    again = Diagnostics.from_dict(json.loads(text))
    pd.testing.assert_frame_equal(again.frame, found.frame, check_exact=True)
    assert again.failures() == found.failures()
    assert again.ebfmi == found.ebfmi
    assert repr(again) == repr(found)
    assert "before: target_accept 0.95: 3 divergences" in repr(again)


def test_html_shows_gates_and_refits() -> None:
    found = assess({"sd(<b>)": normal()}, quiet(), refits=["<first> try"])
    html = found._repr_html_()
    assert "bulk ESS" in html
    assert "&lt;first&gt; try" in html
    assert "<b>" not in html


def test_stamp_is_none_for_good_draws_and_zero_shares() -> None:
    draws = np.stack([normal(1), np.zeros(SHAPE)], axis=-1)
    assert stamp(draws) is None


def test_stamp_names_components_of_labelled_draws_in_any_order_of_dims() -> None:
    values = np.stack([normal(1), correlated(0.99)], axis=-1)
    draws = xr.DataArray(
        values, dims=("chain", "draw", "component"), coords={"component": ["task", "judge"]}
    )
    text = stamp(draws)
    assert text is not None
    assert text == stamp(draws.transpose("component", "draw", "chain"))
    assert text.startswith("NOT CONVERGED: R-hat of judge is ")
    assert text.endswith("Do not publish.")
    assert "task" not in text


def test_stamp_of_a_scalar_quantity_takes_its_name() -> None:
    draws = xr.DataArray(correlated(0.99), dims=("chain", "draw"), name="icc(task)")
    assert "of icc(task) is" in str(stamp(draws))


def test_stamp_passes_on_what_failed_in_the_fit() -> None:
    diverging = np.zeros(SHAPE, bool)
    diverging[0, 0] = True
    found = assess({"mu": normal()}, quiet(diverging=diverging))
    assert stamp(normal(), found) == ("NOT CONVERGED: 1 divergence (limit 0). Do not publish.")
