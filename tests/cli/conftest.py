"""Commands are called as a user calls them, in an empty folder of a machine that has no data set yet."""

from dataclasses import dataclass

import pytest
from mcf_cli.cli.main import run_cli


@dataclass
class Result:
    code: int
    out: str
    err: str


@pytest.fixture
def mcf(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MCF_DATA_HOME", str(tmp_path / "data-home"))

    def call(*arguments: str) -> Result:
        try:
            run_cli([str(argument) for argument in arguments])
            code = 0
        except SystemExit as leaving:
            code = leaving.code or 0
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return call
