"""Two runs, side by side: decided verdicts that change are named."""

import pytest
from benchmarks.verdicts import main


def claims(folder, name, **verdicts):
    path = folder / name
    path.write_text("id,verdict\n" + "".join(f"{claim},{word}\n" for claim, word in verdicts.items()))
    return str(path)


def test_claims_that_a_run_decides_and_the_other_does_not_are_named(tmp_path, capsys):
    first = claims(tmp_path, "a.csv", kept="holds", turned="holds", lost="differs", open="undecided")
    second = claims(tmp_path, "b.csv", kept="holds", turned="differs", open="not run", new="stronger")
    assert main([first, second]) == 1
    shown = capsys.readouterr().out
    assert "turned: holds, then differs" in shown and "lost: differs, then absent" in shown
    assert "new: absent, then stronger" in shown and "3 of the decided claims changed" in shown
    assert "kept" not in shown and "open" not in shown
    assert main([first, second, "--allow", "3"]) == 0


def test_a_file_that_is_not_there_is_a_usage_error(tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([claims(tmp_path, "a.csv"), str(tmp_path / "none.csv")])
    assert stopped.value.code == 2 and "no file" in capsys.readouterr().err
