"""The declaration: what it means, how it goes to a file and back, and every way to be wrong."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import gstudy as gs
from gstudy.errors import DeclarationError, QuantityError
from gstudy.study.priors import Prior

TOML = """
data   = "trials.csv"
score  = "passed"
object = "system"

[facets.task]
role = "legitimate"
[facets.snapshot]
column = "docs_version"
role = "legitimate"
reason = "the product ships against each of them"
[facets.rollout]
role = "legitimate"
nested_in = ["system", "task", "snapshot"]
[facets.judge]
role = "error"

[controlled]
judge_prompt = "v3"
temperature = 0.7

[model]
interactions = ["task:system", "judge:rollout"]
keep = ["rollout"]
on_failed_run = { timeout = "incorrect", infrastructure = "drop" }
on_missing_score = "drop"

[priors]
mu = { dist = "Normal", mu = 0, sigma = 1.5 }
"sd(task)" = { dist = "HalfNormal", sigma = 2 }
"sd(rollout)" = { dist = "HalfNormal", sigma = 1.0 }
"""


def facet(name: str, *parents: str, role: str = "legitimate", **rest: Any) -> gs.Facet:
    return gs.Facet(name, role=role, nested_in=parents, **rest)


def study(*facets: gs.Facet, **rest: Any) -> gs.Study:
    """A study of "passed" with these facets; a task if there are none."""
    return gs.Study(**{"score": "passed", "facets": list(facets) or [facet("task")], **rest})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(TOML, encoding="utf-8")
    return path


# ---------------------------------------------------------------- what a declaration means


def test_file_and_python_say_the_same(file: Path) -> None:
    declared = gs.Study(
        data=file.parent / "trials.csv",
        score="passed",
        object="system",
        facets=[
            facet("task"),
            facet(
                "snapshot", column="docs_version", reason="the product ships against each of them"
            ),
            facet("rollout", "system", "task", "snapshot"),
            facet("judge", role="error"),
        ],
        controlled={"judge_prompt": "v3", "temperature": 0.7},
        interactions=["system:task", "rollout:judge"],
        keep=["task:snapshot:system:rollout"],
        on_failed_run={"timeout": "incorrect", "infrastructure": "drop"},
        on_missing_score="drop",
        priors={
            "mu": Prior("Normal", {"mu": 0.0, "sigma": 1.5}),
            "sd(task)": {"dist": "HalfNormal", "sigma": 2},
            "sd(system:task:snapshot:rollout)": {"dist": "HalfNormal", "sigma": 1.0},
        },
    )
    assert gs.Study.from_toml(file) == declared
    assert gs.Study.from_toml(str(file)) == declared


def test_names_are_canonical(file: Path) -> None:
    read = gs.Study.from_toml(file)
    assert read.facet_names == ("system", "task", "snapshot", "rollout", "judge")
    assert read.interactions == ("system:task", "system:task:snapshot:rollout:judge")
    assert read.keep == ("system:task:snapshot:rollout",)
    assert list(read.priors) == ["mu", "sd(task)", "sd(system:task:snapshot:rollout)"]
    assert read.facet("snapshot").source_column == "docs_version"
    assert read.facet("task").source_column == "task"


def test_data_path_is_relative_to_the_file(file: Path) -> None:
    assert gs.Study.from_toml(file).data == file.parent / "trials.csv"
    elsewhere = file.parent / "elsewhere.csv"
    file.write_text(TOML.replace('"trials.csv"', f"'{elsewhere}'"), encoding="utf-8")
    assert gs.Study.from_toml(file).data == elsewhere


def test_file_may_have_a_byte_order_mark(file: Path) -> None:
    plain = gs.Study.from_toml(file)
    file.write_text(TOML, encoding="utf-8-sig")
    assert gs.Study.from_toml(file) == plain


def test_study_comes_back_from_its_tables(file: Path) -> None:
    read = gs.Study.from_toml(file)
    tables = json.loads(json.dumps(read.to_dict()))
    assert gs.Study.from_dict(tables) == read
    assert pickle.loads(pickle.dumps(read)) == read
    assert copy.deepcopy(read) == read
    counted = gs.Study(
        successes="k", trials="n", facets=[facet("run", "task", column="n"), facet("task")]
    )
    assert gs.Study.from_dict(counted.to_dict()) == counted
    assert dataclasses.replace(counted, rollout="run").rollout == "run"


def test_rollout_none_means_that_a_rerun_keeps_every_facet() -> None:
    nested = [facet("place"), facet("task", "place")]
    assert study(*nested).redrawn_on_rerun() == {"task"}
    kept = study(*nested, rollout="none")
    assert kept.redrawn_on_rerun() == frozenset()
    assert gs.Study.from_dict(kept.to_dict()) == kept
    named = study(facet("none"), facet("task", "none"), facet("run", "task"), rollout="none")
    assert named.redrawn_on_rerun() == {"none", "task", "run"}


def test_study_cannot_be_changed(file: Path) -> None:
    read = gs.Study.from_toml(file)
    with pytest.raises(dataclasses.FrozenInstanceError):
        read.score = "other"
    with pytest.raises(TypeError, match="does not support item assignment"):
        read.priors["mu"] = Prior("Normal", {"mu": 0, "sigma": 1})


def test_object_alone_is_the_first_facet() -> None:
    alone = study(object="system")
    assert alone.facet_names == ("system", "task")
    assert alone.facet("system").role == "object"
    named = study(facet("task"), facet("system", role="object"))
    assert (named.object, named.facet_names) == ("system", ("task", "system"))
    both = gs.Study.from_dict(
        {"score": "ok", "object": "system", "facets": {"system": {"column": "model"}}}
    )
    assert both.facet("system") == gs.Facet("system", role="object", column="model")


def test_closure_brings_all_parents_along() -> None:
    nested = study(facet("domain"), facet("task", "domain"), facet("run", "task"), facet("judge"))
    assert nested.parents == {"domain": (), "task": ("domain",), "run": ("task",), "judge": ()}
    assert nested.closure("run") == {"domain", "task", "run"}
    assert nested.closure(["run", "judge"]) == {"domain", "task", "run", "judge"}
    assert nested.name_of({"run", "task", "domain"}) == "domain:task:run"
    assert len(nested.rules) == 2


def test_declared_sets_under_auto_none_and_a_list() -> None:
    facets = [facet("task"), facet("run", "system", "task"), facet("judge", role="error")]
    auto = study(*facets, object="system")
    mains = ["system", "task", "system:task:run", "judge"]
    pairs = ["system:task", "system:judge", "task:judge", "system:task:run:judge"]
    assert list(auto.declared_sets()) == [*mains, *pairs]
    assert list(study(*facets, object="system", interactions="none").declared_sets()) == mains
    listed = study(*facets, object="system", interactions=["judge:task"])
    assert listed.declared_sets() == {
        **{name: frozenset(name.split(":")) for name in mains},
        "task:judge": frozenset({"task", "judge"}),
    }
    assert study(interactions=[]).interactions == "none"
    assert study(facet("a"), facet("b"), interactions=["a:b", "b:a"]).interactions == ("a:b",)


def test_counted_facet_has_no_labels_and_no_component() -> None:
    counts = gs.Study(
        successes="k", trials="n", facets=[facet("task"), facet("run", "task", column="n")]
    )
    assert counts.counted == "run"
    assert [f.name for f in counts.labelled] == ["task"]
    assert list(counts.declared_sets()) == ["task"]
    assert gs.Study(successes="k", trials="n", facets=[facet("task")]).counted is None
    assert study().counted is None


@pytest.mark.parametrize(
    ("facets", "rest", "redrawn"),
    [
        # Nested in the object, with all that is nested in it, judges included.
        (
            [facet("task"), facet("run", "system", "task"), facet("call", "run", role="error")],
            {"object": "system"},
            {"run", "call"},
        ),
        # The object is there, but rollouts are shared by the systems.
        ([facet("task"), facet("run", "task")], {"object": "system"}, {"run"}),
        # Tasks lie in domains and are kept; their rollouts are drawn anew.
        ([facet("domain"), facet("task", "domain"), facet("run", "task")], {}, {"run"}),
        # A judge's calls are measurement error inside the rollout.
        (
            [facet("task"), facet("run", "task"), facet("judge", "run", role="error")],
            {},
            {"run", "judge"},
        ),
        ([facet("task"), facet("judge", role="error")], {"object": "system"}, set()),
        # An object that is nested itself is not drawn anew.
        (
            [facet("maker"), facet("system", "maker", role="object"), facet("run", "system")],
            {},
            {"run"},
        ),
        # Each system has its own tasks, which are kept; so are its judges.
        ([facet("task", "system"), facet("run", "task")], {"object": "system"}, {"run"}),
        (
            [
                facet("task", "system"),
                facet("run", "task"),
                facet("call", "run", role="error"),
                facet("judge", "system", role="error"),
            ],
            {"object": "system"},
            {"run", "call"},
        ),
        # Nothing but judges lies in the object: they are drawn anew.
        ([facet("judge", "system", role="error")], {"object": "system"}, {"judge"}),
        # Named: what is nested in it goes along.
        (
            [facet("domain"), facet("task", "domain"), facet("run", "task")],
            {"rollout": "task"},
            {"task", "run"},
        ),
        (
            [facet("task"), facet("run", "task")],
            {"score": None, "successes": "k", "trials": "n"},
            set(),
        ),
        (
            [facet("task"), facet("run", "task", column="n")],
            {"score": None, "successes": "k", "trials": "n"},
            {"run"},
        ),
    ],
)
def test_redrawn_on_rerun_follows_the_structure(
    facets: list[gs.Facet], rest: dict[str, Any], redrawn: set[str]
) -> None:
    assert study(*facets, **rest).redrawn_on_rerun() == redrawn


def test_redrawn_on_rerun_does_not_depend_on_names() -> None:
    named = study(facet("rollout"), facet("task", "rollout"))
    assert named.redrawn_on_rerun() == {"task"}


def test_repr_is_short_and_says_the_structure(file: Path) -> None:
    text = repr(gs.Study.from_toml(file))
    assert text.splitlines() == [
        "Study of passed by system",
        "  system    object",
        "  task      legitimate",
        "  snapshot  legitimate",
        "  rollout   legitimate, nested in system, task, snapshot",
        "  judge     error",
        "  interactions: system:task, system:task:snapshot:rollout:judge",
    ]
    counts = gs.Study(
        successes="k", trials="n", facets=[facet("task"), facet("run", "task", column="n")]
    )
    assert repr(counts).splitlines()[0] == "Study of k of n"
    assert "run   legitimate, nested in task, counted" in repr(counts)


def test_unknown_facet_asked_of_a_study() -> None:
    with pytest.raises(QuantityError, match=r"no facet is named 'taks'.*Did you mean 'task'\?"):
        study().facet("taks")
    with pytest.raises(QuantityError, match=r"no facet is named 'judge'\. Allowed: task"):
        study().closure(["task", "judge"])


# ---------------------------------------------------------------- files that are wrong


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match=r"no study file .*nowhere\.toml"):
        gs.Study.from_toml(tmp_path / "nowhere.toml")


def test_folder_is_no_study_file(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match="cannot be read as a study file"):
        gs.Study.from_toml(tmp_path)


def test_broken_toml_names_file_and_line(file: Path) -> None:
    file.write_text('score = "passed"\nobject = system\n', encoding="utf-8")
    with pytest.raises(DeclarationError, match=r"study\.toml is not TOML: .*line 2"):
        gs.Study.from_toml(file)


def test_file_that_is_no_text_is_named(file: Path) -> None:
    file.write_bytes(b'score = "p\xff"')
    with pytest.raises(DeclarationError, match=r"study\.toml is not UTF-8 text\. Given: 'byte 10'"):
        gs.Study.from_toml(file)


def test_wrong_declaration_names_the_file(file: Path) -> None:
    file.write_text(TOML.replace('role = "error"', 'role = "eror"'), encoding="utf-8")
    with pytest.raises(
        DeclarationError, match=r"study\.toml: facets\.judge\.role is not a role\. Given: 'eror'"
    ):
        gs.Study.from_toml(file)


TASK = {"task": {"role": "legitimate"}}
TABLES: list[tuple[dict[str, Any], str]] = [
    ({"scor": "ok", "facets": TASK}, r"unknown key scor\..*Allowed: data, score.*mean 'score'\?"),
    ({"score": "ok", "facet": TASK}, r"unknown key facet\..*Did you mean 'facets'\?"),
    (
        {"score": "ok", "facets": {"task": {"rol": "error"}}},
        r"unknown key facets\.task\.rol\..*Did you mean 'role'\?",
    ),
    (
        {"score": "ok", "facets": {"task": {"role": "error", "object": "system"}}},
        r"facets\.task\.object.*'object' belongs at the top of the file",
    ),
    (
        {"score": "ok", "facets": TASK, "interactions": "none"},
        r"unknown key interactions.*'interactions' belongs in \[model\]",
    ),
    (
        {"score": "ok", "facets": TASK, "model": {"priors": {}}},
        r"unknown key model\.priors.*'priors' is a table of its own: \[priors\]",
    ),
    ({"score": "ok", "facets": TASK, "role": "error"}, r"unknown key role.*\[facets\.<name>\]"),
    (
        {"score": "ok", "facets": TASK, "model": {"keeep": []}},
        r"keeep.*Did you mean 'keep'\?",
    ),
    ({"score": "ok", "facets": TASK, "xyzzy": 1}, "unknown key xyzzy"),
    ({"score": "ok", "facets": ["task"]}, r"facets is not a table.*Allowed: a table: \[facets\]"),
    ({"score": "ok", "facets": {"task": "error"}}, r"facets\.task is not a table\. Given: 'error'"),
    ({"score": "ok", "facets": TASK, "model": "auto"}, r"model is not a table\. Given: 'auto'"),
    ({"score": "ok", "facets": {"task": {}}}, r'facets\.task has no role.*Add role = "legitimate"'),
]


@pytest.mark.parametrize(("tables", "message"), TABLES)
def test_wrong_tables_are_refused(tables: dict[str, Any], message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        gs.Study.from_dict(tables)


def test_no_tables_are_refused() -> None:
    with pytest.raises(DeclarationError, match=r"the declaration is not a table\. Given: 'study'"):
        gs.Study.from_dict("study")


# ---------------------------------------------------------------- facets that are wrong

FACETS: list[tuple[dict[str, Any], str]] = [
    ({"name": "a:b"}, r"facet name 'a:b' holds ':'.*Rename.*\[facets\.a_b\] column = 'a:b'"),
    ({"name": "a/b"}, r"facet name 'a/b' holds '/'"),
    ({"name": "a + b"}, r"facet name 'a \+ b' holds ' \+ '"),
    ({"name": "a\x00b"}, "holds a control character.*'a\\\\x00b'"),
    ({"name": "task "}, "or a blank at an end"),
    ({"name": ""}, "a facet needs a name. Given: ''"),
    ({"name": 3}, "a facet needs a name. Given: 3"),
    ({"name": "residual"}, "facet name 'residual' is taken"),
    ({"name": "draw"}, "facet name 'draw' is taken"),
    ({"name": "cell"}, "facet name 'cell' is taken"),
    (
        {"name": "sd(task)"},
        r"begins with 'sd\(', as a fit's.*\[facets\.sd_task\] column",
    ),
    ({"name": "u(a"}, r"facet name 'u\(a' begins with 'u\('"),
    ({"name": "fixed(a"}, r"facet name 'fixed\(a' begins with 'fixed\('"),
    ({"name": "corr(a)"}, r"begins with 'corr\('"),
    ({"name": "by(a)"}, r"begins with 'by\('"),
    ({"name": "by_2(a)"}, r"begins with 'by_2\('"),
    ({"name": "graded(mean)"}, r"begins with 'graded\('"),
    ({"name": "standard_error"}, "facet name 'standard_error' is taken"),
    ({"role": "legitmate"}, r"facets\.task\.role is not a role.*Did you mean 'legitimate'\?"),
    ({"role": 1}, r"facets\.task\.role is not a role\. Given: 1"),
    ({"role": None}, r"facets\.task has no role"),
    ({"nested_in": 3}, r"facets\.task\.nested_in is not a list of facets\. Given: 3"),
    ({"nested_in": ["a", 3]}, r"nested_in is not a list of facets"),
    ({"nested_in": ["a", "a"]}, r"nested_in names 'a' twice"),
    ({"column": 3}, r"facets\.task\.column is not a text\. Given: 3"),
    ({"column": "a\x00"}, r"facets\.task\.column is not a text"),
    ({"reason": ["x"]}, r"facets\.task\.reason is not a text"),
    ({"varies": 1}, r"facets\.task\.varies is not a text"),
    ({"universe": "165"}, r"facets\.task\.universe is not a number of levels\. Given: '165'"),
    ({"universe": 0}, "universe is not a number of levels"),
    ({"universe": True}, "universe is not a number of levels"),
]


@pytest.mark.parametrize(("changes", "message"), FACETS)
def test_wrong_facet_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        gs.Facet(**{"name": "task", "role": "legitimate", **changes})


def test_one_parent_may_stand_alone() -> None:
    assert gs.Facet("run", role="error", nested_in="task") == facet("run", "task", role="error")


STRUCTURES: list[tuple[list[gs.Facet], dict[str, Any], str]] = [
    (
        [facet("task"), facet("run", "taks")],
        {},
        r"facets\.run\.nested_in names an unknown facet\. Given: 'taks'.*Did you mean 'task'\?",
    ),
    (
        [facet("task", "domain")],
        {},
        r'unknown facet.*Write object = "domain" .*Declare \[facets\.domain\]',
    ),
    (
        [facet("task"), facet("run", "system", "task")],
        {},
        r"Given: 'system'\. Allowed: task\. Write object = \"system\" at the top",
    ),
    (
        [facet("task"), facet("run", "system", "task")],
        {"object": "model"},
        r"Declare \[facets\.system\], or take it out\. The object here is 'model'\.",
    ),
    ([facet("a", "b"), facet("b", "a")], {}, r"facets\.a\.nested_in goes round.*'a in b in a'"),
    ([facet("a", "a")], {}, "'a in a'"),
    (
        [facet("a"), facet("b", "a", "d"), facet("c", "b"), facet("d", "c")],
        {},
        "'b in d in c in b'",
    ),
    (
        [facet("a", role="object"), facet("b", role="object")],
        {},
        r"one object of measurement\. Given: \['a', 'b'\]",
    ),
    ([facet("a", role="object")], {"object": "b"}, r"one object.*Given: \['b', 'a'\]"),
    (
        [facet("a", role="error")],
        {"object": "a"},
        r"object is 'a', but facets\.a\.role says otherwise\. Given: 'error'",
    ),
    ([facet("a")], {"object": 3}, "object is not a facet's name. Given: 3"),
    ([facet("a"), facet("a", role="error")], {}, "two facets have one name. Given: 'a'"),
    (
        [facet("a"), facet("b", column="a")],
        {},
        r"column 'a' is used twice: by facets\.a and facets\.b",
    ),
    ([facet("passed")], {}, r"column 'passed' is used twice: by score and facets\.passed"),
    ([facet("a", column="passed")], {}, "used twice: by score"),
    ([facet("system", column="a"), facet("a")], {}, r"by facets\.system and facets\.a"),
]


@pytest.mark.parametrize(("facets", "rest", "message"), STRUCTURES)
def test_wrong_structure_is_refused(
    facets: list[gs.Facet], rest: dict[str, Any], message: str
) -> None:
    with pytest.raises(DeclarationError, match=message):
        study(*facets, **rest)


def test_what_is_no_facet_is_refused() -> None:
    with pytest.raises(DeclarationError, match=r"no facet\. Given: 'task'.*a list of gstudy.Facet"):
        gs.Study(score="ok", facets=["task"])
    with pytest.raises(DeclarationError, match="holds something that is no facet"):
        gs.Study(score="ok", facets=TASK)
    with pytest.raises(DeclarationError, match="the study has no facets"):
        gs.Study(score="ok")


COUNTS: list[tuple[list[gs.Facet], str]] = [
    ([facet("task", column="k")], "column 'k' is used twice: by successes"),
    (
        [facet("task"), facet("run", column="n")],
        "Only a nested facet can share the column",
    ),
    (
        [facet("task"), facet("run", "task", column="n"), facet("x", "task", column="n")],
        r"column 'n' is used twice: by facets\.run and facets\.x",
    ),
    (
        [facet("task"), facet("run", "task", column="n"), facet("call", "run")],
        r"facets\.call\.nested_in names 'run', whose column only counts",
    ),
    (
        [facet("maker"), facet("system", "maker", column="n", role="object")],
        "the object 'system' has the column of trials",
    ),
]


@pytest.mark.parametrize(("facets", "message"), COUNTS)
def test_wrong_use_of_the_column_of_trials_is_refused(facets: list[gs.Facet], message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        gs.Study(successes="k", trials="n", facets=facets)


@pytest.mark.parametrize("key", ["interactions", "keep", "priors"])
def test_counted_facet_cannot_be_named(key: str) -> None:
    value = {"priors": {"sd(run)": {"dist": "HalfNormal", "sigma": 1}}}.get(key, ["task:run"])
    facets = [facet("task"), facet("run", "task", column="n")]
    with pytest.raises(DeclarationError, match="names 'run', whose column only counts trials"):
        gs.Study(successes="k", trials="n", facets=facets, **{key: value})


# ---------------------------------------------------------------- components that are wrong

COMPONENTS: list[tuple[dict[str, Any], str]] = [
    ({"interactions": 5}, r'model\.interactions is not a list.*Given: 5.*Allowed: "auto", "none"'),
    ({"interactions": "system:task"}, r'Write interactions = \["system:task"\]'),
    ({"interactions": "atuo"}, r"Did you mean 'auto'\?"),
    ({"interactions": ["system", 3]}, "is not a list of components"),
    (
        {"interactions": ["system:taks"]},
        r"names an unknown facet 'taks'\. Given: 'system:taks'.*Did you mean 'task'\?",
    ),
    ({"interactions": ["task"]}, "names no interaction.*'task' alone is the main component"),
    (
        {"interactions": ["task:task"]},
        "names a facet twice.*Given: 'task:task'.*different facets: system:task. Name each",
    ),
    (
        {"interactions": "all"},
        r'Allowed: "auto", "none", or a list of system:task.*"auto" tries every pair of facets',
    ),
    (
        {"interactions": ["task:run"]},
        "'run' is nested in system, task, so that this is the main component of 'run'",
    ),
    ({"interactions": [""]}, "unknown facet ''"),
    ({"keep": "run"}, r'model\.keep is not a list.*Write keep = \["run"\]'),
    ({"keep": 1}, r"model\.keep is not a list of components\. Given: 1"),
    ({"keep": ["judge"]}, r"model\.keep names an unknown facet 'judge'"),
    (
        {"keep": ["system:task"], "interactions": "none"},
        r"model\.keep names 'system:task', which is no component.*List \"system:task\" in",
    ),
    ({"priors": 3}, "priors is not a table. Given: 3"),
    (
        {"priors": {"task": {}}},
        r"priors has an unknown key.*Allowed: mu, sd\(system\).*\"sd\(task\)\"",
    ),
    ({"priors": {"sd(task": {}}}, r"priors has an unknown key.*Did you mean 'sd\(task\)'\?"),
    ({"priors": {"sigma": {}}}, "priors has an unknown key. Given: 'sigma'"),
    ({"priors": {3: {}}}, "priors has an unknown key. Given: 3"),
    (
        {"priors": {"sd(taks)": {}}},
        r"names an unknown facet 'taks'.*Allowed: mu, sd\(system\), sd\(task\).*mean 'sd\(task\)'",
    ),
    (
        {"priors": {"sd(system:task)": {}}, "interactions": "none"},
        "names 'system:task', which is no component of this study",
    ),
    (
        {"priors": {"sd(residual)": {}}},
        r'priors\."sd\(residual\)": there is no residual sd.*follows from its rate',
    ),
    (
        {"priors": {"fixed(task)": {}}},
        r'priors\."fixed\(task\)" names no controlled facet.*has the key "sd\(task\)"',
    ),
    (
        {
            "priors": {
                "sd(run)": {"dist": "HalfNormal", "sigma": 1.0},
                "sd(task:run)": {"dist": "HalfNormal", "sigma": 1.0},
            }
        },
        r"priors give sd\(system:task:run\) twice",
    ),
    ({"priors": {"sd(task)": {"dist": "Gamma"}}}, r'priors\."sd\(task\)": Gamma needs \'alpha\''),
    ({"priors": {"sd(task)": {"dist": "Normal"}}}, r'priors\."sd\(task\)" cannot have this dist'),
]


@pytest.mark.parametrize(("rest", "message"), COMPONENTS)
def test_wrong_component_is_refused(rest: dict[str, Any], message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        study(facet("task"), facet("run", "system", "task"), object="system", **rest)


# ---------------------------------------------------------------- plain values that are wrong

VALUES: list[tuple[dict[str, Any], str]] = [
    ({"score": None}, "the study names no score. Allowed: score = "),
    ({"score": 3}, "score is not a column's name. Given: 3"),
    ({"score": ""}, "score is not a column's name"),
    ({"successes": "k", "trials": "n"}, "the study names a score and counts"),
    ({"trials": "n"}, "the study names a score and counts"),
    ({"score": None, "trials": "n"}, "the study names no successes"),
    ({"score": None, "successes": "k"}, "the study names no trials"),
    ({"score": None, "successes": "k", "trials": "k"}, "successes and trials are one column"),
    ({"family": "gausian"}, r"unknown family\. Given: 'gausian'.*Did you mean 'gaussian'\?"),
    ({"family": "poisson"}, "unknown family. Given: 'poisson'. Allowed: binary, gaussian"),
    ({"family": ["binary"]}, "unknown family"),
    (
        {"family": "gaussian", "score": None, "successes": "k", "trials": "n"},
        'family = "gaussian" needs a score in each row, not counts',
    ),
    ({"standard_error": "se"}, "standard_error is of graded scores only. Given: 'se'"),
    ({"standard_error": 3}, "standard_error is not a column's name. Given: 3"),
    (
        {"standard_error": "passed", "family": "gaussian"},
        "score and standard_error are one column. Given: 'passed'",
    ),
    (
        {"standard_error": "task", "family": "gaussian"},
        r"column 'task' is used twice: by standard_error and facets\.task",
    ),
    (
        {"average": "system", "object": "system"},
        r"average names 'system': every level of the object.*Allowed: \"trials\", \"task\", \{",
    ),
    (
        {
            "score": None,
            "successes": "k",
            "trials": "n",
            "average": "run",
            "facets": [facet("task"), facet("run", "task", column="n")],
        },
        "average names 'run': its levels are only counted",
    ),
    ({"average": {"macro": "taks"}}, r"unknown average.*Did you mean 'task'\?"),
    ({"average": {"micro": "task"}}, "unknown average"),
    ({"average": "trails"}, r"unknown average.*Did you mean 'trials'\?"),
    ({"average": 3}, "unknown average. Given: 3"),
    (
        {"on_failed_run": "incorect"},
        r"on_failed_run is no policy.*Did you mean 'incorrect'\?",
    ),
    ({"on_failed_run": ["drop"]}, r"on_failed_run is no policy\. Given: \['drop'\]"),
    ({"on_failed_run": {"timeout": "ignore"}}, r"on_failed_run\.timeout is no policy"),
    ({"on_failed_run": {}}, r"on_failed_run names no reasons"),
    ({"on_missing_score": "incorrect"}, r'on_missing_score is no policy.*outcome = "failed"'),
    ({"on_missing_score": True}, r"on_missing_score is no policy\. Given: True"),
    ({"controlled": "v3"}, "controlled is not a table. Given: 'v3'"),
    ({"controlled": {"task": "t1"}}, r"controlled\.task is a facet too"),
    ({"controlled": {"seeds": [1, 2]}}, r"controlled\.seeds cannot be recorded\. Given: \[1, 2\]"),
    ({"controlled": {"t": float("nan")}}, r"controlled\.t cannot be recorded"),
    ({"data": 3}, "data is not a path. Given: 3"),
    ({"data": ""}, "data is not a path"),
    ({"rollout": "taks"}, r"rollout names no facet.*Did you mean 'task'\?"),
    ({"rollout": "system", "object": "system"}, "rollout names no facet that a re-run could draw"),
    ({"rollout": "none", "object": "none"}, "rollout names no facet"),
    ({"rollout": 1}, r"rollout names no facet.*Allowed: .*, none\."),
]


# ---------------------------------------------------------------- universes and own variances

CLAIMS: list[tuple[list[gs.Facet], dict[str, Any], str]] = [
    (
        [gs.Facet("system", role="object", universe=5)],
        {},
        r"facets\.system\.universe has no meaning: the object's levels are measured",
    ),
    (
        [facet("task"), facet("place", role="controlled", universe=2)],
        {},
        r"facets\.place\.universe has no meaning: a controlled facet has all the levels",
    ),
    (
        [facet("task"), facet("run", "task", column="n", universe=9)],
        {"score": None, "successes": "k", "trials": "n"},
        r"facets\.run\.universe has no meaning: its levels are only counted\. Given: 9",
    ),
    (
        [facet("task", varies="system")],
        {},
        r"facets\.task\.varies does not name.*no object is declared.*Write object = .system",
    ),
    (
        [facet("task", varies="systm")],
        {"object": "system"},
        r"varies does not name the object.*Given: 'systm'.*Did you mean 'system'\?",
    ),
    (
        [facet("task", varies="judge"), facet("judge")],
        {"object": "system"},
        r'Write varies = "system", or take it out',
    ),
    (
        [gs.Facet("system", role="object", varies="system")],
        {},
        r"facets\.system\.varies has no meaning: a facet with the role 'object'",
    ),
    (
        [facet("task"), facet("place", role="controlled", varies="system")],
        {"object": "system"},
        "role 'controlled' has no sd of its own",
    ),
    (
        [facet("maker", varies="system"), facet("system", "maker", role="object")],
        {},
        "'system' is nested in it, so that each system has one level of it",
    ),
    (
        [facet("task"), facet("run", "task", column="n", varies="system")],
        {"score": None, "successes": "k", "trials": "n", "object": "system"},
        "its levels are only counted, and have no sd",
    ),
    (
        [facet("task", varies="system")],
        {"object": "system", "family": "gaussian"},
        r"varies is for 0/1 scores.*gs\.fit_by\(study, trials, by='system'\)",
    ),
]


@pytest.mark.parametrize(("facets", "rest", "message"), CLAIMS)
def test_wrong_claim_of_a_facet_is_refused(
    facets: list[gs.Facet], rest: dict[str, Any], message: str
) -> None:
    with pytest.raises(DeclarationError, match=message):
        study(*facets, **rest)


def everything() -> gs.Study:
    """Two systems with own sds of tasks from a bank, in two controlled places."""
    return study(
        facet("place", role="controlled"),
        facet("task", "place", varies="system", universe=165),
        facet("judge", role="error"),
        facet("run", "system", "task", varies="system"),
        object="system",
        average={"macro": "place"},
        priors={"fixed(place)": {"dist": "ZeroSumNormal", "sigma": 1.0}},
    )


def test_every_claim_comes_back_from_its_tables() -> None:
    declared = everything()
    tables = json.loads(json.dumps(declared.to_dict()))
    assert tables["facets"]["task"]["universe"] == 165
    assert tables["average"] == {"macro": "place"}
    assert gs.Study.from_dict(tables) == declared
    assert pickle.loads(pickle.dumps(declared)) == declared
    graded = study(family="gaussian", standard_error="se", average="task")
    assert gs.Study.from_dict(graded.to_dict()) == graded
    assert (graded.standard_error, graded.averaged_over) == ("se", "task")
    assert study().averaged_over is None
    assert study().standard_error is None


def test_average_and_own_sds_are_told() -> None:
    declared = everything()
    assert declared.averaged_over == "place"
    assert declared.varying == {"task": "system", "run": "system"}
    assert declared.fixed_facets == {"place"}
    assert repr(declared).splitlines()[3:] == [
        "  task    legitimate, nested in place, 165 in all, varies by system",
        "  judge   error",
        "  run     legitimate, nested in system, task, varies by system",
        "  interactions: auto",
        "  score: mean over place levels",
    ]
    assert repr(study(family="gaussian")).startswith("Study of graded passed")


def test_controlled_facets_and_own_sds_have_no_components_of_their_own() -> None:
    sets = list(everything().declared_sets())
    assert sets == [
        *("system", "place:task", "judge", "system:place:task:run"),
        *("system:place", "system:judge", "place:judge", "place:task:judge"),
        "system:place:task:judge:run",
    ]
    two = study(facet("a", role="controlled"), facet("b", role="controlled"), facet("task"))
    assert list(two.declared_sets()) == ["task", "a:task", "b:task"]


OWN: list[tuple[dict[str, Any], str]] = [
    ({"interactions": ["system:task"]}, r"'system:task', which is inside the own sds of 'task'"),
    ({"keep": ["system:task"]}, r"model\.keep names 'system:task', which is inside the own sds"),
    ({"interactions": ["place:part"]}, r"of controlled facets only.*make one controlled facet"),
    ({"interactions": ["place"]}, r"of controlled facets only.*fixed\(place\)"),
    ({"keep": ["place"]}, r"model\.keep names 'place', of controlled facets only"),
    ({"priors": {"sd(place)": {}}}, r"of controlled facets only: their effects are fixed"),
    (
        {"priors": {"fixed(place)": {"dist": "Normal", "mu": 0, "sigma": 1}}},
        r"\"fixed\(place\)\" cannot have this dist.*Allowed: ZeroSumNormal\(sigma\)",
    ),
]


@pytest.mark.parametrize(("rest", "message"), OWN)
def test_sets_that_are_no_components_are_refused(rest: dict[str, Any], message: str) -> None:
    facets = [
        facet("place", role="controlled"),
        facet("part", role="controlled"),
        facet("task", varies="system"),
    ]
    with pytest.raises(DeclarationError, match=message):
        study(*facets, object="system", **rest)


def test_graded_scores_have_a_prior_of_the_residual() -> None:
    prior = {"dist": "HalfCauchy", "beta": 1e6}
    graded = study(family="gaussian", priors={"sd(residual)": prior})
    assert graded.priors["sd(residual)"] == Prior("HalfCauchy", {"beta": 1e6})
    with pytest.raises(DeclarationError, match="a column of standard errors is known"):
        study(family="gaussian", standard_error="se", priors={"sd(residual)": prior})


@pytest.mark.parametrize(("rest", "message"), VALUES)
def test_wrong_value_is_refused(rest: dict[str, Any], message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        study(**rest)


@pytest.mark.parametrize("path", [None, 1, b"study.toml", ["study.toml"], "a\0b", {"score": "s"}])
def test_what_is_no_path_is_no_study_file(path: Any) -> None:
    with pytest.raises(DeclarationError, match="a study file is named by its path"):
        gs.Study.from_toml(path)


def test_trials_in_the_place_of_a_study_file_are_told(tmp_path: Path) -> None:
    path = tmp_path / "trials.csv"
    path.write_text("task,passed\n1,1\n")
    with pytest.raises(DeclarationError, match=r"is not TOML.*Is it a study file\?"):
        gs.Study.from_toml(path)
