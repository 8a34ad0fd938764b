"""
A cluster
=========

``fit_dask`` leaves the rows on the workers of a dask cluster: weights go out, one value and one gradient come
back. The cluster here is small, two workers within this process; ``Client("tcp://scheduler:8786")`` connects
to a real one, and the rest stays the same. The model is the one that ``fit`` finds in memory, weight by
weight.
"""

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from dask.distributed import Client
from mcf_cli import MCFClassifier, Poisson, fit_dask
from mcf_cli.datasets import load

topics = load("builtin-topics", n_train=2000, n_test=1000)
train, test = topics.splits["predefined"]
rows, labels = topics.X[train].toarray(), topics.y[train]

with Client(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0") as client:
    print(len(client.scheduler_info()["workers"]), "workers")
    X = da.from_array(rows, chunks=(500, -1))  # four partitions
    y = da.from_array(labels, chunks=500)
    spread = fit_dask(MCFClassifier(corruption=Poisson(), l2=1e-3, tol=1e-6), X, y)
alone = MCFClassifier(corruption=Poisson(), l2=1e-3, tol=1e-6).fit(rows, labels)

for name, model in {"on the cluster": spread, "in memory": alone}.items():
    print(f"{name}: {1 - model.score(topics.X[test], topics.y[test]):.1%} of new documents wrong")
print(f"largest difference of a weight: {np.abs(spread.coef_ - alone.coef_).max():.1g}")

# %%

figure, axes = plt.subplots(figsize=(4.6, 4.2), layout="constrained")
axes.axline((0, 0), slope=1, color="0.7", linewidth=1)
axes.plot(alone.coef_.ravel(), spread.coef_.ravel(), ".", markersize=4)
axes.set(xlabel="weight found in memory", ylabel="weight found on the cluster", aspect="equal")
plt.show()
