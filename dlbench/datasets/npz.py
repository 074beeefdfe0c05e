"""Arrays in one NumPy .npz file: x and y, or x_train and y_train, perhaps with a part of their own for validation.

Arrays are read in pieces: what a header claims is never allocated, and a file larger than memory can be prepared.
"""

import hashlib
import math
import re
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import IO, Any

import numpy as np
from pydantic import Field

from dlbench.datasets import Description
from dlbench.datasets._file_format import refusal
from dlbench.datasets._format import Array
from dlbench.datasets._writer import PIECE_BYTES, ArrayChecker, ArrayWriter
from dlbench.errors import UserError, nearest, shorten
from dlbench.plugins import Options
from dlbench.regular_file import open_regular

# Words of which people make the names of arrays, as in `X_train`, `test_labels`; of several the first counts.
_ROLES = (
    ("x", "images", "image", "data", "features", "inputs", "samples"),
    ("y", "labels", "label", "targets", "target", "classes"),
)
_PART_WORDS = {
    "train": ("train", "training", "tr", ""),
    "validation": ("validation", "valid", "val", "dev", "test", "tst", "te"),
}
# `verify` reads this much of the samples of each part.
VERIFIED_BYTES = 2**30
_READERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


class NpzOptions(Options):
    """Which file, and which of its arrays."""

    path: str = Field(min_length=1, description="The .npz file; relative to the folder dlbench is started in.")
    x: str | None = Field(None, description="Name of the samples [n, ...]; default: x_train, x, images or the like.")
    y: str | None = Field(
        None,
        description="Name of their classes [n], or one-hot [n, classes], or of numbers to predict [n], fractions among "
        "them; default: y_train, y, labels or the like.",
    )
    validation_x: str | None = Field(None, description="Name of the samples that validate; default: x_val, x_test ...")
    validation_y: str | None = Field(None, description="Name of their classes, or numbers to predict.")
    scale_bytes: bool = Field(
        True,
        description="Whether samples of bytes (uint8) that are not all 0 and 1 enter the network as x/255; false for "
        "others than pixels, such as token ids.",
    )


OPTIONS = NpzOptions


def identity(options: NpzOptions) -> dict[str, Any]:
    """Return the file's checksum and the names; where the file lies does not matter."""
    with _reading(options), open_regular(Path(options.path).expanduser()) as file:
        digest = hashlib.file_digest(file, "sha256")
    names = options.model_dump(exclude={"path"})
    return {"sha256": digest.hexdigest(), **names, "version": 4}


def describe(options: NpzOptions) -> Description:
    """Read the sizes of the arrays, and all classes."""
    with _opened(options) as (parts, _):
        return _check_forms(options, parts, ArrayChecker(lambda line: None))


def verify(options: NpzOptions) -> str:
    """Refuse what `prepare` would; of the samples of a part the first `VERIFIED_BYTES` are read."""
    with _opened(options) as (parts, unused):
        checker = ArrayChecker(lambda line: None)
        _append(options, parts, checker, VERIFIED_BYTES)
        cut = [part.x for part in parts if part.x.num_bytes > VERIFIED_BYTES]
    notes = [
        *(f"{part.x.name!r} is the validation part" for part in parts[1:]),
        *([f"not used: {shorten(', '.join(map(repr, unused)))}"] if unused else []),
        *([remark] if (remark := checker.remark()) else []),
    ]
    most = f"the first {VERIFIED_BYTES / 1e9:.1f} GB of "
    sizes = " and ".join(f"{array.name!r} ({array.num_bytes / 1e9:,.1f} GB)" for array in cut)
    read = f"{most}{sizes} and all classes were read" if cut else "all samples were read"
    return f"{options.path}: {'; '.join([*notes, read])}"


def prepare(options: NpzOptions, writer: ArrayWriter) -> None:
    """Write the arrays; images of bytes [n, height, width] get a channel.

    Raises:
        UserError: The file is damaged, or an array is not there or has objects or texts in it.
    """
    with _opened(options) as (parts, _):
        _append(options, parts, writer, math.inf)


