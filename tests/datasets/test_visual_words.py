import signal
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from mcf_cli.datasets.builtin import texture_images
from mcf_cli.datasets.features import visual_words
from mcf_cli.datasets.features import visual_words as codebook
from mcf_cli.datasets.features.visual_words import Recipe
from mcf_cli.errors import McfError

RECIPE = Recipe(words=24, side=5, patches=3000, rounds=6, seed=7)
IMAGES = texture_images(30, side=14)[0]
TRAIN = np.arange(20)


def quiet(stage, done, total):
    pass


def contrast_normalised(patch):
    return (patch - patch.mean()) / np.sqrt(patch.var() + 10.0)


def naive_counts(image, centres, mean, whitening, side):
    """The definition: whiten every patch, find the nearest centre, count in quadrants."""
    positions = len(image) - side + 1
    counts = np.zeros((4, len(centres)))
    for row in range(positions):
        for column in range(positions):
            patch = contrast_normalised(image[row : row + side, column : column + side].astype(float).ravel())
            distances = np.sum(((patch - mean) @ whitening - centres) ** 2, axis=1)
            counts[2 * (row >= positions / 2) + (column >= positions / 2), distances.argmin()] += 1
    return counts.ravel()


def learnt_by_hand():
    rng = np.random.default_rng(RECIPE.seed)
    patches = codebook.sample_patches(IMAGES[TRAIN], RECIPE, rng)
    mean, whitening = codebook.zca(patches)
    rows = codebook.with_ones(patches.shape)
    rows[:, :-1] = (patches - mean) @ whitening
    return codebook.kmeans(rows, RECIPE.words, RECIPE.rounds, rng, quiet), mean, whitening


def test_counts_equal_the_definition():
    centres, mean, whitening = (part.astype(float) for part in learnt_by_hand())
    X = visual_words.features(IMAGES, TRAIN, RECIPE)
    assert X.shape == (30, 4 * RECIPE.words)
    for row in (0, 11, 29):
        expected = naive_counts(IMAGES[row], centres, mean, whitening, RECIPE.side)
        assert np.array_equal(X[[row]].toarray().ravel(), expected)


def test_whitened_patches_have_no_correlation_left():
    patches = codebook.sample_patches(IMAGES, Recipe(side=5, patches=5000), np.random.default_rng(0))
    mean, whitening = codebook.zca(patches)
    covariance = np.cov((patches - mean) @ whitening, rowvar=False)
    values, raw = np.linalg.eigvalsh(covariance), np.linalg.eigvalsh(np.cov(patches, rowvar=False))
    assert np.allclose(np.sort(values), np.sort(raw / (raw + codebook.WHITENING)), atol=1e-3)
    assert np.allclose(whitening, whitening.T, atol=1e-5)


def test_a_flat_patch_stays_flat():
    patches = np.full((1, 75), 200.0, np.float32)
    codebook.normalise_contrast(patches)
    assert np.array_equal(patches, np.zeros((1, 75)))


def test_each_round_of_kmeans_brings_the_centres_nearer():
    rng = np.random.default_rng(0)
    rows = codebook.with_ones((2000, 6))
    rows[:, :-1] = rng.normal(size=(2000, 6)) + 4 * rng.integers(0, 3, (2000, 1))

    def distortion(rounds):
        centres = codebook.kmeans(rows, 12, rounds, np.random.default_rng(1), quiet)
        squares = ((rows[:, None, :-1] - centres) ** 2).sum(axis=2)
        return squares.min(axis=1).sum()

    values = [distortion(rounds) for rounds in range(6)]
    assert all(later <= earlier * (1 + 1e-6) for earlier, later in pairwise(values))


def test_an_empty_cluster_starts_anew():
    rows = codebook.with_ones((100, 2))
    rows[:, :-1] = np.repeat([[0.0, 0.0], [5.0, 5.0]], 50, axis=0)
    centres = codebook.kmeans(rows, 4, 5, np.random.default_rng(0), quiet)
    assert np.isfinite(centres).all()


def test_quadrants_of_an_even_and_an_odd_grid():
    assert visual_words.quadrants((4, 4)).reshape(4, 4).tolist()[1:3] == [[0, 0, 1, 1], [2, 2, 3, 3]]
    assert np.bincount(visual_words.quadrants((26, 26))).tolist() == [169] * 4
    assert np.bincount(visual_words.quadrants((3, 3))).sum() == 9


