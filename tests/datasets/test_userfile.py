import gzip
import io
import lzma
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
from mcf_cli.datasets import load
from mcf_cli.datasets.userfile import file_format, read_examples
from mcf_cli.errors import McfError
from sklearn.datasets import dump_svmlight_file

X = np.array([[0.0, 2.5, 0.0], [1.0, 0.0, -3.0], [0.0, 0.0, 4.0], [5.0, 0.0, 0.0]])
Y = np.array([1, -1, 1, -1])


def dense(matrix):
    return matrix.toarray() if sp.issparse(matrix) else matrix


@pytest.mark.parametrize("zero_based", [True, False])
def test_svmlight_written_by_scikit_learn_comes_back(tmp_path, zero_based):
    path = tmp_path / "data.svmlight"
    dump_svmlight_file(X, Y, str(path), zero_based=zero_based)
    data = load(str(path))
    assert np.array_equal(dense(data.X), X)
    assert data.class_names == ("-1", "1")
    assert np.array_equal(data.y, (Y > 0).astype(int))
    assert data.source == "user"


@pytest.mark.parametrize(("suffix", "pack"), [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress)])
def test_compressed_text_reads_like_plain_text(tmp_path, suffix, pack):
    path = tmp_path / f"data.svm{suffix}"
    path.write_bytes(pack(b"# a comment\n+1 qid:3 0:1 2:3 # good\n\n-1.0 1:2.5\n"))
    data = load(str(path))
    assert np.array_equal(dense(data.X), [[1, 0, 3], [0, 2.5, 0]])
    assert data.class_names == ("-1", "1")


def test_training_and_test_files_agree_on_their_columns(tmp_path):
    (tmp_path / "train.svm").write_text("1 1:1\n2 3:1\n")
    (tmp_path / "test.svm").write_text("2 5:1\n")
    data = load(str(tmp_path / "train.svm"), test=str(tmp_path / "test.svm"))
    assert data.X.shape == (3, 5)
    train, test = data.splits["predefined"]
    assert (list(train), list(test)) == ([0, 1], [2])


def test_a_model_can_ask_for_its_own_width(tmp_path):
    path = tmp_path / "new.svm"
    path.write_text("0 1:1\n")
    (examples,) = read_examples([path], zero_based=False, n_columns=7)
    assert examples.X.shape == (1, 7)
    assert examples.X[0, 0] == 1
    path.write_text("0 9:1\n")
    with pytest.raises(McfError, match="has a column 9 where 7 columns are expected"):
        read_examples([path], zero_based=False, n_columns=7)