class StoredArray:
    """One array of an opened file, which is read in pieces.

    Args:
        archive: The file.
        member: Its member.
        options: Name the file in messages.

    Attributes:
        name: Its name in the file.
        form: An array of its shape and type that takes no memory and holds none of its numbers.
    """

    def __init__(self, archive: zipfile.ZipFile, member: zipfile.ZipInfo, options: NpzOptions) -> None:
        self.name = _array_name(member)
        self._archive, self._member, self._options = archive, member, options
        with _reading(options, self.name), archive.open(member) as file:
            version = np.lib.format.read_magic(file)
            if version not in _READERS:
                raise ValueError(f"it has version {version[0]}.{version[1]} of NumPy's format; 1.0 and 2.0 can be read")
            with warnings.catch_warnings(action="ignore"):  # of headers as Python 2 wrote them
                shape, self._is_fortran, dtype = _READERS[version](file)
            self._start = file.tell()
            self.form: Array = np.broadcast_to(np.zeros((), dtype), shape)
            # Objects have no size of their own: the form alone refuses them.
            if self._start + self.num_bytes != member.file_size and not dtype.hasobject:
                size = member.file_size - self._start
                raise ValueError(f"it has {size:,} bytes, and {list(shape)} of {dtype} take {self.num_bytes:,}")

    @property
    def num_bytes(self) -> int:
        """Bytes of all elements."""
        return math.prod(self.form.shape) * self.form.dtype.itemsize

    def pieces(self, most_bytes: float = math.inf) -> Iterator[Array]:
        """Yield consecutive rows, until `most_bytes` are read; of an array in Fortran order all rows or none.

        Raises:
            UserError: The file is damaged.
        """
        num_rows, row_bytes = len(self.form), max(1, self.form[:1].nbytes)
        rows = num_rows if self._is_fortran else max(1, PIECE_BYTES // row_bytes)
        if self._is_fortran and self.num_bytes > most_bytes:
            return
        with _reading(self._options, self.name), self._archive.open(self._member) as file:
            _exactly(file, self._start)
            for start in range(0, num_rows, rows):
                if start * row_bytes >= most_bytes:
                    return
                shape = (min(rows, num_rows - start), *self.form.shape[1:])
                numbers = np.frombuffer(_exactly(file, shape[0] * row_bytes), self.form.dtype)
                yield numbers.reshape(shape[::-1]).T if self._is_fortran else numbers.reshape(shape)
            file.read(1)  # the checksum is compared at the end


@dataclass(frozen=True, eq=False)
class _Part:
    """Samples and classes of the part `train` or `validation`."""

    name: str
    x: StoredArray
    y: StoredArray

    @cached_property
    def classes(self) -> Array:
        """Classes as one number each [n], where y has them so, as [n, 1] or one-hot [n, classes]; else y's form."""
        form = self.y.form
        if form.ndim not in (1, 2) or form.dtype.kind not in "biuf" or not form.size:
            return form
        numbers = [_class_numbers(piece) for piece in self.y.pieces()]
        return np.concatenate(numbers) if all(piece.ndim == 1 for piece in numbers) else form


@contextmanager
def _opened(options: NpzOptions) -> Iterator[tuple[Sequence[_Part], Sequence[str]]]:
    """Open the file; yield its training part and, where it has one, its validation part, and the names of other arrays.

    Raises:
        UserError: It is damaged, or holds no such arrays.
    """
    with ExitStack() as stack:
        with _reading(options):
            file = stack.enter_context(open_regular(Path(options.path).expanduser()))
            archive = stack.enter_context(zipfile.ZipFile(file))
        members = archive.infolist()
        pairs = _names(options, [_array_name(member) for member in members])
        arrays = {_array_name(member): member for member in members}
        parts = [
            _Part(part, *(StoredArray(archive, arrays[name], options) for name in pair)) for part, pair in pairs.items()
        ]
        used = {name for pair in pairs.values() for name in pair}
        yield parts, [name for name in arrays if name not in used]


@contextmanager
def _reading(options: NpzOptions, array: str = "") -> Iterator[None]:
    """Report whatever goes wrong while the file is read.

    Raises:
        UserError: The file is missing, is no .npz file or is damaged.
    """
    what = f"{array!r} in {options.path!r}" if array else repr(options.path)
    try:
        yield
    except FileNotFoundError as error:
        path = Path(options.path)
        near = nearest(path.name, [beside.name for beside in path.parent.glob("*.npz")])
        raise UserError(f"npz: {options.path!r} does not exist", hint=near) from error
    except Exception as error:  # a damaged file may raise any exception in zipfile and NumPy
        if foreign := refusal(Path(options.path).expanduser(), "npz"):
            raise UserError(f"npz: {foreign.message}", hint=foreign.hint) from error
        reason = re.sub(" at 0x[0-9a-f]+", "", str(error)).partition("\n")[0] or type(error).__name__
        raise UserError(
            f"npz: {what} cannot be read: {shorten(reason)}",
            hint="the file is damaged or was not written by np.savez: write it again",
        ) from error


def _exactly(file: IO[bytes], num_bytes: int) -> bytearray:
    """Return the next bytes of a file; memory grows with what is there, not with what is asked for."""
    content = bytearray()
    while len(content) < num_bytes:
        piece = file.read(min(num_bytes - len(content), PIECE_BYTES))
        if not piece:
            raise EOFError("it is cut off")
        content += piece
    return content


def _array_name(member: zipfile.ZipInfo) -> str:
    return member.filename.removesuffix(".npy")


def _append(options: NpzOptions, parts: Sequence[_Part], checker: ArrayChecker, most_bytes: float) -> None:
    _check_forms(options, parts, checker)
    for part in parts:
        start = 0
        for piece in part.x.pieces(most_bytes):
            checker.append(_samples(piece), part.classes[start : start + len(piece)], part.name)
            start += len(piece)
    if checker.largest_byte > 1 and options.scale_bytes:
        checker.scale = 1 / 255
        checker.add_remark("bytes enter the network as x/255 (`dataset.scale_bytes: false` leaves them as they are)")
    elif checker.largest_byte > 1:
        checker.add_remark(f"bytes of 0 to {checker.largest_byte} are not scaled (`dataset.scale_bytes`)")


def _check_forms(options: NpzOptions, parts: Sequence[_Part], checker: ArrayChecker) -> Description:
    """Pass the arrays' forms and all classes to a checker; return the sizes that follow."""
    used = ", ".join(array.name for part in parts for array in (part.x, part.y))
    checker.describe(
        source=f"{used} of {Path(options.path).expanduser()}",
        has_validation=len(parts) > 1,
        num_samples=sum(len(part.x.form) for part in parts if part.x.form.ndim),
        array_names={
            part.name: (f"{part.x.name} in {options.path}", f"{part.y.name} in {options.path}") for part in parts
        },
    )
    samples = [_samples(part.x.form) for part in parts]
    for part, x in zip(parts, samples, strict=True):
        checker.check_form(x, part.classes, part.name)
    num_classes = len(checker.class_names(len(samples[0])))
    return Description(len(samples[0]), len(samples[1]) if samples[1:] else None, samples[0].shape[1:], num_classes)


def _names(options: NpzOptions, there: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return the names of samples and classes by part.

    Raises:
        UserError: They are missing.
    """
    pairs = _pairs(there)
    train = pairs.get("train", (None, None))
    x, y = options.x or train[0], options.y or train[1]
    listed = ", ".join(there) or "no array"
    if x is None or y is None:
        raise UserError(
            f"npz: {options.path} has {shorten(listed)}, neither x and y nor x_train and y_train",
            hint="name them with `dataset.x` and `dataset.y` (and `dataset.validation_x`, `dataset.validation_y`), or "
            "save them so: `np.savez('data.npz', x=..., y=...)`",
        )
    # A validation part belongs to the training part whose name it shares.
    pairs = {**(pairs if (x, y) == train else {}), "train": (x, y)}
    if options.validation_x or options.validation_y:
        if not (options.validation_x and options.validation_y):
            raise UserError("npz: name both `dataset.validation_x` and `dataset.validation_y`")
        pairs["validation"] = (options.validation_x, options.validation_y)
    for name in (name for pair in pairs.values() for name in pair):
        if name not in there:
            raise UserError(f"npz: {options.path} has no array {name!r}; it has {shorten(listed)}")
    return pairs


def _pairs(there: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return samples and classes of the parts that the names of arrays tell."""
    names = {re.sub(r"[\W_]", "", name.lower()): name for name in reversed(there)}
    pairs: dict[str, tuple[str, str]] = {}
    for part, words in _PART_WORDS.items():
        for word, *roles in product(words, *_ROLES):
            x, y = (names.get(role + word) or names.get(word + role) for role in roles)
            if x and y:
                pairs.setdefault(part, (x, y))
    if not pairs and sorted(there) == ["arr_0", "arr_1"]:  # as np.savez calls arrays without names
        return {"train": ("arr_0", "arr_1")}
    return pairs


def _samples(x: Array) -> Array:
    return x[..., np.newaxis] if x.dtype == np.uint8 and x.ndim == 3 else x


def _class_numbers(y: Array) -> Array:
    if y.ndim == 1 or y.shape[1] == 1:
        return y.reshape(-1)
    is_one_hot = bool(((y == 0) | (y == 1)).all() and (y.sum(axis=1) == 1).all())
    return y.argmax(axis=1) if is_one_hot else y
