"""Files and names of strangers cannot run anything, escape anywhere or leak anything."""

import ast
import base64
import html.parser
import io
import json
import re
import zipfile
from pathlib import Path

import mcf_cli
import numpy as np
import pytest
from mcf_cli.cli.main import run_cli
from mcf_cli.experiments.run import RunProgress
from mcf_cli.experiments.trial import Trial
from mcf_cli.progress import TrialBar, columns

from tests.datasets.faulty_server import Server

ROOT = Path(__file__).parents[1] / "mcf_cli"
MODULES = sorted(ROOT.rglob("*.py"))
FORBIDDEN_IMPORTS = {"pickle", "cPickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "xml.etree"}
FORBIDDEN_CALLS = {
    *("eval", "exec", "compile", "__import__", "os.system", "os.popen", "yaml.load", "yaml.full_load"),
    *("yaml.unsafe_load", "yaml.load_all", "joblib.load", "joblib.dump", "scipy.io.loadmat"),
    *("pd.read_pickle", "tempfile.mktemp", "Markup", "markupsafe.Markup"),
}


def dangers(source: str) -> set[str]:
    """What in a piece of code could run or unpack what a stranger wrote."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                found |= {alias.name for alias in names} & FORBIDDEN_IMPORTS
            case ast.ImportFrom(module=module, names=names):
                found |= {str(module), *(f"{module}.{alias.name}" for alias in names)} & (
                    FORBIDDEN_IMPORTS | FORBIDDEN_CALLS
                )
            case ast.Call(func=function, keywords=keywords):
                name = ast.unparse(function)
                found |= {name} & FORBIDDEN_CALLS
                if name.endswith("Environment") and "autoescape" not in {keyword.arg for keyword in keywords}:
                    found.add("autoescape=False")
                found |= {"extract"} if name.rsplit(".", 1)[-1] in ("extractall", "extract") else set()
                for keyword in keywords:
                    given = f"{keyword.arg}={ast.unparse(keyword.value)}"
                    found |= {given} & {"shell=True", "allow_pickle=True", "autoescape=False"}
                    if keyword.arg == "Loader" and given != "Loader=yaml.SafeLoader":
                        found.add(given)
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_is_unpickled_evaluated_or_extracted(path):
    assert dangers(path.read_text()) == set()


@pytest.mark.parametrize(
    "code",
    [
        *(
            "import pickle",
            "from pickle import loads",
            "eval('1')",
            "yaml.load(f)",
            "np.load(f, allow_pickle=True)",
        ),
        *("from scipy.io import loadmat", "subprocess.run(c, shell=True)", "archive.extractall(p)"),
        *("yaml.parse(t, Loader=yaml.Loader)", "np.savez(f, allow_pickle=True)"),
        *("jinja2.Environment(loader=l)", "Environment(autoescape=False)"),
    ],
)
def test_the_check_above_finds_what_it_looks_for(code):
    assert dangers(code.replace("from scipy.io import loadmat", "import scipy.io\nscipy.io.loadmat(f)"))


def test_no_template_switches_escaping_off():
    for path in (ROOT / "reporting" / "templates").iterdir():
        assert not re.search(r"\|\s*safe\b|autoescape\s+false", path.read_text()), path


@pytest.fixture
def mcf(tmp_path, monkeypatch, capsys):
    """The command in an empty folder: its exit code and all that it said."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MCF_DATA_HOME", str(tmp_path / "data-home"))

    def call(*arguments: object) -> tuple[int, str]:
        with pytest.raises(SystemExit) as leaving:
            run_cli([str(argument) for argument in arguments])
        return leaving.value.code or 0, "".join(capsys.readouterr())

    return call


