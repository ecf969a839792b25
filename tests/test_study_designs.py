"""Designs, costs and assumptions as a study declares them, in Python and in its file."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from designs import study_of, within
from handmade import small_fit
from sources import one

import gstudy as gs
from gstudy.errors import DeclarationError, QuantityError
from gstudy.study.assumed import Assumed

TOML = """
data = "trials.csv"
score = "passed"
object = "system"

[facets.task]
role = "legitimate"
universe = 300
[facets.rollout]
role = "legitimate"
nested_in = ["system", "task"]
[facets.judge]
role = "error"

[design.now]
task = 100
rollout = 4
judge = 2

[design."twice the tasks"]
task = 200
rollout = 4
judge = 3
pin = ["judge"]
judges = "round robin"

[cost]
task = 25
rollout = 0.4
judge = 0.01

[assumed]
scale = "score"
mean = 0.6

[assumed.components]
system = 0.01
task = 0.08
"system:task" = 0.02
rollout = 0.11
"""


def written(folder: Path, text: str = TOML) -> Path:
    path = folder / "study.toml"
    path.write_text(text, encoding="utf-8")
    return path


# ---------------------------------------------------------------- designs and costs by themselves


def test_a_design_is_a_mapping_and_a_value() -> None:
    design = gs.Design({"task": 200, "rollout": 4}, pin=["version"], judges="one", name="big")
    assert dict(design) == {"task": 200, "rollout": 4}
    assert len(design) == 2
    assert "task" in design
    assert design.get("judge", 1) == 1
    same = gs.Design({"rollout": 4, "task": 200}, pin="version", judges="one", name="big")
    assert design == same
    assert hash(design) == hash(same)
    for other in (
        design.with_levels(task=100),
        design.replace(pin=[]),
        design.replace(judges="all"),
        design.replace(name="small"),
        {"task": 200, "rollout": 4},
    ):
        assert design != other
    assert eval(repr(design), {"Design": gs.Design}) == design
    for copied in (pickle.loads(pickle.dumps(design)), copy.deepcopy(design)):
        assert copied == design
        assert copied.name == "big"
    assert gs.Design.read(design) is design
    assert gs.Design.read({"task": 3}) == gs.Design({"task": 3})
    assert design.with_levels({"a b": 2})["a b"] == 2
    with pytest.raises(AttributeError):
        design.name = "other"
    with pytest.raises(TypeError):
        design.levels["task"] = 3


@pytest.mark.parametrize("n", [0, -1, 2.5, 2.0, True, "3", None, float("nan")])
def test_numbers_of_levels_that_are_none(n: Any) -> None:
    with pytest.raises(QuantityError, match="number of levels of 'task' is not usable"):
        gs.Design({"task": n})


def test_designs_that_are_none() -> None:
    with pytest.raises(QuantityError, match="a design is a mapping"):
        gs.Design.read([("task", 3)])
    with pytest.raises(QuantityError, match="a facet that is no text"):
        gs.Design({1: 3})
    for pin in (3, [3], {"task": 1}):
        with pytest.raises(QuantityError, match="pin is no list of facets"):
            gs.Design({"task": 3}, pin=pin)
    with pytest.raises(QuantityError, match="unknown way of judging"):
        gs.Design({"task": 3}, judges=["all"])
    with pytest.raises(QuantityError, match="name of a design"):
        gs.Design({"task": 3}, name=3)
    with pytest.raises(QuantityError, match=r"a design has no 'task'.*with_levels"):
        gs.Design({"task": 3}).replace(task=4)


def test_a_cost_is_a_mapping_and_a_value() -> None:
    cost = gs.Cost({"rollout": 1, "judge": 0.02, "env": 0})
    assert dict(cost) == {"rollout": 1.0, "judge": 0.02, "env": 0.0}
    assert cost == pickle.loads(pickle.dumps(cost)) == copy.deepcopy(cost)
    assert eval(repr(cost), {"Cost": gs.Cost}) == cost
    assert hash(cost) == hash(gs.Cost(dict(cost)))
    assert cost != gs.Cost({"rollout": 1})
    assert gs.Cost.read(None) == gs.Cost({"trials": 1})
    assert gs.Cost.read(cost) is cost


# ---------------------------------------------------------------- in the study's file


def test_a_study_file_and_back(tmp_path: Path) -> None:
    study = gs.Study.from_toml(written(tmp_path))
    assert list(study.designs) == ["now", "twice the tasks"]
    assert study.designs["now"] == gs.Design({"task": 100, "rollout": 4, "judge": 2}, name="now")
    twice = study.designs["twice the tasks"]
    assert (twice.pin, twice.judges, twice.name) == (("judge",), "round robin", "twice the tasks")
    assert study.cost == gs.Cost({"task": 25, "rollout": 0.4, "judge": 0.01})
    parts = {"system": 0.01, "task": 0.08, "system:task": 0.02, "rollout": 0.11}
    assert study.assumed == Assumed(parts, mean=0.6)
    again = tmp_path / "again.toml"
    again.write_text(study.to_toml(tmp_path), encoding="utf-8")
    for other in (
        gs.Study.from_toml(again),
        gs.Study.from_dict(json.loads(json.dumps(study.to_dict()))),
        pickle.loads(pickle.dumps(study)),
    ):
        assert other == study
        assert dict(other.designs) == dict(study.designs)
        assert other.cost == study.cost
        assert other.assumed == study.assumed
    assert gs.Study.from_toml(again).data == tmp_path / "trials.csv"


def test_the_same_in_python(tmp_path: Path) -> None:
    study = gs.Study.from_toml(written(tmp_path))
    facets = [f for f in study.facets if f.name != "system"]
    designs = list(study.designs.values())
    for given in (designs, {d.name: d.to_dict() for d in designs}, dict(study.designs)):
        made = gs.Study(
            score="passed",
            object="system",
            facets=facets,
            designs=given,
            cost={"task": 25, "rollout": 0.4, "judge": 0.01},
            assumed=study.assumed,
        )
        assert dict(made.designs) == dict(study.designs)
        assert made.cost == study.cost
        assert made.assumed == study.assumed


def test_what_is_for_planning_changes_no_fit(tmp_path: Path) -> None:
    study = gs.Study.from_toml(written(tmp_path))
    bare = gs.Study.from_toml(written(tmp_path, TOML.split("[design.now]", maxsplit=1)[0]))
    assert bare == study
    assert (dict(bare.designs), bare.cost, bare.assumed) == ({}, None, None)
    assert not {"design", "cost", "assumed"} & set(bare.to_dict())


def test_every_study_survives_its_own_file(tmp_path: Path) -> None:
    study = gs.Study(
        score="ok",
        object="system",
        average={"macro": "domain"},
        facets=[
            gs.Facet("domain", role="controlled", reason='"these" only'),
            gs.Facet("my task", role="legitimate", nested_in=["domain"], universe=50),
            within("rollout", "system", "my task"),
        ],
        controlled={"temperature": 0.7, "prompt": "v3\n日本"},
        keep=["rollout"],
        on_failed_run={"rate limit": "drop"},
        priors={"sd(my task)": {"dist": "HalfNormal", "sigma": 2.0}},
        designs={"a.b": {"my task": 10, "rollout": 2}},
    )
    path = written(tmp_path, study.to_toml())
    assert gs.Study.from_toml(path) == study
    assert gs.Study.from_toml(path).designs == study.designs


def test_a_facet_may_be_called_as_an_option_is() -> None:
    study = study_of(
        "task",
        gs.Facet("judges", role="error"),
        designs={"d": {"task": 5, "judges": 3, "pin": ["judges"]}},
    )
    assert dict(study.designs["d"]) == {"task": 5, "judges": 3}
    assert study.designs["d"].pin == ("judges",)
    assert gs.Study.from_dict(study.to_dict()).designs == study.designs


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("[design.a]\ntaks = 3", r"design\.a names an unknown facet 'taks'.*Did you mean 'task'"),
        ("[design.a]\ntask = 2.5", r"design\.a: the number of levels of 'task' is not usable"),
        ("[design.a]\ntask = 301", r"design\.a\.task has more levels than the universe"),
        ("[design.a]\ntask = 3\npin = ['taks']", r"design\.a names an unknown facet 'taks'"),
        ("[design.a]\ntask = 3\njudges = 'any'", r"design\.a: unknown way of judging"),
        ("[design]\ntask = 3", r"design\.task is not a table"),
        ("[designs.a]\ntask = 3", r"unknown key designs.*Did you mean 'design'"),
        ("[cost]\nrolout = 3", r"cost names an unknown facet 'rolout'.*Did you mean 'rollout'"),
        ("[cost]\nrollout = -1", r"cost: the price of 'rollout' is not usable"),
        ("[cost]\nrollout = 0", r"cost: nothing has a price"),
        ("[assumed]\nmean = 0.5", r"assumed: no components are assumed"),
        ("[assumed]\nmaen = 0.5", r"unknown key assumed\.maen.*Did you mean 'mean'"),
        ("[assumed]\ncomponents = {task = 0.1}", r"assumed: .*score scale need mean"),
        (
            "[assumed]\nscale = 'logit'\nmean = 0.5\ncomponents = {task = 0.1}",
            r"assumed: .*logit scale need mu, and nothing else",
        ),
        ("[assumed]\nscale = 'odds'\nmu = 0\ncomponents = {task = 1}", "assumed: unknown scale"),
        (
            "[assumed]\nmean = 0.5\ncomponents = {task = -1}",
            r"assumed: the variance of 'task' is not usable",
        ),
        (
            "[assumed]\nmean = 0.5\ncomponents = {'system:taks' = 0.1}",
            r"assumed\.components names an unknown facet 'taks'",
        ),
    ],
)
def test_tables_that_are_wrong_name_the_file_and_the_key(
    tmp_path: Path, table: str, message: str
) -> None:
    path = written(tmp_path, TOML.split("[design.now]", maxsplit=1)[0] + table)
    with pytest.raises(DeclarationError, match=rf"study\.toml: {message}"):
        gs.Study.from_toml(path)


def test_designs_of_a_study_have_names_of_their_own() -> None:
    for designs in ([gs.Design({"task": 3})], [gs.Design({"task": 3}, name="a")] * 2):
        with pytest.raises(DeclarationError, match="needs a name of its own"):
            study_of("task", designs=designs)
    for nothing in (3, "big", gs.Design({"task": 3}, name="a")):
        with pytest.raises(DeclarationError, match="designs are no designs"):
            study_of("task", designs=nothing)
    with pytest.raises(DeclarationError, match="cost is not a table"):
        study_of("task", cost=3)


# ---------------------------------------------------------------- assumed by the study


def test_components_that_the_study_assumes(tmp_path: Path) -> None:
    study = gs.Study.from_toml(written(tmp_path))
    assert study.assumed is not None
    found = gs.assume(study)
    given = gs.assume(study, study.assumed.components, mean=0.6)
    design = study.designs["now"]
    assert one(gs.variance_budget(found, design).variance) == one(
        gs.variance_budget(given, design).variance
    )
    assert one(gs.assume(study, mean=0.7).mean) == 0.7
    with pytest.raises(QuantityError, match="assumes components on the score scale"):
        gs.assume(study, scale="logit", mu=0.0)
    bare = study_of("task")
    with pytest.raises(QuantityError, match=r"the study assumes none.*\[assumed\]"):
        gs.assume(bare)


def test_assumed_on_the_logit_scale_and_beside_a_fit() -> None:
    study = study_of("task", assumed={"scale": "logit", "mu": 0.4, "components": {"task": 2.25}})
    found = gs.variance_components(gs.assume(study), scale="logit")
    assert found.draws.sel(component="task").item() == 2.25
    assert one(found.mean) == 0.4
    fit = small_fit(assumed={"scale": "logit", "mu": 0.0, "components": {"task": 1.0}})
    beside = gs.variance_components(gs.assume(fit.study, base=fit), scale="logit", system="new")
    assert (beside.draws.sel(component="task") == 1.0).all()


# ---------------------------------------------------------------- what a design pins


def test_a_pin_of_the_design_joins_that_of_the_call() -> None:
    fit = small_fit()
    counts = {"task": 12, "rollout": 3}
    pinned = gs.Design(counts, pin=["task"])
    for measure in (gs.variance_budget, gs.phi, gs.generalizability, gs.sem):
        found, expected = measure(fit, pinned), measure(fit, counts, pin=["task"])
        assert (found.draws == expected.draws).all()
        assert found.estimand == expected.estimand
        again = measure(fit, pinned, pin=["task"])
        assert again.estimand == found.estimand
    assert gs.variance_budget(fit, pinned).design == pinned
    # A re-run keeps the tasks anyway, and cannot keep what it draws anew.
    assert (gs.rerun_noise(fit, pinned).draws == gs.rerun_noise(fit, counts).draws).all()
    vc = gs.assume(study_of("task", within("run", "task")), {"task": 0.1, "run": 0.1}, mean=0.5)
    for measure, pin in ((gs.rerun_noise, "run"), (gs.noises, "run"), (gs.noises, "task")):
        with pytest.raises(QuantityError, match=f"'{pin}' is drawn anew here, and the design pins"):
            measure(vc, gs.Design({"task": 9, "run": 2}, pin=[pin]))
    with pytest.raises(QuantityError, match="cannot be pinned: it is no facet"):
        gs.variance_budget(fit, gs.Design(counts, pin=["taks"]))


def test_two_systems_on_pinned_tasks() -> None:
    fit = small_fit()
    counts = {"task": 12, "rollout": 3}
    free, pinned = (
        gs.compare_systems(fit, "A", "B:1", design=design)
        for design in (counts, gs.Design(counts, pin=["task"]))
    )
    assert free.noise is not None
    assert pinned.noise is not None
    assert "these tasks (pinned)" in pinned.design
    assert (pinned.noise.sel(part="data") == 0).all()
    assert (pinned.noise.sel(part="re-run") == free.noise.sel(part="re-run")).all()
    assert (free.noise.sel(part="data") > 0).any()