def test_csv_takes_the_label_by_name_number_or_custom(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text('class,"a, b",c\nred,1,2\nblue,3,-4e1\n"red",0,0\n')
    data = load(str(path))
    assert data.class_names == ("blue", "red")
    assert data.feature_names == ("a, b", "c")
    assert np.array_equal(data.X, [[1, 2], [3, -40], [0, 0]])
    path.write_text("x,y2,z\n1,2,3\n4,5,6\n")
    assert load(str(path)).class_names == ("3", "6")
    assert load(str(path), label="x").class_names == ("1", "4")
    assert load(str(path), label=1).class_names == ("2", "5")


def test_a_csv_of_a_models_width_has_no_labels(tmp_path):
    path = tmp_path / "new.csv"
    path.write_text("a,b\n1,2\n3,4\n")
    (examples,) = read_examples([path], n_columns=2)
    assert examples.labels is None
    assert np.array_equal(examples.X, [[1, 2], [3, 4]])
    (examples,) = read_examples([path], n_columns=1)
    assert examples.labels == ["2", "4"]


def test_csv_without_a_header_is_data_from_the_first_line(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("1,2,0\n3,4,1\n")
    data = load(str(path))
    assert np.array_equal(data.X, [[1, 2], [3, 4]])
    assert data.feature_names is None


def test_npz_dense_and_sparse(tmp_path):
    np.savez(tmp_path / "dense.npz", X=X, y=Y)
    matrix = sp.csr_matrix(X)
    parts = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr, "shape": matrix.shape}
    np.savez_compressed(tmp_path / "sparse.npz", y=np.array(["b", "a", "b", "a"]), **parts)
    for name, classes in [("dense", ("-1", "1")), ("sparse", ("a", "b"))]:
        data = load(str(tmp_path / f"{name}.npz"))
        assert np.array_equal(dense(data.X), X)
        assert data.class_names == classes
        assert np.array_equal(data.y, (Y > 0).astype(int))


def test_numeric_classes_are_in_numeric_order(tmp_path):
    path = tmp_path / "data.svm"
    path.write_text(2 * "10 1:1\n9 1:1\n2 1:1\n")
    assert load(str(path)).class_names == ("2", "9", "10")


def test_the_split_is_seeded_and_complete(tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, X=np.eye(40), y=np.arange(40) % 2)
    train, test = load(str(path), test_fraction=0.25, seed=1).splits["seeded"]
    assert len(test) == 10
    assert sorted([*train, *test]) == list(range(40))
    assert np.array_equal(test, load(str(path), seed=1).splits["seeded"][1])
    assert not np.array_equal(test, load(str(path), seed=2).splits["seeded"][1])


def test_the_hash_follows_content_and_options(tmp_path):
    path = tmp_path / "data.svm"
    path.write_text("1 1:1\n0 2:1\n")
    first = load(str(path)).sha256
    assert first == load(str(path)).sha256
    assert first != load(str(path), seed=7).sha256
    path.write_text("1 1:1\n0 2:2\n")
    assert first != load(str(path)).sha256


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.svm", "1 1:1\nx 2:1\n", "line 2: expected a numeric label, got 'x'"),
        ("a.svm", "1 1:1 2\n", "line 1, item 3: expected 'column:value', got '2'"),
        ("a.svm", "1 1:one\n", "item 2: expected 'column:value'"),
        ("a.svm", "1 -1:1\n", "got '-1:1'"),
        ("a.svm", "1 1:inf\n", "got '1:inf'"),
        ("a.svm", "1 1:1_000\n", "got '1:1_000'"),
        ("a.svm", "1 1:1 1:2\n", "column 1 occurs twice"),
        ("a.svm", "1 1000000000000:1\n", "beyond the limit"),
        ("a.svm", f"1 {'9' * 5000}:1\n", "beyond the limit"),
        ("a.svm", "\n# nothing\n", "holds no rows"),
        ("a.svm", "1\n0\n", "holds no features"),
        ("a.csv", "a,label\n1,x\n2\n", "line 3: expected 2 columns, got 1"),
        ("a.csv", "a,label\n1,x\n!,y\n", "line 3, column 'a': expected a finite number, got '!'"),
        ("a.csv", "a,label\n1,x\n1_000,y\n", "line 3, column 'a': expected a finite number, got '1_000'"),
        ("a.csv", "a,label\ninf,x\n", "line 2, column 'a'"),
        ("a.csv", "1,2,0\n3,x,1\n", "line 2, column 2: expected a finite number, got 'x'"),
        ("a.csv", "a,label\n", "holds no rows"),
        ("a.csv", "", "holds no rows"),
        ("a.csv", "a\n1\n2\n", "1 column"),
        ("a.csv", 'a,label\n"1,x\n', "line 2"),
        ("a.npz", "not a zip", "not a usable .npz"),
    ],
)
def test_a_malformed_file_is_one_clear_error(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(McfError) as caught:
        load(str(path))
    assert str(path) in str(caught.value)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"y": Y}, "has no array X"),
        ({"X": X}, "holds no labels"),
        ({"X": X, "y": Y[:2]}, "expected 4 numbers"),
        ({"X": X[0], "y": Y}, "expected a table"),
        ({"X": X + 1j, "y": Y}, "expected a table"),
        ({"X": np.full((4, 2), np.inf), "y": Y}, "infinite"),
        ({"X": X, "y": np.array([1, 2, np.nan, 1])}, "NaN"),
        (
            {"indptr": np.array([0, 9]), "indices": Y, "data": Y, "shape": np.array([1, 2]), "y": Y},
            "not hold a CSR",
        ),
        (
            {"indptr": np.array([0, 10**6, 0]), "indices": Y[:0], "data": Y[:0], "shape": np.array([2, 2])},
            "ends before it begins",
        ),
    ],
)
def test_an_npz_with_the_wrong_arrays_is_refused(tmp_path, arrays, message):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(McfError, match=message):
        load(str(tmp_path / "a.npz"))


