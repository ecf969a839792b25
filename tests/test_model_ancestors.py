"""Effects above an effect: where they are, what they hear of its trials, how it makes up."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from models import DESIGNS, crossed, taught

import gstudy as gs
from gstudy.model import ancestors
from gstudy.model.ancestors import (
    components_above,
    from_above,
    making_up,
    passed_information,
    places_above,
)
from gstudy.model.direct import direct_posterior
from gstudy.model.integrable_effects import _above_without
from gstudy.model.modes import posterior_modes
from gstudy.model.parameterisation import parameterise


def test_components_above_are_those_with_fewer_of_its_facets() -> None:
    cells = crossed().cells
    names = [c.name for c in cells.components]
    above = components_above(cells)
    assert {names[a] for a in above[names.index("system:task")]} == {"system", "task"}
    assert above[names.index("system")] == above[names.index("task")] == []


def test_what_lies_in_one_level_of_the_trials_lies_below_it() -> None:
    """Lecturers teach in one department each, which was not declared; students hear them all."""
    cells = taught().cells
    names = [c.name for c in cells.components]
    lecturer, department = names.index("lecturer"), names.index("department")
    assert lecturer < department
    above = components_above(cells)
    assert above[lecturer] == [department]
    assert above[department] == above[names.index("student")] == []
    assert from_above(cells).index(department) < from_above(cells).index(lecturer)
    p = parameterise(cells, taught().mu_prior)
    assert p.order.index(department) < p.order.index(lecturer)


def test_effects_that_are_integrated_out_are_above_none() -> None:
    """What lies in them makes up for what is left."""
    above = np.array([[0, 7, 2], [7, 5, -1], [7, -1, -1], [9, 1, -1]], dtype=np.int32)
    found = _above_without(above, slice(5, 8))
    assert found.tolist() == [[0, 2, -1], [-1, -1, -1], [-1, -1, -1], [6, 1, -1]]


@pytest.mark.parametrize("design", ["crossed", "nested", "taught"])
def test_every_cell_agrees_on_the_places_above(design: str) -> None:
    found = DESIGNS[design]()
    p = parameterise(found.cells, found.mu_prior)
    above = components_above(found.cells)
    places = places_above(found.cells, above)
    for c, components in enumerate(above):
        for k in range(places.shape[1]):
            at_cells = places[p.index[:, c], k]
            there = k < len(components)
            assert (at_cells == (p.index[:, components[k]] if there else -1)).all()


def test_information_passes_as_from_means_with_noise() -> None:
    """A level below with variance s^2 and information I adds ``1 / (s^2 + 1 / I)`` to the level it
    lies in: the information of a mean whose variance is the sum of both."""
    cells = crossed().cells
    modes = posterior_modes(cells)
    above = components_above(cells)
    ones = [np.ones(c.n_levels, dtype=bool) for c in cells.components]
    passed = passed_information(cells, modes.sd, modes.of_cells, above, ones)
    names = [c.name for c in cells.components]
    inner, outer = names.index("system:task"), names.index("task")
    np.testing.assert_allclose(passed[inner], modes.information[inner])
    task_of = np.empty(cells.components[inner].n_levels, dtype=int)
    task_of[cells.index[inner]] = cells.index[outer]
    adds = 1.0 / (modes.sd[inner] ** 2 + 1.0 / modes.information[inner])
    np.testing.assert_allclose(passed[outer], np.bincount(task_of, adds))


def test_an_effect_makes_up_for_what_changes_above_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """With d more in one task, each system:task effect below gives up ``d s^2 I / (1 + s^2 I)``."""
    monkeypatch.setattr(ancestors, "LEAST_SLACK", 0.0)
    found = crossed()
    p = parameterise(found.cells, found.mu_prior, sweep=[])
    direct = direct_posterior(p)
    names = [b.name for b in p.blocks]
    inner, outer = names.index("system:task"), names.index("task")
    x = np.random.default_rng(1).normal(size=direct.n_free)
    moved = x.copy()
    moved[p.n_scales + sum(b.n_free for b in p.blocks[:outer]) + 2] += 1.0
    before, after = direct.unpack(x), direct.unpack(moved)
    change = {n: after[f"effect({n})"] - before[f"effect({n})"] for n in names}
    assert np.flatnonzero(change["task"]).tolist() == [2]
    task_of = np.empty(p.blocks[inner].size, dtype=int)
    task_of[found.cells.index[inner]] = found.cells.index[outer]
    known = before["sd(system:task)"] ** 2 * p.information[p.slices()[inner]]
    expected = -change["task"][task_of] * known / (1.0 + known)
    np.testing.assert_allclose(change["system:task"], expected, atol=1e-12)


def test_effects_that_are_too_narrow_to_make_up_do_not() -> None:
    """Of 0.09 of sd^2 I each, system:task effects leave what changes above them to others."""
    cells = crossed().cells
    modes = posterior_modes(cells)
    inner = [c.name for c in cells.components].index("system:task")
    slack = modes.sd[inner] ** 2 * np.median(modes.information[inner])
    assert slack < ancestors.LEAST_SLACK
    assert components_above(cells)[inner]
    assert not making_up(cells, modes, components_above(cells))[inner]
    p = parameterise(cells, crossed().mu_prior)
    assert (p.above[p.slices()[inner]] == ancestors.NONE).all()


def test_what_lies_below_does_not_hide_the_sd_of_what_is_above() -> None:
    """80 tasks with sd 1.5, in two orders (sd 1.2) and by 6 judges (1.5): where the 96 trials of a
    task count in full, as if there were neither, the rough sd of tasks falls to .07."""
    rng = np.random.default_rng(1)
    task, judge, order = np.meshgrid(range(80), range(6), range(2), indexing="ij")
    logits = rng.normal(0, 1.5, 80)[task] + rng.normal(0, 1.2, (80, 2))[task, order]
    logits += rng.normal(0, 1.5, (80, 6))[task, judge]
    passed = rng.binomial(8, 1 / (1 + np.exp(-logits)))
    columns = {"task": task, "judge": judge, "order": order, "passed": passed}
    frame = pd.DataFrame({name: values.ravel() for name, values in columns.items()})
    facets = [gs.Facet(name, role="error") for name in ("task", "judge", "order")]
    study = gs.Study(successes="passed", trials="trials", facets=facets)
    cells = gs.check(study, frame.assign(trials=8)).cells
    found = dict(zip((c.name for c in cells.components), posterior_modes(cells).sd, strict=True))
    assert 1.0 < found["task"] < 2.0
