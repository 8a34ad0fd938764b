"""
Sensors that fail as a whole
============================

A scanner reads digits with eight sensors, one for each line of eight pixels. When a sensor fails, its whole
line is lost. ``Dropout`` trains for pixels that are lost one by one, and then a lost pixel still has its
neighbours; ``GroupDropout`` trains for what really happens. A plain model with a
weaker l2 is better than all three on whole images, and worse on damaged ones.
"""

import matplotlib.pyplot as plt
import numpy as np
from mcf_cli import Dropout, GroupDropout, MCFClassifier
from mcf_cli.datasets import load
from sklearn.model_selection import train_test_split

digits = load("builtin-digits")
X_train, X_test, y_train, y_test = train_test_split(digits.X, digits.y, test_size=0.5, random_state=0)

models = {
    "no loss": MCFClassifier(corruption=None, l2=1e-2),  # a weaker l2 is worse on damaged images
    "lost pixels": MCFClassifier(corruption=Dropout(q=0.4), l2=1e-4),
    "lost sensors": MCFClassifier(corruption=GroupDropout(groups=8, q=0.4), l2=1e-4),
}
for model in models.values():
    model.fit(X_train, y_train)

# %%
# Each point is the mean of 20 draws of the sensors that fail.


def error(model, share):
    failing = GroupDropout(groups=8, q=share)
    return 100 * np.mean([1 - model.score(failing.sample(X_test, seed), y_test) for seed in range(20)])


shares = np.linspace(0, 0.7, 8)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), width_ratios=(2.2, 1), layout="constrained")
for (name, model), colour in zip(models.items(), ("0.4", "C1", "C0"), strict=True):
    left.plot(shares, [error(model, share) for share in shares], "o-", color=colour, label=name)
left.set(xlabel="share of sensors that fail", ylabel="test error (%)", ylim=0)
left.legend(title="trained for")
failed = GroupDropout(groups=8, q=0.4).sample(X_test[:1], 2)
right.imshow(failed.reshape(8, 8), cmap="gray_r")
right.set(xticks=[], yticks=[], title=f"a {y_test[0]} whose sensors failed")
plt.show()
