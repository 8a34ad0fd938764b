import hashlib
import subprocess
import sys

import numpy as np
import pytest
from mcf_cli.datasets import available, load, names
from mcf_cli.datasets.dataset import seeded_split, shuffled_rows
from mcf_cli.datasets.store import registry
from mcf_cli.errors import McfError
from mcf_cli.scale.largefile import load_large


def test_every_shape_of_the_registry_belongs_to_a_name():
    shapes = {name for entry in registry.entries() for form in entry.forms for name in form.shapes}
    assert shapes <= set(names())


def test_importing_the_package_is_cheap():
    code = "import sys, mcf_cli.datasets; mcf_cli.datasets.names(); assert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})


@pytest.mark.parametrize("name", ["mnist", "amazon-books", "cifar10-words"])
def test_data_that_is_not_here_says_how_to_get_it(empty_home, name):
    assert not available(name)
    with pytest.raises(McfError, match=f"mcf data get {name.split('-')[0]}"):
        load(name)


def test_unknown_names_forms_and_options_are_explained(shared_home):
    with pytest.raises(McfError, match="'mnits'; did you mean `mnist`"):
        load("mnits")
    with pytest.raises(McfError, match="no option symbol; its options: symbols"):
        load("splice", symbol=4)
    with pytest.raises(McfError, match="its options: none"):
        load("builtin-digits", size=3)
    with pytest.raises(McfError, match="svm"):
        load("amazon-books", form="svm")


def content_digest(data):
    """A hash of the rows, whatever the types that hold them."""
    digest = hashlib.sha256()
    for part in (data.X.indptr, data.X.indices, data.y):
        digest.update(part.astype("<i8").tobytes())
    digest.update(data.X.data.astype("<f8").tobytes())
    return digest.hexdigest()


DIGESTS = {
    ("amazon-books", "svmlight"): "78efdca832b85719eb0c72cd3833ca823b73ad3d06cc620e28f075a21685a7d1",
    ("amazon-dvd", "svmlight"): "763158e2d72f7ba93269d04d52264397f3c8e7fceed9823f9f6551b3e0695e22",
    ("amazon-electronics", "svmlight"): "f45231808911324b146a7e77e40192099f135df404d9707001df34e895d537d4",
    ("amazon-kitchen", "svmlight"): "3e610fa794d9a04e2abd5818993e4aec21817e250737c193c54e5a269bf39428",
    ("amazon-books", "labelled"): "14be72a9430e5b3096aaa823fc888b0bdb124f7d7cffd5ab620d2612919b12d6",
    ("reuters", "matrix"): "162cca6aaa1201c820d62b5ae228e2a2b5f7c98890439743bd96bc1c92c9fbe6",
    ("reuters", "sgml"): "c862429c255b75ee0b63806380824ca460151078d522c3a469e82348d92cd9bd",
    ("reuters", "json"): "766f8d5111cec18aff748d754befaba6fcce6cd4efb5101f34d4e0588dcccaa1",
    ("dmoz", "pages-second-level"): "d7d4ce608ae15114b16859b409d37d4e070d012a8fb0a0c8d202802f04a48a44",
    ("dmoz", "pages-top-level"): "6ca580656ecb509cb75e35639c4224ae0265cd64128dc8630376e6b1a0193287",
    ("splice", "uci"): "2966ca2f66dd02a70ea05d78a781bda03def050e9b7cbc869586f7711bef1069",
    ("splice", "pairs"): "2966ca2f66dd02a70ea05d78a781bda03def050e9b7cbc869586f7711bef1069",
    ("mnist", "idx"): "e27667fd77c8407c12e994db5921b4db036ffb45203bb3218882cbd6f2ac334d",
}


@pytest.mark.parametrize(("name", "form"), DIGESTS, ids=[" ".join(key) for key in DIGESTS])
def test_real_data_has_the_registrys_shape_and_the_same_content_as_ever(real_form, name, form):
    shape = real_form(name, form).form.shapes[name]
    data = load(name, form=form)
    assert (data.name, data.X.dtype) == (name, np.float64)
    assert (data.X.shape, len(data.class_names)) == ((shape.examples, shape.features), shape.classes)
    assert set(data.y) == set(range(shape.classes))
    assert data.feature_names is None or len(data.feature_names) == shape.features
    for train, test in data.splits.values():
        assert np.array_equal(np.sort(np.concatenate([train, test])), np.arange(shape.examples))
    assert content_digest(data) == DIGESTS[name, form]


def test_the_fixed_split_never_changes():
    train, test = seeded_split(20, 0.25, seed=2013)
    assert test.tolist() == [0, 1, 2, 10, 18]
    assert len(train) == 15
    assert sorted(shuffled_rows(100, 1)) == list(range(100))


def test_a_split_leaves_something_on_both_sides():
    for fraction in (0.001, 0.999):
        train, test = seeded_split(3, fraction)
        assert len(train) >= 1
        assert len(test) >= 1


@pytest.mark.parametrize("option", ["read", "name", "path"])
def test_an_option_called_as_a_parameter_inside_is_unknown(tmp_path, option):
    (tmp_path / "own.csv").write_text("a,label\n1,x\n2,y\n")
    for name in (str(tmp_path / "own.csv"), "builtin-digits", "splice"):
        for read in (load, load_large):
            with pytest.raises(McfError, match=f"{name} has no option {option}; its options"):
                read(name, **{option: 5})
