"""Disks that are full, read-only or in the way: one clear error, nothing lost, and the same command goes on."""

import resource
import subprocess

import pytest

from tests.faults.real_mcf import SWEEP, mcf, refused, results_in, store_in


def test_a_disk_that_fills_up_keeps_what_was_finished_and_room_lets_it_go_on(mounted, undisturbed):
    disk = mounted("size=28k")
    words = refused(mcf(*SWEEP, "--out", disk))
    assert "No space left" in words and "Make room" in words
    kept = store_in(disk).read_bytes().count(b"\n")
    assert 0 < kept < 40
    subprocess.run(["mount", "-o", "remount,size=8m", str(disk)], check=True)
    result = mcf(*SWEEP, "--out", disk)
    assert f"40 trials: {kept} done" in result.err
    assert results_in(disk) == undisturbed


def test_a_disk_that_is_read_only_is_one_clear_error(mounted):
    words = refused(mcf(*SWEEP, "--out", mounted("size=1m,ro") / "out"))
    assert "Read-only file system" in words and "choose another --out" in words


def test_a_file_that_may_not_grow_keeps_what_was_finished(tmp_path, undisturbed):
    def at_most_30_kilobytes_a_file() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))

    words = refused(mcf(*SWEEP, "--out", tmp_path, limits=at_most_30_kilobytes_a_file))
    assert "File too large" in words
    kept = store_in(tmp_path).read_bytes().count(b"\n")
    assert not list(tmp_path.rglob("*.part")), "half of a file was left behind"
    result = mcf(*SWEEP, "--out", tmp_path)
    assert f"40 trials: {kept} done" in result.err
    assert results_in(tmp_path) == undisturbed


@pytest.mark.parametrize("command", [SWEEP, ["train", "--q", "0.5", "--l2", "0.1"]], ids=["sweep-q", "train"])
def test_an_output_folder_that_cannot_be_made_is_one_clear_error(tmp_path, command):
    (tmp_path / "file").write_text("in the way")
    words = refused(mcf(*command, "--out", tmp_path / "file" / "out"))
    assert "Not a directory" in words and "choose another --out" in words
    assert (tmp_path / "file").read_text() == "in the way"
