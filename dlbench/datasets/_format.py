"""The files of a prepared data set: `meta.json`, the arrays beside it, and the checksums that prove them.

<folder>/
  x.npy  y.npy                          training samples and their classes, or the numbers to predict of them
  validation_x.npy  validation_y.npy    where the data set has its own validation part
  meta.json                             what they hold, where it came from, their checksums

History of `SCHEMA_VERSION`:
    1: first version.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError

from dlbench.errors import UserError
from dlbench.scenario.frozen import Frozen

Array = npt.NDArray[Any]

# It grows when what an entry holds, or a doubt that it keeps, has another meaning.
SCHEMA_VERSION = 2
META = "meta.json"
# Where notes say that scores on the validation samples are doubtful, and why.
DOUBT = "doubt"
# Names of the arrays of each part; `<name>.npy` is the file.
PARTS = {"train": ("x", "y"), "validation": ("validation_x", "validation_y")}


@dataclass(frozen=True, eq=False)
class Arrays:
    """A prepared data set, mapped read-only: all processes of a host share its pages.

    Attributes:
        x: Training samples [n, *input_shape] as stored; they enter the network as `x * scale + offset`.
        y: Their class numbers [n, *target_shape], int32; or numbers to predict [n], float64.
        scale: See `x`.
        offset: See `x`.
        class_names: Names by class number; none where numbers are predicted.
        validation_x: Samples of the data set's own validation part, or None where it has none.
        validation_y: Their class numbers, or numbers to predict.
        vocabulary: Where samples are tokens, whole numbers below this.
    """

    x: Array
    y: Array
    scale: float
    offset: float
    class_names: tuple[str, ...]
    validation_x: Array | None = None
    validation_y: Array | None = None
    vocabulary: int | None = None

    @property
    def num_classes(self) -> int:
        """Number of classes; 0 where numbers are predicted."""
        return len(self.class_names)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one sample."""
        return self.x.shape[1:]

    @property
    def target_shape(self) -> tuple[int, ...]:
        """() where a sample has one class, (T,) where it has one at each of T positions."""
        return self.y.shape[1:]


class ArrayMeta(Frozen):
    """One array file: element type, shape, size of the file, and sha256 of its elements (without the .npy header)."""

    dtype: str
    shape: tuple[int, ...]
    file_bytes: int
    sha256: str


class DatasetContent(Frozen):
    """What the arrays hold. A sample enters the network as `x * scale + offset`.

    Attributes:
        arrays: The arrays by name: `x`, `y` and, where the data set has its own, `validation_x`, `validation_y`.
        class_names: Names of the classes, by class number.
        source: Where the samples come from, for humans.
        notes: What was done to them: conversions, counts of what was left out.
        vocabulary: Where samples are tokens, whole numbers below this; they enter the network as they are.
    """

    arrays: dict[str, ArrayMeta]
    class_names: tuple[str, ...]
    scale: float
    offset: float
    source: str
    notes: dict[str, Any]
    vocabulary: int | None = None

    @property
    def doubt(self) -> str:
        """Why scores on the validation samples are doubtful; empty where they are not."""
        return str(self.notes.get(DOUBT, ""))

    @property
    def checksum(self) -> str:
        """The combined checksum: everything a worker reads, nothing of where or when it was prepared."""
        content = self.model_dump(mode="json", include={"arrays", "class_names", "scale", "offset"})
        # Left out where there is none: what was prepared before there were tokens keeps its checksum.
        return fingerprint(content if self.vocabulary is None else content | {"vocabulary": self.vocabulary})


class DatasetMeta(Frozen):
    """One prepared data set.

    Attributes:
        dataset: Name of the data set.
        options: Its options.
        identity: What identifies the content; the folder's name carries its hash.
        checksum: `content.checksum`, written down.
        created_at: When it was prepared (ISO 8601, UTC).
    """

    schema_version: int = SCHEMA_VERSION
    dataset: str
    options: dict[str, Any]
    identity: dict[str, Any]
    content: DatasetContent
    checksum: str
    created_at: str


def fingerprint(content: Any) -> str:
    """Return the sha256 of JSON-able content, the same for equal content in any order of keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def read_entry(folder: Path) -> DatasetMeta:
    """Read a prepared data set's `meta.json` and compare the sizes of the arrays beside it.

    Raises:
        OSError: A file is not there or cannot be read.
        ValueError: One is damaged or of another schema version.
    """
    content = json.loads((folder / META).read_bytes())
    version = content.get("schema_version") if isinstance(content, dict) else None
    if version != SCHEMA_VERSION:
        raise ValueError(f"{META} has schema version {version}, this dlbench reads {SCHEMA_VERSION}")
    try:
        meta = DatasetMeta.model_validate(content)
    except ValidationError as error:
        raise ValueError(f"{META} is damaged: {error.error_count()} fields are wrong") from error
    if meta.checksum != meta.content.checksum:
        raise ValueError(f"{META} is damaged: its checksum does not belong to its arrays")
    for name, array in meta.content.arrays.items():
        path = folder / f"{name}.npy"
        if (size := path.stat().st_size) != array.file_bytes:
            raise ValueError(f"{path.name} is damaged: it has {size:,} bytes, not {array.file_bytes:,}")
    return meta


def open_arrays(folder: Path, checksum: str) -> Arrays:
    """Map a prepared data set; quick, reads no samples.

    Args:
        folder: Its folder in the cache.
        checksum: What its `meta.json` must say.

    Raises:
        UserError: It does not exist, is damaged, or holds other samples.
    """
    hint = "prepare it again on this host: `python -m dlbench.datasets._prepare`"
    try:
        meta = read_entry(folder)
    except (OSError, ValueError) as error:
        raise UserError(f"no prepared data set in {folder}: {error}", hint=hint) from error
    if meta.checksum != checksum:
        raise UserError(f"{folder} holds other samples: checksum {meta.checksum[:12]}, not {checksum[:12]}", hint=hint)
    content = meta.content
    mapped = {name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in content.arrays}
    return Arrays(
        **mapped,
        scale=content.scale,
        offset=content.offset,
        class_names=content.class_names,
        vocabulary=content.vocabulary,
    )
