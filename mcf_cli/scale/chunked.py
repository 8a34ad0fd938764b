"""Fitting a model to more rows than fit in memory."""

import tempfile

import numpy as np

from mcf_cli.core.chunks import Chunk, OnPass, Sums, Task, added, second_moments, solve
from mcf_cli.core.estimators import MCFClassifier
from mcf_cli.datasets.pieces import Chunks, Source
from mcf_cli.scale.fitting import Fitted, Targets, distinct, finish, how, task_of


def fit_chunks(
    model: Fitted,
    source: Chunks | Source,
    memory: int = 2**30,
    on_pass: OnPass | None = None,
) -> Fitted:
    """Fit an MCFClassifier or MCFRegressor to data read in chunks; the solution is that of `model.fit`.

    Parameters
    ----------
    source : a svmlight or .npz file, a list of them, an iterable of (X, y) or a function that returns one; it is
        read once, into a temporary folder. To choose the folder and use it again: `Chunks.write`
    memory : bytes for chunks that stay laid out in memory; the others are laid out anew in every pass over the
        data. On top of it come one chunk, and some 30 times the weights for the optimiser
    on_pass : called after each pass over the data with its number and the objective at the weights it tried

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from mcf_cli import Blankout, MCFClassifier, fit_chunks
    >>> X, y = load_digits(return_X_y=True)
    >>> chunks = [(X[start : start + 200] / 16, y[start : start + 200]) for start in range(0, 1000, 200)]
    >>> model = fit_chunks(MCFClassifier(corruption=Blankout(q=0.5), l2=1e-3), chunks)
    >>> bool(model.score(X[1000:] / 16, y[1000:]) > 0.85)
    True
    """
    if not isinstance(source, Chunks):
        with tempfile.TemporaryDirectory(prefix="mcf-chunks-") as folder:
            return fit_chunks(model, Chunks.write(source, folder), memory, on_pass)
    classify = isinstance(model, MCFClassifier)
    targets = Targets(classify, [distinct(source.labels(number), classify) for number in range(len(source))])
    task = task_of(model, source.n_features, targets)
    moments = np.zeros(source.n_features)
    for X, _ in source:
        moments += second_moments(X, task)
    shares = _Shares(source, task, targets, memory)
    options = how(model, source.n_features, targets)
    solution = solve(task, source.rows, moments, shares.sums, on_pass=on_pass, **options)
    return finish(model, solution, source.n_features, targets)


class _Shares:
    """What each chunk adds to a pass; chunks for which there is room stay in memory from one pass to the next."""

    def __init__(self, source: Chunks, task: Task, targets: Targets, memory: int):
        self.source, self.task, self.targets = source, task, targets
        self.room, self.kept = memory, dict[int, Chunk]()

    def sums(self, W: np.ndarray, b: np.ndarray) -> Sums:
        return added(self._share(number, W, b) for number in range(len(self.source)))

    def _share(self, number: int, W: np.ndarray, b: np.ndarray) -> Sums:
        """A function of its own, so that one chunk is gone before the next one is made."""
        chunk = self.kept.get(number)
        if chunk is None:
            X, y = self.source[number]
            chunk = Chunk(X, self.targets.encode(y), self.task)
            if chunk.nbytes <= self.room:
                self.kept[number] = chunk
                self.room -= chunk.nbytes
        return chunk.sums(W, b)
