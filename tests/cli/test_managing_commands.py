"""status, report, clean, config, completion, reproduce: and what happens when things go wrong."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from mcf_cli.cli.main import main
from mcf_cli.experiments.store import Store

ROOT = Path(__file__).parents[2]
ONE = ["sweep-q", "--dataset", "builtin-digits", "--loss", "quadratic", "--corruption", "blankout"]
ONE += ["--set", "select.l2=[0.01,0.1]", "--set", "select.by=holdout"]
FAILING = """\
item: failing
datasets: [builtin-digits]
evaluation: {protocol: learning-curve, sizes: [5, 60], test: 50}
grid: [{loss: quadratic, corruption: none}]
select: {l2: [0.1, 1], folds: 10}
"""


def test_a_failing_trial_is_shown_the_exit_code_is_1_and_status_remembers(mcf, tmp_path):
    config = tmp_path / "failing.yaml"
    config.write_text(FAILING)
    result = mcf("learning-curve", "--config", config)
    assert result.code == 1
    assert "10 folds need at least as many rows" in result.err
    assert "PARTIAL 1/2" in result.out
    status = mcf("status")
    assert status.code == 1
    assert "2 trials: 1 done, 1 failed, 0 missing" in status.out
    assert "10 folds need at least as many rows" in status.out
    again = mcf("learning-curve", "--config", config)
    assert again.code == 1
    assert "1 to run" in again.err


def test_tables_and_figures_of_rows_that_are_gone_go_too(mcf, tmp_path):
    config = tmp_path / "failing.yaml"
    config.write_text(FAILING)
    mcf("learning-curve", "--config", config)
    folder = tmp_path / "results" / "scratch" / "failing"
    assert (folder / "table.md").exists()
    result = mcf("learning-curve", "--config", config, "--sizes", "5")
    assert result.code == 1
    assert {path.name for path in folder.iterdir()} == {"rows.csv", "config.yaml", "environment.json"}
    assert "failing: config.yaml, environment.json, rows.csv" in result.out


COST = """\
item: cost
datasets: [builtin-digits]
evaluation: {protocol: cost}
grid: [{loss: quadratic, corruption: blankout, q: [0.2, 0.4]}]
"""


def test_a_dry_run_of_cost_knows_that_times_are_taken_one_at_a_time(mcf, tmp_path):
    (tmp_path / "cost.yaml").write_text(COST)
    (tmp_path / "here" / "cost").mkdir(parents=True)
    (tmp_path / "here/cost/rows.csv").write_text(
        "dataset,loss,status,seconds\nbuiltin-digits,logistic,ok,300\n"
    )
    result = mcf("reproduce", "--config", "cost.yaml", "--out", "here", "--jobs", "2", "--dry-run")
    assert "1 item, 2 trials: 0 done, 2 to run, about 10 min" in result.err
    assert "2 to run, about 10 min" in result.out


def test_make_writes_the_report_though_a_trial_failed(tmp_path):
    """The real Makefile in a folder with a config of its own; this checkout stands in for an installed mcf."""
    command = tmp_path / ".venv" / "bin" / "mcf"
    for folder in (tmp_path / "configs", command.parent):
        folder.mkdir(parents=True)
    (tmp_path / "configs" / "failing.yaml").write_text(FAILING)
    command.write_text(
        f'#!/bin/sh\n[ "$1" = reproduce ] && set -- "$@" --configs configs\nexec "{sys.executable}" -m mcf_cli "$@"\n'
    )
    command.chmod(0o755)
    for name in ("requirements.lock", ".venv/ready"):  # in this order, so that nothing is installed
        (tmp_path / name).touch()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    make = ["make", "-f", ROOT / "Makefile", "smoke"]
    made = subprocess.run(make, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert "10 folds need at least as many rows" in made.stderr
    assert made.returncode != 0
    assert "PARTIAL 1/2" in (tmp_path / "results" / "smoke" / "report.md").read_text()


def test_status_of_a_complete_run_is_0_and_report_rebuilds_its_files(mcf, tmp_path):
    mcf(*ONE, "--q", "0,0.5", "--out", "here")
    assert mcf("status", "--out", "here").code == 0
    folder = tmp_path / "here" / "sweep-q"
    before = {
        path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in (".csv", ".md", ".png")
    }
    for path in folder.iterdir():
        path.unlink()
    assert mcf("report", "--out", "here").code == 0
    assert {name: (folder / name).read_bytes() for name in before} == before


def test_report_knows_the_items_that_are_stored_or_lie_there_and_no_others(mcf, tmp_path):
    mcf(*ONE, "--q", "0.5", "--out", "here")
    misspelt = mcf("report", "swep-q", "--out", "here")
    assert misspelt.code == 2
    assert "here holds no item 'swep-q'; did you mean `sweep-q`?" in misspelt.err
    assert not (tmp_path / "here" / "report.md").exists()
    shutil.rmtree(tmp_path / "here" / ".cache")
    assert mcf("report", "sweep-q", "--out", "here").code == 0


def test_report_draws_items_without_a_store_from_their_own_files(mcf, tmp_path):
    mcf(*ONE, "--q", "0.3,0.5", "--out", "here")
    folder = tmp_path / "here" / "sweep-q"
    drawn = {name: (folder / name).read_bytes() for name in ("table.csv", "table.md", "figure.png")}
    shutil.rmtree(tmp_path / "here" / ".cache")
    for name in drawn:
        (folder / name).unlink()
    assert mcf("report", "--out", "here").code == 0
    assert {name: (folder / name).read_bytes() for name in drawn} == drawn


def test_clean_forgets_so_that_the_next_run_starts_anew(mcf):
    mcf(*ONE, "--q", "0.5")
    assert "1 done" in mcf(*ONE, "--q", "0.5", "--dry-run").out
    assert mcf("clean", "sweep", "--yes").code == 2
    assert mcf("clean", "sweep-q", "--yes").code == 0
    assert "0 done, 1 to run" in mcf(*ONE, "--q", "0.5", "--dry-run").out


def test_a_second_run_on_the_same_folder_is_refused(mcf, tmp_path):
    with Store(tmp_path / "here", "sweep-q").writing():
        result = mcf(*ONE, "--q", "0.5", "--out", "here")
    assert result.code == 2
    assert "is being written by process" in result.err
    assert mcf(*ONE, "--q", "0.5", "--out", "here").code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["sweep-q", "--config", "nowhere.yaml"], ["nowhere.yaml", "cannot be read"]),
        (["sweep-q", "--set", "selct.folds=3"], ["--set selct.folds=3", "`select`"]),
        (["sweep-q", "--q", "1.5"], ["--q", "[0, 1)"]),
        (["sweep-q", "--q", "much"], ["'much'", "0:0.9:0.1"]),
        (["sweep-q", "--dataset", "builtin-digit"], ["--dataset:", "builtin-digits"]),
        (["sweep-q", "--dataset", "nowhere.csv"], ["nowhere.csv"]),
        (["sweep-q", "--profile", "smok"], ["`smoke`"]),
        (["nightmare", "--deletion", "1"], ["--deletion: evaluation.deletion", "[0, 1)"]),
        (["bounds", "--lambda", "1"], ["--lambda: ", "[0, 1)"]),
        (["train", "--loss", "logistik"], ["--loss: ", "`logistic`"]),
        (["train", "--q", "1.5"], ["--q: ", "[0, 1)"]),
        (["sweep-q", "--scheduler", "tcp://127.0.0.1:9", "--engine", "serial"], ["--scheduler"]),
        (["train", "--dataset", "builtin-digits", "--dataset", "builtin-topics"], ["one model"]),
        (["reproduce", "fig33", "--configs", ROOT / "configs"], ["fig33", "`fig3`"]),
        (["reproduce", "fig1", "--config", "mine.yaml"], ["--config mine.yaml", "leave out fig1"]),
        (["predict", "--model", "nowhere.npz", "--data", "builtin-digits"], ["nowhere.npz", "mcf train"]),
    ],
    ids=lambda value: " ".join(map(str, value[:3])) if isinstance(value, list) else None,
)
def test_bad_usage_is_exit_code_2_and_at_most_two_lines_before_any_fit(arguments, words, mcf, tmp_path):
    result = mcf(*arguments)
    assert result.code == 2
    message = result.err.split("Error: ")[-1]
    assert message.count("\n") <= 2
    for word in words:
        assert word in message
    assert not (tmp_path / "results").exists()


def test_config_init_check_and_schema(mcf, tmp_path):
    assert mcf("config", "init", "start.yaml").code == 0
    assert mcf("config", "init", "start.yaml").code == 2
    checked = mcf("config", "check", "start.yaml")
    assert checked.code == 0
    assert "is valid: 33 trials" in checked.out
    assert "builtin-reviews exponential blankout q=0.3" in checked.out
    (tmp_path / "one.yaml").write_text(
        "item: one\ndatasets: [builtin-digits]\ngrid: [{loss: quadratic, corruption: none}]\n"
    )
    assert "is valid: 1 trial.\n" in mcf("config", "check", "one.yaml").out
    assert json.loads(mcf("config", "schema").out)["title"] == "Config"


CONFIGS = Path(__file__).parents[2] / "configs"


def test_every_paper_item_plans_in_every_profile(mcf):
    for profile in ("smoke", "quick", "paper"):
        result = mcf("reproduce", "--profile", profile, "--dry-run", "--allow-builtin")
        assert result.code == 0, result.err
        assert f"{len(list(CONFIGS.glob('*.yaml'))) - 1} items" in result.err, "all but the claims"


def test_reproduce_runs_the_items_it_is_asked_for(mcf, tmp_path):
    result = mcf("reproduce", "fig1", "loo", "--configs", ROOT / "configs", "--profile", "smoke")
    assert result.code == 0, result.err
    folder = tmp_path / "results" / "smoke"
    assert (folder / "fig1" / "figure.svg").exists()
    assert (folder / "loo" / "table.md").exists()


def test_the_shell_completes_commands(mcf):
    assert "_MCF_COMPLETE=bash_source mcf" in mcf("completion", "bash").out
    environment = {**os.environ, "_MCF_COMPLETE": "bash_complete", "COMP_WORDS": "mcf sw", "COMP_CWORD": "1"}
    code = "from mcf_cli.cli.main import main; main(prog_name='mcf')"
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert "sweep-q" in result.stdout


def test_ctrl_c_keeps_what_is_done_and_says_how_to_go_on(tmp_path):
    """The sweep would take far longer than the test: it ends because it is told to."""
    command = [
        sys.executable,
        "-m",
        "mcf_cli",
        "sweep-q",
        "--dataset",
        "builtin-topics",
        "--q",
        "0:0.99:0.001",
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(
            signal.SIGINT, signal.SIG_DFL
        ),  # ignored where the tests run in background
    )
    for line in process.stderr:
        if line.startswith("[1/"):
            break
    process.send_signal(signal.SIGINT)
    rest = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert "resume with: mcf sweep-q --dataset builtin-topics" in rest
    assert "Traceback" not in rest
    assert len(Store(tmp_path / "results/scratch", "sweep-q").records()) >= 1


def test_help_says_which_options_may_be_repeated():
    commands = [main.get_command(None, name) for name in main.list_commands(None)]
    commands += [sub for group in commands for sub in getattr(group, "commands", {}).values()]
    options = [
        option for command in commands for option in command.params if option.param_type_name == "option"
    ]
    repeated = [option for option in options if option.multiple]
    assert len(repeated) > 10
    assert all("may be repeated" in option.help for option in repeated)


@pytest.mark.parametrize("group", ["data", "config"])
def test_help_cuts_no_sentence_short(group, mcf):
    assert "..." not in mcf(group, "--help").out.replace("COMMAND [ARGS]...", "")


def test_help_imports_nothing_heavy():
    code = "import sys; from mcf_cli.cli.main import run_cli\ntry: run_cli(['--help'])\nexcept SystemExit: pass\n"
    code += "heavy = {'numpy', 'scipy', 'sklearn', 'pandas', 'matplotlib', 'pydantic', 'yaml', 'rich'}\n"
    code += "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_status_knows_items_that_came_without_their_store(mcf, tmp_path):
    mcf(*ONE, "--q", "0.5", "--out", "here")
    with_store = mcf("status", "--out", "here")
    shutil.rmtree(tmp_path / "here" / ".cache")
    without = mcf("status", "--out", "here")
    assert without.out == with_store.out and without.code == with_store.code == 0
    facts = tmp_path / "here" / "sweep-q" / "environment.json"
    facts.write_text(facts.read_text().replace('"expected": 1', '"expected": 3'))
    partly = mcf("status", "--out", "here")
    assert partly.code == 1 and "1 done, 0 failed, 2 missing" in partly.out
