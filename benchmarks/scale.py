"""Cost of one loss and gradient against the size of the data, and a fit to data that is read in chunks.

`python -m benchmarks.scale` evaluates the marginalised logistic loss on seeded Zipf counts of growing size and prints
the time per stored entry, which stays level where time is linear; `--most 1e4` leaves the larger sizes out.

`python -m benchmarks.scale --big` writes 1,000,000 documents x 100,000 terms to disk, chunk by chunk, fits a binary
blankout model to the chunks and prints the peak memory of the process. `--share 0.01` does a hundredth of the
documents; `--folder` names where the chunks are kept, and a second run finds them there.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from mcf_cli import Blankout, Chunks, MCFClassifier, fit_chunks
from mcf_cli.core.problem import Problem

from benchmarks.core import best_times
from benchmarks.shapes import Shape, zipf_shape

WORDS = 130  # words a document, some 100 of them different
AT_ONCE = 40_000  # documents a chunk
SIZES = {  # what varies: (documents, terms, classes, q)
    "documents": [(N, 100_000, 2, 0.5) for N in (1_000, 10_000, 100_000, 1_000_000)],
    "terms": [(10_000, D, 2, 0.5) for D in (1_000, 10_000, 100_000, 1_000_000)],
    "classes": [(10_000, 10_000, K, 0.5) for K in (2, 5, 20, 65)],
    "q": [(10_000, 100_000, 2, q) for q in (0.1, 0.5, 0.9)],
}
LIMIT = 8 * 2**30  # bytes that the big fit may take


def documents(N: int, D: int, K: int, seed: int = 0) -> Iterator[Shape]:
    """N documents, at most AT_ONCE of them at a time; each batch has a seed of its own."""
    for number, start in enumerate(range(0, N, AT_ONCE)):
        yield zipf_shape("zipf", min(AT_ONCE, N - start), D, K, WORDS, seed=1000 * seed + number)


def noisy_labels(shape: Shape) -> np.ndarray:
    """Every tenth label wrong, or the classes could be told apart without fault."""
    wrong = np.random.default_rng(shape.X.nnz).random(len(shape.y)) < 0.1
    return np.where(wrong, 1 - shape.y, shape.y)


def evaluation(shape: Shape, q: float) -> Any:
    """One loss and gradient, ready to be timed."""
    K, D = shape.n_classes, shape.X.shape[1]
    W = np.random.default_rng(0).normal(size=(1 if K == 2 else K, D)) * 0.01
    problem = Problem(shape.X, shape.y, multiclass="shared", n_classes=K, reusable=False)
    return lambda: problem.loss_gradient(Blankout(q=q), 0.0, W, np.zeros(len(W)))


def measure(N: int, D: int, K: int, q: float, rounds: int) -> tuple[int, float]:
    """Stored entries, and seconds of one loss and gradient over all of them."""
    entries, seconds = 0, 0.0
    for shape in documents(N, D, K):
        entries += shape.X.nnz
        seconds += best_times({"": evaluation(shape, q)}, rounds)[""]
    return entries, seconds


def table(most: float, rounds: int) -> None:
    print("one loss and gradient, blankout, logistic (Jensen's bound; `shared` beyond two classes)")
    print(f"best of {rounds}; more than {AT_ONCE:,} documents are evaluated in chunks of that many")
    columns = ("documents", "terms", "classes", "q", "entries", "ms", "ns per entry", "and class")
    for varied, sizes in SIZES.items():
        print(f"\n{varied}\n" + "".join(f"{name:>14s}" for name in columns))
        for N, D, K, q in sizes:
            if (D if varied == "terms" else N) > most:
                continue
            entries, seconds = measure(N, D, K, q, rounds)
            each = 1e9 * seconds / entries
            numbers = f"{N:14,}{D:14,}{K:14}{q:14}{entries:14,}{1e3 * seconds:14.1f}{each:14.2f}"
            print(numbers + f"{each / (1 if K == 2 else K):14.2f}", flush=True)


def peak_bytes() -> int:
    """The most memory that this process ever had resident."""
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


class Progress:
    """Lines with the time since the start."""

    def __init__(self) -> None:
        self.start = time.perf_counter()

    def __call__(self, text: str) -> None:
        print(f"{time.perf_counter() - self.start:8.1f} s  {text}", flush=True)


def written(N: int, D: int, folder: Path, say: Progress) -> Chunks:
    """The documents in the folder, made there unless they are there already."""
    if (folder / "chunks.json").exists():
        say(f"found in {folder}")
        chunks = Chunks(folder)
        if (chunks.rows, chunks.n_features) != (N, D):
            sys.exit(
                f"{folder} holds {chunks.rows:,} x {chunks.n_features:,}, not {N:,} x {D:,}: name another"
            )
        return chunks

    def pairs() -> Iterator[tuple[Any, np.ndarray]]:
        done = entries = 0
        for shape in documents(N, D, 2):
            yield shape.X, noisy_labels(shape)
            done, entries = done + len(shape.y), entries + shape.X.nnz
            say(f"wrote {done:,} of {N:,} documents, {entries:,} entries")

    return Chunks.write(pairs, folder, n_features=D)


def big(N: int, D: int, folder: Path, tol: float, max_iter: int) -> int:
    say = Progress()
    print(
        f"{N:,} documents x {D:,} terms, two classes, a tenth of the labels wrong\n"
        f"blankout q=0.5, logistic, l2=1e-6, tol={tol:g}, at most {max_iter} iterations"
    )
    chunks = written(N, D, folder, say)
    size = sum(path.stat().st_size for path in folder.iterdir())
    say(f"{len(chunks)} chunks, {size / 2**30:.2f} GiB on disk, peak memory {peak_bytes() / 2**30:.2f} GiB")
    model = MCFClassifier(corruption=Blankout(q=0.5), l2=1e-6, tol=tol, max_iter=max_iter)
    fit_chunks(model, chunks, lambda number, value: say(f"pass {number}: objective {value:.6f}"))
    say(f"{model.n_iter_} iterations, converged: {model.converged_} ({model.message_})")
    unseen = next(documents(AT_ONCE, D, 2, seed=1))
    say(
        f"error on {len(unseen.y):,} unseen documents: {1.0 - model.score(unseen.X, noisy_labels(unseen)):.4f}"
    )
    peak = peak_bytes()
    say(
        f"peak memory {peak / 2**30:.2f} GiB (at most {LIMIT / 2**30:g}: {'met' if peak <= LIMIT else 'MISSED'})"
    )
    return 0 if peak <= LIMIT else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--most", type=float, default=1e6, help="leave out what has more documents, or terms where they vary"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--big", action="store_true", help="fit 1,000,000 x 100,000 in chunks instead")
    parser.add_argument("--share", type=float, default=1.0, help="share of the big fit's documents")
    parser.add_argument("--folder", type=Path, help="keep the big fit's chunks here; temporary by default")
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--max-iter", type=int, default=100)
    options = parser.parse_args()
    if not options.big:
        table(options.most, options.rounds)
        return 0
    N = max(2, int(1_000_000 * options.share))
    fit = (options.tol, options.max_iter)
    if options.folder:
        return big(N, 100_000, options.folder, *fit)
    with tempfile.TemporaryDirectory(prefix="mcf-scale-") as folder:
        return big(N, 100_000, Path(folder), *fit)


if __name__ == "__main__":
    sys.exit(main())
