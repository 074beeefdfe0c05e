"""Characters of a text file: windows whose next character, or each following one, is the class; the end validates.

Validation is the last part of the text, cut off before any window is made: a random split of overlapping windows
would evaluate on what was trained on.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from dlbench.datasets import Description
from dlbench.datasets._file_format import UTF_16_MARKS, refusal
from dlbench.datasets._format import Array
from dlbench.datasets._writer import ArrayWriter
from dlbench.errors import UserError
from dlbench.plugins import Options
from dlbench.scenario.settings import Count

Part = Literal["train", "validation"]
Unit = Literal["character", "byte"]

# A text is held in memory with five bytes for each character, and its own bytes.
MAX_BYTES = 256 * 2**20
# Characters are counted in pieces of this size: counting takes eight bytes for each.
PIECE = 2**22
UNKNOWN = "\N{REPLACEMENT CHARACTER}"


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
        description="Characters from the start of a sample to that of the next; default: such that each character "
        "is predicted once in an epoch (`sequence_length` with every, 1 with next).",
    )
    unit: Unit = Field(
        "character",
        description="What a token is: a character, or a byte of the file (which may then be in any format).",
    )
    lower_case: bool = Field(False, description="Convert letters to lower case (with bytes: those of ASCII).")
    min_count: Count = Field(
        1,
        description="Characters that are rarer than this in the training part become one, the unknown; so do those "
        "that only the validation part has.",
    )
    validation_share: float = Field(
        0.1,
        gt=0,
        lt=1,
        strict=True,
        description="Share of the text, at its end, that is kept for validation; no sample crosses the border.",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.stride is not None and self.predict == "every" and self.stride > self.sequence_length:
            raise ValueError(f"stride {self.stride} is more than sequence_length {self.sequence_length}: it skips text")
        return self

    @property
    def target_shape(self) -> tuple[int, ...]:
        """One class for each position, or one for the whole sample."""
        return (self.sequence_length,) if self.predict == "every" else ()


@dataclass(frozen=True, eq=False)
class Characters:
    """A text in tokens.

    Attributes:
        parts: Tokens of each part [n].
        names: What each token stands for, in the order of their codes; the unknown, where there is one, is the last.
        num_unknown: Characters of the text that became the unknown.
    """

    parts: Mapping[Part, Array]
    names: tuple[str, ...]
    num_unknown: int


OPTIONS = TextOptions


def identity(options: TextOptions) -> dict[str, Any]:
    """Return the file's checksum and the options; where the file lies does not matter."""
    chosen = options.model_dump(mode="json", exclude={"path"})
    return {**chosen, "sha256": hashlib.sha256(_bytes_of(options.path, options.unit)).hexdigest(), "version": 1}


def describe(options: TextOptions) -> Description:
    """Read the file, and count its different characters and its windows."""
    content = _read(options)
    num_train, num_validation = (len(_windows(tokens, options)) for tokens in content.parts.values())
    return Description(
        num_train=num_train,
        num_validation=num_validation,
        input_shape=(options.sequence_length,),
        num_classes=len(content.names),
        vocabulary=len(content.names),
        target_shape=options.target_shape,
    )


def prepare(options: TextOptions, writer: ArrayWriter) -> None:
    """Write windows of tokens, uint8 where 256 classes suffice, and the classes of what follows.

    Raises:
        UserError: The file is missing, empty, not UTF-8, too short or of a single character.
    """
    content = _read(options)
    parts = {part: _windows(tokens, options) for part, tokens in content.parts.items()}
    writer.describe(
        source=f"{options.unit}s of {options.path}; validation is its last {options.validation_share:.6g}",
        class_names=content.names,
        notes={
            "training_characters": len(content.parts["train"]),
            "validation_characters": len(content.parts["validation"]),
            "validation": "the last part of the text; no sample crosses the border",
            "vocabulary": f"of the training part, in order of code; {content.num_unknown:,} characters became the "
            "unknown",
            "end": "what fills no whole window at the end of a part is left out",
        },
        num_samples=sum(len(windows) for windows in parts.values()),
        vocabulary=len(content.names),
        target_shape=options.target_shape,
    )
    for part, windows in parts.items():
        writer.append(windows[:, :-1], windows[:, 1:] if options.predict == "every" else windows[:, -1], part)


