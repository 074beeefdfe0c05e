"""The data sets, one file each.

A data set file holds a one-line doc, `OPTIONS`, and two functions:

    def identity(options) -> dict[str, Any]: ...   # what identifies the content, JSON-able and quick: versions,
                                                   # sizes, a listing's fingerprint; the cache key is its hash
    def prepare(options, writer: ArrayWriter) -> None: ...  # writes x and y once, in pieces, see `_cache.py`

A user's own `package.module:function` returns `(x, y)` or `(x, y, validation_x, validation_y)` as arrays.
Preparing happens once, before any launch, under a lock, atomically, checksummed; workers map the arrays read-only,
so that memory grows neither with their number nor with the data.
"""
