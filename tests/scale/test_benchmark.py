"""The benchmark of scale does at a thousandth what it does at full size."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(*options):
    command = [sys.executable, "-m", "benchmarks.scale", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_the_big_fit_ends_within_its_memory_and_finds_its_chunks_again(tmp_path):
    first, second = (run("--big", "--share", "0.001", "--folder", str(tmp_path)) for _ in range(2))
    assert "wrote 1,000 of 1,000 documents" in first
    assert "found in" in second
    for said in (first, second):
        assert "converged: True" in said
        assert "met)" in said.splitlines()[-1]


def test_the_table_has_a_row_for_each_size():
    said = run("--most", "1e3", "--rounds", "1")
    sizes = [line.split()[:2] for line in said.splitlines() if line.lstrip()[:1].isdigit()]
    assert sizes == [["1,000", "100,000"], ["10,000", "1,000"]]


def test_the_peaks_of_the_commands_are_measured_within_their_bound():
    """Half a megabyte of text goes through chunks in each of the four commands; the program itself sets the peak."""
    command = [sys.executable, "-m", "benchmarks.largefile", "--megabytes", "0.5", "--only", "predict"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    said = [line.split(":")[0].strip() for line in done.stdout.splitlines() if "times the file" in line]
    assert said == ["train", "predict"]
    assert "is read in chunks on disk" in done.stderr
