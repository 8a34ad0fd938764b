"""
Pixels that go missing
======================

A reader of handwritten digits meets images that have lost pixels, and nothing marks which.
``Dropout(q=0.5)`` trains on the expected loss over all such images. It loses a few points on whole images and
wins many when pixels are gone. A stronger l2 penalty helps a plain model too, but less.
"""

import matplotlib.pyplot as plt
import numpy as np
from mcf_cli import Dropout, MCFClassifier
from mcf_cli.datasets import load
from sklearn.model_selection import train_test_split

digits = load("builtin-digits")
X_train, X_test, y_train, y_test = train_test_split(digits.X, digits.y, test_size=0.4, random_state=0)
models = {
    "plain, l2 = 0.0001": MCFClassifier(corruption=None, l2=1e-4),
    "plain, l2 = 0.01": MCFClassifier(corruption=None, l2=1e-2),
    "MCF, dropout 0.5": MCFClassifier(corruption=Dropout(q=0.5), l2=1e-4),
}
shares = np.linspace(0, 0.9, 10)
damaged = [Dropout(q=share).sample(X_test, 0) for share in shares]

figure, axes = plt.subplots(figsize=(6.5, 4), layout="constrained")
for (name, model), style, colour in zip(
    models.items(), ("s--", "^--", "o-"), ("0.6", "0.3", "C0"), strict=True
):
    model.fit(X_train, y_train)
    errors = [100 * (1 - model.score(X, y_test)) for X in damaged]
    axes.plot(shares, errors, style, color=colour, label=name)
axes.set(xlabel="share of pixels deleted", ylabel="test error (%)", ylim=0)
axes.legend()
plt.show()

# %%
# The first test image of each class with half of its pixels deleted, and what the plain model (l2 = 0.01) and
# MCF read; red where MCF is wrong.

first = [int(np.flatnonzero(y_test == digit)[0]) for digit in range(10)]
half = damaged[5][first]
readings = models["plain, l2 = 0.01"].predict(half), models["MCF, dropout 0.5"].predict(half)
figure, panels = plt.subplots(1, 10, figsize=(10, 1.9), layout="constrained")
for panel, image, truth, a, b in zip(panels, half, y_test[first], *readings, strict=True):
    panel.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
    panel.set(xticks=[], yticks=[])
    panel.set_title(f"plain {a}\nMCF {b}", fontsize=9, color="black" if b == truth else "C3")
    panel.set_xlabel(f"is {truth}", fontsize=9)
plt.show()
