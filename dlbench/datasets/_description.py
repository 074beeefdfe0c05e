"""What is known of a data set before it is prepared, so that a scenario can be checked against it.

A data set file may offer `describe(options) -> Description | None`: quick, without preparing anything, None where it
cannot know yet. It raises `UserError` for options that can never work, such as a folder that is not there.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Description:
    """Sizes and shapes of a data set.

    Attributes:
        num_train: Training samples; all samples where the data set has no split of its own.
        num_validation: Validation samples of its own split; None where it has none and `validation_fraction` of the
            training samples is kept for validation.
        input_shape: Shape of one sample, without the batch; None where only preparing tells.
        num_classes: Number of classes; None where only preparing tells.
        vocabulary: Number of different tokens, where samples are tokens (whole numbers below it).
        target_shape: () where a sample has one class, (T,) where it has one at each of T positions.
    """

    num_train: int
    num_validation: int | None
    input_shape: tuple[int, ...] | None
    num_classes: int | None
    vocabulary: int | None = None
    target_shape: tuple[int, ...] = ()
