"""The bundled examples: study files and trials that come with the package."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gstudy.errors import QuantityError, did_you_mean, explain
from gstudy.study.declaration import Study
from gstudy.study.trials import read_trials

if TYPE_CHECKING:
    from gstudy.study.trials import Trials

__all__ = ["EXAMPLES", "example", "study_file"]

EXAMPLES = ("airline", "panel")
"""`airline`: real, one system, 50 tasks with 4 rollouts each, passes counted.
`panel`: simulated with known truth, 6 systems x 60 tasks x 2 snapshots x 3 rollouts x 2 judges."""


def example(name: str) -> tuple[Study, Trials]:
    """A bundled study with its trials.

    Parameters
    ----------
    name : {"airline", "panel"}
        `airline`: the published passes of 4 rollouts on each of 50 tasks of tau-bench airline,
        one system. `panel`: simulated with known truth, 6 systems x 60 tasks x 2 snapshots x 3
        rollouts x 2 judges.

    Returns
    -------
    study : Study
    trials : Trials

    Raises
    ------
    QuantityError
        For another name.

    Examples
    --------
    >>> study, trials = example("airline")
    >>> study.facet_names
    ('task', 'rollout')
    """
    study = Study.from_toml(study_file(name))
    if study.data is None:
        raise AssertionError(f"the study file of {name!r} names no data")
    return study, read_trials(study.data, study)


def study_file(name: str) -> Path:
    """The study file of a bundled example; its data lie beside it.

    Parameters
    ----------
    name : {"airline", "panel"}

    Returns
    -------
    Path

    Raises
    ------
    QuantityError
        For another name.
    """
    if str(name) not in EXAMPLES:
        raise QuantityError(
            explain(
                f"no example is named {name!r}",
                allowed=EXAMPLES,
                do=did_you_mean(str(name), EXAMPLES),
            )
        )
    return Path(__file__).with_name(f"{name}.toml")
