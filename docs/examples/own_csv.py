"""
Your own CSV file
=================

The command line needs a file and nothing else. Here the file is scikit-learn's wines; replace it with yours.
``mcf nightmare`` asks the question of this library: how wrong are the models when features are deleted at
test time?
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import load_wine

folder = Path(tempfile.mkdtemp())
load_wine(as_frame=True).frame.to_csv(folder / "wine.csv", index=False)


def mcf(*arguments):
    """Run ``mcf`` as you would in a shell, and show what it says."""
    command = [sys.executable, "-m", "mcf_cli", *arguments]
    print("$ mcf", *arguments)
    print(subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout)


mcf("data", "info", "wine.csv")

# %%
# Measurements have no natural zero, so ``--scale standard`` centres them: a deleted value becomes the mean.

mcf(
    "nightmare",
    *("--dataset", "wine.csv"),
    *("--loss", "logistic"),
    *("--scale", "standard"),
    *("--deletion", "0:0.8:0.2"),
    *("--set", "repeats=3"),
    *("--set", "item=wine"),
)

# %%
# Every row behind the table is in ``rows.csv``, so a picture of your own needs a few lines. Three splits of
# 178 wines leave wide bars: only the gap at 60% is clearly beyond them.

rows = pd.read_csv(folder / "results/scratch/wine/rows.csv")
rows = rows[rows["metric"] == "test_error"]
method = rows["corruption"].where(rows["corruption"] != "none", "plain, " + rows["penalty"])
rows["value"] *= 100
summary = rows.groupby([method, "deletion"])["value"].agg(["mean", "sem"])
figure, axes = plt.subplots(figsize=(6.5, 4), layout="constrained")
for name, style in {"plain, l2": "s--", "plain, l1": "^--", "dropout": "o-"}.items():
    points = summary.loc[name]
    axes.errorbar(points.index, points["mean"], 2 * points["sem"], fmt=style, capsize=3, label=name)
axes.set(xlabel="share of features deleted", ylabel="test error (%), ± 2 standard errors", ylim=0)
axes.legend()
plt.show()
