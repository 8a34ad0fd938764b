"""Fitting a model to more rows than fit in memory: in chunks on this machine, or on a dask cluster.

On a cluster the rows stay on the workers; weights go out, sums come back.
"""

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mcf_cli.core.estimators import MCFClassifier
from mcf_cli.core.problem import Solution
from mcf_cli.datasets.dataset import RowsOnDisk
from mcf_cli.errors import McfError
from mcf_cli.files import ArrayFile, Ones
from mcf_cli.scale.largefile import LabelledRows
from mcf_cli.scale.pieces import (
    Chunks,
    ChunkSource,
    Columns,
    Outline,
    Piece,
    checked,
    read_file,
)
from mcf_cli.scale.sums import (
    Chunk,
    Fitted,
    OnPass,
    SummedObjective,
    Sums,
    Targets,
    Task,
    added,
    chunk_moments,
    distinct,
    finish,
    how,
    refuse_search,
    solve,
    task_of,
    total_weight,
)


def fit_chunks(
    model: Fitted,
    source: "Chunks | LabelledRows | ChunkSource",
    on_pass: OnPass | None = None,
) -> Fitted:
    """Fit an MCFClassifier or MCFRegressor to data read in chunks; the solution is that of `model.fit`.

    Memory holds a chunk at a time, and some 30 times the weights for the optimiser. The chunks are laid out for
    evaluation in files beside them, so that a pass reads about as many bytes as the data has, and what the system
    can keep in its cache is not read again.

    Parameters
    ----------
    model : the estimator; of a search such as `MCFClassifierCV` the chosen `best_estimator_`
    source : `Chunks`; or a svmlight or .npz file, a list of them, an iterable of (X, y) or a function that returns
        one, which is read once, into a temporary folder. `Chunks.write` chooses the folder and keeps it
    on_pass : called after each pass over the data with its number and the objective at the weights it tried

    Returns
    -------
    the model, fitted

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
    refuse_search(model)
    if not isinstance(source, Chunks | LabelledRows):
        with tempfile.TemporaryDirectory(prefix="mcf-chunks-") as folder:
            return fit_chunks(model, Chunks.write(source, folder), on_pass)
    classify = isinstance(model, MCFClassifier)
    targets = Targets(classify, [distinct(source.labels(number), classify) for number in range(len(source))])
    columns = source.feature_names
    task = task_of(model, source.n_features, targets, columns)
    options = how(model, source.n_features, targets)
    total = total_weight(model, source, targets)
    with _Layout(source, task, targets.encode, targets.weights) as layout:
        solution = solve(task, total, layout.moments(), layout.sums, on_pass=on_pass, **options)
    return finish(model, solution, task, targets, columns)


def fit_rows(model: Fitted, X: Any, y: np.ndarray) -> Fitted:
    """`model.fit`, wherever the rows are."""
    return fit_chunks(model, LabelledRows(X, y)) if isinstance(X, RowsOnDisk) else model.fit(X, y)


class _Layout:
    """What each chunk adds to a pass over the data; a chunk is laid out once, into a file that has no name."""

    def __init__(
        self,
        source: Chunks | LabelledRows,
        task: Task,
        encode: Callable[[np.ndarray], np.ndarray],
        weigh: Callable[[np.ndarray, Any], np.ndarray | None] = lambda y, weight: weight,
    ):
        self.source, self.task, self.encode, self.weigh = source, task, encode, weigh
        self.ones = Ones()
        self.file = tempfile.TemporaryFile(dir=source.folder)  # noqa: SIM115  closed by close
        self.laid_out: list[tuple[Chunk, ArrayFile]] = []

    def moments(self) -> np.ndarray:
        """What scales and centres the weights for the optimiser, of all rows."""
        moments = np.zeros((2, self.source.n_features))
        for number in range(len(self.source)):
            X, y = self.source[number]
            moments += chunk_moments(X, self.task, self.weigh(y, self.source.weights(number)))
        return moments

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
        chunk = Chunk(X, self.encode(y), self.task, self.weigh(y, self.source.weights(number)))
        file = ArrayFile(self.file, chunk.arrays, self.ones)
        return chunk.with_arrays(file.arrays()), file

    def close(self) -> None:
        self.file.close()

    def __enter__(self) -> "_Layout":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ChunkedProblem:
    """A core `Problem` whose rows stay on disk: the same losses and corruptions, fitted from sums over chunks."""

    def __init__(self, X: RowsOnDisk, y: np.ndarray, n_classes: int, **options: Any):
        """Classes that no row has are left out, none is a regression; options are the loss and its forms."""
        self.y, self.n_classes, self.options = y, n_classes, options
        self.labels, codes = None, y
        if n_classes:
            present, codes = np.unique(y, return_inverse=True)
            if len(present) < 2:
                raise ValueError("a classifier needs at least two classes in its rows")
            self.labels = None if len(present) == n_classes else present
        self.rows = LabelledRows(X, codes)

    def subset(self, rows: np.ndarray) -> "ChunkedProblem":
        """The same problem on some rows."""
        return ChunkedProblem(self.rows.X[rows], self.y[rows], self.n_classes, **self.options)

    def solve(
        self,
        corruption: Any,
        l2: float,
        start: Solution | None = None,
        max_iter: int = 1000,
        tol: float = 1e-4,
    ) -> Solution:
        """Fit from `start`, unless zero weights are better, as `Problem.solve` does."""
        task, layout, moments = self._laid_out(corruption, l2)
        if start is not None and not self._better_than_zero(start, task, layout):
            start = None
        solution = solve(task, self.rows.rows, moments, layout.sums, start, max_iter, tol)
        intercept = solution.intercept
        if task.n_outputs > 1 and task.options["loss"] != "quadratic":
            intercept = intercept - intercept.mean()  # which changes nothing
        return replace(solution, intercept=intercept, labels=self.labels)

    def _better_than_zero(self, start: Solution, task: Task, layout: _Layout) -> bool:
        objective = SummedObjective(task, self.rows.rows, layout.sums)
        W, b = start.coef.T, start.intercept
        return (
            objective.loss_gradient(W, b)[0] < objective.loss_gradient(np.zeros_like(W), np.zeros_like(b))[0]
        )

    def _laid_out(self, corruption: Any, l2: float) -> tuple[Task, _Layout, np.ndarray]:
        """The task, its layout and moments; those of the last fit, when only l2 differs.

        One layout is kept a process, for it takes as much room on disk as the rows.
        """
        K = self.n_classes if self.labels is None else len(self.labels)
        task = Task.checked(
            corruption,
            n_features=self.rows.n_features,
            n_classes=K,
            n_outputs=K if K > 2 else 1,
            l2=l2,
            options=self.options,
        )
        if not (_last and _last[0] is self and _last[1] is corruption):
            if _last:
                _last[2].close()
            _last.clear()
            layout = _Layout(self.rows, task, np.asarray)
            _last.extend((self, corruption, layout, layout.moments()))
        return task, _last[2], _last[3]


_last: list[Any] = []  # problem, corruption, layout, moments
_FAN_IN = 8  # shares that one task adds up
Setup = tuple[Columns, Targets, Task]  # what a worker has to know besides its rows


def fit_dask(
    model: Fitted,
    X: Any,
    y: Any = None,
    client: Any = None,
    n_features: int | None = None,
    zero_based: bool | None = None,
    on_pass: OnPass | None = None,
    sample_weight: Any = None,
) -> Fitted:
    """Fit an MCFClassifier or MCFRegressor on a dask cluster; the solution is that of `model.fit`.

    Every partition is loaded and laid out once, by the worker that keeps it. An iteration sends the weights and
    receives a loss and a gradient. When a worker is lost, others load its partitions again from their source.

    Parameters
    ----------
    model : the estimator
    X, y : dask arrays cut by rows alone, of dense or scipy.sparse blocks; or, without y, X is a list with an item a
        partition: the path of a svmlight, csv or .npz file that every worker can read, or a dask.delayed pair (X, y),
        X perhaps a DataFrame, or (X, y, sample_weight)
    client : the dask client; by default the current one
    n_features, zero_based, on_pass : as in `Chunks.write` (for svmlight files) and in `fit_chunks`
    sample_weight : a dask array cut like y

    Returns
    -------
    the model, fitted

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from dask.distributed import Client
    >>> from mcf_cli import MCFClassifier, fit_dask
    >>> X = da.from_array(np.array([[2.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 3.0]]), chunks=(2, 2))
    >>> y = da.from_array(np.array(["a", "a", "b", "b"]), chunks=2)
    >>> with Client(processes=False, n_workers=1, dashboard_address=None):  # or Client("tcp://scheduler:8786")
    ...     model = fit_dask(MCFClassifier(corruption="poisson", l2=0.1), X, y)
    >>> model.predict([[1.0, 0.0], [0.0, 1.0]])
    array(['a', 'b'], dtype='<U1')
    """
    refuse_search(model)
    client = _client(client)
    pieces = client.compute(_partitions(X, y, sample_weight))
    columns, targets, rows, pieces = _survey(client, pieces, model, n_features, zero_based)
    task = task_of(model, columns.n_features, targets, columns.names)
    setups = [client.submit(_same, (columns, targets, task), pure=False)] * len(pieces)
    chunks = client.map(_lay_out, pieces, setups, pure=False)
    moments = _reduced(client, _add_arrays, client.map(_moments, pieces, setups, pure=False))
    pieces.clear()  # dask may now forget the raw rows; it still knows how to make them again

    def sums(W: np.ndarray, b: np.ndarray) -> Sums:
        with _large_arguments_allowed():  # not scattered: weights, too, survive the worker that holds them
            weights = client.submit(_same, (W, b), pure=False)
        shares = client.map(_share, chunks, [weights] * len(chunks), pure=False)
        return _reduced(client, added, shares)

    solution = solve(task, rows, moments, sums, on_pass=on_pass, **how(model, columns.n_features, targets))
    return finish(model, solution, task, targets, columns.names)


def _client(client: Any) -> Any:
    try:
        import distributed
    except ImportError:
        raise McfError(
            "a fit on a cluster needs dask: install the extra `dask` (pip install '.[dask]')."
        ) from None
    if client is not None:
        return client
    try:
        return distributed.Client.current()
    except ValueError:
        raise McfError(
            "no dask client: first create one with client = dask.distributed.Client(ADDRESS)."
        ) from None


def _large_arguments_allowed() -> Any:
    """Millions of weights are what the user asked for: no reason for dask to warn at each step."""
    import dask

    return dask.config.set({"distributed.admin.large-graph-warning-threshold": "100GB"})


def _partitions(X: Any, y: Any, sample_weight: Any) -> list[Any]:
    """A delayed Piece for each partition."""
    from dask import delayed

    if hasattr(X, "to_delayed"):
        blocks = enumerate(_blocks(X, y, sample_weight))
        return [delayed(_piece)(X, y, f"partition {i}", *weight) for i, (X, y, *weight) in blocks]
    if y is not None or sample_weight is not None:
        raise ValueError("give y only with a dask array X; partitions hold their own labels and weights")
    if isinstance(X, str | Path):
        X = [X]
    return [
        delayed(_read)(str(item))
        if isinstance(item, str | Path)
        else delayed(_piece_of_pair)(item, f"partition {i}")
        for i, item in enumerate(X)
    ]


def _blocks(X: Any, y: Any, sample_weight: Any) -> list[tuple[Any, ...]]:
    if not hasattr(y, "to_delayed"):
        raise ValueError("X is a dask array, so y must be one too, cut into the same blocks of rows")
    if X.ndim != 2 or X.numblocks[1] != 1:
        raise ValueError("chunks of X must span all columns; use X.rechunk({1: -1})")
    if X.numblocks[0] != y.numblocks[0]:
        raise ValueError(
            f"X has {X.numblocks[0]} blocks of rows and y {y.numblocks[0]}; rechunk one to the other's chunks"
        )
    if sample_weight is not None and getattr(sample_weight, "numblocks", None) != y.numblocks[:1]:
        raise ValueError("sample_weight must be a dask array, cut into the same blocks of rows as y")
    arrays = [X, y] if sample_weight is None else [X, y, sample_weight]
    return list(zip(*(array.to_delayed().ravel() for array in arrays), strict=True))


def _survey(
    client: Any, pieces: list[Any], model: Fitted, n_features: int | None, zero_based: bool | None
) -> tuple[Columns, Targets, float, list[Any]]:
    """What all partitions together show: columns, labels and weight of rows; and the partitions that have rows."""
    classify = isinstance(model, MCFClassifier)
    found: list[tuple[Outline, np.ndarray]] = client.gather(
        client.map(_describe, pieces, [classify] * len(pieces), pure=False)
    )
    held = [number for number, (outline, _) in enumerate(found) if outline.rows]
    outlines = [found[number][0] for number in held]
    if not outlines:
        raise McfError("the partitions hold no rows")
    if len({outline.as_written for outline in outlines}) > 1:
        raise McfError("svmlight files and other partitions do not mix: give one kind")
    columns = Columns.agreed(outlines, n_features, zero_based)
    targets = Targets(classify, [found[number][1] for number in held])
    pieces = [pieces[number] for number in held]
    if getattr(model, "class_weight", None) is None:
        return columns, targets, sum(outline.weight for outline in outlines), pieces
    totals = client.map(_totals, pieces, [targets] * len(pieces), pure=False)
    weight = targets.weigh(model.class_weight, _reduced(client, _add_arrays, totals))
    return columns, targets, weight, pieces


def _reduced(client: Any, add: Callable[..., Any], futures: list[Any]) -> Any:
    """The sum, by a tree of tasks: always the same additions, whichever worker was first."""
    while len(futures) > 1:
        groups = [futures[start : start + _FAN_IN] for start in range(0, len(futures), _FAN_IN)]
        futures = client.map(add, groups, pure=False)
    return futures[0].result()


# -- what runs on the workers -----------------------------------------------------------------------------------
def _same(value: Any) -> Any:
    return value


def _read(path: str) -> Piece:
    (piece,) = read_file(path)
    return piece


def _piece_of_pair(pair: Any, name: str) -> Piece:
    if not isinstance(pair, tuple | list) or len(pair) not in (2, 3):
        raise ValueError(f"{name} is not a pair (X, y), nor the path of a file")
    X, y, *weight = pair
    return _piece(X, y, name, *weight)


def _piece(X: Any, y: Any, name: str, weight: Any = None) -> Piece:
    X = X if hasattr(X, "shape") else np.asarray(X)
    return checked(X, y, name, weight) if X.shape[0] else Piece(X, np.asarray(y), name)


def _describe(piece: Piece, classify: bool) -> tuple[Outline, np.ndarray]:
    return piece.outline(), distinct(piece.y, classify) if len(piece.y) else piece.y


def _lay_out(piece: Piece, setup: Setup) -> Chunk:
    columns, targets, task = setup
    weight = targets.weights(piece.y, piece.weight)
    return Chunk(columns.place(piece.X), targets.encode(piece.y), task, weight)


def _totals(piece: Piece, targets: Targets) -> np.ndarray:
    return targets.totals(piece.y, piece.weight)


def _moments(piece: Piece, setup: Setup) -> np.ndarray:
    columns, targets, task = setup
    return chunk_moments(columns.place(piece.X), task, targets.weights(piece.y, piece.weight))


def _share(chunk: Chunk, weights: tuple[np.ndarray, np.ndarray]) -> Sums:
    W, b = (np.array(weight) for weight in weights)  # what dask hands over may be read-only
    return chunk.sums(W, b)


def _add_arrays(arrays: list[np.ndarray]) -> np.ndarray:
    return np.sum(arrays, axis=0)
