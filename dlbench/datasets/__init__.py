"""The data sets, one file each.

A data set file holds a one-line doc, `OPTIONS`, and three functions:

    def identity(options) -> dict[str, Any]: ...   # what identifies the content, JSON-able and quick: versions,
                                                   # sizes, a listing's fingerprint; the cache key is its hash
    def prepare(options, writer: ArrayWriter) -> None: ...  # writes x and y once, in pieces, see `_writer.py`
    def describe(options) -> Description: ...      # optional: sizes and shape, quick, without preparing

Samples are numbers [n, ...] with a class each; or tokens, with `vocabulary` in the description and in
`writer.describe`, and then perhaps a class at each of their positions (`target_shape`).
A user's own `package.module:function` returns `(x, y)` or `(x, y, validation_x, validation_y)` as arrays.
Preparing happens once, before any launch, under a lock, atomically, checksummed; workers map the arrays read-only,
so that memory grows neither with their number nor with the data.

    _prepare.py      python -m dlbench.datasets._prepare '{"dataset": ..., "options": ..., "cache": ...}'
    _cache.py        one folder for each prepared data set: lock, temporary folder, atomic rename
    _writer.py       ArrayWriter: arrays written and checked in pieces
    _meta.py         meta.json of a prepared data set
    _open.py         open_arrays(folder, checksum) -> Arrays: what a worker maps
    _split.py        split(arrays, seed, ...) -> Split: who is trained on, who is evaluated
    _description.py  Description: what is known without preparing
    _function.py     a user's own function as a data set
    _images.py, _decode.py   class folders and picture files
    _characters.py   a text file as numbers
    _cifar.py, _cifar_files.py, _unpickle.py, _download.py   the CIFAR archives: found or loaded, checked, read
    keras/           the data sets that Keras ships: `keras:mnist` and so on
"""
