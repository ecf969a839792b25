"""Run lists: round trips over random ragged data, patterns of judges, command lines, refusals."""

from __future__ import annotations

import itertools
import json
import shlex
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

import gstudy as gs
from gstudy.planning.inspect_commands import sample_pattern
from gstudy.planning.labels import continued, numbering_of, written
from gstudy.study.designs import Design
from gstudy.study.estimable import assess
from gstudy.variance.patterns import coincidence

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

RNG_SEEDS = range(4)


def facet(name: str, *parents: str, role: str = "legitimate", **rest: Any) -> gs.Facet:
    return gs.Facet(name, role=role, nested_in=list(parents), **rest)


def study_of(*facets: gs.Facet, **rest: Any) -> gs.Study:
    return gs.Study(score="passed", facets=facets, interactions="none", **rest)


TASK = facet("task")
STUDIES = {
    "one system": (
        study_of(TASK, facet("rollout", "task")),
        {"task": 6, "rollout": 4},
    ),
    "systems": (
        study_of(TASK, facet("rollout", "system", "task"), object="system"),
        {"task": 5, "rollout": 3},
    ),
    "judges": (
        study_of(
            TASK,
            facet("rollout", "system", "task"),
            facet("judge", role="error"),
            object="system",
        ),
        {"task": 4, "rollout": 3, "judge": 3},
    ),
    "domains": (
        study_of(
            facet("domain"),
            facet("task", "domain"),
            facet("rollout", "domain", "task"),
        ),
        {"domain": 3, "task": 4, "rollout": 2},
    ),
    "environments, a bank, repeated calls": (
        study_of(
            facet("task", universe=5),
            facet("environment", universe=2),
            facet("rollout", "task", "environment"),
            facet("call", "rollout", role="error"),
        ),
        {"task": 5, "environment": 2, "rollout": 2, "call": 2},
    ),
}


def pilot(study: gs.Study, design: Mapping[str, int], seed: int, systems: int = 2) -> pd.DataFrame:
    """A ragged part of a study with at most the design's levels, every one of which occurs."""
    rng = np.random.default_rng(seed)
    sizes = {name: int(rng.integers(1, n + 1)) for name, n in design.items()}
    if study.object is not None:
        sizes[study.object] = systems
    whole = gs.simulate(study, sizes, sd={"task": 1.0}, seed=seed)
    kept = rng.random(len(whole)) < rng.uniform(0.3, 1.0)
    kept[int(rng.integers(len(whole)))] = True
    return whole[kept].reset_index(drop=True)


