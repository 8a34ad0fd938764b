"""Fitting a model to more rows than fit in memory."""

import tempfile
from pathlib import Path

import numpy as np

from mcf_cli.core.chunks import Chunk, OnPass, Sums, Task, added, second_moments, solve
from mcf_cli.core.estimators import MCFClassifier
from mcf_cli.scale.arrayfile import ArrayFile, Ones
from mcf_cli.scale.fitting import Fitted, Targets, distinct, finish, how, task_of
from mcf_cli.scale.pieces import Chunks, Source


def fit_chunks(
    model: Fitted,
    source: Chunks | Source,
    on_pass: OnPass | None = None,
) -> Fitted:
    """Fit an MCFClassifier or MCFRegressor to data read in chunks; the solution is that of `model.fit`.

    Memory holds a chunk at a time, and some 30 times the weights for the optimiser. The chunks are laid out for
    evaluation in files beside them, so that a pass reads about as many bytes as the data has, and what the system
    can keep in its cache is not read again.

    Parameters
    ----------
    source : a svmlight or .npz file, a list of them, an iterable of (X, y) or a function that returns one; it is
        read once, into a temporary folder. To choose the folder and to use it again: `Chunks.write`
    on_pass : called after each pass over the data with its number and the objective at the weights it tried

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from mcf_cli import Blankout, MCFClassifier, fit_chunks
    >>> X, y = load_digits(return_X_y=True)
    >>> chunks = [(X[start : start + 200] / 16, y[start : start + 200]) for start in range(0, 1000, 200)]
    >>> model = fit_chunks(MCFClassifier(corruption=Blankout(q=0.5), l2=1e-3, tol=1e-2), chunks)
    >>> bool(model.score(X[1000:] / 16, y[1000:]) > 0.85)
    True
    """
    if not isinstance(source, Chunks):
        with tempfile.TemporaryDirectory(prefix="mcf-chunks-") as folder:
            return fit_chunks(model, Chunks.write(source, folder), on_pass)
    classify = isinstance(model, MCFClassifier)
    targets = Targets(classify, [distinct(source.labels(number), classify) for number in range(len(source))])
    task = task_of(model, source.n_features, targets)
    moments = np.zeros(source.n_features)
    for X, _ in source:
        moments += second_moments(X, task)
    options = how(model, source.n_features, targets)
    with tempfile.TemporaryDirectory(prefix="layout-", dir=source.folder) as folder:
        shares = _Shares(source, task, targets, Path(folder))
        solution = solve(task, source.rows, moments, shares.sums, on_pass=on_pass, **options)
    return finish(model, solution, source.n_features, targets)


class _Shares:
    """What each chunk adds to a pass over the data; a chunk is laid out once, into a file."""

    def __init__(self, source: Chunks, task: Task, targets: Targets, folder: Path):
        self.source, self.task, self.targets, self.folder = source, task, targets, folder
        self.ones = Ones()
        self.laid_out: list[tuple[Chunk, ArrayFile]] = []

    def sums(self, W: np.ndarray, b: np.ndarray) -> Sums:
        return added(self._share(number, W, b) for number in range(len(self.source)))

    def _share(self, number: int, W: np.ndarray, b: np.ndarray) -> Sums:
        """A function of its own: when it returns, nothing of the chunk is left in memory."""
        if number == len(self.laid_out):
            self.laid_out.append(self._lay_out(number))
        chunk, file = self.laid_out[number]
        return chunk.with_arrays(file.arrays()).sums(W, b)

    def _lay_out(self, number: int) -> tuple[Chunk, ArrayFile]:
        X, y = self.source[number]
        chunk = Chunk(X, self.targets.encode(y), self.task)
        file = ArrayFile(self.folder / f"{number:06d}.layout", chunk.arrays, self.ones)
        return chunk.with_arrays(file.arrays()), file
