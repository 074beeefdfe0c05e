"""The data sets: one file or one table row each.

A data set file holds a one-line doc, `OPTIONS`, and up to four functions:

    def identity(options) -> dict[str, Any]: ...   # what identifies the content, JSON-able and quick: versions,
                                                   # sizes, a listing's fingerprint; the cache key is its hash
    def prepare(options, writer: ArrayWriter) -> None: ...  # writes x and y once, in pieces, see `_writer.py`
    def describe(options) -> Description: ...      # optional: sizes and shape, quick, without preparing
    def verify(options) -> str: ...                # optional: refuses what `prepare` would refuse of the user's files,
                                                   # in bounded time, for `check` and `init`; returns what was read

Published data sets that differ only in address, checksum and size are rows of `_table.py`; a row has the same three
functions. A user's own `package.module:function` returns `(x, y)` or `(x, y, validation_x, validation_y)` as arrays.
Samples are numbers [n, ...] with one class each, or one number to predict (`y` of a floating type: a regression); or
tokens, with `vocabulary` in the description and in `writer.describe`, and then perhaps a class at each of their
positions (`target_shape`).

A data set is prepared once, before any launch, under a lock, atomically, with checksums; workers map the arrays
read-only, so that memory grows neither with their number nor with the data.

    _prepare.py    python -m dlbench.datasets._prepare '{"dataset": ..., "options": ..., "cache": ...}'
    _cache.py      one folder for each prepared data set: lock, temporary folder, atomic rename
    _writer.py     ArrayWriter: checks arrays and writes them in pieces; ArrayChecker: checks alone
    _read_files.py    which files a user's function reads, so that it is called again where one has changed
    _file_format.py   files of other formats, and what to do with them
    _format.py     the files of a prepared data set: meta.json, checksums, open_arrays (what a worker maps)
    _split.py      split(arrays, seed, ...) -> Split: which samples are trained on, which are evaluated
    _download.py   published files: downloaded, verified, kept in the cache
    _disk.py       locks, errors of the disk
    _table.py      the published data sets; _cifar.py and _keras.py read them
    _image_listing.py, _image_decoding.py   the files of `image_folder`
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Description:
    """What is known of a data set before it is prepared, so that a scenario can be checked against it.

    `describe(options)` returns it, or None where it cannot know yet. It raises `UserError` for options that can never
    work, such as a folder that does not exist.

    Attributes:
        num_train: Training samples; all samples where the data set is not split.
        num_validation: Validation samples, where the data set is split; None where it is not, and
            `validation_fraction` of the training samples is kept for validation.
        input_shape: Shape of one sample, without the batch; None where it is known only after preparing.
        num_classes: Number of classes, 0 where numbers are predicted; None where it is known only after preparing.
        vocabulary: Number of different tokens, where samples are tokens (whole numbers below it).
        target_shape: () where a sample has one class, (T,) where it has one at each of T positions.
    """

    num_train: int
    num_validation: int | None
    input_shape: tuple[int, ...] | None
    num_classes: int | None
    vocabulary: int | None = None
    target_shape: tuple[int, ...] = ()
