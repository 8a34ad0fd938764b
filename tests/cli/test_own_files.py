"""Files of a user as they come: every command says how it read them, and refuses what it cannot read rightly."""

import csv
import io
import json
import re

import mcf_cli
import numpy as np
import pytest
from mcf_cli.datasets import load, names
from mcf_cli.errors import McfError
from mcf_cli.experiments.load import load_config

from tests.cli.process import done, mcf_in, refused

ROWS, COLUMNS = 24, ("length", "width", "weight")
X = np.random.default_rng(0).integers(0, 100, (ROWS, 3)) / 8 + 0.25
SORTS = np.where(X[:, 0] > np.median(X[:, 0]), "large", "small")
PRICE = np.round(3 * X[:, 0] - X[:, 1] + 2, 3)


def table(
    header=True, delimiter=",", decimal=".", index=None, columns=COLUMNS, label="sort", labels=SORTS, end="\n"
):
    """The same rows, written as programs write them; index: the name of a column that counts the rows."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator=end)
    first = [] if index is None else [index]
    if header:
        writer.writerow([*first, *columns, label])
    for number, (row, sort) in enumerate(zip(X, labels, strict=True)):
        cells = ["" if np.isnan(value) else f"{value}".replace(".", decimal) for value in row]
        writer.writerow([*([number] if first else []), *cells, f"{sort}".replace(".", decimal)])
    return text.getvalue()


FILES = {  # name: (its text, how it is understood)
    "plain.csv": (table(), "label column `sort`: 2 classes"),
    "bom.csv": ("\ufeff" + table(end="\r\n"), "label column `sort`: 2 classes"),
    "quoted.csv": (
        table().replace("large", '"large"').replace("width", '"width"'),
        "label column `sort`: 2 classes",
    ),
    "tabs.tsv": (table(delimiter="\t"), "label column `sort`: 2 classes; separated by tabs"),
    "commas.csv": (
        table(delimiter=";", decimal=","),
        "label column `sort`: 2 classes; separated by semicolons; decimal commas",
    ),
    "headless.csv": (table(header=False), "label column 4 (the last): 2 classes; no header"),
    "numbered.csv": (
        table(columns="012", label="3"),
        "label column `3`: 2 classes; first line taken as a header, though it holds numbers",
    ),
    "pandas.csv": (table(index=""), "label column `sort`: 2 classes; index column 1 left out"),
    "id.csv": (table(index="ID"), "label column `sort`: 2 classes; index column `ID` left out"),
    "bare.csv": (
        table(header=False, index=""),
        "label column 5 (the last): 2 classes; no header; index column 1 left out",
    ),
    "trailing.csv": (table().replace("\n", ",\n"), "label column `sort`: 2 classes; empty column 5 left out"),
}


@pytest.fixture
def folder(tmp_path):
    for name, (text, _) in FILES.items():
        (tmp_path / name).write_bytes(text.encode())
    (tmp_path / "price.csv").write_text(table(label="price", labels=PRICE))
    return tmp_path


def test_however_a_file_is_written_the_same_rows_are_read_and_the_reading_is_said(folder):
    files = [word for name in FILES for word in ("--dataset", name)]
    said = done(mcf_in(folder, "sweep-q", "--dry-run", *files)).stderr.splitlines()
    for name, (_, understood) in FILES.items():
        assert f"Data: {name} (your data): 24 rows, 3 features, {understood}." in said
        data = load(str(folder / name))
        assert np.array_equal(data.X, X), name
        assert [data.class_names[code] for code in data.y] == SORTS.tolist(), name


def test_missing_cells_are_counted_by_column_and_stay_missing(folder):
    text = table().splitlines()
    for line, cell in [(3, ""), (5, "NA"), (6, "nan"), (9, "?")]:
        text[line] = ",".join([*text[line].split(",")[:1], cell, *text[line].split(",")[2:]])
    (folder / "gaps.csv").write_text("\n".join(text))
    told = done(mcf_in(folder, "data", "info", "gaps.csv")).stdout
    assert "label column `sort`: 2 classes; 4 missing cells in 1 column (`width`: 4)" in " ".join(
        told.split()
    )
    data = load(str(folder / "gaps.csv"))
    assert np.flatnonzero(np.isnan(data.X[:, 1])).tolist() == [2, 4, 5, 8]
    assert data.missing.tolist() == [0, 4, 0]


def own(tmp_path, text):
    (tmp_path / "own.csv").write_text(text)
    return str(tmp_path / "own.csv")


def test_numbers_to_predict_and_columns_of_words_are_refused_before_anything_is_written(tmp_path):
    own(tmp_path, table(label="price", labels=PRICE))
    said = refused(mcf_in(tmp_path, "train", "--dataset", "own.csv"))
    assert "label column `price`: 24 different values in 24 rows" in said and "--task regression" in said
    own(tmp_path, table())
    said = refused(mcf_in(tmp_path, "train", "--dataset", "own.csv", "--label", "weight"))
    assert "column `sort` holds text ('" in said and "--label 'sort'" in said
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (table(label="price", labels=range(ROWS)), "24 different values in 24 rows"),
        (table(labels=[f"row {k}" for k in range(ROWS)]), "too many to be classes"),
        (table(delimiter=";").replace(".25;", ",25;"), "decimal points and with commas"),
        (table(columns=("a", "b", "a")), "two columns called 'a'"),
        (
            table().replace("length,width", "length,1990"),
            "line 1: 'length' looks like a header and '1990' like",
        ),
        (table() + "1,2,3,\n", "line 26: its label is missing"),
        (table(labels=[0, 1] * 12) + "1,2,3,NA\n", "line 26: its label is missing"),
    ],
    ids=["counts", "names", "points and commas", "twice", "header or not", "no label", "not a number"],
)
def test_what_cannot_be_read_rightly_is_refused(text, message, tmp_path):
    with pytest.raises(McfError) as error:
        load(own(tmp_path, text))
    assert message in str(error.value)


def test_a_comma_that_may_part_thousands_is_refused(tmp_path):
    with pytest.raises(McfError, match="'1,250' could be a decimal"):
        load(own(tmp_path, "a;b;sort\n1,250;2;x\n2,500;3;y\n4,125;1;x\n"))
    certain = own(tmp_path, "a;b;sort\n1,250;2;x\n2,500;3;y\n4,12;1;x\n")
    assert load(certain).X[:, 0].tolist() == [1.25, 2.5, 4.12]


def test_numbers_to_predict_are_no_classes_in_any_format(tmp_path):
    np.savez(tmp_path / "own.npz", X=X, y=PRICE)
    lines = [f"{y} 1:{row[0]} 2:{row[1]}" for row, y in zip(X, PRICE, strict=True)]
    (tmp_path / "own.svmlight").write_text("\n".join(lines))
    for name in ("own.npz", "own.svmlight"):
        with pytest.raises(McfError, match="too many to be classes"):
            load(str(tmp_path / name))
        assert np.allclose(load(str(tmp_path / name), task="regression").y, PRICE)


def test_the_same_number_written_twice_is_one_class(tmp_path):
    data = load(own(tmp_path, table(labels=["1", "0", "1.0", "0.0"] * 6)))
    assert data.class_names == ("0", "1")
    assert "1 and 1.0" in data.notes[0] or "0 and 0.0" in data.notes[0]


def test_a_test_file_is_matched_by_name_and_gives_the_test_rows(folder):
    order = (2, 0, 1)
    rows = [
        ",".join([str(label), *(str(row[k]) for k in order)])
        for row, label in zip(X[:9], SORTS[:9], strict=True)
    ]
    (folder / "later.csv").write_text("\n".join([",".join(["sort", *(COLUMNS[k] for k in order)]), *rows]))
    command = ["train", "--dataset", "plain.csv", "--test", "later.csv", "--q", "0.1", "--l2", "0.001"]
    told = done(mcf_in(folder, *command)).stderr
    assert "24 rows and 9 test rows (later.csv), 3 features, label column `sort`: 2 classes" in told
    data = load(str(folder / "plain.csv"), test=str(folder / "later.csv"))
    assert np.array_equal(data.X, np.vstack([X, X[:9]]))
    metrics = json.loads(next(folder.glob("results/scratch/*/metrics.json")).read_text())
    assert metrics["rows"] == {"train": 24, "test": 9}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sort,length,width\nlarge,1,2\n", "has no column 'weight'"),
        ("sort,length,width,weight,age\nlarge,1,2,3,4\n", "unexpected columns: 'age'"),
        ("length,width,weight\n1,2,3\n", "holds no labels"),
        (table(header=False), "has a header"),
    ],
)
def test_a_test_file_of_other_columns_is_refused(text, message, folder):
    (folder / "other.csv").write_text(text)
    with pytest.raises(McfError, match=message):
        load(str(folder / "plain.csv"), test=str(folder / "other.csv"))


def test_the_label_is_named_or_counted_from_1(folder):
    (folder / "front.csv").write_text("\n".join(",".join(line.split(",")[::-1]) for line in table().split()))
    told = done(mcf_in(folder, "data", "info", "front.csv", "--label", "1")).stdout
    assert "label column `sort`: 2 classes" in " ".join(told.split())
    for label in ("sort", "1", "first", 0, -4):
        assert load(str(folder / "front.csv"), label=label).feature_names == COLUMNS[::-1]
    bare = own(folder, table(header=False))
    assert load(bare, label="4").class_names == load(bare, label="last").class_names == ("large", "small")
    with pytest.raises(McfError, match="no column 'wait': choose the label among 'length"):
        load(str(folder / "plain.csv"), label="wait")


def test_numbers_are_predicted_from_the_command_line(folder):
    level = ["--corruption", "gaussian", "--set", "select.sigma=0.01", "--l2", "0,1.0e-4"]
    told = done(mcf_in(folder, "train", "--dataset", "price.csv", "--task", "regression", "--json", *level))
    assert "label column `price`: numbers from" in told.stderr
    metrics = json.loads(told.stdout)
    assert metrics["test_r2"] > 0.999 and 0 < metrics["test_mse"] < 0.01 * np.var(PRICE)
    model = mcf_cli.load(folder / metrics["model"])
    assert isinstance(model, mcf_cli.MCFRegressor) and np.allclose(model.coef_, [3, -1, 0], atol=0.01)
    result = done(mcf_in(folder, "predict", "--model", metrics["model"], "--data", "price.csv"))
    answers = [float(row["prediction"]) for row in csv.DictReader(io.StringIO(result.stdout))]
    assert np.allclose(answers, PRICE, atol=0.1)
    assert re.search(r"mean squared error .*, R2 1\.000 against the labels in price\.csv", result.stderr)


def test_a_config_names_the_task_and_commands_that_compare_classes_refuse_it(folder):
    config = {
        "item": "numbers",
        "task": "regression",
        "datasets": ["price.csv"],
        "grid": [{"loss": "quadratic"}],
    }
    (folder / "numbers.yaml").write_text(json.dumps(config))
    assert "label column `price`: numbers" in done(mcf_in(folder, "config", "check", "numbers.yaml")).stderr
    assert "fitted by `mcf train`" in refused(mcf_in(folder, "sweep-q", "--config", "numbers.yaml"))
    for wrong in ({"grid": [{"loss": "logistic"}]}, {"evaluation": {"protocol": "cv"}}):
        with pytest.raises(McfError, match="regression"):
            load_config(config | wrong)


def test_flags_for_own_files_are_refused_elsewhere(tmp_path):
    assert "file of your own" in refused(mcf_in(tmp_path, "train", "--label", "sort"))
    said = refused(mcf_in(tmp_path, "train", "--task", "regression"))
    assert "builtin-reviews holds classes" in said


def test_data_list_names_all_that_dataset_takes(tmp_path):
    listed = done(mcf_in(tmp_path, "data", "list")).stdout
    offered = re.findall(r"[\w-]+", " ".join(re.findall(r"--dataset ([\w, -]+)", listed)))
    assert set(names()) <= set(offered)
    records = json.loads(done(mcf_in(tmp_path, "data", "list", "--json")).stdout)
    assert sorted(name for record in records for name in record["names"]) == sorted(names())
