"""Characters of a text file: windows whose next character, or each following one, is the class; the end validates.

Validation is the last part of the text, cut off before any window is made: a random split of overlapping windows
would evaluate on what was trained on.
"""

from typing import Annotated, Any, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from dlbench.datasets import _characters
from dlbench.datasets._characters import Characters
from dlbench.datasets._description import Description
from dlbench.datasets._writer import ArrayWriter
from dlbench.errors import UserError
from dlbench.plugins import Options
from dlbench.scenario.settings import Count

Array = npt.NDArray[Any]
Part = Literal["train", "validation"]


class TextOptions(Options):
    """Which text, and how it becomes samples."""

    path: str = Field(min_length=1, description="A text file in UTF-8; relative to the folder dlbench is started in.")
    sequence_length: Annotated[Count, Field(le=100_000)] = Field(
        100, description="Characters that a sample consists of."
    )
    predict: Literal["every", "next"] = Field(
        "every",
        description="every: each position's class is the character after it; next: one class, the character after "
        "the sample.",
    )
    stride: Count | None = Field(
        None,
        description="Characters from the start of a sample to that of the next; default: so many that each character "
        "is predicted once in an epoch (`sequence_length` with every, 1 with next).",
    )
    unit: Literal["character", "byte"] = Field(
        "character", description="What a token is: a character, or a byte of the file (which may then hold anything)."
    )
    lower_case: bool = Field(False, description="Make all letters small (with bytes: those of ASCII).")
    min_count: Count = Field(
        1,
        description="Characters that are rarer than this in the training part become one, the unknown; so do those "
        "found in the validation part alone.",
    )
    validation_share: float = Field(
        0.1,
        gt=0,
        lt=1,
        strict=True,
        allow_inf_nan=False,
        description="Share of the text, at its end, that is kept for validation; no sample straddles the border.",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.stride is not None and self.predict == "every" and self.stride > self.sequence_length:
            raise ValueError(f"stride {self.stride} is more than sequence_length {self.sequence_length}: it skips text")
        return self


OPTIONS = TextOptions


def identity(options: TextOptions) -> dict[str, Any]:
    """Return the file's checksum and the options; where the file lies does not matter."""
    found = options.model_dump(mode="json", exclude={"path"})
    return {**found, "sha256": _characters.checksum(options.path), "version": 1}


def describe(options: TextOptions) -> Description:
    """Read the file, and count its different characters and its windows."""
    found = _read(options)
    return Description(
        num_train=len(_windows(found.train, options)),
        num_validation=len(_windows(found.validation, options)),
        input_shape=(options.sequence_length,),
        num_classes=len(found.names),
        vocabulary=len(found.names),
        target_shape=_target_shape(options),
    )


def prepare(options: TextOptions, writer: ArrayWriter) -> None:
    """Write windows of tokens, uint8 where 256 classes suffice, and the classes of what follows.

    Raises:
        UserError: The file is missing, empty, not UTF-8, too short or of a single character.
    """
    found = _read(options)
    parts: dict[Part, Array] = {
        "train": _windows(found.train, options),
        "validation": _windows(found.validation, options),
    }
    writer.describe(
        source=f"{options.unit}s of {options.path}; validation is its last {options.validation_share:.6g}",
        class_names=found.names,
        notes=_notes(options, found),
        num_samples=sum(len(windows) for windows in parts.values()),
        vocabulary=len(found.names),
        target_shape=_target_shape(options),
    )
    for part, windows in parts.items():
        writer.append(windows[:, :-1], windows[:, 1:] if options.predict == "every" else windows[:, -1], part)


def _read(options: TextOptions) -> Characters:
    codes = _characters.read(options.path, options.unit, options.lower_case)
    border = len(codes) - round(len(codes) * options.validation_share)
    for part, length in (("training", border), ("validation", len(codes) - border)):
        if length <= options.sequence_length:
            raise UserError(
                f"text: {options.path!r} is too short: its {part} part has {length:,} {options.unit}s, and one sample "
                f"takes {options.sequence_length + 1:,}",
                hint="use a shorter dataset.sequence_length, another dataset.validation_share or a longer text",
            )
    return _characters.number(codes, border, options.unit, options.min_count)


def _windows(tokens: Array, options: TextOptions) -> Array:
    """Return views [n, sequence_length + 1] of a part: a sample and the character after it."""
    stride = options.stride or (options.sequence_length if options.predict == "every" else 1)
    windows: Array = np.lib.stride_tricks.sliding_window_view(tokens, options.sequence_length + 1)[::stride]
    return windows


def _target_shape(options: TextOptions) -> tuple[int, ...]:
    return (options.sequence_length,) if options.predict == "every" else ()


def _notes(options: TextOptions, found: Characters) -> dict[str, Any]:
    return {
        "training_characters": len(found.train),
        "validation_characters": len(found.validation),
        "validation": "the last part of the text; no sample straddles the border",
        "vocabulary": f"of the training part, in order of code; {found.num_unknown:,} characters became the unknown",
        "end": "what fills no whole window at the end of a part is left out",
    }
