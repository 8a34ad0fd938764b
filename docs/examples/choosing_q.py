"""
Choosing q
==========

How much corruption? It depends on what the rows to predict will be like. ``MCFClassifierCV`` chooses the
level by cross-validation: scored on whole rows it takes little corruption or none; scored on rows that lose
half of their features, it takes a lot.
"""

import matplotlib.pyplot as plt
from mcf_cli import Dropout, MCFClassifierCV
from mcf_cli.datasets import load
from sklearn.model_selection import train_test_split

digits = load("builtin-digits")
X_train, X_test, y_train, y_test = train_test_split(digits.X, digits.y, test_size=0.5, random_state=0)

figure, panels = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
for panel, name, scoring in zip(
    panels, ("whole rows", "half of the pixels deleted"), ("error", ("deletion", 0.5)), strict=True
):
    choice = MCFClassifierCV(
        corruption=["dropout", None],
        qs=[0.1, 0.3, 0.5, 0.7, 0.9],
        l2s=[1e-4],
        scoring=scoring,
        cv=3,
        tol=1e-3,
        random_state=0,
    ).fit(X_train, y_train)
    choice.plot_path(panel)
    panel.set_title(name)
    whole = 1 - choice.score(X_test, y_test)
    damaged = 1 - choice.score(Dropout(q=0.5).sample(X_test, 0), y_test)
    print(
        f"scored on {name}: {choice.corruption_}; wrong on whole test rows {whole:.1%}, on damaged ones {damaged:.1%}"
    )
plt.show()
