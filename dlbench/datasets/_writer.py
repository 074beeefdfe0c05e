"""Checks and writes the samples of a data set piece by piece: memory does not grow with the data.

Files are written, never mapped for writing: on a full disk a write fails with an error that can be reported, where a
mapped page would end the process with SIGBUS.
"""

import hashlib
import os
import shutil
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Self

import numpy as np

from dlbench.datasets._disk import ELSEWHERE, Say, disk_errors
from dlbench.datasets._download import RemoteFile, download
from dlbench.datasets._format import DOUBT, PARTS, Array, ArrayMeta, DatasetContent
from dlbench.errors import UserError, shorten

# Elements pass through memory in pieces of about this size.
PIECE_BYTES = 4 * 2**20
PROGRESS_INTERVAL_S = 1.0
# Fewer validation samples that are trained on cannot raise an accuracy by a point. More than repeat by nature, as rows
# of whole numbers and short texts do, are this many times the share that repeats within training, or nearly all.
_MUCH_REPEATED, _CLEARLY_MORE, _NEARLY_ALL = 0.01, 2, 0.9
# Numbers the classes of any type from 0.
_NUMBERED = "`np.unique(y, return_inverse=True)[1]`"


class NpyStream:
    """One `.npy` file whose number of rows is known only at the end."""

    def __init__(self, file: IO[bytes], dtype: np.dtype[Any], item_shape: tuple[int, ...]) -> None:
        self.dtype = dtype
        self.item_shape = item_shape
        self.num_rows = 0
        self._file = file
        self._hash = hashlib.sha256()
        self._write_header()

    def append(self, rows: Array) -> None:
        """Append rows of the stream's own type and shape."""
        elements = np.ascontiguousarray(rows).reshape(-1).view(np.uint8)
        with disk_errors(self._file.name):
            self._file.write(elements.data)
        self._hash.update(elements.data)
        self.num_rows += len(rows)

    def finish(self) -> ArrayMeta:
        """Write the final header, force everything to disk and return what was written."""
        with disk_errors(self._file.name):
            self._file.seek(0)
            self._write_header()
            self._file.flush()
            os.fsync(self._file.fileno())
            size = os.fstat(self._file.fileno()).st_size
        shape = (self.num_rows, *self.item_shape)
        return ArrayMeta(dtype=self.dtype.str, shape=shape, file_bytes=size, sha256=self._hash.hexdigest())

    def _write_header(self) -> None:
        # NumPy pads the header for a first axis of any length, so that it can be written again in place.
        shape = (self.num_rows, *self.item_shape)
        header = {"descr": self.dtype.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self._file, header)


