"""The report of a fit: one page that needs no network, the same as Markdown, files and JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gstudy._words import plural
from gstudy.display import Table, markdown_text, shortened
from gstudy.errors import DataError, QuantityError, explain
from gstudy.fits.fitted import Fit
from gstudy.fits.gates import stamp
from gstudy.fits.many import Fits
from gstudy.fits.substitutes import advice_on
from gstudy.questions.card import evaluation_card
from gstudy.report.answer import answer_draws
from gstudy.report.sections import LEVEL, SECTIONS, Material, Section, section_of, without_stamps
from gstudy.report.several import sections_of_several
from gstudy.report.spreadsheets import table_csv

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gstudy.questions.card import EvaluationCard

__all__ = ["REPORT_SCHEMA", "Report", "build_report"]

REPORT_SCHEMA = 1
"""Raised when a key of the report's JSON changes its name or meaning."""

_TEMPLATE = "page.html.j2"
# In characters; what is cut stands whole in a tooltip.
_LONGEST_CELL = 44
_LONGEST_HEADER = 28
# A longer table is folded; its CSV and the JSON have all of it.
_FOLDED_FROM = 40


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Report:
    """What a fit says, in sections.

    Parameters
    ----------
    title : str
    sections : tuple of Section
    alarm : str or None
        Why the numbers must not be published; it stands above everything.
    card : EvaluationCard or None

    Examples
    --------
    >>> import gstudy as gs
    >>> gs.build_report(gs.load("run.nc")).write("report")  # doctest: +SKIP
    """

    title: str
    sections: tuple[Section, ...]
    alarm: str | None = None
    card: EvaluationCard | None = None

    def tables(self) -> dict[str, Table]:
        """Every table by its name; of numbers that must not be published, first why."""
        import pandas as pd

        stamped = Table(pd.DataFrame({"note": [self.alarm]}), "Not converged")
        return ({"not_converged": stamped} if self.alarm else {}) | {
            name: table for section in self.sections for name, table in section.tables.items()
        }

    def html(self) -> str:
        """One page with everything in it; every text is escaped."""
        from importlib.metadata import version

        from jinja2 import Environment, PackageLoader, StrictUndefined

        environment = Environment(
            loader=PackageLoader("gstudy.report"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        text = environment.get_template(_TEMPLATE).render(
            title=self.title,
            alarm=self.alarm,
            sections=[_shown(section) for section in self.sections],
            version=version("gstudy"),
        )
        return text + "\n"

    def markdown(self) -> str:
        """The same as Markdown; figures are read from the folder `figures`."""
        parts = [f"# {markdown_text(self.title)}"]
        if self.alarm:
            parts.append(f"**{markdown_text(self.alarm)}**")
        for section in self.sections:
            parts.append(f"## {markdown_text(section.title)}")
            parts += [markdown_text(line) for line in section.lines]
            for found in section.pictures:
                caption = markdown_text(found.caption)
                parts += [f"![{caption}](figures/{found.name}.png)", f"*{caption}*"]
            parts += [table.markdown() for table in section.tables.values()]
        return "\n\n".join(parts) + "\n"

    def json(self) -> dict[str, Any]:
        """The same for programs; `gstudy/schemas/report.schema.json` is its JSON schema."""
        from importlib.metadata import version

        return {
            "schema": REPORT_SCHEMA,
            "gstudy": version("gstudy"),
            "kind": "report",
            "title": self.title,
            "alarm": self.alarm,
            "sections": [_plain_section(section) for section in self.sections],
            "card": None if self.card is None else self.card.json(LEVEL),
        }

    def write(self, directory: str | Path) -> Path:
        """Leave the report in a directory: page, Markdown, JSON, figures, tables.

        Parameters
        ----------
        directory : str or Path
            Made when it is missing.

        Returns
        -------
        Path
            Of `report.html`; beside it `report.md`, `report.json`, `figures/*.png`, `tables/*.csv`
            and, with a card, `card.json`.

        Raises
        ------
        DataError
            When a file cannot be written.
        """
        from pathlib import Path

        folder = Path(directory)
        files: dict[str, str | bytes] = {
            "report.html": self.html(),
            "report.md": self.markdown(),
            "report.json": _dumped(self.json()),
        }
        if self.card is not None:
            files["card.json"] = _dumped(self.card.json(LEVEL))
        for section in self.sections:
            files |= {f"figures/{found.name}.png": found.png for found in section.pictures}
            files |= {
                f"tables/{name.replace('_', '-')}.csv": table_csv(table)
                for name, table in section.tables.items()
            }
        try:
            for name, content in files.items():
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content if isinstance(content, bytes) else content.encode())
        except OSError as error:
            raise DataError(
                explain(
                    f"the report cannot be written to {folder}: {error.strerror or error}",
                    do="Give another directory.",
                )
            ) from error
        return folder / "report.html"


def build_report(fit: Fit | Fits, fits: Fits | None = None, *, card: bool = False) -> Report:
    """Everything a fit can tell, as one page to send on.

    Parameters
    ----------
    fit : Fit or Fits
        Of runs that were made apart (`gs.Fits.of`): their systems side by side.
    fits : Fits, optional
        The separate fits of `gs.fit_by` of the same trials by the object: ICC, card and regions
        are then of each system's own variances.
    card : bool
        Whether the evaluation card comes first.

    Returns
    -------
    Report
        `.html()`, `.markdown()`, `.json()`, `.write(directory)`. A section is there when the data
        can answer it.

    Raises
    ------
    QuantityError
        For what is no fit.

    Examples
    --------
    >>> import gstudy as gs
    >>> gs.build_report(gs.load("run.nc"), card=True).write("report")  # doctest: +SKIP
    """
    if isinstance(fit, Fits) and len(fit) and fits is None:
        title = f"Reliability report: {len(fit)} {plural(fit.by)} side by side"
        alarm = next(iter(fit.stamp()), None)
        return _report(title, alarm, fit if card else None, sections_of_several(fit))
    if not isinstance(fit, Fit):
        raise QuantityError(
            explain(
                "a report is of a fit",
                given=type(fit).__name__,
                allowed="what gs.fit and gs.load return; beside it, as fits, those of gs.fit_by",
                do=advice_on(fit),
            )
        )
    given = Material(fit, fits)
    shown = (fit if fits is None else fits) if card else None
    sections = [section_of(given, make) for make in SECTIONS]
    return _report(_title(fit), _alarm(fit, fits), shown, sections)


def _report(
    title: str, alarm: str | None, of_card: Fit | Fits | None, made: Sequence[Section | None]
) -> Report:
    """The sections that there are, after the card if there is to be one."""
    card = None if of_card is None else evaluation_card(of_card)
    first = [] if card is None else [_card_section(card)]
    present = [*first, *(section for section in made if section is not None)]
    sections = tuple(map(without_stamps, present) if alarm else present)
    return Report(title=title, sections=sections, alarm=alarm, card=card)


def _card_section(card: EvaluationCard) -> Section:
    return Section("card", "Evaluation card", tables={"card": card.table(LEVEL)})


def _title(fit: Fit) -> str:
    from pathlib import PurePath

    source, n = fit.design.source, f"{fit.design.n_trials:,} trials"
    # What came from memory has no name to show.
    if source == "DataFrame":
        return f"Reliability report: {n}"
    return f"Reliability report: {PurePath(source).name}, {n}"


def _alarm(fit: Fit, fits: Fits | None) -> str | None:
    """The first gate that is not passed, the fit's or that of a printed number."""
    draws = answer_draws(fit)
    if not fit.diagnostics.passed:
        return stamp(draws[0], fit.diagnostics)
    told = [*map(stamp, draws), *(() if fits is None else fits.stamp())]
    return next((note for note in told if note), None)


def _shown(section: Section) -> dict[str, Any]:
    """A section as the template reads it."""
    return {
        "key": section.key,
        "title": section.title,
        "lines": section.lines,
        "pictures": section.pictures,
        "tables": [_shown_table(table) for table in section.tables.values()],
    }


def _shown_table(table: Table) -> dict[str, Any]:
    """Headers and cells with their shortened and whole text."""
    written = table.written()
    columns = []
    for _, cells, numeric in written:
        whole = [cell.strip() for cell in cells]
        short = whole if numeric else shortened(whole, _LONGEST_CELL)
        columns.append((list(zip(short, whole, strict=True)), numeric))
    headers = [header for header, _, _ in written]
    return {
        "title": table.title,
        "subtitle": table.subtitle,
        "headers": [
            (short, whole, numeric)
            for short, whole, (_, numeric) in zip(
                shortened(headers, _LONGEST_HEADER), headers, columns, strict=True
            )
        ],
        "rows": [
            [
                (short, whole, numeric)
                for (short, whole), (_, numeric) in zip(row, columns, strict=True)
            ]
            for row in zip(*(cells for cells, _ in columns), strict=True)
        ],
        "notes": table.notes,
        "folded": len(table.frame) > _FOLDED_FROM,
    }


def _plain_section(section: Section) -> dict[str, Any]:
    return {
        "key": section.key,
        "title": section.title,
        "lines": list(section.lines),
        "figures": [
            {"name": found.name, "caption": found.caption, "file": f"figures/{found.name}.png"}
            for found in section.pictures
        ],
        "tables": {
            name: {"title": table.title, "notes": list(table.notes), **table.json()}
            for name, table in section.tables.items()
        },
    }


def _dumped(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
