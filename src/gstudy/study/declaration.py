"""The study: what is scored, which facets vary, what the claim covers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gstudy.errors import DeclarationError, QuantityError, did_you_mean, explain
from gstudy.study.declaring.claims import check_universes, check_varying
from gstudy.study.declaring.component_names import (
    Nesting,
    declared_sets,
    read_interactions,
    read_keep,
    read_priors,
)
from gstudy.study.declaring.plain_values import (
    Scalar,
    check_score_columns,
    read_average,
    read_data_path,
    read_family,
    read_pinned,
    read_rollout,
)
from gstudy.study.declaring.planning_tables import read_assumed, read_cost, read_designs
from gstudy.study.declaring.policies import read_failed_policy, read_missing_policy
from gstudy.study.declaring.structure import (
    check_columns,
    check_nesting,
    counted_facet,
    with_object,
)
from gstudy.study.declaring.toml_tables import read_arguments, read_toml
from gstudy.study.index_sets import IndexSet, Rule, close, nesting_rules, set_name

if TYPE_CHECKING:
    from gstudy.study.assumed import Assumed
    from gstudy.study.costs import Cost
    from gstudy.study.designs import Design
    from gstudy.study.facets import Facet
    from gstudy.study.priors import Prior

__all__ = ["Study", "checked_study"]


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Study:
    """A study as it is declared; the same in Python as in a TOML file.

    Parameters
    ----------
    facets : list of Facet
        The sources of variation, in the order that names of components follow.
    score : str, optional
        Column with 0/1 or true/false; of graded scores with any number.
    successes, trials : str, optional
        Instead of `score`: columns with counts. If a nested facet has the column of `trials`,
        its levels are counted, not named.
    object : str, optional
        Facet that is measured; alone it stands for a facet of that name and role.
    average : str or mapping
        The reported score: "trials", the mean over all trials; a facet such as "task", or
        ``{"macro": "domain"}``, the mean of its levels' means.
    controlled : mapping, optional
        What is pinned and recorded without a column: name to text, number or truth value.
    interactions : "auto", "none" or list of str
        Components of two or more facets, such as ``["system:task"]``; facets in any order,
        parents may be left out.
    keep : list of str
        Components to fit although the data hardly inform them.
    on_failed_run : str or mapping
        "raise", "incorrect" (score 0) or "drop"; or one of them per reason.
    on_missing_score : str
        "raise" or "drop": a trial that was never scored.
    priors : mapping, optional
        ``"mu"``, ``"sd(<component>)"``, ``"fixed(<controlled facet>)"`` and, of graded scores,
        ``"sd(residual)"``, each to a `Prior` or a mapping such as ``{"dist": "HalfNormal",
        "sigma": 5.0}``; on the logit scale, or in the unit of graded scores.
    data : str or Path, optional
        File of the trials.
    rollout : str, optional
        Facet of which a re-run draws new levels, or "none" if it keeps them all (unless a facet
        has that name); found from the nesting if left out.
    family : {"binary", "gaussian"}
        "gaussian" for graded scores.
    standard_error : str, optional
        Column with the known standard error of each graded score, in its unit; without it one
        residual sd is estimated.
    designs : list of Design, or mapping of str to Design, optional
        Designs to plan with, by name. They, `cost` and `assumed` change nothing of a fit: studies
        that differ in them alone are equal.
    cost : Cost or mapping of str to float, optional
        Price of a unit of each facet that costs anything.
    assumed : mapping, optional
        Components to plan with before any trial: `components`, and `scale` with `mean` or `mu`,
        as `gs.assume` takes them.

    Attributes
    ----------
    facets : tuple of Facet
    interactions : "auto", "none" or tuple of str
        Names in their canonical form, as in `keep` and in the keys of `priors`.
    priors : mapping of str to Prior

    Raises
    ------
    DeclarationError
        Naming key, value, what is allowed and the mend.

    Examples
    --------
    >>> import gstudy as gs
    >>> study = gs.Study(
    ...     score="passed",
    ...     object="system",
    ...     facets=[
    ...         gs.Facet("task", role="legitimate"),
    ...         gs.Facet("rollout", role="legitimate", nested_in=["system", "task"]),
    ...     ],
    ... )
    >>> study.facet_names
    ('system', 'task', 'rollout')
    >>> study.name_of(study.closure("rollout"))
    'system:task:rollout'
    """

    facets: tuple[Facet, ...]
    score: str | None
    successes: str | None
    trials: str | None
    object: str | None
    average: str | Mapping[str, str]
    controlled: Mapping[str, Scalar]
    interactions: str | tuple[str, ...]
    keep: tuple[str, ...]
    on_failed_run: str | Mapping[str, str]
    on_missing_score: str
    priors: Mapping[str, Prior]
    data: Path | None
    rollout: str | None
    family: str
    standard_error: str | None
    designs: Mapping[str, Design] = field(compare=False)
    cost: Cost | None = field(compare=False)
    assumed: Assumed | None = field(compare=False)

    def __init__(
        self,
        *,
        facets: Sequence[Facet] = (),
        score: str | None = None,
        successes: str | None = None,
        trials: str | None = None,
        object: str | None = None,
        average: str | Mapping[str, str] = "trials",
        controlled: Mapping[str, Scalar] | None = None,
        interactions: str | Sequence[str] = "auto",
        keep: Sequence[str] = (),
        on_failed_run: str | Mapping[str, str] = "raise",
        on_missing_score: str = "raise",
        priors: Mapping[str, Prior | Mapping[str, Any]] | None = None,
        data: str | Path | None = None,
        rollout: str | None = None,
        family: str = "binary",
        standard_error: str | None = None,
        designs: Sequence[Design] | Mapping[str, Any] | None = None,
        cost: Mapping[str, float] | None = None,
        assumed: Assumed | Mapping[str, Any] | None = None,
    ) -> None:
        check_score_columns(score, successes, trials, standard_error)
        declared, measured = with_object(facets, object)
        columns = {"score": score, "successes": successes, "trials": trials}
        _set(self, **columns, object=measured, standard_error=standard_error)
        _set(self, facets=declared, family=read_family(family, score, standard_error))
        check_columns(declared, {**columns, "standard_error": standard_error})
        check_nesting(declared, self.counted, measured)
        check_universes(declared, self.counted)
        check_varying(declared, measured, self.counted, self.family)
        names, nesting = self.facet_names, self._nesting()
        _set(self, interactions=read_interactions(interactions, nesting))
        sets = self.declared_sets()
        _set(self, keep=read_keep(keep, nesting, sets))
        given = {} if priors is None else priors
        _set(self, priors=read_priors(given, nesting, sets, self.family))
        _set(self, on_failed_run=read_failed_policy(on_failed_run))
        _set(self, on_missing_score=read_missing_policy(on_missing_score))
        _set(self, controlled=read_pinned({} if controlled is None else controlled, names))
        _set(self, average=read_average(average, names, measured, self.counted))
        drawable = [name for name in names if name != measured]
        _set(self, rollout=read_rollout(rollout, [*drawable, *({"none"} - set(names))]))
        _set(self, data=read_data_path(data))
        _set(self, designs=read_designs(designs, declared), cost=read_cost(cost, declared))
        _set(self, assumed=read_assumed(assumed, declared))

    @classmethod
    def from_toml(cls, path: str | Path) -> Study:
        """Read a study file; a relative `data` path starts from its folder.

        Raises
        ------
        DeclarationError
            Naming the file, and in it the key, or the line that is not TOML.
        """
        tables = read_toml(path)
        try:
            return cls.from_dict(tables, base=Path(path).parent)
        except DeclarationError as error:
            raise DeclarationError(f"{path}: {error}") from None

    @classmethod
    def from_dict(cls, mapping: Mapping[str, Any], base: Path | None = None) -> Study:
        """The study that a mapping with the tables of a study file declares.

        Parameters
        ----------
        mapping : mapping
            Such as `to_dict` gives and a TOML file holds.
        base : Path, optional
            Folder that a relative `data` path starts from.

        Raises
        ------
        DeclarationError
            For an unknown key or a wrong value.
        """
        return cls(**read_arguments(mapping, base))

    def to_dict(self) -> dict[str, Any]:
        """The tables of the study file; `from_dict` makes an equal study of them."""
        plain = {
            "data": None if self.data is None else str(self.data),
            **{key: getattr(self, key) for key in ("score", "successes", "trials", "family")},
            **{key: getattr(self, key) for key in ("standard_error", "object", "rollout")},
            "average": self.average if isinstance(self.average, str) else dict(self.average),
        }
        failed = self.on_failed_run
        model = {
            "interactions": _listed(self.interactions),
            "keep": list(self.keep),
            "on_failed_run": failed if isinstance(failed, str) else dict(failed),
            "on_missing_score": self.on_missing_score,
        }
        return {
            **{key: value for key, value in plain.items() if value is not None},
            "facets": {facet.name: _facet_table(facet) for facet in self.facets},
            "controlled": dict(self.controlled),
            "model": model,
            "priors": {key: prior.to_dict() for key, prior in self.priors.items()},
            **self._planning(),
        }

    def to_toml(self, base: Path | None = None) -> str:
        """The text of the study file; `from_toml` makes an equal study of it.

        Parameters
        ----------
        base : Path, optional
            Folder that the file will stand in: `data` is written relative to it.
        """
        import tomlkit

        tables = {key: value for key, value in self.to_dict().items() if value != {}}
        if base is not None and self.data is not None:
            tables["data"] = str(self.data.resolve().relative_to(base.resolve(), walk_up=True))
        return tomlkit.dumps(tables)

    def _planning(self) -> dict[str, Any]:
        """The tables for planning, those that there are."""
        tables = {
            "design": {name: design.to_dict() for name, design in self.designs.items()},
            "cost": None if self.cost is None else self.cost.to_dict(),
            "assumed": None if self.assumed is None else self.assumed.to_dict(),
        }
        return {key: table for key, table in tables.items() if table}

    @property
    def facet_names(self) -> tuple[str, ...]:
        """Names of the facets in declared order."""
        return tuple(facet.name for facet in self.facets)

    @property
    def parents(self) -> dict[str, tuple[str, ...]]:
        """Direct parents of every facet, empty for a crossed one."""
        return {facet.name: tuple(facet.nested_in) for facet in self.facets}

    @property
    def rules(self) -> list[Rule]:
        """What the nesting says about index sets."""
        return nesting_rules(self.parents)

    @property
    def counted(self) -> str | None:
        """The facet whose column is that of `trials`: counted, without labels, or None."""
        return counted_facet(self.facets, self.trials)

    @property
    def labelled(self) -> tuple[Facet, ...]:
        """The facets that have labels in the data: all but the counted one."""
        return tuple(facet for facet in self.facets if facet.name != self.counted)

    @property
    def averaged_over(self) -> str | None:
        """The facet that the reported score is the mean of the levels of; None for all trials."""
        average = self.average
        facet = average if isinstance(average, str) else average["macro"]
        return None if facet == "trials" else facet

    @property
    def varying(self) -> dict[str, str]:
        """Facets with own sds, and the object that they vary by."""
        return {facet.name: facet.varies for facet in self.facets if facet.varies is not None}

    @property
    def fixed_facets(self) -> frozenset[str]:
        """The controlled facets that have labels: fixed effects, or pinned at one level."""
        return frozenset(facet.name for facet in self.labelled if facet.role == "controlled")

    def facet(self, name: str) -> Facet:
        """The facet of that name.

        Raises
        ------
        QuantityError
            When there is none.
        """
        for facet in self.facets:
            if facet.name == name:
                return facet
        raise QuantityError(
            explain(
                f"no facet is named {name!r}",
                allowed=self.facet_names,
                do=did_you_mean(str(name), self.facet_names),
            )
        )

    def closure(self, names: str | Iterable[str]) -> IndexSet:
        """The index set of one or several facets: themselves and all their parents.

        Raises
        ------
        QuantityError
            When one of them is no facet.
        """
        members = (names,) if isinstance(names, str) else tuple(names)
        return close({self.facet(name).name for name in members}, self.rules)

    def name_of(self, index_set: Iterable[str]) -> str:
        """The name of an index set: its facets joined by ":" in declared order."""
        return set_name(index_set, self.facet_names)

    def declared_sets(self) -> dict[str, IndexSet]:
        """Every component that the declaration allows, by name; the data decide which are fitted.

        Main components in declared order, then interactions: those listed, or with "auto" each
        pair of facets of which neither is nested in the other. A counted facet is in none; a
        controlled one has none of its own, but may be in those of others. The object with a facet
        that varies by it is part of that facet's component.

        Returns
        -------
        dict of str to frozenset of str
        """
        return declared_sets(self._nesting(), self.interactions)

    def redrawn_on_rerun(self) -> frozenset[str]:
        """The facets that a re-run of the same tasks draws anew.

        The facet that `rollout` names and all that is nested in it; none when it is "none" and
        no facet is called so. Without it the structure decides, never a name: a counted facet;
        else the facets nested in the object, among others; else the nested facets, not
        measurement error, in which no other such facet is nested. So it is too where all that is
        legitimate lies in the object: each system has its own tasks, and they are kept. Counts
        without a counted facet hold no rollouts that could be told apart.

        Returns
        -------
        frozenset of str
        """
        # "none" lies in no closure, unless a facet has that name.
        drawn = {self.rollout} if self.rollout is not None else self._lowest()
        return frozenset(facet.name for facet in self.facets if self.closure(facet.name) & drawn)

    def _nesting(self) -> Nesting:
        """What names of components are made of."""
        rules = self.rules
        inside = {
            close({facet, measured}, rules): facet
            for facet, measured in self.varying.items()
            if measured not in close({facet}, rules)
        }
        residual = self.family == "gaussian" and self.standard_error is None
        return Nesting(self.facet_names, rules, self.counted, self.fixed_facets, inside, residual)

    def __repr__(self) -> str:
        score = self.score if self.trials is None else f"{self.successes} of {self.trials}"
        score = f"graded {score}" if self.family == "gaussian" else score
        width = max(len(name) for name in self.facet_names)
        lines = [f"Study of {score}" + (f" by {self.object}" if self.object else "")]
        for facet in self.facets:
            nested = f", nested in {', '.join(facet.nested_in)}" if facet.nested_in else ""
            counted = ", counted" if facet.name == self.counted else ""
            bank = "" if facet.universe is None else f", {facet.universe:,} in all"
            own = "" if facet.varies is None else f", varies by {facet.varies}"
            lines.append(f"  {facet.name:<{width}}  {facet.role}{nested}{counted}{bank}{own}")
        listed = self.interactions
        shown = listed if isinstance(listed, str) else ", ".join(listed)
        lines.append(f"  interactions: {shown}")
        if self.averaged_over is not None:
            lines.append(f"  score: mean over {self.averaged_over} levels")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[Any, ...]:
        # Read-only mappings do not pickle; the tables are the whole study.
        return (Study.from_dict, (self.to_dict(),))

    def _lowest(self) -> set[str]:
        """The facets that are redrawn if the study names no rollout."""
        if self.trials is not None:
            return set() if self.counted is None else {self.counted}
        nested = [f.name for f in self.facets if f.nested_in and f.name != self.object]
        in_object = {name for name in nested if self.object in self.closure(name)}
        legitimate = {f.name for f in self.facets if f.role == "legitimate"}
        tasks_of_their_own = legitimate and legitimate <= in_object
        if in_object and not tasks_of_their_own:
            return in_object
        kept = [name for name in nested if self.facet(name).role != "error"]
        return {
            name
            for name in kept
            if not any(name in self.closure(other) for other in kept if other != name)
        }


def checked_study(value: object) -> Study:
    """The study that a function was given.

    Raises
    ------
    DeclarationError
        When it is none: arguments in the wrong order, or the path of a study file.
    """
    if isinstance(value, Study):
        return value
    raise DeclarationError(
        explain(
            "a study is needed first",
            given=type(value).__name__,
            allowed="a gstudy.Study",
            do="Read a study file by gs.Study.from_toml(path), and give the study before the "
            "trials."
            if isinstance(value, str | Path)
            else "Give the study before the trials or components: gs.fit(study, trials).",
        )
    )


def _set(study: Study, **values: object) -> None:
    """Fill a frozen study while it is made."""
    for name, value in values.items():
        object.__setattr__(study, name, value)


def _facet_table(facet: Facet) -> dict[str, Any]:
    """The facet's table in a study file, without what it leaves to the defaults."""
    values = {
        key: getattr(facet, key) for key in ("role", "column", "reason", "universe", "varies")
    }
    table = {key: value for key, value in values.items() if value is not None}
    return table | ({"nested_in": list(facet.nested_in)} if facet.nested_in else {})


def _listed(names: str | tuple[str, ...]) -> str | list[str]:
    return names if isinstance(names, str) else list(names)
