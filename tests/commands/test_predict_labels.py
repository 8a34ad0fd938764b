"""`mcf predict` compares with labels only where they are the model's own."""

import numpy as np
from mcf_cli.experiments.predicting import compared


def test_labels_of_another_kind_are_not_compared():
    said = compared(np.array(["positive"]), ["1"], np.array(["negative", "positive"]), "reviews.svmlight")
    assert "not compared" in said
    assert "labels its rows 1" in said


def test_labels_of_the_same_kind_are():
    said = compared(np.array([3, 7]), ["3", "3"], np.array([3, 7]), "rows.csv")
    assert said == "1 of 2 predictions differ from the labels in rows.csv."
