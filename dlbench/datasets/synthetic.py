"""Made-up samples of any shape and number: class means plus noise, the same for the same options; can be learned."""

import math
from typing import Annotated, Any, Self

import numpy as np
from pydantic import Field, model_validator

from dlbench.datasets import Description
from dlbench.datasets._writer import PIECE_BYTES, ArrayWriter
from dlbench.plugins import Options
from dlbench.scenario.settings import Count, Natural

# Numbers in one sample, and in all class means together: small enough for any machine.
MAX_NUMBERS = 10**7
# Which independent draw of the seed.
_MEANS, _TRAIN, _VALIDATION = 0, 1, 2


class SyntheticOptions(Options):
    """How many samples of which shape, and how hard they are to classify."""

    num_samples: Count = Field(10_000, description="Training samples (a validation part is split off these by seed).")
    num_validation: Natural = Field(0, description="Samples of the validation part; 0: none.")
    shape: Annotated[tuple[Count, ...], Field(min_length=1, max_length=4)] = Field(
        (32, 32, 3), description="Shape of one sample, such as [height, width, channels] or [features]."
    )
    num_classes: Annotated[Count, Field(ge=2)] = Field(10, description="Number of classes, equally frequent.")
    noise: float = Field(
        1.0,
        ge=0,
        le=10**6,
        strict=True,
        description="Standard deviation of the noise added to each number; class means have one of 1.",
    )
    seed: Natural = Field(0, description="Draws the class means and the samples.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.num_classes > self.num_samples:
            raise ValueError(f"num_classes {self.num_classes} is more than num_samples {self.num_samples}")
        if (size := math.prod(self.shape)) * self.num_classes > MAX_NUMBERS:
            raise ValueError(
                f"shape times num_classes is {size * self.num_classes:,} numbers, and {MAX_NUMBERS:,} are the most: "
                f"at this shape at most {MAX_NUMBERS // size:,} classes"
            )
        return self


OPTIONS = SyntheticOptions


def identity(options: SyntheticOptions) -> dict[str, Any]:
    """Return the options and the version of NumPy, which draws the numbers."""
    return {**options.model_dump(mode="json"), "numpy": np.__version__}


def describe(options: SyntheticOptions) -> Description:
    """Return the sizes that the options ask for."""
    return Description(options.num_samples, options.num_validation or None, options.shape, options.num_classes)


def prepare(options: SyntheticOptions, writer: ArrayWriter) -> None:
    """Write x = class mean + noise as float32; it enters the network with a variance of 1."""
    writer.describe(
        source="made up by dlbench",
        class_names=tuple(str(number) for number in range(options.num_classes)),
        scale=1 / math.sqrt(1 + options.noise**2),
        num_samples=options.num_samples + options.num_validation,
    )
    of_means, *of_parts = (np.random.default_rng([options.seed, draw]) for draw in (_MEANS, _TRAIN, _VALIDATION))
    means = of_means.standard_normal((options.num_classes, *options.shape), dtype=np.float32)
    rows = max(1, PIECE_BYTES // means[0].nbytes)
    sizes = {"train": options.num_samples, "validation": options.num_validation}
    for (part, num_samples), generator in zip(sizes.items(), of_parts, strict=True):
        for start in range(0, num_samples, rows):
            y = np.arange(start, min(start + rows, num_samples)) % options.num_classes
            x = generator.standard_normal((len(y), *options.shape), dtype=np.float32)
            x *= np.float32(options.noise)
            x += means[y]
            writer.append(x, y, part)
