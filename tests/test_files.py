"""How much memory there is, from what size on files go through chunks, and arrays that do not fit."""

import errno
import os
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from mcf_cli.datasets.store import verify
from mcf_cli.errors import McfError, RunError, shown_bytes
from mcf_cli.files import (
    CHUNKS_ABOVE,
    cgroup_limits,
    chunks_above,
    disk_explained,
    memory,
    read_arrays,
    refuse_own_input,
)


def test_the_tightest_control_group_counts(tmp_path):
    """Version 2: the process's own group has no limit, the one above it has."""
    (tmp_path / "groups").write_text("0::/user/session\n")
    (tmp_path / "root/user/session").mkdir(parents=True)
    (tmp_path / "root/user/session/memory.max").write_text("max\n")
    (tmp_path / "root/user/memory.max").write_text("5000000\n")
    assert cgroup_limits(tmp_path / "groups", tmp_path / "root") == [5_000_000]


def test_control_groups_of_the_first_version(tmp_path):
    (tmp_path / "groups").write_text("5:cpu,cpuacct:/x\n4:memory:/x\n0::/\n")
    (tmp_path / "root/memory/x").mkdir(parents=True)
    (tmp_path / "root/memory/x/memory.limit_in_bytes").write_text("7000\n")
    assert cgroup_limits(tmp_path / "groups", tmp_path / "root") == [7000]
    assert cgroup_limits(tmp_path / "nothing", tmp_path / "root") == []


def test_a_limited_process_knows_its_limit():
    code = "import resource; resource.setrlimit(resource.RLIMIT_AS, (3 * 10**9, -1)); "
    code += "from mcf_cli.files import memory; print(memory())"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(run.stdout) == min(3 * 10**9, memory())


@pytest.mark.parametrize(
    ("text", "size"), [("0", 0), ("1500", 1500), ("1.5kB", 1500), ("2m", 2e6), ("3 GB", 3e9)]
)
def test_the_size_can_be_said(monkeypatch, text, size):
    monkeypatch.setenv(CHUNKS_ABOVE, text)
    assert chunks_above() == size


def test_the_size_is_a_share_of_memory(monkeypatch):
    monkeypatch.setenv(CHUNKS_ABOVE, "50%")
    assert chunks_above() == memory() // 2
    monkeypatch.setenv(CHUNKS_ABOVE, "lots")
    with pytest.raises(McfError, match=r"expected a size or a share of memory, as in 500MB or 2%"):
        chunks_above()
    monkeypatch.delenv(CHUNKS_ABOVE)
    assert 0 < chunks_above() < 0.1 * memory()


def test_sizes_are_said_in_words():
    assert [shown_bytes(size) for size in (12, 1234, 999e6, 25e9, 4e15)] == [
        "12 bytes", "1.2 kB", "999 MB", "25.0 GB", "4000 TB",
    ]  # fmt: skip


def test_an_npz_file_that_unpacks_to_more_than_memory_is_refused_by_its_size(tmp_path):
    """Zeros pack 1,000 to 1: 4 MB of file claim 0.9 GB of array, in a process that may take 0.8 GB."""
    path = tmp_path / "zeros.npz"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("X.npy", "w") as member,
    ):
        np.lib.format.write_array_header_1_0(
            member, {"descr": "<f8", "fortran_order": False, "shape": (112_500, 1000)}
        )
        for _ in range(900):
            member.write(bytes(10**6))
    assert os.path.getsize(path) < 8e6
    code = "import resource; resource.setrlimit(resource.RLIMIT_AS, (8 * 10**8, -1)); "
    code += f"from mcf_cli.files import read_arrays; read_arrays({str(path)!r})"
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert "ValueError: its arrays take 900 MB, and there is 800 MB of memory" in run.stderr
    np.savez(tmp_path / "small.npz", X=np.ones(3))
    assert read_arrays(tmp_path / "small.npz")["X"].sum() == 3


def test_a_full_disk_is_explained_with_what_to_do(tmp_path, monkeypatch):
    """A run can go on with another --out; data has its own folder, and nothing of a run is at stake."""
    monkeypatch.setenv("MCF_DATA_HOME", str(tmp_path / "home"))
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(RunError) as of_a_run, disk_explained(tmp_path):
        raise full
    assert "No space left on device.\nMake room or choose another --out" in str(of_a_run.value)
    with pytest.raises(McfError) as of_data, verify.home_explained():
        raise full
    assert "home: No space left on device.\nMake room there, or set MCF_DATA_HOME" in str(of_data.value)
    assert (of_a_run.value.exit_code, of_data.value.exit_code) == (1, 2)


def test_an_output_is_known_as_an_input_by_any_path_to_it(tmp_path):
    (tmp_path / "rows.csv").write_text("a,label\n1,x\n")
    (tmp_path / "link.csv").symlink_to(tmp_path / "rows.csv")
    for name in ("rows.csv", "./rows.csv", "missing/../rows.csv", "link.csv"):
        with pytest.raises(McfError, match="is an input of this command"):
            refuse_own_input("--out", tmp_path / name, tmp_path / "rows.csv")
    refuse_own_input("--out", tmp_path / "missing/rows.csv", tmp_path / "rows.csv")