class ArrayChecker:
    """Takes the samples of a data set as `ArrayWriter` does and refuses the same; keeps none of them.

    Attributes:
        say: Receives lines about the progress.
        scale: See `describe`; what decides over it may be known only after the last piece.
        largest_byte: The largest number of samples that are bytes.
    """

    def __init__(self, say: Say) -> None:
        self.say = say
        self.largest_byte = 0
        self._forms: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {}
        self._largest_class = -1
        self._predicts_numbers = False
        self._hashes: dict[str, list[Array]] = {}
        self._are_whole_rows = True
        self._classes: dict[str, Array] = {}
        self.describe(source="")

    def describe(
        self,
        *,
        source: str,
        class_names: tuple[str, ...] | None = None,
        scale: float = 1.0,
        offset: float = 0.0,
        notes: dict[str, Any] | None = None,
        num_samples: int | None = None,
        vocabulary: int | None = None,
        target_shape: tuple[int, ...] = (),
        array_names: Mapping[str, tuple[str, str]] | None = None,
        has_validation: bool = True,
    ) -> None:
        """Set what the samples mean; call it before the first piece.

        Args:
            source: Where the samples come from, for humans.
            class_names: Names by class number; default: as many as the largest class number asks for.
            scale: A sample enters the network as `x * scale + offset`.
            offset: See `scale`.
            notes: How the samples were converted, JSON-able; kept in `meta.json`.
            num_samples: How many samples there will be in all, for the progress lines and the check of the disk.
            vocabulary: Where samples are tokens, whole numbers below this; they are never scaled.
            target_shape: (T,) where each sample has a class at each of T positions.
            array_names: What messages call the samples and the classes of a part.
            has_validation: Whether there is a part `validation`, whose samples are then looked for in the other one.
        """
        self._described = {"source": source, "offset": offset}
        self._notes = notes or {}
        self.scale, self._has_validation, self._remarks = scale, has_validation, list[str]()
        self._class_names, self._num_expected = class_names, num_samples
        self._vocabulary, self._target_shape = vocabulary, target_shape
        self._array_names = {**PARTS, **(array_names or {})}

    def append(self, x: Any, y: Any, part: str = "train") -> None:
        """Append samples `x` [n, ...] to the part `train` or `validation`, with class numbers `y` [n, *target_shape].

        `y` [n] of a floating type holds numbers to predict, fractions among them.

        Raises:
            UserError: The arrays do not fit each other or the pieces before, or hold what cannot be trained on.
        """
        x, y = (_as_array(name, value) for name, value in zip(self._array_names[part], (x, y), strict=True))
        self.check_form(x, y, part)
        rows = max(1, PIECE_BYTES // max(1, x[:1].nbytes))
        for start in range(0, len(x), rows):
            self._append_piece(part, x[start : start + rows], y[start : start + rows])

    def check_form(self, x: Array, y: Array, part: str = "train") -> None:
        """Check the shape and type of samples, and all of their classes; no sample is read.

        Raises:
            UserError: See `append`.
        """
        name_x, name_y = self._array_names[part]
        _check_samples(name_x, x)
        can_be_numbers = self._class_names is None and not self._target_shape and y.dtype.kind == "f"
        is_regression = self._predicts_numbers or (can_be_numbers and not _are_whole(y))
        if is_regression:
            if y.ndim != 1 or y.dtype.kind not in "uif":
                form = f"shape {y.shape} and type {y.dtype}"
                raise UserError(f"{name_y} has {form}; it must be [n], one number for each sample")
            _require_finite(name_y, y)
        else:
            _check_classes(name_y, y, self._target_shape)
        if len(x) != len(y):
            raise UserError(f"{name_x} has {len(x):,} samples but {name_y} has {len(y):,} class numbers")
        if not len(x):
            raise UserError(f"{name_x} is empty; it must hold at least one sample")
        self._check_equal_forms(part, x, y, np.dtype(np.float64 if is_regression else np.int32))
        self._predicts_numbers = is_regression
        if not is_regression:
            self._note_classes(part, y)

    def class_names(self, num_train: int) -> tuple[str, ...]:
        """Return the names of the classes, where there are `num_train` training samples; none of numbers.

        Raises:
            UserError: The class numbers are not those of classes 0, 1, ...
        """
        if self._predicts_numbers:
            return ()
        names = self._class_names
        num_classes = self._largest_class + 1 if names is None else len(names)
        if self._largest_class >= num_classes:
            raise UserError(f"class number {self._largest_class:,} in a data set of {num_classes:,} classes")
        if num_classes < 2:
            raise UserError("the data set has a single class; at least two are needed")
        if names is not None:
            return names
        if num_classes > num_train:
            raise UserError(
                f"class numbers reach {self._largest_class:,} but there are only {num_train:,} training samples",
                hint="y must hold class numbers 0, 1, 2, ...",
            )
        train = self._classes["train"]
        if len(unknown := np.setdiff1d(self._classes.get("validation", train), train)):
            name, name_validation = self._array_names["train"][1], self._array_names["validation"][1]
            raise UserError(
                f"{name_validation} has class numbers that {name} does not have: {_numbers(unknown)}",
                hint="a class without training samples cannot be learned: remove its samples or number all parts alike",
            )
        if train[0] != 0:
            raise UserError("no sample is of class 0", hint="classes are numbered from 0; subtract the smallest number")
        return tuple(map(str, range(num_classes)))

    def _append_piece(self, part: str, x: Array, y: Array) -> None:
        name = self._array_names[part][0]
        if x.dtype.kind == "f":
            _require_finite(name, x)
        if x.dtype == np.uint8:
            self.largest_byte = max(self.largest_byte, int(x.max()))
        if self._has_validation:
            self._hashes.setdefault(part, []).append(np.fromiter((hash(row.tobytes()) for row in x), np.int64, len(x)))
            self._are_whole_rows = self._are_whole_rows and x.ndim == 2 and _are_whole(x)
        if self._vocabulary is None:
            return
        if x.dtype.kind not in "ui":
            raise UserError(f"{name} holds {x.dtype}; tokens are integers")
        if x.size and (int(x.min()) < 0 or int(x.max()) >= self._vocabulary):
            span = f"from {x.min()} to {x.max()}; there are {self._vocabulary:,}, numbered from 0"
            raise UserError(f"{name} holds tokens {span}")

    def add_remark(self, remark: str) -> None:
        """Add to what `remark` returns."""
        self._remarks.append(remark)

    def remark(self) -> str:
        """Return what to know in words: a regression, classes without samples, samples in both parts."""
        remarks = ["its targets are numbers to predict: a regression"] if self._predicts_numbers else []
        missing = np.setdiff1d(np.arange(self._largest_class), self._classes.get("train", np.arange(0)))
        if self._class_names is None and len(missing):
            remarks.append(
                f"{len(missing):,} of {self._largest_class + 1:,} classes have no sample: {_numbers(missing)} "
                f"({_NUMBERED} leaves no gaps)"
            )
        return "; ".join(filter(None, [*remarks, self.repeated[1], *self._remarks]))

    @cached_property
    def repeated(self) -> tuple[bool, str]:
        """Whether validation samples were trained on, and how many are also training samples, in words, empty for none.

        Known once all samples are here.
        """
        if self._hashes.keys() != PARTS.keys():
            return False, ""
        train, validation = (np.concatenate(self._hashes[part]) for part in PARTS)
        num_same, num = int(np.count_nonzero(np.isin(validation, train))), len(validation)
        words = f"{num_same:,} of {num:,} validation samples are also training samples" if num_same else ""
        _, times = np.unique(train, return_counts=True)
        # Only such rows repeat by nature: copies of images or of measured values were made before the split.
        by_nature = times[times > 1].sum() / len(train) if self._are_whole_rows else 0.0
        least = max(_MUCH_REPEATED, min(_CLEARLY_MORE * by_nature, _NEARLY_ALL))
        return num_same > num * least, words

    def _note_classes(self, part: str, y: Array) -> None:
        name, smallest, largest = self._array_names[part][1], int(y.min()), int(y.max())
        if smallest < 0:
            raise UserError(f"{name} holds {smallest}; classes are numbered from 0", hint=_NUMBERED)
        if largest >= 2**31:
            raise UserError(f"{name} holds {largest:,}, which is not a class number")
        self._largest_class = max(self._largest_class, largest)
        if self._class_names is None:
            self._classes[part] = np.unique(np.append(self._classes.get(part, y[:0]), y))

    def _check_equal_forms(self, part: str, x: Array, y: Array, stored: np.dtype[Any]) -> None:
        """Refuse samples or targets of another form than those before, or than those of the training part."""
        forms = ((_stored_type(x.dtype), x.shape[1:]), (stored, y.shape[1:]))
        for key, name, form in zip(PARTS[part], self._array_names[part], forms, strict=True):
            for other in (self._forms.setdefault(key, form), self._forms.get(key.removeprefix("validation_"), form)):
                if other != form:
                    raise UserError(
                        f"{name} has samples of shape {form[1]} and type {form[0]}; "
                        f"others have {other[1]} and {other[0]}"
                    )


class ArrayWriter(ArrayChecker):
    """Where a data set's `prepare` writes to: what the samples mean, then the samples in pieces.

    Use as a context manager; `finish` returns what was written, already on disk.
    """

    def __init__(self, folder: Path, say: Say) -> None:
        super().__init__(say)
        self._folder = folder
        self._open_files = ExitStack()
        self._streams: dict[str, NpyStream] = {}
        self._reported_at = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # `finish` has forced everything to disk; what fails here belongs to an attempt that failed already.
        with suppress(OSError):
            self._open_files.close()

    def download(self, file: RemoteFile) -> Path:
        """Return a published file, downloaded into the cache that is written to if it is not there yet.

        Raises:
            UserError: It cannot be downloaded, or what arrives is not the published file.
        """
        return download(file, self._folder.parent / "downloads", self.say)

    def finish(self) -> DatasetContent:
        """Check the whole, force it to disk and return what was written.

        Raises:
            UserError: There are no samples, or the class numbers are not those of classes 0, 1, ...
        """
        if "x" not in self._streams:
            raise UserError("the data set has no training samples")
        names = self.class_names(self._streams["x"].num_rows)
        arrays = {name: stream.finish() for name, stream in self._streams.items()}
        self.say(f"{self._num_written:,} samples written" + (f"; {remark}" if (remark := self.remark()) else ""))
        is_leak, words = self.repeated
        return DatasetContent(
            arrays=arrays,
            class_names=names,
            vocabulary=self._vocabulary,
            scale=self.scale,
            notes={**self._notes, DOUBT: words} if is_leak else self._notes,
            **self._described,
        )

    def _append_piece(self, part: str, x: Array, y: Array) -> None:
        if not self._streams:
            self._check_room(x)
        super()._append_piece(part, x, y)
        name_x, name_y = PARTS[part]
        self._stream(name_x).append(x.astype(_stored_type(x.dtype), copy=False))
        self._stream(name_y).append(y.astype(self._forms[name_y][0]))
        now = time.monotonic()
        if now - self._reported_at >= PROGRESS_INTERVAL_S:
            self._reported_at = now
            total = f" of {self._num_expected:,}" if self._num_expected else ""
            self.say(f"{self._num_written:,}{total} samples")

    def _check_room(self, x: Array) -> None:
        """Refuse at once what cannot fit, instead of filling a disk that others use too.

        Raises:
            UserError: The expected samples take more bytes than are free.
        """
        needed = (self._num_expected or 0) * x[:1].nbytes
        free = shutil.disk_usage(self._folder).free
        if needed > free:
            raise UserError(
                f"cache of data sets: the disk is full: {self._folder.parent}: No space left on device for "
                f"{needed / 1e9:,.3f} GB of samples; {free / 1e9:,.3f} GB are free",
                hint=ELSEWHERE,
            )

    def _stream(self, name: str) -> NpyStream:
        if name not in self._streams:
            path = self._folder / f"{name}.npy"
            with disk_errors(path):
                file = self._open_files.enter_context(path.open("w+b"))
                self._streams[name] = NpyStream(file, *self._forms[name])
        return self._streams[name]

    @property
    def _num_written(self) -> int:
        return sum(stream.num_rows for name, stream in self._streams.items() if name.endswith("x"))


def _numbers(classes: Array) -> str:
    return ", ".join(map(str, classes[:10])) + (" ..." if len(classes) > 10 else "")


def _stored_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type that samples are stored in: bytes for bool, native byte order for all."""
    return np.dtype(np.uint8) if dtype.kind == "b" else dtype.newbyteorder("=")


def _as_array(name: str, value: Any) -> Array:
    if np.ma.is_masked(value):
        raise UserError(f"{name} has masked entries", hint="fill them in (`.filled(...)`) or leave their samples out")
    if hasattr(value, "toarray"):
        raise UserError(f"{name} is a sparse matrix", hint="`.toarray()`")
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise UserError(f"{name} is not an array: {error}") from error
    if array.dtype == object and hasattr(value, "columns"):
        columns = [str(column) for column, dtype in value.dtypes.items() if dtype.kind not in "buif"]
        which = f" that are no numbers: {shorten(', '.join(columns))}" if columns else " of several types"
        raise UserError(f"{name} is a table with columns{which}", hint='`table[features].to_numpy("float32")`')
    return array


def _check_samples(name: str, x: Array) -> None:
    if x.dtype.kind not in "buif":
        raise UserError(f"{name} holds {x.dtype}; samples are numbers (integers or floating point)")
    if x.ndim < 2:
        raise UserError(f"{name} has shape {x.shape}; one sample needs at least one axis: [n, ...]")
    if x[:1].size == 0 and len(x):
        raise UserError(f"{name} has shape {x.shape}: its samples are empty")


def _are_whole(y: Array) -> bool:
    return bool((np.isfinite(y) & (y == np.round(y))).all())


def _require_finite(name: str, numbers: Array) -> None:
    if not (np.abs(numbers) <= np.finfo(np.float32).max).all():
        raise UserError(f"{name} holds numbers that are not finite in float32 (NaN, infinity, or beyond 3.4e38)")


def _check_classes(name: str, y: Array, target_shape: tuple[int, ...]) -> None:
    if y.ndim != 1 and not target_shape:
        hint = "one-hot rows become class numbers by `.argmax(axis=1)`, a column by `.ravel()`"
        if y.ndim == 2 and y.shape[1] > 1 and (np.count_nonzero(y, axis=1) != 1).any():
            hint = "several labels of a sample are not trained: take one column, or a script of your own (`command`)"
        raise UserError(f"{name} has shape {y.shape}; it must be [n], one class number for each sample", hint=hint)
    if y.shape[1:] != target_shape:
        raise UserError(f"{name} has shape {y.shape}; each sample needs class numbers of shape {target_shape}")
    if y.dtype.kind not in "ui" and len(y):
        hint = "`.astype(int)`" if y.dtype.kind == "b" else _NUMBERED
        if y.dtype.kind == "f" and _are_whole(y):
            hint = "`.astype(int)`; where they are numbers to predict, standardise them: they are taken for classes"
        raise UserError(f"{name} holds {y.dtype}; class numbers are integers", hint=hint)
