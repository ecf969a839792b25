"""A facet: a source of variation with levels, its role, and what it is nested in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

from gstudy.errors import DeclarationError, did_you_mean, explain

__all__ = ["RESERVED_NAMES", "ROLES", "Facet"]

ROLES = ("object", "legitimate", "error", "controlled")

# Names that the long table, the tables of components, and the dimensions of a fit have.
RESERVED_NAMES = (
    "mu",
    "residual",
    "score",
    "outcome",
    "reason",
    "successes",
    "trials",
    "standard_error",
    "component",
    "chain",
    "draw",
    "cell",
)

# ":" joins the facets of a component, " + " the components of a merged row, "/" is no part of a
# variable's name in a saved run, and NUL cuts a text there.
FORBIDDEN_MARKS = (":", "/", "\x00", " + ")

# A fit's variables are called so before a name: another facet of that whole name would clash.
_VARIABLES = tuple(
    f"{kind}("
    for kind in (
        *("mu", "sd", "u", "u_mean", "u_sd", "effect", "fixed", "corr", "by", "by_2"),
        *("code", "labels", "index", "levels", "facets", "graded"),
    )
)


@dataclass(frozen=True, slots=True)
class Facet:
    """A source of variation with levels.

    Parameters
    ----------
    name : str
        Any text without ":" and "/", unique in the study.
    role : {"object", "legitimate", "error", "controlled"}
        Required: the claim, not the data, decides. `object` is what is measured, `legitimate`
        variation is covered by the claim, `error` is measurement error, `controlled` is fixed by
        the claim: pinned at its one level, or with a fixed effect for each of several.
    column : str, optional
        Column of the trials; the facet's name by default.
    nested_in : sequence of str
        Parent facets: a level is then the tuple (parents' labels, own label).
    reason : str, optional
        Why it has this role; printed with the universe of the claim.
    universe : int, optional
        Number of levels of a finite bank that the claim is about; of a nested facet within each
        combination of its parents. Not of the object, nor of a controlled facet.
    varies : str, optional
        The study's object, 2 to 8 levels of it: each has its own sd of this facet, and the
        effects of a facet that is crossed with it are correlated between them.

    Raises
    ------
    DeclarationError
        For a name, role or other value that is not allowed.

    Examples
    --------
    >>> Facet("rollout", role="legitimate", nested_in=["task"]).nested_in
    ('task',)
    """

    name: str
    _: KW_ONLY
    role: str = ""
    column: str | None = None
    nested_in: Sequence[str] = ()
    reason: str | None = None
    universe: int | None = None
    varies: str | None = None

    def __post_init__(self) -> None:
        _check_name(self.name)
        _check_role(self.name, self.role)
        for key in ("column", "reason", "varies"):
            _check_text(self.name, key, getattr(self, key))
        _check_universe(self.name, self.universe)
        object.__setattr__(self, "nested_in", _parents(self.name, self.nested_in))

    @property
    def source_column(self) -> str:
        """The column of the trials that holds this facet's labels."""
        return self.name if self.column is None else self.column


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name.strip():
        raise DeclarationError(
            explain("a facet needs a name", given=name, allowed="text that is not empty")
        )
    if name != name.strip() or not name.isprintable():
        _refuse_name(name, "holds a control character, or a blank at an end", name.strip())
    for mark in FORBIDDEN_MARKS:
        if mark in name:
            _refuse_name(name, f"holds {mark!r}", name.replace(mark, "_"))
    for start in _VARIABLES:
        if name.startswith(start):
            better = name.replace("(", "_").replace(")", "")
            _refuse_name(name, f"begins with {start!r}, as a fit's variables do", better)
    if name in RESERVED_NAMES:
        raise DeclarationError(
            explain(
                f"facet name {name!r} is taken by gstudy's own tables",
                allowed=f"any name but {', '.join(RESERVED_NAMES)}",
                do=f"Give the facet another name and keep the column: column = {name!r}.",
            )
        )


def _refuse_name(name: str, fault: str, better: str) -> None:
    better = "".join(mark if mark.isprintable() else "_" for mark in better)
    for mark in FORBIDDEN_MARKS:
        better = better.replace(mark, "_")
    bare = better.isascii() and better.replace("_", "").replace("-", "").isalnum()
    header = better if bare else f'"{better}"'
    raise DeclarationError(
        explain(
            f"facet name {name!r} {fault}",
            allowed="printable text without ':', '/' and ' + '; columns and labels may hold them",
            do=f"Rename the facet and keep the column: [facets.{header}] column = {name!r}.",
        )
    )


def _check_role(name: str, role: object) -> None:
    if not role:
        raise DeclarationError(
            explain(
                f"facets.{name} has no role",
                allowed=ROLES,
                do=f'Add role = "legitimate" to [facets.{name}] if the claim covers its '
                'variation, role = "error" if it is measurement error.',
            )
        )
    if role not in ROLES:
        raise DeclarationError(
            explain(
                f"facets.{name}.role is not a role",
                given=role,
                allowed=ROLES,
                do=did_you_mean(str(role), ROLES),
            )
        )


def _check_text(name: str, key: str, value: object) -> None:
    if value is not None and (not isinstance(value, str) or not value.strip() or "\x00" in value):
        raise DeclarationError(
            explain(
                f"facets.{name}.{key} is not a text",
                given=value,
                allowed="text that is not empty and holds no NUL",
                do=f"Quote it, or leave {key} out.",
            )
        )


def _check_universe(name: str, value: object) -> None:
    whole = isinstance(value, int) and not isinstance(value, bool) and value > 0
    if value is not None and not whole:
        raise DeclarationError(
            explain(
                f"facets.{name}.universe is not a number of levels",
                given=value,
                allowed="a whole number above 0",
                do="Leave it out when the claim is about levels like these, not a finite bank.",
            )
        )


def _parents(name: str, value: object) -> tuple[str, ...]:
    """The declared parents as a tuple; one name alone is one parent."""
    parents = (value,) if isinstance(value, str) else value
    if not isinstance(parents, list | tuple) or not all(isinstance(p, str) for p in parents):
        raise DeclarationError(
            explain(
                f"facets.{name}.nested_in is not a list of facets",
                given=value,
                allowed="facet names",
                do=f'Write nested_in = ["task"], or leave it out if {name!r} is crossed.',
            )
        )
    for parent in parents:
        if parents.count(parent) > 1:
            raise DeclarationError(
                explain(
                    f"facets.{name}.nested_in names {parent!r} twice",
                    given=list(parents),
                    do="Name each parent once.",
                )
            )
    return tuple(parents)
