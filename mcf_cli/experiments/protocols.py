"""How methods are evaluated: the protocols that a config's `evaluation` may name, and what each of them may say."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from mcf_cli.yamlfile import Count, Number, Numbers, Probabilities, Sizes, Strict, impossible


class RowLimits(Strict):
    """At most so many training and test rows, drawn by seed: how a profile makes a set smaller."""

    train: Count | None = None
    test: Count | None = None


class TrainTest(RowLimits):
    """Train and test once: the data set's own split where it has one, else a random one."""

    protocol: Literal["split"] = "split"
    split: str | None = Field(None, description="a named split of the data set, or `random`")
    train_fraction: Annotated[Number, Field(gt=0, lt=1)] = 0.75


class CrossValidation(RowLimits):
    """Every row is tested once per repeat (Figure 8)."""

    protocol: Literal["cv"]
    folds: Annotated[int, Field(ge=2, le=100)] = 10


class LearningCurve(TrainTest):
    """The same test set, training sets of growing size; ``repeats`` random subsets of each (Figure 5)."""

    protocol: Literal["learning-curve"]  # type: ignore[assignment]  # a split of another protocol
    sizes: Sizes


class Nightmare(TrainTest):
    """Features deleted at test time; all is chosen on validation rows with the same deletion (Figure 9)."""

    protocol: Literal["nightmare"]  # type: ignore[assignment]  # a split of another protocol
    deletion: Probabilities = Field([round(0.1 * i, 12) for i in range(10)])
    validation: Annotated[Number, Field(gt=0, lt=1)] = Field(0.1, description="share of the training rows")
    refit: bool = Field(
        False, description="fit the chosen models again on training and validation rows together"
    )
    masks: Annotated[Count, Field(le=100)] = Field(
        1, description="how often the features to delete are drawn, in validation and in test"
    )


class LabelNoise(TrainTest):
    """A share of the training labels is wrong, drawn by seed; test labels are right, validation labels are not."""

    protocol: Literal["label-noise"]  # type: ignore[assignment]  # a split of another protocol
    flips: Probabilities = Field([0.0, 0.1, 0.2, 0.3, 0.4], description="shares of wrong training labels")
    tilt: Annotated[Number, Field(ge=0, le=1)] = Field(
        0.0,
        description="for two classes: the rates are flips (1 + tilt) for the first, flips (1 - tilt) for the other",
    )

    @model_validator(mode="after")
    def _informative(self) -> "LabelNoise":
        if max(self.flips) >= 0.5 or max(self.flips) * (1 + self.tilt) >= 1:
            raise impossible(
                "with half of the labels wrong or more, labels say nothing about the classes", "flips"
            )
        return self


class Anytime(TrainTest):
    """Predictions that read some of the features only, by size of weight and in random order; others count as 0."""

    protocol: Literal["anytime"]  # type: ignore[assignment]  # a split of another protocol
    features: Sizes = Field(
        [10, 30, 100, 300, 1000], description="how many features are read; a last step reads all"
    )


class Tightness(TrainTest):
    """A split that also measures what a bound bounds: the expected logistic loss of two classes, exactly."""

    protocol: Literal["expected-loss"]  # type: ignore[assignment]  # a split of another protocol


class ExplicitCopies(TrainTest):
    """Copies corrupted by sampling against the marginalised limit (Figure 6)."""

    protocol: Literal["explicit"]  # type: ignore[assignment]  # a split of another protocol
    copies: Sizes = Field([1, 2, 4, 8, 16, 32])
    marginalised: bool = Field(True, description="also run MCF, the limit of infinitely many copies")


class Bounds(Strict):
    """Bounds on the expected logistic loss of one blanked-out feature (Figure 1); uses no data."""

    protocol: Literal["bounds"]
    q: Probabilities = Field([0.5])
    lambdas: Probabilities = Field([0.0, 0.1, 0.25, 0.5, 0.75])
    margins: Numbers = Field([round(-5 + 0.1 * i, 12) for i in range(101)])


class Cost(RowLimits):
    """Seconds for one loss and gradient against the plain model's, coded and term by term."""

    protocol: Literal["cost"]
    evaluations: Count = 10


class Loo(RowLimits):
    """Leave-one-out of the quadratic loss: the paper's formula, the exact one and refitting N times."""

    protocol: Literal["loo"]


Evaluation = Annotated[
    TrainTest
    | CrossValidation
    | LearningCurve
    | Nightmare
    | LabelNoise
    | Anytime
    | Tightness
    | ExplicitCopies
    | Bounds
    | Cost
    | Loo,
    Field(discriminator="protocol"),
]