def _read(options: TextOptions) -> Characters:
    codes = read_codes(options.path, options.unit, options.lower_case)
    border = len(codes) - round(len(codes) * options.validation_share)
    for part, length in (("training", border), ("validation", len(codes) - border)):
        if length <= options.sequence_length:
            raise UserError(
                f"text: {options.path!r} is too short: its {part} part has {length:,} {options.unit}s, and one sample "
                f"takes {options.sequence_length + 1:,}",
                hint="use a shorter dataset.sequence_length, another dataset.validation_share or a longer text",
            )
    return number(codes, border, options.unit, options.min_count)


def _windows(tokens: Array, options: TextOptions) -> Array:
    """Return views [n, sequence_length + 1] of a part: a sample and the character after it."""
    stride = options.stride or (options.sequence_length if options.predict == "every" else 1)
    windows: Array = np.lib.stride_tricks.sliding_window_view(tokens, options.sequence_length + 1)[::stride]
    return windows


def read_codes(path: str, unit: Unit, lower_case: bool) -> Array:
    """Return the codes of a text: code points, or bytes.

    Raises:
        UserError: There is no such file, or it is empty, too large or (characters) not UTF-8 or no text at all.
    """
    raw = _bytes_of(path, unit)
    if unit == "byte":
        return np.frombuffer(raw.lower() if lower_case else raw, np.uint8)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise UserError(
            f"text: {path!r} is not UTF-8: byte {error.start:,} (line {line:,}) is 0x{raw[error.start]:02x}",
            hint=f"convert it: `iconv -f {'UTF-16' if raw[:2] in UTF_16_MARKS else 'ENCODING'} -t UTF-8`",
        ) from error
    return np.frombuffer((text.lower() if lower_case else text).encode("utf-32-le"), np.dtype("<u4"))


def number(codes: Array, border: int, unit: Unit, min_count: int) -> Characters:
    """Number the characters of a text by those that its first `border` ones hold at least `min_count` times.

    Raises:
        UserError: Fewer than two different classes are left.
    """
    num_codes = int(codes.max()) + 1
    in_training = _counts(codes[:border], num_codes)
    frequent = np.flatnonzero(in_training >= max(1, min_count))
    num_unknown = len(codes) - int((in_training + _counts(codes[border:], num_codes))[frequent].sum())
    names = [chr(code) if unit == "character" else f"0x{code:02x}" for code in frequent.tolist()]
    names += [UNKNOWN] * bool(num_unknown)
    if len(names) < 2:
        raise UserError("the text has a single class; at least two different characters are needed")
    numbers = np.full(num_codes, len(names) - 1, np.min_scalar_type(len(names) - 1))
    numbers[frequent] = np.arange(len(frequent))
    tokens = numbers[codes]
    return Characters({"train": tokens[:border], "validation": tokens[border:]}, tuple(names), num_unknown)


def _counts(codes: Array, num_codes: int) -> Array:
    """Return how often each code occurs."""
    counts = np.zeros(num_codes, np.int64)
    for start in range(0, len(codes), PIECE):
        counts += np.bincount(codes[start : start + PIECE], minlength=num_codes)
    return counts


def _bytes_of(path: str, unit: Unit) -> bytes:
    try:
        file = Path(path).expanduser()
        if not file.is_file():
            raise UserError(f"text: {path!r} " + ("is not a file" if file.exists() else "does not exist"))
        if unit == "character" and (foreign := refusal(file)):
            raise UserError(f"text: {foreign.message}", hint=foreign.hint)
        if file.stat().st_size > MAX_BYTES:
            raise UserError(f"text: {path!r} has more than {MAX_BYTES // 2**20} MiB, the limit")
        raw = file.read_bytes()
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: the home folder is not known
        raise UserError(f"text: {path!r} cannot be read: {error}") from error
    if not raw:
        raise UserError(f"text: {path!r} is empty")
    return raw
