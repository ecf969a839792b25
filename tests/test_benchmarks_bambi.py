"""Bambi is given the same model: the two log-posteriors are equal, cells and priors included."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gstudy.model.direct import direct_posterior
from gstudy.model.parameterisation import parameterise

bambi_nutpie = pytest.importorskip("benchmarks.bambi_nutpie", reason="benchmarks/ is not installed")
problems = pytest.importorskip("benchmarks.problems")
POINTS = 5


@pytest.fixture(scope="module")
def design() -> Any:
    return problems.PROBLEMS["panel"].design()


def test_cells_keep_their_counts_and_levels(design: Any) -> None:
    frame = bambi_nutpie.cell_frame(design.cells)
    assert (frame["passes"].to_numpy() == design.cells.successes).all()
    assert (frame["trials"].to_numpy() == design.cells.trials).all()
    groups = frame.drop(columns=["passes", "trials"])
    assert [len(groups[name].cat.categories) for name in groups] == [
        component.n_levels for component in design.components
    ]
    for name, index in zip(groups, design.cells.index, strict=True):
        assert (groups[name].cat.codes.to_numpy() == index).all()


def test_the_formula_has_one_group_per_component_and_no_names(design: Any) -> None:
    text = bambi_nutpie.formula(design.cells)
    assert text.startswith("p(passes, trials) ~ 1 + (1|group0) + ")
    assert text.count("(1|") == len(design.components) == 8
    assert "system" not in text


def test_log_posteriors_are_equal(design: Any) -> None:
    pytest.importorskip("bambi")
    from pytensor.compile.mode import Mode

    built = bambi_nutpie.model(design)
    built.build()
    graph = built.backend.model
    bambi_log_p = graph.compile_logp(mode=Mode(linker="py", optimizer="fast_compile"))
    # Neither swept nor standardised, our model is the non-centred one that Bambi writes.
    plain = parameterise(design.cells, design.mu_prior, sweep=(), standardise=False, weighted=False)
    our_log_p = direct_posterior(plain)
    rng = np.random.default_rng(1)
    groups = [f"1|group{c}" for c in range(len(design.components))]
    for _ in range(POINTS):
        # Near 0: Bambi takes the logarithm of 1 - p, which has few digits left where p is near 1.
        point = {
            name: rng.normal(scale=0.3, size=np.shape(x))
            for name, x in graph.initial_point().items()
        }
        log_sds = [point[f"{group}_sigma_log__"] for group in groups]
        offsets = [point[f"{group}_offset"] for group in groups]
        x = np.concatenate([log_sds, *offsets, [point["Intercept"]]])
        assert our_log_p(x)[0] == pytest.approx(float(bambi_log_p(point)), rel=1e-12)
