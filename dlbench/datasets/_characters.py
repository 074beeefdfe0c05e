"""A text file as numbers: its characters or bytes, numbered by the vocabulary of its training part."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dlbench.errors import UserError

Array = npt.NDArray[Any]
Unit = Literal["character", "byte"]

# A text is held in memory with five bytes for each character, and its own bytes.
MOST_BYTES = 256 * 2**20
# Characters are counted so many at once: counting takes eight bytes for each.
PIECE = 2**22
UNKNOWN = "\N{REPLACEMENT CHARACTER}"


@dataclass(frozen=True, eq=False)
class Characters:
    """A text in tokens.

    Attributes:
        train: Tokens of the training part [n].
        validation: Tokens of the validation part.
        names: What each token stands for, in the order of their codes; the unknown, where there is one, is the last.
        num_unknown: Characters of the text that became the unknown.
    """

    train: Array
    validation: Array
    names: tuple[str, ...]
    num_unknown: int


def checksum(path: str) -> str:
    """Return the sha256 of the file.

    Raises:
        UserError: There is no such file, or it is empty or too large.
    """
    return hashlib.sha256(_bytes_of(path)).hexdigest()


def read(path: str, unit: Unit, lower_case: bool) -> Array:
    """Return the codes of a text: code points, or bytes.

    Raises:
        UserError: There is no such file, or it is empty, too large or (characters) not UTF-8.
    """
    raw = _bytes_of(path)
    if unit == "byte":
        return np.frombuffer(raw.lower() if lower_case else raw, np.uint8)
    text = _decoded(raw, path)
    return np.frombuffer((text.lower() if lower_case else text).encode("utf-32-le"), np.dtype("<u4"))


def number(codes: Array, border: int, unit: Unit, min_count: int) -> Characters:
    """Number the characters of a text by those that its first `border` ones hold at least `min_count` times.

    Raises:
        UserError: Fewer than two different classes are left.
    """
    num_codes = int(codes.max()) + 1
    in_training = _counts(codes[:border], num_codes)
    known = np.flatnonzero(in_training >= max(1, min_count))
    num_unknown = len(codes) - int((in_training + _counts(codes[border:], num_codes))[known].sum())
    names = [_name(int(code), unit) for code in known] + [UNKNOWN] * bool(num_unknown)
    if len(names) < 2:
        raise UserError("the text has a single class; at least two different characters are needed")
    numbers = np.full(num_codes, len(names) - 1, np.min_scalar_type(len(names) - 1))
    numbers[known] = np.arange(len(known))
    tokens = numbers[codes]
    return Characters(tokens[:border], tokens[border:], tuple(names), num_unknown)


def _counts(codes: Array, num_codes: int) -> Array:
    """Return how often each code occurs."""
    found = np.zeros(num_codes, np.int64)
    for start in range(0, len(codes), PIECE):
        found += np.bincount(codes[start : start + PIECE], minlength=num_codes)
    return found


def _name(code: int, unit: Unit) -> str:
    return chr(code) if unit == "character" else f"0x{code:02x}"


def _bytes_of(path: str) -> bytes:
    try:
        file = Path(path).expanduser()
        if not file.is_file():
            raise UserError(f"text: {path!r} is " + ("no file" if file.exists() else "not there"))
        if file.stat().st_size > MOST_BYTES:
            raise UserError(f"text: {path!r} has more than {MOST_BYTES // 2**20} MiB, the most that is read")
        raw = file.read_bytes()
    except RuntimeError as error:
        raise UserError(f"text: {path!r}: there is no such user, or no home folder is known") from error
    except (OSError, ValueError) as error:
        raise UserError(f"text: {path!r} cannot be read: {error}") from error
    if not raw:
        raise UserError(f"text: {path!r} is empty")
    return raw


def _decoded(raw: bytes, path: str) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise UserError(
            f"text: {path!r} is not UTF-8: byte {error.start:,} (line {line:,}) is 0x{raw[error.start]:02x}",
            hint="convert it (`iconv -t utf-8`), or take its bytes: `dataset.unit: byte`",
        ) from error
