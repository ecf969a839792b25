# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Quickstart: how far would this score move?
#
# An evaluation gave each of six systems a pass rate. The systems ran on 60 tasks, against two
# snapshots of the documents, three rollouts each, and two judges scored every rollout. Had we
# taken other tasks, another snapshot, other judges, or just run it again: how different might the
# scores be, and which of these is to blame?
#
# gstudy answers from the trials themselves. It estimates how much each source of variation moves a
# trial's score (its *variance component*), and adds these up to the variance of the reported score
# (the *budget*).
#
# The data are simulated, so that at the end the answers can be held against the truth.

# %%
import tempfile
import tomllib
from importlib.resources import files
from pathlib import Path

import pandas as pd

import gstudy as gs

# %% [markdown]
# ## Declare
#
# A study is declared, not programmed. Each source of variation is a *facet*, and you say what role
# it plays in your claim; the data cannot know that:
#
# - `object`: what is measured, here the system;
# - `legitimate`: variation that the claim covers, such as other tasks of this kind;
# - `error`: variation that should not be there, such as the judge.
#
# A rollout belongs to one system, task and snapshot, so it is *nested* in them. The judges are the
# same for every rollout, so they are *crossed* with everything. `interactions` lists where we
# expect one facet to depend on another: some systems are better at some tasks (`system:task`).

# %%
study = gs.Study(
    score="passed",
    object="system",
    facets=[
        gs.Facet("task", role="legitimate", reason="the claim is about new tasks like these"),
        gs.Facet("snapshot", role="legitimate", reason="the documents change"),
        gs.Facet("rollout", role="legitimate", nested_in=["system", "task", "snapshot"]),
        gs.Facet("judge", role="error", reason="judges should not move the score"),
    ],
    interactions=["system:task", "task:snapshot", "task:judge"],
)
study

# %% [markdown]
# ## Read
#
# One row per trial. `read_trials` takes a CSV, Parquet or JSON-lines file, or a DataFrame.

# %%
example, _ = gs.example("panel")
trials = gs.read_trials(example.data, study)
trials.table.drop(columns=["outcome", "reason"]).head()

# %% [markdown]
# ## Check
#
# Before any sampling: which components can these data tell apart, and what would help? Two
# snapshots and two judges are few. Their components are *weak*: the prior has a say in them.

# %%
gs.check(study, trials)

# %% [markdown]
# ## Fit
#
# The model is a mixed logistic regression in PyMC. It takes a minute or two; leave `progress` out
# to watch it. The same seed gives the same draws. What comes back lists the standard deviation of
# each component on the logit scale, and whether the sampler's *gates* (R-hat, effective sample
# size, divergences, E-BFMI) are passed. Should one fail, every table says so.

# %%
fit = gs.fit(study, trials, seed=1, progress=False)
fit

# %% [markdown]
# ## The score and its interval
#
# The naive interval treats 720 trials as 720 independent coin flips. The full one asks what the
# pass rate would be with new tasks, snapshots, rollouts and judges. It is several times as wide.

# %%
gs.score(fit)

# %% [markdown]
# ## The budget
#
# Where does the width come from? Each row is a source of variation; `share` is its part of the
# variance of one system's reported score. A name with a colon is an interaction, or a nested facet
# with its parents. `levels` says over how many levels the score averages: 60 tasks average much
# out, two judges little.

# %%
budget = gs.variance_budget(fit)
budget

# %%
figure, _ = gs.plot_budget(budget)

# %% [markdown]
# The judges dominate, although a judge moves a single trial less than a task does: there are only
# two of them. The interval of that share is wide for the same reason.
#
# So more judges should help more than more tasks. The same model predicts designs that were not
# run. The third one takes no more judge calls than the data at hand, and a third of the rollouts:

# %%
designs = {
    "as collected": {"task": 60, "snapshot": 2, "rollout": 3, "judge": 2},
    "twice the tasks": {"task": 120, "snapshot": 2, "rollout": 3, "judge": 2},
    "one rollout, six judges": {"task": 60, "snapshot": 2, "rollout": 1, "judge": 6},
}
half_widths = {
    name: float(gs.variance_budget(fit, design).half_width().mean())
    for name, design in designs.items()
}
pd.DataFrame({"half-width of the score's 95% interval, points": half_widths}).mul(100).round(1)

# %% [markdown]
# ## Re-run noise
#
# The smallest of these questions: the same tasks, snapshots and judges, only new rollouts.

# %%
gs.rerun_noise(fit)

# %% [markdown]
# ## Coefficients
#
# The *intraclass correlation* (ICC) of tasks: how alike are two trials of one system that share the
# task and nothing else? It is 0 when it does not matter which task it is, 1 when the task decides
# everything. On the scale of the score and on the logit scale it is two different numbers.

# %%
gs.icc(fit, "task")

# %%
gs.icc(fit, "task", scale="logit")

# %% [markdown]
# Phi says how far a score can be trusted as it stands, with everything that moves it counted as
# error. E rho^2 says it for comparing systems on the same tasks, snapshots and judges, where what
# moves all systems alike does not matter. Here a ranking is much safer than a number by itself.

# %%
gs.phi(fit)

# %%
gs.generalizability(fit)

# %% [markdown]
# ## Keep
#
# A run is one file: draws, labels, declaration and a hash of the trials. What is loaded is bitwise
# what was saved.

# %%
with tempfile.TemporaryDirectory() as folder:
    run = Path(folder) / "panel.nc"
    fit.save(run)
    again = gs.load(run)
bool((again.mu == fit.mu).all())

# %% [markdown]
# ## Was it right?
#
# The data were drawn from known standard deviations (logit scale). Each 95% interval should hold
# the truth, give or take one in twenty.

# %%
text = (files("gstudy.study.examples") / "panel_truth.toml").read_text(encoding="utf-8")
found = fit.table().frame.set_index("component")[["sd", "lower", "upper"]]
found.insert(0, "truth", pd.Series(tomllib.loads(text)["sd"]))
found["interval holds truth"] = found["truth"].between(found["lower"], found["upper"])
found.round(2)
