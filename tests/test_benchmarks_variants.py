"""The direct path with its choices left out: other draws of one posterior."""

from __future__ import annotations

import pytest
from benchmarks import refits, variants

TUNE, DRAWS = 200, 250


@pytest.fixture(scope="module")
def design():
    """4 systems x 60 tasks x 8 rollouts with system:task, whose effects are integrated out."""
    _, found = refits.simulated(4, 60, True)
    return found


@pytest.fixture(scope="module")
def as_it_is(design):
    return variants.sampled(design, variants.AS_IT_IS, tune=TUNE, draws=DRAWS)


@pytest.mark.parametrize("variant", [v for v in variants.VARIANTS if v != variants.AS_IT_IS])
def test_a_variant_makes_other_draws_of_the_same_posterior(design, as_it_is, variant: str) -> None:
    found = variants.sampled(design, variant, tune=TUNE, draws=DRAWS)
    assert found["means"].keys() == {"mu", "sd(system)", "sd(task)", "sd(system:task)"}
    assert 0.0 < variants.largest_z(found, as_it_is) < variants.LARGEST_Z


def test_nothing_is_left_changed(design, as_it_is) -> None:
    again = variants.sampled(design, variants.AS_IT_IS, tune=TUNE, draws=DRAWS)
    assert again["means"] == as_it_is["means"]
