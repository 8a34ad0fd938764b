import subprocess
import sys

import numpy as np
import pytest
from mcf_cli.datasets import available, load, names, registry
from mcf_cli.datasets.dataset import seeded_split, shuffled
from mcf_cli.errors import McfError


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
    with pytest.raises(McfError, match="no data set 'mnits'"):
        load("mnits")
    with pytest.raises(McfError, match="no option symbol; its options: symbols"):
        load("splice", symbol=4)
    with pytest.raises(McfError, match="its options: none"):
        load("builtin-digits", size=3)
    with pytest.raises(McfError, match="svm"):
        load("amazon-books", form="svm")


@pytest.mark.parametrize("name", ["amazon-books", "reuters", "splice"])
def test_real_data_keeps_its_promises(shared_home, name):
    assert available(name)
    data = load(name)
    assert data.name == name
    assert data.X.shape[0] == len(data.y)
    assert data.X.dtype == np.float64
    assert set(data.y) == set(range(len(data.class_names)))
    assert len(data.sha256) == 64
    assert data.feature_names is None or len(data.feature_names) == data.X.shape[1]
    for train, test in data.splits.values():
        assert np.array_equal(np.sort(np.concatenate([train, test])), np.arange(len(data.y)))


def test_the_fixed_split_never_changes():
    train, test = seeded_split(20, 0.25, seed=2013)
    assert test.tolist() == [0, 1, 2, 10, 18]
    assert len(train) == 15
    assert sorted(shuffled(100, 1)) == list(range(100))


def test_a_split_leaves_something_on_both_sides():
    for fraction in (0.001, 0.999):
        train, test = seeded_split(3, fraction)
        assert len(train) >= 1
        assert len(test) >= 1