class Tags(html.parser.HTMLParser):
    """The tags of a page and the names of their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.images: list[str] = []
        self.scripts = 0
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.scripts += tag == "script"
        self.attributes |= {name for name, _ in attributes}
        self.images += [value for name, value in attributes if name == "src"]


SCRIPT = "<script>alert(1)</script>"
LINK = "` [here](javascript:alert(2))"
EVIL_FILE = (
    r"<img src=x onerror=alert(1)> [b] [bold] $\frac{$ {{7*7}} %s.csv"  # a slash cannot stand in a name
)


def harmless(text: str) -> None:
    page = Tags(text)
    assert not page.tags & {"iframe", "object", "embed"}
    assert page.scripts <= 3 and SCRIPT not in text, "more than the numbers, the library and our own"
    assert not [name for name in page.attributes if name.startswith("on")]


def test_data_columns_classes_and_titles_of_any_name_are_harmless_from_run_to_report(mcf, tmp_path):
    lines = [f"{k % 7},{k % 3},{SCRIPT if k % 7 > 3 else '[/red] $_^$'}" for k in range(60)]
    (tmp_path / EVIL_FILE).write_text(f"{SCRIPT},b,label\n" + "\n".join(lines) + "\n")
    small = ["--set", "select.l2=[0.1]", "--set", f"title={json.dumps(SCRIPT + '[/b] $_$' + LINK)}"]
    code, said = mcf(
        "sweep-q", "--dataset", EVIL_FILE, "--q", "0,0.5", "--loss", "quadratic", *small, "--out", "r"
    )
    assert code == 0, said
    assert mcf("data", "info", EVIL_FILE, "--plot", "r/picture.svg")[0] == 0
    assert mcf("report", "--out", "r")[0] == 0
    report = (tmp_path / "r" / "report.html").read_text()
    harmless(report)
    assert "alert(1)" in report, "the names are shown, as text"
    for picture in [p for p in Tags(report).images if p.startswith("data:image/svg")]:
        harmless(base64.b64decode(picture.partition(",")[2]).decode())
    for path in (tmp_path / "r").rglob("*.svg"):
        harmless(path.read_text())
    for path in (tmp_path / "r").rglob("*.md"):
        harmless(path.read_text())
        assert "](javascript" not in path.read_text()
    assert "javascript:alert(2)" in (tmp_path / "r" / "report.md").read_text()


def test_a_name_that_looks_like_markup_does_not_stop_the_progress_bar():
    from rich.console import Console
    from rich.progress import Progress as Display

    trial = Trial({"protocol": "split", "dataset": "[/b] [red]", "method": {"loss": "quadratic"}}, {}, "user")
    screen = io.StringIO()
    with Display(*columns(200), console=Console(file=screen, force_terminal=True, width=200)) as display:
        bar = TrialBar(display, 1)
        bar.started(RunProgress(1, 0, 0), [trial])
        bar.finished(trial, {"status": "failed", "reason": "[/i] of course"})
    assert "[/b] [red]" in screen.getvalue() and "[/i] of course" in screen.getvalue()


def model_file(path: Path, header: object, **arrays: np.ndarray) -> Path:
    np.savez(path, header=np.array(header if isinstance(header, str) else json.dumps(header)), **arrays)
    return path


def header_of(**changes: object) -> dict:
    """The header of a sound model, with changes."""
    sound = {"format": "mcf-model", "version": 1, "model": "MCFClassifier", "parameters": {}, "fitted": {}}
    return {**sound, "fitted": {"n_features_in_": 2}, **changes}


WEIGHTS = {"coef_": np.ones((1, 2)), "intercept_": np.zeros(1), "classes_": np.array([0, 1])}


def test_a_model_file_that_is_sound_is_read(tmp_path):
    model = mcf_cli.load(model_file(tmp_path / "m.npz", header_of(), **WEIGHTS))
    assert model.predict(np.ones((1, 2))) == [1]


@pytest.mark.parametrize(
    ("header", "arrays"),
    [
        (header_of(model="os.system"), WEIGHTS),
        (header_of(model="__class__"), WEIGHTS),
        (header_of(parameters={"corruption": {"corruption": "subprocess.Popen", "parameters": {}}}), WEIGHTS),
        (header_of(parameters={"corruption": {"array": "../../etc/passwd"}}), WEIGHTS),
        (header_of(parameters={"unknown": 1}), WEIGHTS),
        (header_of(fitted={"n_features_in_": 10**12}), WEIGHTS),
        ("[" * 100_000, WEIGHTS),
        ("1" * 10_000, WEIGHTS),
        (header_of(), {**WEIGHTS, "coef_": np.full((1, 2), np.nan)}),
        (header_of(), {**WEIGHTS, "coef_": np.array([["a", "b"]])}),
        (header_of(), {**WEIGHTS, "coef_": np.array([[{}, {}]])}),
        (header_of(), {**WEIGHTS, "classes_": np.array([0, 1, 2, 3])}),
        (header_of(), {**WEIGHTS, "classes_": np.array([[0], [1]])}),
        (header_of(), {**WEIGHTS, "coef_": np.ones(2)}),
        (header_of(), {**WEIGHTS, "coef_": np.ones((1, 1, 2))}),
        (header_of(), {**WEIGHTS, "intercept_": np.zeros((1, 1))}),
        (header_of(), {**WEIGHTS, "intercept_": np.array(["x"])}),
        (header_of(model="MCFRegressor"), {"coef_": np.ones((1, 1, 2)), "intercept_": np.zeros((1, 1))}),
        (header_of(model="MCFRegressor"), {"coef_": np.ones(2), "intercept_": np.zeros(1)}),
        (header_of(), {}),
    ],
)
def test_a_model_file_that_is_not_is_refused_in_a_line(tmp_path, header, arrays):
    path = model_file(tmp_path / "m.npz", header, **arrays)
    with pytest.raises(ValueError, match="is not a model file of mcf") as refusal:
        mcf_cli.load(path)
    assert len(str(refusal.value)) < 600


def test_a_model_file_sets_nothing_but_what_a_model_has(tmp_path):
    fitted = {"n_features_in_": 2, "predict": "spoilt", "__class__": "spoilt", "fit": 3}
    model = mcf_cli.load(model_file(tmp_path / "m.npz", header_of(fitted=fitted), **WEIGHTS, save=np.ones(2)))
    assert callable(model.predict) and callable(model.fit) and callable(model.save)
    assert type(model) is mcf_cli.MCFClassifier


def test_a_model_file_that_unpacks_to_a_million_times_its_size_is_not_unpacked(tmp_path):
    bomb = tmp_path / "bomb.npz"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.npy", bytes(50_000_000))
    assert bomb.stat().st_size < 100_000
    with pytest.raises(ValueError, match="unsupported compression"):
        mcf_cli.load(bomb)


SECRETS = {
    "AWS_SECRET_ACCESS_KEY": "s3cr3t-aws",
    "GITHUB_TOKEN": "ghp_s3cr3t",
    "DATABASE_URL": "postgres://me:s3cr3t-db@host/",
    "HTTPS_PROXY": "http://me:s3cr3t-proxy@127.0.0.1:9",
}


def everything_below(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_results_hold_no_secret_of_the_environment(mcf, tmp_path, monkeypatch):
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    code, said = mcf("sweep-q", "--q", "0.5", "--loss", "quadratic", "--set", "select.l2=[0.1]", "--out", "r")
    assert code == 0, said
    assert mcf("report", "--out", "r")[0] == 0
    assert (tmp_path / "r" / "sweep-q" / "environment.json").exists()
    assert b"s3cr3t" not in everything_below(tmp_path) and "s3cr3t" not in said


def test_the_password_of_a_mirror_is_neither_kept_nor_shown(mcf, tmp_path, monkeypatch):
    server = Server()
    dump = b"<RDF>" + b'<ExternalPage about="x"><topic>Top/A</topic></ExternalPage>' * 9 + b"</RDF>"
    server.serve("/dmoz/content.rdf.u8", dump)
    monkeypatch.setenv("MCF_MIRROR", server.url.replace("//", "//me:s3cr3t@"))
    try:
        said = [mcf_says(mcf, "data", "get", "dmoz", "--form", "rdf", "--from", "mirror")]
        said.append(mcf_says(mcf, "data", "list"))
        said.append(mcf_says(mcf, "data", "get", "splice", "--from", "mirror"))
    finally:
        server.close()
    assert "dmoz: rdf" in said[0] and "splice" in said[2]
    assert "s3cr3t" not in "".join(said)
    assert b"s3cr3t" not in everything_below(tmp_path)


def test_what_a_mirror_sends_is_not_used_before_it_is_verified(mcf, tmp_path, monkeypatch):
    server = Server()
    server.serve("/splice/splice.data", b"EI, A, " + b"ACGTA" * 12 + b"\n")
    monkeypatch.setenv("MCF_MIRROR", server.url)
    try:
        said = mcf_says(mcf, "data", "get", "splice", "--from", "mirror")
    finally:
        server.close()
    assert "wrong checksum" in said
    assert not list((tmp_path / "data-home").rglob("splice.data*"))


def mcf_says(mcf, *arguments: str) -> str:
    return mcf(*arguments)[1]
