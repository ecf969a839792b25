"""What `gstudy designs` predicts from: a run, assumed components, or the priors alone."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gstudy._words import plural
from gstudy.cli.assumed_study import facet_rows, implied_mean, implied_study
from gstudy.cli.budget import STUDY_SUFFIX
from gstudy.cli.check import read_study
from gstudy.cli.exits import usage_error
from gstudy.cli.facet_lists import numbers_of
from gstudy.cli.fit import RUN_SUFFIX
from gstudy.display import Table
from gstudy.fits.fitted import Fit

if TYPE_CHECKING:
    from gstudy.study.costs import Cost
    from gstudy.study.declaration import Study
    from gstudy.study.designs import Design
    from gstudy.variance.components import VarianceComponents

__all__ = ["Assumption", "DesignSource", "checked_files", "prior_source", "source_of"]

# From so many levels on the default prior of an sd is wide.
_MANY = 8
_LOGIT = "logit"


@dataclass(frozen=True, slots=True)
class Assumption:
    """The options that assume components."""

    components: str | None
    mean: float | None
    mu: float | None
    scale: str | None


@dataclass(frozen=True, slots=True)
class DesignSource:
    """Components with the study whose designs and prices belong to them.

    Parameters
    ----------
    components : Fit, VarianceComponents or None
        None where there are only priors, which depend on the design.
    study : Study
        Of the components.
    designs : mapping of str to Design
    cost : Cost or None
    fit : Fit or None
        Where the components are of a run.
    path : Path or None
        The file that was given.
    declared : bool
        Whether the study was declared, not implied by names.
    rows : list of (str, str)
        What is assumed, to be printed.
    """

    components: Fit | VarianceComponents | None
    study: Study
    designs: Mapping[str, Design]
    cost: Cost | None
    fit: Fit | None = None
    path: Path | None = None
    declared: bool = True
    rows: list[tuple[str, str]] = field(default_factory=list)

    @property
    def rate(self) -> bool:
        """Whether scores are pass rates."""
        return self.study.family != "gaussian"

    def table(self) -> Table | None:
        """What is assumed, as a table."""
        import pandas as pd

        if not self.rows:
            return None
        names, words = zip(*self.rows, strict=True)
        index = pd.Index(names, name="assumed")
        return Table(pd.DataFrame({"as": words}, index=index), "Assumed")

    @property
    def remark(self) -> str:
        """What the half-width holds of a system that nobody has run, or nothing."""
        measured, components = self.study.object, self.components
        if measured is None or components is None or isinstance(components, Fit):
            return ""
        if measured not in components.rows:
            return ""
        return (
            f"half-width: of a {measured} that is not run yet, how {plural(measured)} differ "
            f"included. That of one given is beside, and in a search --goal given-half-width. MDD, "
            f"P(winner) and --goal difference compare {plural(measured)} that run."
        )

    def words(self) -> str:
        """What is assumed, in lines; the declaration first where names implied it."""
        if not self.rows:
            return ""
        head = (
            "Components are assumed, not estimated."
            if self.declared
            else "No study was given. From the names of the components this one is assumed:"
        )
        wide = max(len(name) for name, _ in self.rows)
        lines = [f"  {name:<{wide}}  {text}" for name, text in self.rows]
        more = (
            [] if self.declared else ["--study FILE takes the facets that a study file declares."]
        )
        return "\n".join([head, *lines, *more])


def checked_files(source: Path | None, study: Path | None, given: Assumption) -> None:
    """Whether the files that were given go together.

    Raises
    ------
    typer.Exit
        A usage error, when they do not.
    """
    _check_assumption(given)
    if source is None:
        if study is None and given.components is None:
            raise usage_error(
                "nothing to predict from: give a run or a study file, or assume components, such "
                "as --assume task=.10,rollout=.14"
            )
        return
    kind = source.suffix.lower()
    if kind == STUDY_SUFFIX and study is not None:
        raise usage_error(f"{source} is a study itself: leave --study out.")
    if kind == RUN_SUFFIX and given.components is not None:
        raise usage_error(f"{source} is a run and has its components: leave --assume out.")
    if kind not in (RUN_SUFFIX, STUDY_SUFFIX):
        raise usage_error(
            f"{source} is neither a saved run ({RUN_SUFFIX}) nor a study file ({STUDY_SUFFIX}): "
            f"gstudy budget {shlex.quote(str(source))} --out DIR leaves a run in DIR/run.nc."
        )


def source_of(source: Path | None, study: Path | None, given: Assumption) -> DesignSource:
    """The source that the files and options give; `checked_files` comes first."""
    if source is not None and source.suffix.lower() == RUN_SUFFIX:
        return _of_run(source, study)
    path = study if source is None else source
    if path is None:
        return _of_names(given)
    declared = read_study(path)
    known: dict[str, Any] = {"designs": declared.designs, "cost": declared.cost, "path": path}
    if given.components is not None:
        variances = _variances(given.components)
        means, text = _means(variances, given)
        return DesignSource(
            _assumed(declared, variances, means),
            declared,
            rows=[*_component_rows(variances, given), text],
            **known,
        )
    if declared.assumed is None:
        return DesignSource(None, declared, **known)
    from gstudy.variance.assumed import assume

    held = declared.assumed
    mean = ("mean", f"{held.mean:g}") if held.mu is None else ("mu", f"{held.mu:g}, logit scale")
    rows = [(name, f"variance {value:g}") for name, value in held.components.items()]
    return DesignSource(assume(declared), declared, rows=[*rows, mean], **known)


def prior_source(
    source: DesignSource, designs: Iterable[Design], most: Mapping[str, int | None], seed: int
) -> VarianceComponents:
    """Components as the priors see them, for the largest of the designs or bounds.

    Parameters
    ----------
    source : DesignSource
    designs : iterable of Design
    most : mapping of str to int or None
        The most levels that a search may give; None for no end.
    seed : int
    """
    from gstudy.variance.prior_draws import prior_components

    asked = list(designs)
    if len(asked) == 1 and not most:
        return prior_components(source.study, asked[0], seed=seed)
    levels = {facet: n or _MANY for facet, n in most.items()}
    for facet, n in (pair for design in asked for pair in design.items()):
        levels[facet] = max(n, levels.get(facet, 1))
    for own in source.study.facets:
        if own.role not in ("controlled", "object"):
            levels.setdefault(own.name, _MANY)
    return prior_components(source.study, levels, seed=seed)


def _of_run(path: Path, study: Path | None) -> DesignSource:
    """A saved run; another study file gives designs and prices, and nothing else."""
    from gstudy.fits.files import load

    fit = load(path)
    planned = fit.study if study is None else read_study(study)
    return DesignSource(fit, fit.study, planned.designs, planned.cost, fit=fit, path=path)


def _of_names(given: Assumption) -> DesignSource:
    variances = _variances(str(given.components))
    study = implied_study(variances)
    means, text = _means(variances, given)
    return DesignSource(
        _assumed(study, variances, means),
        study,
        designs={},
        cost=None,
        declared=False,
        rows=[*_facets_with_variances(study, variances, given), text],
    )


def _assumed(
    study: Study, variances: Mapping[str, float], means: Mapping[str, Any]
) -> VarianceComponents:
    from gstudy.variance.assumed import assume

    return assume(study, variances, **means)


def _variances(text: str) -> dict[str, float]:
    return numbers_of("--assume", text, "task=.10,rollout=.14")


def _means(
    variances: Mapping[str, float], given: Assumption
) -> tuple[dict[str, Any], tuple[str, str]]:
    """Mean and scale for `assume`, and how they are told."""
    if given.scale == _LOGIT or given.mu is not None:
        return {"mu": given.mu, "scale": _LOGIT}, ("mu", f"{given.mu:g}, logit scale")
    if given.mean is not None:
        return {"mean": given.mean}, ("mean", f"{given.mean:g}")
    mean, total = implied_mean(variances), sum(variances.values())
    told = f"{mean:.3g}: 0/1 scores with this mean, or {1 - mean:.3g}, have variance {total:.4g}"
    return {"mean": mean}, ("mean", told if mean > 0.5 else told.replace(", or 0.5,", ""))


def _component_rows(variances: Mapping[str, float], given: Assumption) -> list[tuple[str, str]]:
    scale = " (logit scale)" if given.mu is not None else ""
    return [(name, f"variance {value:g}{scale}") for name, value in variances.items()]


def _facets_with_variances(
    study: Study, variances: Mapping[str, float], given: Assumption
) -> list[tuple[str, str]]:
    """Facets with their roles, and the variance of each component."""
    told = dict(_component_rows(variances, given))
    rows = []
    for name, words in facet_rows(study):
        own = told.pop(name, "no variance of its own")
        rows.append((name, f"{own}; {words}"))
    return [*rows, *told.items()]


def _check_assumption(given: Assumption) -> None:
    """Means and scale belong to --assume, and to each other."""
    means = {"--mean": given.mean, "--mu": given.mu, "--scale": given.scale}
    named = [option for option, value in means.items() if value is not None]
    if given.components is None:
        if named:
            raise usage_error(f"{named[0]} belongs to --assume, which is not given.")
        return
    if given.scale not in (None, "score", _LOGIT):
        raise usage_error(f"--scale is score or logit, not {given.scale!r}.")
    if given.mean is not None and (given.mu is not None or given.scale == _LOGIT):
        raise usage_error("--mean is of the score scale, --mu of the logit scale: give one.")
    if given.scale == "score" and given.mu is not None:
        raise usage_error("--mu is of the logit scale: take --mean, or --scale logit.")
    if given.scale == _LOGIT and given.mu is None:
        raise usage_error("--scale logit needs --mu, the grand mean on that scale, such as --mu 0.")
