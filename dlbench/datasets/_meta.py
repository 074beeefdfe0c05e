"""`meta.json` of a prepared data set: what is in its arrays, where it came from, and the checksums that prove it.

History of `SCHEMA_VERSION`:
    1: first version.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

SCHEMA_VERSION = 1
META = "meta.json"
# Names of the arrays of each part; `<name>.npy` is the file.
PARTS = {"train": ("x", "y"), "validation": ("validation_x", "validation_y")}


class ArrayMeta(BaseModel):
    """One array file: element type, shape, size of the file, and sha256 of its elements (without the .npy header)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dtype: str
    shape: tuple[int, ...]
    file_bytes: int
    sha256: str


class Content(BaseModel):
    """What the arrays hold. A sample enters the network as `x * scale + offset`.

    Attributes:
        arrays: The arrays by name: `x`, `y` and, where the data set has its own, `validation_x`, `validation_y`.
        class_names: Names of the classes, by class number.
        source: Where the samples come from, for humans.
        notes: What was done to them: conversions, counts of what was left out.
        vocabulary: Where samples are tokens, whole numbers below this; they enter the network as they are.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    arrays: dict[str, ArrayMeta]
    class_names: tuple[str, ...]
    scale: float
    offset: float
    source: str
    notes: dict[str, Any]
    vocabulary: int | None = None

    @property
    def checksum(self) -> str:
        """The combined checksum: everything a worker reads, nothing of where or when it was prepared."""
        content = self.model_dump(mode="json", include={"arrays", "class_names", "scale", "offset"})
        # Left out where there is none: what was prepared before there were tokens keeps its checksum.
        return fingerprint(content if self.vocabulary is None else content | {"vocabulary": self.vocabulary})

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one sample."""
        return self.arrays["x"].shape[1:]

    @property
    def target_shape(self) -> tuple[int, ...]:
        """() where a sample has one class, (T,) where it has one at each of T positions."""
        return self.arrays["y"].shape[1:]

    @property
    def num_classes(self) -> int:
        """Number of classes."""
        return len(self.class_names)

    def num_samples(self, part: str) -> int | None:
        """Samples of the part `train` or `validation`; None where there is no such part."""
        array = self.arrays.get(PARTS[part][0])
        return None if array is None else array.shape[0]


class Meta(BaseModel):
    """One prepared data set.

    Attributes:
        dataset: Name of the data set.
        options: Its options.
        identity: What identifies the content; the folder's name carries its hash.
        checksum: `content.checksum`, written down.
        created_at: When it was prepared (ISO 8601, UTC).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int = SCHEMA_VERSION
    dataset: str
    options: dict[str, Any]
    identity: dict[str, Any]
    content: Content
    checksum: str
    created_at: str


def fingerprint(content: Any) -> str:
    """Return the sha256 of JSON-able content, the same for equal content in any order of keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def read_meta(folder: Path) -> Meta:
    """Read a prepared data set's `meta.json`.

    Raises:
        OSError: There is none or it cannot be read.
        ValueError: It is damaged or of another schema version.
    """
    found = json.loads((folder / META).read_bytes())
    version = found.get("schema_version") if isinstance(found, dict) else None
    if version != SCHEMA_VERSION:
        raise ValueError(f"{META} has schema version {version}, this dlbench reads {SCHEMA_VERSION}")
    try:
        meta = Meta.model_validate(found)
    except ValidationError as error:
        raise ValueError(f"{META} is damaged: {error.error_count()} fields are wrong") from error
    if meta.checksum != meta.content.checksum:
        raise ValueError(f"{META} is damaged: its checksum does not belong to its arrays")
    return meta