def scored(study: gs.Study, frame: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """The rows of a list with made-up scores."""
    rng = np.random.default_rng(seed)
    return frame.drop(columns="kind").assign(passed=rng.integers(0, 2, len(frame)))


def levels(study: gs.Study, table: pd.DataFrame) -> dict[str, set[int]]:
    """By brute force the numbers of levels within each combination of parents, by facet."""
    found = {}
    for name in study.facet_names:
        above = [f for f in study.facet_names if f in study.closure(name) - {name}]
        groups: dict[tuple[str, ...], set[str]] = {}
        for row in table.to_dict(orient="records"):
            groups.setdefault(tuple(str(row[f]) for f in above), set()).add(str(row[name]))
        found[name] = {len(group) for group in groups.values()}
    return found


@pytest.mark.parametrize("seed", RNG_SEEDS)
@pytest.mark.parametrize("name", STUDIES)
def test_results_joined_to_the_old_trials_fill_the_design(name: str, seed: int) -> None:
    study, design = STUDIES[name]
    old = pilot(study, design, seed)
    missing = gs.run_list(design, old, study=study)
    # The results come in any order.
    new = scored(study, missing.frame).sample(frac=1.0, random_state=seed)
    both = pd.concat([old, new], ignore_index=True)
    assert not len(gs.run_list(design, both, study=study))
    found = levels(study, both)
    wanted = {**design, **({"system": old["system"].nunique()} if study.object else {})}
    assert found == {facet: {n} for facet, n in wanted.items()}
    assert len(both) == np.prod(list(wanted.values()))
    # Nothing that exists is run again, and every old level is still there.
    assert not both.duplicated(list(study.facet_names)).any()
    assessment = assess(study, both)
    assert {f: n for f, n in assessment.facet_levels.items() if f in design} == design


@pytest.mark.parametrize("seed", RNG_SEEDS)
def test_a_run_that_exists_only_needs_its_scores(seed: int) -> None:
    study, design = STUDIES["judges"]
    old = pilot(study, design, seed)
    frame = gs.run_list(design, old, study=study).frame
    runs = {tuple(map(str, row)) for row in old[["system", "task", "rollout"]].to_numpy()}
    for row in frame.to_dict(orient="records"):
        exists = (row["system"], row["task"], row["rollout"]) in runs
        assert row["kind"] == ("score only" if exists else "run")


@pytest.mark.parametrize("parents", [["task", "environment"], None])
def test_another_environment_is_another_run(parents: list[str] | None) -> None:
    """The only crossed facet of role error is no judge of runs that are nested in it."""
    facets = [TASK, facet("environment", role="error")]
    facets += [] if parents is None else [facet("rollout", *parents)]
    old = pd.DataFrame({"task": ["a", "b"], "environment": "x", "rollout": "1", "passed": 1})
    frame = gs.run_list({"environment": 2}, old, study=study_of(*facets)).frame
    assert frame["kind"].tolist() == ["run", "run"]
    judged = study_of(TASK, facet("environment", role="error"), facet("rollout", "task"))
    frame = gs.run_list({"environment": 2}, old, study=judged).frame
    assert frame["kind"].tolist() == ["score only", "score only"]


PATTERNS = ("all", "one", "round robin", "fresh")


@pytest.mark.parametrize("seed", RNG_SEEDS)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_each_pattern_is_reached_and_then_nothing_is_missing(pattern: str, seed: int) -> None:
    study, levels_ = STUDIES["judges"]
    alone = pattern in ("one", "fresh")
    counts = {f: n for f, n in levels_.items() if f != "judge" or not alone}
    design = Design(counts, judges=pattern)
    old = pilot(study, levels_, seed)
    missing = gs.run_list(design, old, study=study)
    both = pd.concat([old, scored(study, missing.frame)], ignore_index=True).astype(str)
    assert not len(gs.run_list(design, both, study=study))
    units = both[["system", "task", "rollout"]].drop_duplicates()
    assert len(units) == old["system"].nunique() * levels_["task"] * levels_["rollout"]
    judges = both.groupby(["system", "task", "rollout"])["judge"].agg(set)
    if pattern == "all":
        assert {len(own) for own in judges} == {3}
    if pattern == "one":
        assert set.intersection(*judges)
    if pattern == "fresh":
        # Hall: as many units as any set of them has judges; a matching, by augmenting paths.
        assert matched(list(judges)) == len(judges)


def matched(options: list[set[str]]) -> int:
    """Size of a largest matching of units and judges."""
    owner: dict[str, int] = {}

    def augment(unit: int, seen: set[str]) -> bool:
        for judge in options[unit] - seen:
            seen.add(judge)
            if judge not in owner or augment(owner[judge], seen):
                owner[judge] = unit
                return True
        return False

    return sum(augment(unit, set()) for unit in range(len(options)))


@pytest.mark.parametrize("n_judges", [2, 3, 4])
def test_a_rotation_counts_as_the_formula_of_the_pattern_says(n_judges: int) -> None:
    study, _ = STUDIES["judges"]
    old = pd.DataFrame(
        {"system": ["a", "b"], "task": "t", "rollout": "1", "judge": ["x", "y"], "passed": 1}
    )
    counts = {"task": 5, "rollout": 3, "judge": n_judges}
    design = Design(counts, judges="round robin")
    frame = gs.run_list(design, old, study=study).frame
    both = pd.concat([old, scored(study, frame)], ignore_index=True)
    # b's first unit was scored by another judge than a's, and needs that one too.
    assert (frame["kind"] == "score only").sum() == 1
    own = both[both["system"] == "a"]
    assert len(own) == 15
    for fixed in ([], ["task"], ["rollout"]):
        free = [n for f, n in counts.items() if f not in (*fixed, "judge")]
        groups = own.groupby(fixed) if fixed else [("", own)]
        for _, group in groups:
            shares = np.array(list(Counter(group["judge"]).values())) / len(group)
            assert (shares**2).sum() == pytest.approx(coincidence(n_judges, free), abs=1e-12)


def test_a_rotation_keeps_a_rotation_that_starts_with_another_judge_and_new_names() -> None:
    study, _ = STUDIES["judges"]
    rows = [
        {"system": "a", "task": f"t{t}", "rollout": str(r), "judge": "xyz"[(t + r + 1) % 3]}
        for t, r in itertools.product(range(4), range(3))
    ]
    old = pd.DataFrame(rows).assign(passed=0)
    design = Design({"task": 6, "rollout": 3, "judge": 3}, judges="round robin")
    missing = gs.run_list(design, old, study=study)
    assert (missing.frame["kind"] == "run").all()
    assert len(missing) == 6
    new = scored(study, missing.frame)
    new["task"] = new["task"].map({"new task 1": "z", "new task 2": "addition"})
    both = pd.concat([old, new], ignore_index=True)
    assert not len(gs.run_list(design, both, study=study))


def test_counts_get_the_number_that_each_cell_needs() -> None:
    study, trials = gs.example("airline")
    missing = gs.run_list({"task": 52, "rollout": 8}, trials)
    assert len(missing) == 50 * 4 + 2 * 8
    old = trials.table.rename(columns={"successes": "passes", "trials": "rollouts"})
    new = missing.frame.drop(columns="kind").assign(passes=1)
    both = pd.concat([old, new]).groupby("task", sort=False)[["passes", "rollouts"]].sum()
    again = gs.run_list({"task": 52, "rollout": 8}, both.reset_index(), study=study)
    assert not len(again)
    assert "Nothing is missing" in str(again)


def test_counts_of_a_new_judge_are_scores_of_runs_that_exist() -> None:
    study = gs.Study(successes="k", trials="n", facets=[TASK, facet("judge", role="error")])
    old = pd.DataFrame({"task": ["a", "b"], "judge": ["x", "x"], "k": 1, "n": [4, 6]})
    frame = gs.run_list({"judge": 2, "trials": 6}, old, study=study).frame
    found = {(r["task"], r["judge"], r["kind"]): r["n"] for r in frame.to_dict(orient="records")}
    assert found == {
        ("a", "x", "run"): 2,
        ("a", "new judge 1", "score only"): 4,
        ("a", "new judge 1", "run"): 2,
        ("b", "new judge 1", "score only"): 6,
    }


def test_failed_and_unscored_trials_that_do_not_count_are_run_again_under_new_labels() -> None:
    study = gs.Study(
        score="passed",
        facets=[TASK, facet("rollout", "task")],
        on_failed_run="drop",
        on_missing_score="drop",
    )
    old = pd.DataFrame(
        {
            "task": ["a"] * 3,
            "rollout": [1, 2, 3],
            "passed": [1.0, np.nan, np.nan],
            "outcome": ["scored", "failed", "unscored"],
        }
    )
    missing = gs.run_list({"rollout": 3}, old, study=study)
    assert missing.frame["rollout"].tolist() == ["4", "5"]
    assert "2 trials that failed" in str(missing)


def test_a_smaller_design_keeps_what_exists_and_says_so() -> None:
    study, _ = STUDIES["one system"]
    old = gs.simulate(study, {"task": 6, "rollout": 4}, sd={"task": 1.0}, seed=1)
    missing = gs.run_list({"task": 3, "rollout": 5}, old, study=study)
    assert len(missing) == 6
    assert "Nothing is run for task by itself: 6 tasks exist and the design has 3" in " ".join(
        missing.notes
    )
    assert not len(gs.run_list({"task": 3, "rollout": 2}, old, study=study))


def test_new_levels_have_clear_labels() -> None:
    assert continued("rollout", ["0", "1"], None, 2) == ["2", "3"]
    assert continued("rollout", ["r08", "r09"], None, 2) == ["r10", "r11"]
    assert continued("rollout", [], numbering_of(["007", "009"]), 1) == ["007"]
    assert continued("rollout", ["x", "y"], None, 1) == ["new rollout 1"]
    assert written("task", ["new task 2", "new task b"], 1) == ["new task 3"]


def test_lists_are_written_and_read_back(tmp_path: Path) -> None:
    study, design = STUDIES["judges"]
    missing = gs.run_list(design, pilot(study, design, 1), study=study)
    for ending, read in (
        ("csv", lambda p: pd.read_csv(p, dtype=str)),
        ("parquet", pd.read_parquet),
        ("jsonl", lambda p: pd.DataFrame(map(json.loads, p.read_text().splitlines()))),
    ):
        found = read(missing.write(tmp_path / f"runs.{ending}"))
        pd.testing.assert_frame_equal(found, missing.frame, check_dtype=False)
    with pytest.raises(gs.QuantityError, match="cannot be written there"):
        missing.write(tmp_path / "runs.xlsx")


def options(line: str) -> tuple[list[str], dict[str, str]]:
    """Words before the options of a command, and the options."""
    words = shlex.split(line)
    first = next(i for i, word in enumerate(words) if word.startswith("-"))
    return words[:first], dict(itertools.pairwise(words[first:]))


def test_inspect_runs_exactly_the_listed_samples_and_epochs() -> None:
    filters = pytest.importorskip("inspect_ai._eval.task.util")
    samples = pytest.importorskip("inspect_ai._util.samples")
    study, _ = STUDIES["systems"]
    tasks = ["7", "a*", "a?", "b,c", "d e", "[x]", "ab"]
    rng = np.random.default_rng(3)
    old = pd.DataFrame(
        [
            {"system": s, "task": t, "rollout": str(r), "passed": 1}
            for s, t in itertools.product(["m/1", "m 2"], tasks)
            for r in range(1, int(rng.integers(2, 5)))
        ]
    )
    missing = gs.run_list({"task": 8, "rollout": 4}, old, study=study)
    wanted = Counter(zip(missing.frame["system"], missing.frame["task"], strict=True))
    made: Counter[tuple[str, str]] = Counter()
    for line in missing.inspect("evals/x.py@x"):
        words, known = options(line)
        assert words == ["inspect", "eval", "evals/x.py@x"]
        chosen = filters.sample_id_filter(samples.parse_sample_id(known["--sample-id"]))
        for task in [*tasks, "new task 1"]:
            if chosen.matches(task):
                made[known["--model"], task] += int(known["--epochs"])
    assert made == wanted


def test_inspect_scores_again_what_exists() -> None:
    study, design = STUDIES["judges"]
    old = gs.simulate(study, {"system": 2, **design}, sd={"task": 1.0}, seed=1)
    old = old[old["judge"] != "judge3"]
    old["judge"] = old["judge"].map({"judge1": "includes", "judge2": "qa (openai/gpt-4o)"})
    missing = gs.run_list({**design, "judge": 2}, old.drop(index=1), study=study)
    line = "inspect score 'my log.eval' --scorer qa --model-role grader=openai/gpt-4o "
    line += "--action append --overwrite"
    assert missing.inspect("t", logs={"system1": "my log.eval"}) == (line,)
    rotated = gs.run_list(
        Design({**design, "rollout": 4, "judge": 2}, judges="round robin"), old, study=study
    )
    lines = rotated.inspect("t")
    assert sum("--no-score" in line for line in lines) == 4
    assert sum("runs/" in line and line.startswith("inspect score") for line in lines) == 4


def test_fresh_judges_are_no_scorers() -> None:
    study, design = STUDIES["judges"]
    levels_ = {f: n for f, n in design.items() if f != "judge"}
    missing = gs.run_list(Design(levels_, judges="fresh"), pilot(study, design, 1), study=study)
    with pytest.raises(gs.QuantityError, match="no scorer that Inspect could name"):
        missing.inspect()


def test_two_samples_that_one_pattern_matches_are_refused() -> None:
    assert sample_pattern("a,b", ["a,b", "c"]) == "a?b"
    with pytest.raises(gs.QuantityError, match="cannot tell two samples apart"):
        sample_pattern("a,b", ["a,b", "a-b"])


BANK = study_of(facet("task", universe=4), facet("judge", role="error", universe=3))


@pytest.mark.parametrize(
    ("design", "message"),
    [
        ({"taks": 4}, "unknown facet 'taks'.*Did you mean 'task'"),
        ({"task": 5}, "more levels than its universe. Given: 5"),
        (Design({"task": 4}, judges="fresh"), "'judge' has more levels than its universe"),
        (Design({"judge": 2}, judges="one"), "says how many levels of 'judge'"),
        (Design({"task": 4}, pin=["task"]), "'task' is pinned"),
        (Design({"task": 4}, pin=["job"]), "pin names an unknown facet 'job'"),
        ({"task": 0}, "whole numbers from 1"),
        ({"task": 2, "trials": 2}, "unknown facet 'trials'"),
    ],
)
def test_designs_that_cannot_be_run_are_refused(design: Any, message: str) -> None:
    old = pd.DataFrame({"task": ["a", "b"], "judge": ["x", "y"], "passed": [0, 1]})
    with pytest.raises(gs.QuantityError, match=message):
        gs.run_list(design, old, study=BANK)


def test_measured_and_controlled_facets_and_missing_studies_are_refused() -> None:
    study = study_of(TASK, facet("prompt", role="controlled"), object="system")
    old = pd.DataFrame({"system": ["a"], "task": ["t"], "prompt": ["p"], "passed": [1]})
    for design, message in (
        ({"system": 2}, "'system' is measured"),
        ({"prompt": 2}, "'prompt' is controlled"),
        (Design({"task": 2}, judges="round robin"), "needs a judge"),
    ):
        with pytest.raises(gs.QuantityError, match=message):
            gs.run_list(design, old, study=study)
    with pytest.raises(gs.QuantityError, match="needs the study"):
        gs.run_list({"task": 2}, old)
    counted = gs.Study(successes="k", trials="n", facets=[TASK, facet("judge", role="error")])
    table = pd.DataFrame({"task": ["a"], "judge": ["x"], "k": 1, "n": 2})
    with pytest.raises(gs.QuantityError, match="counted trials have no names"):
        gs.run_list(Design({"task": 2}, judges="one"), table, study=counted)
    with pytest.raises(gs.QuantityError, match="more trials than a list of runs should hold"):
        gs.run_list({"task": 10**8}, old, study=study)