def test_too_few_patches_are_explained():
    with pytest.raises(McfError, match="too few"):
        visual_words.features(IMAGES, TRAIN, Recipe(words=50, side=5, patches=40))


def kept(folder, progress=quiet):
    return visual_words.resumable_features(IMAGES, TRAIN, RECIPE, folder, progress, chunk=8)


def test_the_result_is_kept_and_not_computed_again(tmp_path):
    first = kept(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["counts.npz", "table.npz"]
    calls = []
    assert (kept(tmp_path, lambda *call: calls.append(call)) != first).nnz == 0
    assert calls == []
    assert (first != visual_words.features(IMAGES, TRAIN, RECIPE)).nnz == 0


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.datasets.test_visual_words import kept

def progress(stage, done, total):
    if stage.startswith("counting") and done >= 16:
        os.kill(os.getpid(), signal.SIGKILL)

kept(Path(sys.argv[1]), progress)
"""


def start(code, *arguments, **environment):
    path = ":".join(entry for entry in sys.path if entry)
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(
        command, env={"PYTHONPATH": path, **environment}, stdout=subprocess.PIPE, text=True
    )


def killed_run(folder):
    process = start(KILLED, folder)
    process.communicate()
    return process.returncode


def test_a_killed_run_goes_on_where_it_stood(tmp_path):
    assert killed_run(tmp_path) == -signal.SIGKILL
    chunks = sorted(path.name for path in tmp_path.glob("chunk-*.npz"))
    assert chunks == ["chunk-00000000.npz", "chunk-00000008.npz"]
    stages = []
    resumed = kept(tmp_path, lambda stage, done, total: stages.append(stage))
    assert "learning visual words" not in stages
    assert (resumed != visual_words.features(IMAGES, TRAIN, RECIPE)).nnz == 0


def test_finished_chunks_are_taken_as_they_are_and_damaged_ones_are_not(tmp_path):
    assert killed_run(tmp_path) == -signal.SIGKILL
    marked = {
        "columns": np.zeros(8, np.uint32),
        "counts": np.full(8, 9, np.uint16),
        "row_ends": np.arange(1, 9),
    }
    np.savez(tmp_path / "chunk-00000000.npz", **marked)
    (tmp_path / "chunk-00000008.npz").write_bytes(b"PK\x03\x04 cut short")
    resumed = kept(tmp_path)
    assert (resumed[:8].sum(axis=1) == 9).all()
    assert (resumed[8:] != visual_words.features(IMAGES, TRAIN, RECIPE)[8:]).nnz == 0


KILLED_SAVING = """
import os, signal, sys
from tests.datasets.test_visual_words import IMAGES, RECIPE, TRAIN, quiet
from mcf_cli.datasets.features import visual_words

def watch(event, arguments):
    if event == "os.rename" and "chunk-" in os.fspath(arguments[1]):
        os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(watch)
visual_words.cached_features(IMAGES, TRAIN, RECIPE, "data", quiet)
"""


def test_what_a_process_killed_while_saving_a_chunk_left_is_cleared(empty_home):
    process = start(KILLED_SAVING, MCF_DATA_HOME=str(empty_home))
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert len(list(empty_home.glob("derived/*/.chunk-*"))) == 1
    visual_words.cached_features(IMAGES, TRAIN, RECIPE, "data", quiet)
    names = sorted(path.name for path in empty_home.glob("derived/*/*"))
    assert names == [".partial", "counts.npz", "table.npz"]


def test_other_data_or_another_recipe_is_kept_apart(empty_home):
    for data_sha256, recipe in [("a", RECIPE), ("b", RECIPE), ("a", Recipe(words=8, side=5, patches=500))]:
        visual_words.cached_features(IMAGES, TRAIN, recipe, data_sha256, quiet)
    assert len(list((empty_home / "derived").iterdir())) == 3


COUNTED = """
from tests.datasets.test_visual_words import IMAGES, RECIPE, TRAIN
from mcf_cli.datasets.features import visual_words

calls = []
X = visual_words.cached_features(IMAGES, TRAIN, RECIPE, "data", lambda *call: calls.append(call))
print(len(calls), X.nnz, X.sum())
"""


def test_of_two_processes_one_does_the_work(empty_home):
    processes = [start(COUNTED, MCF_DATA_HOME=str(empty_home)) for _ in range(2)]
    (calls, *first), (other_calls, *second) = (process.communicate()[0].split() for process in processes)
    assert first == second
    assert int(calls) + int(other_calls) == RECIPE.rounds + 1
