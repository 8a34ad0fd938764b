"""
Missing values, marked or not
=============================

MCF trains for damage that nobody marks. If your rows say what is missing, you know more, and
``missing="conditional"`` uses it: it fills in what the observed features tell about the missing ones. Pixels
tell much about their neighbours, so it beats dropout training clearly; here even the column's mean does.
Without marks neither works.
"""

import matplotlib.pyplot as plt
import numpy as np
from mcf_cli import Dropout, MCFClassifier
from mcf_cli.datasets import load
from sklearn.model_selection import train_test_split

digits = load("builtin-digits")
X_train, X_test, y_train, y_test = train_test_split(digits.X, digits.y, test_size=0.4, random_state=0)

models = {
    'plain, missing="deleted"': MCFClassifier(corruption=None, l2=1e-3, missing="deleted"),
    'plain, missing="mean"': MCFClassifier(corruption=None, l2=1e-3, missing="mean"),
    'MCF, missing="deleted"': MCFClassifier(corruption=Dropout(q=0.5), l2=1e-4, missing="deleted"),
    'plain, missing="conditional"': MCFClassifier(corruption=None, l2=1e-3, missing="conditional"),
}
shares = np.linspace(0, 0.9, 10)
lost = np.random.default_rng(0).random(X_test.shape)

figure, axes = plt.subplots(figsize=(6.5, 4.2), layout="constrained")
for (name, model), style in zip(models.items(), ("s--", "^--", "o-", "D-"), strict=True):
    model.fit(X_train, y_train)
    errors = [100 * (1 - model.score(np.where(lost < share, np.nan, X_test), y_test)) for share in shares]
    axes.plot(shares, errors, style, label=name)
axes.set(xlabel="share of pixels missing, and marked as missing", ylabel="test error (%)", ylim=0)
axes.legend()
plt.show()
