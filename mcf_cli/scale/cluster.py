"""Fitting one model on a dask cluster: the rows stay on the workers, weights go out, sums come back."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from mcf_cli.core.chunks import Chunk, OnPass, Sums, Task, added, second_moments, solve
from mcf_cli.core.estimators import MCFClassifier
from mcf_cli.errors import McfError
from mcf_cli.scale.fitting import Fitted, Targets, distinct, finish, how, task_of
from mcf_cli.scale.pieces import Columns, Outline, Piece, checked, read_file

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
) -> Fitted:
    """Fit an MCFClassifier or MCFRegressor on a dask cluster; the solution is that of `model.fit`.

    Every partition is loaded and laid out once, by the worker that keeps it. An iteration sends the weights and
    receives a loss and a gradient. The partitions of a worker that is lost are loaded again, from their source, by
    the others.

    Parameters
    ----------
    X, y : dask arrays cut by rows alone, of dense or scipy.sparse blocks; or, without y, X is a list with an item a
        partition: the path of a svmlight or .npz file that every worker can read, or a dask.delayed pair (X, y)
    client : the dask client; by default the current one
    n_features, zero_based : for svmlight files, as in `Chunks.write`
    on_pass : as in `fit_chunks`

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
    client = _client(client)
    pieces = client.compute(_partitions(X, y))
    columns, targets, rows, pieces = _survey(client, pieces, model, n_features, zero_based)
    task = task_of(model, columns.n_features, targets)
    setup = client.submit(_same, (columns, targets, task), pure=False)
    setups = [setup] * len(pieces)
    chunks = client.map(_lay_out, pieces, setups, pure=False)
    moments = _reduced(client, _add_arrays, client.map(_moments, pieces, setups, pure=False))
    pieces.clear()  # dask may now forget the raw rows; it still knows how to make them again

    def sums(W: np.ndarray, b: np.ndarray) -> Sums:
        # The weights are a task's argument and not scattered: they, too, survive the worker that holds them.
        with _large_arguments_allowed():
            weights = client.submit(_same, (W, b), pure=False)
        shares = client.map(_share, chunks, [weights] * len(chunks), pure=False)
        return _reduced(client, added, shares)

    solution = solve(task, rows, moments, sums, on_pass=on_pass, **how(model, columns.n_features, targets))
    return finish(model, solution, columns.n_features, targets)


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
        raise McfError("no dask client: make one first, client = dask.distributed.Client(ADDRESS).") from None


def _large_arguments_allowed() -> Any:
    """Millions of weights are what the user asked for: no reason for dask to warn at each step."""
    import dask

    return dask.config.set({"distributed.admin.large-graph-warning-threshold": "100GB"})


def _partitions(X: Any, y: Any) -> list[Any]:
    """A delayed Piece for each partition."""
    from dask import delayed

    if hasattr(X, "to_delayed"):
        return [delayed(_piece)(*pair, f"partition {i}") for i, pair in enumerate(_blocks(X, y))]
    if y is not None:
        raise ValueError("y goes with a dask array X; a list of partitions holds its labels itself")
    if isinstance(X, str | Path):
        X = [X]
    return [
        delayed(_read)(str(item))
        if isinstance(item, str | Path)
        else delayed(_piece_of_pair)(item, f"partition {i}")
        for i, item in enumerate(X)
    ]


def _blocks(X: Any, y: Any) -> list[tuple[Any, Any]]:
    if not hasattr(y, "to_delayed"):
        raise ValueError("X is a dask array, so y has to be one too, cut into the same blocks of rows")
    if X.ndim != 2 or X.numblocks[1] != 1:
        raise ValueError("X has to be cut by rows alone; use X.rechunk({1: -1})")
    if X.numblocks[0] != y.numblocks[0]:
        raise ValueError(
            f"X has {X.numblocks[0]} blocks of rows and y {y.numblocks[0]}; rechunk one to the other's chunks"
        )
    return list(zip(X.to_delayed().ravel(), y.to_delayed().ravel(), strict=True))


def _survey(
    client: Any, pieces: list[Any], model: Fitted, n_features: int | None, zero_based: bool | None
) -> tuple[Columns, Targets, int, list[Any]]:
    """What all partitions together show: columns, labels and number of rows; and the partitions that have rows."""
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
    return columns, targets, sum(outline.rows for outline in outlines), [pieces[number] for number in held]


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
    try:
        X, y = pair
    except (TypeError, ValueError):
        raise ValueError(f"{name} is not a pair (X, y), nor the path of a file") from None
    return _piece(X, y, name)


def _piece(X: Any, y: Any, name: str) -> Piece:
    X = X if sp.issparse(X) else np.asarray(X)
    return checked(X, y, name) if X.shape[0] else Piece(X, np.asarray(y), name)


def _describe(piece: Piece, classify: bool) -> tuple[Outline, np.ndarray]:
    return piece.outline(), distinct(piece.y, classify) if len(piece.y) else piece.y


def _lay_out(piece: Piece, setup: Setup) -> Chunk:
    columns, targets, task = setup
    return Chunk(columns.place(piece.X), targets.encode(piece.y), task)


def _moments(piece: Piece, setup: Setup) -> np.ndarray:
    columns, _, task = setup
    return second_moments(columns.place(piece.X), task)


def _share(chunk: Chunk, weights: tuple[np.ndarray, np.ndarray]) -> Sums:
    W, b = (np.array(weight) for weight in weights)  # what dask hands over may be read-only
    return chunk.sums(W, b)


def _add_arrays(arrays: list[np.ndarray]) -> np.ndarray:
    return np.sum(arrays, axis=0)
