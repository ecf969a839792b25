"""The tracked tables: one row per workload and method, so that single rows are measured again.

`results.csv` holds what was measured, `posteriors.csv` the posterior means that are compared.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.methods import CHAINS, CORES

if TYPE_CHECKING:
    import pandas as pd

    from benchmarks.attempts import Attempt
    from benchmarks.methods import Method

__all__ = [
    "COLUMNS",
    "KEY",
    "LIMIT",
    "MEASURED",
    "POINT",
    "POSTERIOR_COLUMNS",
    "Records",
    "posterior_rows",
    "result_row",
    "too_slow_row",
]

MEASURED = "measured"
LIMIT = "over limit"
POINT = "point estimate"

KEY = ["workload", "method"]
COLUMNS = [
    *KEY,
    "status",
    "seed",
    "chains",
    "cores",
    "tune",
    "draws",
    "rounds",
    "seconds",
    "compile_seconds",
    "cpu_seconds",
    "smallest_ess",
    "quantity",
    "ess_per_second",
    "ess_per_sampling_second",
    "cold_400_seconds",
    "cold_400",
    "peak_mb",
    "divergences",
    "rhat",
    "gates",
    "remark",
    "measured",
    "versions",
]
WHOLE = ["seed", "chains", "cores", "tune", "draws", "rounds", "peak_mb", "divergences"]
POSTERIOR_COLUMNS = [*KEY, "quantity", "mean", "mcse"]
_SHOWN_FAILURES = 3


@dataclass(frozen=True, slots=True)
class Records:
    """The two tables, and where `results.csv` is; the other lies beside it.

    Parameters
    ----------
    results, posteriors : DataFrame
        Columns `COLUMNS` and `POSTERIOR_COLUMNS`.
    """

    results: pd.DataFrame
    posteriors: pd.DataFrame

    @classmethod
    def read(cls, path: Path) -> Records:
        """Both tables; empty ones where there are no files."""
        return cls(_read(path, COLUMNS), _read(_beside(path), POSTERIOR_COLUMNS))

    def write(self, path: Path) -> None:
        """Both tables, sorted by nothing: rows stay where they are."""
        results = self.results.astype(dict.fromkeys(WHOLE, "Int64"))
        results.to_csv(path, index=False, lineterminator="\n")
        self.posteriors.to_csv(_beside(path), index=False, lineterminator="\n")

    def merged(self, row: dict[str, object], posteriors: list[dict[str, object]]) -> Records:
        """With this row in place of the one of its workload and method, if there is one.

        The order is that of workloads as they came first; within one, of methods.
        """
        import pandas as pd

        key = tuple(row[name] for name in KEY)
        results = _replaced(self.results, key, pd.DataFrame([row], columns=COLUMNS))
        own = pd.DataFrame(posteriors, columns=POSTERIOR_COLUMNS)
        return Records(results, _replaced(self.posteriors, key, own))


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.stem.replace('results', '')}posteriors{path.suffix}")


def _read(path: Path, columns: list[str]) -> pd.DataFrame:
    import pandas as pd

    if not path.is_file():
        return pd.DataFrame(columns=columns)
    found = pd.read_csv(path, keep_default_na=True)
    return found.reindex(columns=columns)


def _replaced(table: pd.DataFrame, key: tuple[object, ...], rows: pd.DataFrame) -> pd.DataFrame:
    """The table with the rows of one key in the place of those it had, else after its workload."""
    import pandas as pd

    same = (table[KEY[0]] == key[0]) & (table[KEY[1]] == key[1])
    alike = table.index[same] if same.any() else table.index[table[KEY[0]] == key[0]]
    if len(alike) == 0:
        start = len(table)
    elif same.any():
        start = int(alike.min())
    else:
        start = int(alike.max()) + 1
    before, after = table.iloc[:start][~same.iloc[:start]], table.iloc[start:][~same.iloc[start:]]
    parts = [part for part in (before, rows, after) if len(part)]
    return pd.concat(parts, ignore_index=True) if parts else table.iloc[:0]


def result_row(
    run: Attempt, method: Method, *, limit: float, least_ess: float, when: str
) -> dict[str, object]:
    """One row of `results.csv` from a run.

    One below the least ESS says how fast the method is at most: a run to it would take longer than
    the limit. Its own speed is no bound, for its tuning counts more than that of a longer run.
    """
    short = not method.is_point and not run.ess >= least_ess
    status = POINT if method.is_point else LIMIT if short else MEASURED
    speeds = (run.ess_per_second, run.ess_per_sampling_second)
    if short:
        speeds = (least_ess / limit, math.nan)
    has_cold = run.cold_400_seconds == run.cold_400_seconds
    return {
        **_settings(run.workload, run.method, status, run.seed),
        "tune": None if method.is_point else run.tune,
        "draws": None if method.is_point else run.draws,
        "rounds": run.rounds,
        "seconds": round(run.seconds, 3),
        "compile_seconds": round(run.compile_seconds, 3),
        "cpu_seconds": round(run.cpu_seconds, 3),
        "smallest_ess": round(run.ess, 1),
        "quantity": run.slowest,
        "ess_per_second": _digits(speeds[0]),
        "ess_per_sampling_second": _digits(speeds[1]),
        "cold_400_seconds": round(run.cold_400_seconds, 2),
        "cold_400": ("measured" if run.cold_400_is_measured else "computed") if has_cold else "",
        "peak_mb": round(run.peak_mb),
        "divergences": None if method.is_point else run.divergences,
        "rhat": round(run.rhat, 4),
        "gates": "" if method.is_point else _gates(run.failures),
        "remark": _too_little(run, limit, least_ess) if short else run.remark,
        "measured": when,
        "versions": _versions(method),
    }


def _too_little(run: Attempt, limit: float, least_ess: float) -> str:
    return (
        f"ESS {run.ess:.3g} after {run.seconds:.0f} s; {least_ess:.0f} would take longer than "
        f"{limit:.0f} s; the ESS per second is at most this"
    )


def too_slow_row(
    workload: str,
    method: Method,
    seed: int,
    *,
    limit: float,
    least_ess: float,
    reason: str,
    when: str,
) -> dict[str, object]:
    """The row of a method that gave nothing in time: its speed is at most the one written here."""
    return {
        **_settings(workload, method.name, LIMIT, seed),
        "seconds": limit,
        "ess_per_second": None if method.is_point else _digits(least_ess / limit),
        "remark": f"{reason}; the ESS per second is at most this",
        "measured": when,
        "versions": _versions(method),
    }


def posterior_rows(run: Attempt) -> list[dict[str, object]]:
    """The rows of `posteriors.csv` from a run; five decimals are far below any error."""
    return [
        {
            "workload": run.workload,
            "method": run.method,
            "quantity": name,
            "mean": round(mean, 5),
            "mcse": round(run.mcse[name], 5),
        }
        for name, mean in run.means.items()
    ]


def _settings(workload: str, method: str, status: str, seed: int) -> dict[str, object]:
    return {
        "workload": workload,
        "method": method,
        "status": status,
        "seed": seed,
        "chains": CHAINS,
        "cores": CORES,
    }


def _digits(number: float) -> float:
    """Four significant digits."""
    return float(f"{number:.4g}")


def _gates(failures: tuple[str, ...]) -> str:
    more = len(failures) - _SHOWN_FAILURES
    shown = "; ".join(failures[:_SHOWN_FAILURES]) + (f"; {more} more" if more > 0 else "")
    return shown or "passed"


def _versions(method: Method) -> str:
    installed = [name for name in method.packages if importlib.util.find_spec(name)]
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in installed)
