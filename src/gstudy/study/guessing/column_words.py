"""What the name of a column may mean: lists of words, the likeliest first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

__all__ = [
    "COUNTS",
    "ERRORS",
    "EXCHANGEABLE",
    "FAULTS",
    "GROUPS",
    "JUDGES",
    "MEASURES",
    "NAMED",
    "OBJECTS",
    "PASSES",
    "ROLLOUTS",
    "SAME_RESPONSE",
    "SCORES",
    "SURE_TASKS",
    "TASKS",
    "best",
    "holds_word",
    "normal_name",
    "place",
]

SCORES = (
    *("passed", "score", "correct", "is_correct", "success", "resolved", "is_success", "succeeded"),
    *("solved", "is_solved", "is_passed", "pass", "ok", "reward", "accuracy", "acc", "exact_match"),
    *("grade", "rating", "mark", "points", "result", "value", "y", "label"),
)
# Columns of passes, then columns of how many they are of.
COUNTS = (
    (
        *("successes", "passes", "n_passes", "n_passed", "num_passed", "n_correct", "num_correct"),
        *("n_success", "n_successes", "k", "c", "correct", "passed", "score"),
    ),
    (
        *("trials", "rollouts", "n_trials", "n_rollouts", "num_trials", "n", "total", "n_total"),
        *(
            "attempts",
            "n_attempts",
            "n_samples",
            "num_samples",
            "samples",
            "epochs",
            "runs",
            "n_runs",
        ),
    ),
)
# Labels of a trial that passed; those of one that failed are anything else.
PASSES = (
    *("yes", "y", "pass", "passed", "correct", "right", "success", "successful", "succeeded"),
    *("solved", "resolved", "ok", "c", "win", "won", "accepted", "good", "✓", "✅"),
)
ERRORS = ("standard_error", "stderr", "std_err", "se", "score_stderr", "score_se", "sem")

OBJECTS = (
    *("system", "model", "agent", "policy", "llm", "submission", "checkpoint", "alias"),
    *("assistant", "engine", "solver", "candidate", "model_name_or_path", "model_version"),
    *("llm_model", "target_model", "evaluated_model", "target", "method", "approach", "provider"),
    *("bot", "participant", "person", "student", "team"),
)
TASKS = (
    *("task", "item", "question", "problem", "instance", "sample_id", "query", "example"),
    *("case", "test_case", "doc", "scenario", "challenge", "puzzle", "exercise", "sentence"),
    "qid",
    *("prompt", "sample", "input", "id"),
)
# Tasks in tables that have no better word; beside one they are rollouts or conditions.
SURE_TASKS = TASKS[:-4]
ROLLOUTS = (
    *("rollout", "epoch", "trial", "attempt", "repeat", "replicate", "replication", "repetition"),
    *("iteration", "run", "try", "episode", "occasion", "sample", "seed"),
)
JUDGES = (
    *("judge", "grader", "rater", "scorer", "annotator", "evaluator", "reviewer", "marker"),
    *("assessor", "judge_model", "grader_model", "scorer_model", "autograder"),
)
# The tasks of one are not those of another.
GROUPS = ("environment", "env", "benchmark", "dataset", "suite", "eval", "domain")
# Few, and named in the claim.
NAMED = (
    *GROUPS,
    *("language", "lang", "locale", "split", "setting", "mode", "track", "config", "temperature"),
    *("effort", "reasoning_effort", "thinking"),
)
# Others like them could have been taken.
EXCHANGEABLE = (
    *("snapshot", "harness", "prompt", "template", "prompt_template", "prompt_variant", "variant"),
    *("version", "docs_version", "scaffold", "user_simulator", "user_model", "simulator", "order"),
    *("position", "format", "paraphrase", "phrasing", "instruction", "session"),
)
# They score one response several times.
SAME_RESPONSE = ("filter", "metric")

# What a trial was, or led to: never what tells it apart from another.
MEASURES = frozenset(
    (
        *("cost", "costs", "price", "token", "tokens", "time", "duration", "latency", "second"),
        *("seconds", "minutes", "ms", "length", "count", "date", "timestamp", "created"),
        *("start", "started", "end", "ended", "finished", "score", "reward", "message", "messages"),
        *("text", "output", "response", "answer", "answered", "error", "comment", "note", "notes"),
        *("rationale", "explanation", "trace", "verdict", "turns", "steps", "confidence"),
    )
)
# Columns that may say that a run failed.
FAULTS = ("status", "state", "exit_status", "error", "failed", "failure", "termination", "crashed")

_ENDINGS = ("_id", "_ids", "_idx", "_index", "_num", "_no", "_nr", "_number", "_name", "_key")

_STEP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_OTHER = re.compile(r"[^a-z0-9]+")


def normal_name(column: str) -> str:
    """The name in lower case, its words joined by "_".

    >>> normal_name("Task ID"), normal_name("modelName")
    ('task_id', 'model_name')
    """
    return _OTHER.sub("_", _STEP.sub("_", column).lower()).strip("_")


def place(column: str, words: Sequence[str]) -> tuple[int, int] | None:
    """How well a name fits a list of words, the least best; None if it does not.

    >>> place("task_id", ("item", "task")), place("cost", ("item", "task"))
    ((1, 1), None)
    """
    name = normal_name(column)
    if name in words:
        return words.index(name), 0
    for ending in _ENDINGS:
        bare = name.removesuffix(ending)
        if bare != name and bare in words:
            return words.index(bare), 1
    return None


def best(columns: Iterable[str], words: Sequence[str]) -> list[str]:
    """The columns whose names fit a list of words, the best first."""
    fitting = [(fit, name) for name in columns if (fit := place(name, words)) is not None]
    return [name for _, name in sorted(fitting, key=lambda pair: pair[0])]


def holds_word(column: str, words: Iterable[str]) -> bool:
    """Whether one of a name's words is in a list.

    >>> holds_word("total_cost_usd", MEASURES), holds_word("costume", MEASURES)
    (True, False)
    """
    return not set(normal_name(column).split("_")).isdisjoint(words)