def test_a_pickled_array_is_never_loaded(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (open, (str(tmp_path / "exploded"), "w"))

    np.savez(tmp_path / "a.npz", X=np.array([[Bomb()]], dtype=object), y=np.array([1]))
    with pytest.raises(McfError, match="Python objects"):
        load(str(tmp_path / "a.npz"))
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize("rows", [10**6, 10**12])
def test_a_header_that_claims_too_much_is_refused_before_anything_is_allocated(tmp_path, rows):
    header = io.BytesIO()
    fields = {"descr": "<f8", "fortran_order": False, "shape": (rows, 100)}
    np.lib.format.write_array_header_1_0(header, fields)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("X.npy", header.getvalue() + bytes(80))
    with pytest.raises(McfError, match="claims shape"):
        load(str(tmp_path / "a.npz"))


def test_a_truncated_gzip_is_one_clear_error(tmp_path):
    path = tmp_path / "a.svmlight.gz"
    path.write_bytes(gzip.compress(b"1 1:1\n" * 1000)[:-12])
    with pytest.raises(McfError, match="truncated or damaged"):
        load(str(path))


def test_files_that_do_not_belong_together_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("a,b,label\n1,2,x\n3,4,y\n")
    (tmp_path / "b.csv").write_text("a,c,label\n1,2,x\n")
    (tmp_path / "c.csv").write_text("a,label\n1,x\n")
    with pytest.raises(McfError, match=r"b\.csv has no column 'b'"):
        load(str(tmp_path / "a.csv"), test=str(tmp_path / "b.csv"))
    with pytest.raises(McfError, match=r"c\.csv has no column 'b'"):
        load(str(tmp_path / "a.csv"), test=str(tmp_path / "c.csv"))
    with pytest.raises(McfError, match="cannot tell the format"):
        load(str(tmp_path / "a.csv"), test=str(tmp_path / "d.svm"))


def test_missing_files_columns_and_fractions_are_explained(tmp_path):
    with pytest.raises(McfError, match="No such file"):
        load(str(tmp_path / "none.svm"))
    (tmp_path / "a.csv").write_text("a,b\n1,2\n3,4\n")
    with pytest.raises(McfError, match="no column 'z'"):
        load(str(tmp_path / "a.csv"), label="z")
    with pytest.raises(McfError, match="test_fraction is 2: expected less than 1"):
        load(str(tmp_path / "a.csv"), test_fraction=2)


def test_the_format_follows_from_the_name():
    names = ["x.svmlight", "x.svm.gz", "x.libsvm.xz", "x.csv", "x.CSV", "x.npz", "mnist", "x.txt"]
    kinds = ["svmlight", "svmlight", "svmlight", "csv", "csv", "npz", None, None]
    assert [file_format(name) for name in names] == kinds


def test_a_long_name_of_a_column_does_not_make_a_long_error(tmp_path):
    path = tmp_path / "wide.csv"
    path.write_text(f"a,{'b' * 5000},label\n1,x,0\n2,3,1\n")
    with pytest.raises(McfError, match="column 'bbb") as error:
        load(str(path))
    assert len(str(error.value)) < 500


def test_svmlight_read_by_blocks_is_what_it_is_line_by_line(tmp_path):
    """A comment sends a block to the reader of single lines: both must find the same rows."""
    random = np.random.default_rng(0)
    lines = []
    for _ in range(2000):
        columns = sorted(random.choice(500, size=random.integers(0, 6), replace=False))
        items = [f"{column}:{random.normal():.{random.integers(0, 17)}g}" for column in columns]
        lines.append(" ".join([random.choice(["+1", "-1", "1.0", "2.5", "1e1"]), *items]))
    plain, commented = tmp_path / "plain.svm", tmp_path / "commented.svm"
    plain.write_text("\r\n".join(lines))
    commented.write_text("".join(f"{line} # {k}\n" for k, line in enumerate(lines)))
    (one,), (other,) = read_examples([plain]), read_examples([commented])
    assert one.labels == other.labels
    for name in ("data", "indices", "indptr"):
        assert np.array_equal(getattr(one.X, name), getattr(other.X, name))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1 2:1 2:3", "line 3, item 3: column 2 occurs twice"),
        ("1 2:1e999", "line 3, item 2: expected 'column:value', got '2:1e999'"),
        ("1 2:1.2.3", "line 3, item 2: expected 'column:value'"),
        ("1 2:1:3 4", "line 3, item 2: expected 'column:value'"),
        ("1e 2:1", "line 3: expected a numeric label, got '1e'"),
        ("1 99999999:1", "line 3, item 2: column '99999999' is beyond the limit"),
    ],
)
def test_a_fault_amid_plain_svmlight_lines_is_named(tmp_path, line, message):
    path = tmp_path / "faulty.svm"
    path.write_text(f"1 1:1\n-1 3:1\n{line}\n1 1:1\n")
    with pytest.raises(McfError, match=message):
        load(str(path))


def test_columns_out_of_order_are_put_in_order(tmp_path):
    path = tmp_path / "unordered.svm"
    path.write_text("1 3:3 1:1\n-1 2:2\n")
    assert np.array_equal(dense(load(str(path)).X), [[1, 0, 3], [0, 2, 0]])


def test_an_endless_csv_line_is_refused_where_it_stands(tmp_path, monkeypatch):
    monkeypatch.setattr("mcf_cli.datasets.formats.archives.MAX_LINE", 1000)
    path = tmp_path / "endless.csv"
    path.write_text("a,b,label\n1,2,x\n" + "1," * 100_000)
    with pytest.raises(McfError, match="line 3: longer than 1,000 characters"):
        load(str(path))
