"""Write docs/truth.md from benchmarks/truth.csv: `python tools/truth_page.py`."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "truth.csv"
PAGE = ROOT / "docs" / "truth.md"
LEAST = 0.95

_INTRODUCTION = """\
# Intervals from few rollouts, held against many

{n} language models ran each of 164 HumanEval+ tasks at least 100 times (pass counts of
github.com/all-the-noises, arXiv 2512.21326). So many rollouts tell each model's ICC and pass rate
to two or three digits. From them 4 and 16 rollouts a task are drawn without replacement,
{resamples} times; each model is fitted by itself with the defaults (`gs.fit_by`), and its 95%
intervals are held against the full counts. `python -m benchmarks.truth --resamples {resamples}`
makes the table, [benchmarks/truth.csv](../benchmarks/truth.csv) has every model.

The share of intervals that hold the full counts' value, over models and resamples:

| rollouts a task | fits | ICC(task) | pass rate, new tasks | pass rate, these tasks | \
gates failed | ICC from one joint fit with shared sds |
| --- | --- | --- | --- | --- | --- | --- |
"""

_REMARKS = """
- **ICC(task)** is compared with the one-way ANOVA ICC(1,1) of the full counts. The posterior is
  that of tasks like these, so it does not know that the truth comes from the same 164.
- **Pass rate, new tasks** is the interval that `gs.score` prints. It must be wider than the other
  one, and holds the rate of these tasks always.
- **Pass rate, these tasks** is the posterior mean rate of the fitted tasks, a nominal 95%: its
  sampling error over {n} models and {resamples} resamples is about 1 point. At 4 rollouts it is
  held less often than that explains: real task effects are not normal, and with few rollouts the
  normal distribution decides how far a task that always passed is drawn in.
- **The last column is a warning.** One sd for all models makes the ICC a function of the pass rate;
  such a fit is refused for the numbers of one system.

## Exceptions

Models whose ICC is held in under {least:.0%} of the resamples:

| model | rollouts | full counts: pass rate | ICC | mean of the posterior means | held |
| --- | --- | --- | --- | --- | --- |
"""

_EXPLANATION = """
One model is missed nearly always, google_gemma_3_12b_it: its ICC of .91 is the largest of all, and
is found too small (.86 and .87). In 4 rollouts 96% of its tasks always pass or never do: its logits
are spread wider, and lie more often far out, than a normal distribution of task effects has room
for, and the prior of the sd, HalfNormal(5), weighs against an sd above 10. The posterior check
shows it at 4 rollouts a task: new tasks drawn from the fit have an ICC of .87 (.79 to .93) where
.93 was observed (p = .05). The ICCs of models with a pass rate under 15% are found a little too
large.
"""


def page(result: pd.DataFrame) -> str:
    """The page as Markdown."""
    n, resamples = result["system"].nunique(), int(result["resamples"].max())
    text = _INTRODUCTION.format(n=n, resamples=resamples)
    for rollouts, part in result.groupby("rollouts"):
        fits = int(part["resamples"].sum())
        text += (
            f"| {rollouts} | {fits} | {part['icc_holds'].mean():.1%} | "
            f"{part['new_holds'].mean():.1%} | {part['bank_holds'].mean():.1%} | "
            f"{part['gates_failed'].sum()} | {part['shared_holds'].sum()} of {len(part)} |\n"
        )
    text += _REMARKS.format(n=n, resamples=resamples, least=LEAST)
    for row in result[result["icc_holds"] < LEAST].itertuples():
        text += (
            f"| {row.system} | {row.rollouts} | {row.true_rate:.2f} | {row.true_icc:.2f} | "
            f"{row.icc_mean:.2f} | {row.icc_holds:.0%} |\n"
        )
    return text + _EXPLANATION


if __name__ == "__main__":
    PAGE.write_text(page(pd.read_csv(RESULTS)), encoding="utf-8")
