"""
Larger than memory
==================

``fit_chunks`` reads a file in chunks and keeps one of them in memory at a time. It minimises the same
objective over all rows, and not an approximation of it: the picture shows how far each pass over the file
still is from the minimum that ``fit`` finds in memory.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from mcf_cli import Blankout, Chunks, MCFClassifier, fit_chunks
from mcf_cli.datasets import load
from sklearn.datasets import dump_svmlight_file

reviews = load("builtin-reviews", n_train=4000, n_test=1000)
train, test = reviews.splits["predefined"]
folder = Path(tempfile.mkdtemp())
dump_svmlight_file(reviews.X[train], reviews.y[train], str(folder / "train.svmlight"))

# The text is parsed once, in pieces of 20,000 non-zeros; further fits use the chunks.
chunks = Chunks.write(folder / "train.svmlight", folder / "chunks", entries=20_000)
print(f"{chunks.rows:,} rows in {len(chunks)} chunks")

passes = []
model = MCFClassifier(corruption=Blankout(q=0.5), l2=1e-4, tol=1e-6)
fit_chunks(model, chunks, on_pass=lambda number, objective: passes.append(objective))
whole = MCFClassifier(corruption=Blankout(q=0.5), l2=1e-4, tol=1e-8).fit(reviews.X[train], reviews.y[train])

print(f"objective {model.objective_:.8f} in chunks, {whole.objective_:.8f} in memory")
print(
    f"test error {1 - model.score(reviews.X[test], reviews.y[test]):.1%} and "
    f"{1 - whole.score(reviews.X[test], reviews.y[test]):.1%}"
)

# %%

figure, axes = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
axes.semilogy(np.arange(1, len(passes) + 1), np.array(passes) - whole.objective_, "o-")
axes.set(xlabel="pass over the file", ylabel="objective above the minimum")
plt.show()
