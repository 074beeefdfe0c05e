"""Decodes image files into arrays, in threads (the decoders release Python's lock) and in bounded memory."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dlbench.regular_file import open_regular

Pixels = npt.NDArray[np.uint8]
Color = Literal["rgb", "grayscale"]

MODES = {"rgb": "RGB", "grayscale": "L"}
CHANNELS = {"rgb": 3, "grayscale": 1}
FORMATS = ("JPEG", "PNG")
_ENDS = ((b"\xff\xd8", b"\xff\xd9"), (b"\x89PNG\r\n\x1a\n", b"IEND"))
_END_BYTES = 16
# The tag of Exif, and its values that swap height and width.
_ORIENTATION, _TURNED = 0x0112, (5, 6, 7, 8)
# The most that one task decodes; there are at most twice as many tasks as threads.
TASK_BYTES = 2**20
TASK_FILES = 128
MAX_THREADS = 16


@dataclass(frozen=True)
class Form:
    """What every image becomes: height, width, and colors.

    `resize` says whether another size is resized (bilinear, the aspect ratio not kept) or is an error.
    """

    height: int
    width: int
    color: Color
    resize: bool

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of one sample: [height, width, channels]."""
        return (self.height, self.width, CHANNELS[self.color])


@dataclass(frozen=True)
class DecodingFailure:
    """An image that cannot be used: its file, why, and whether its size is the reason."""

    path: Path
    reason: str
    is_size: bool


def decode_all(paths: Sequence[Path], form: Form) -> Iterator[tuple[Pixels, list[DecodingFailure]]]:
    """Decode images in order, a few at a time.

    Args:
        paths: The files.
        form: What each becomes.

    Yields:
        Consecutive images [n, height, width, channels], and which of them cannot be used (their pixels mean nothing).
    """
    step = max(1, min(TASK_FILES, TASK_BYTES // int(np.prod(form.shape))))
    threads = min(MAX_THREADS, len(os.sched_getaffinity(0)))
    tasks = [paths[start : start + step] for start in range(0, len(paths), step)]
    with ThreadPoolExecutor(threads, thread_name_prefix="decode") as pool:
        for first in range(0, len(tasks), 2 * threads):
            yield from pool.map(partial(_decode_some, form), tasks[first : first + 2 * threads])


def size_of(path: Path) -> tuple[int, int] | None:
    """Return (height, width) of an image as displayed, or None where it cannot be decoded."""
    try:
        image = _decode(path, "grayscale")
    except Exception:  # noqa: BLE001  # a broken file may raise any exception in a decoder
        return None
    return image.height, image.width


def header_size(path: Path) -> tuple[int, int] | None:
    """Return (height, width) of an image as displayed, as its header says; None where it has none."""
    from PIL import Image

    try:
        with open_regular(path) as file, Image.open(file, formats=FORMATS) as image:
            is_turned = image.getexif().get(_ORIENTATION, 1) in _TURNED
            return image.size if is_turned else (image.height, image.width)
    except Exception:  # noqa: BLE001  # a broken file may raise any exception in a decoder
        return None


def has_both_ends(path: Path) -> bool:
    """Whether a file begins and ends as a JPEG or PNG image does; one that does not may still be decoded."""
    try:
        with open_regular(path) as file:
            head = file.read(_END_BYTES)
            file.seek(-_END_BYTES, os.SEEK_END)
            tail = file.read()
    except OSError:  # among others for a file that is shorter than its end
        return False
    return any(head.startswith(start) and end in tail for start, end in _ENDS)


def _decode_some(form: Form, paths: Sequence[Path]) -> tuple[Pixels, list[DecodingFailure]]:
    from PIL import Image

    pixels = np.zeros((len(paths), *form.shape), dtype=np.uint8)
    failures: list[DecodingFailure] = []
    for number, path in enumerate(paths):
        try:
            image = _decode(path, form.color)
        except Exception as error:  # noqa: BLE001  # a broken file may raise any exception in a decoder
            failures.append(DecodingFailure(path, _reason(error), is_size=False))
            continue
        if image.size != (form.width, form.height):
            if not form.resize:
                reason = f"is {image.height} x {image.width}, not {form.height} x {form.width}"
                failures.append(DecodingFailure(path, reason, is_size=True))
                continue
            image = image.resize((form.width, form.height), Image.Resampling.BILINEAR)
        pixels[number] = np.asarray(image).reshape(form.shape)
    return pixels, failures


def _decode(path: Path, color: Color) -> Any:
    """Return one image upright and in its colors; transparent parts become white.

    Raises:
        Exception: Of any kind, as decoders have them; Pillow refuses an image of more pixels than memory is given for.
    """
    from PIL import Image, ImageOps

    with open_regular(path) as file, Image.open(file, formats=FORMATS) as image:
        ImageOps.exif_transpose(image, in_place=True)
        if image.mode.startswith("I"):
            # 16-bit grey: PIL's own conversion clips at 255 instead of scaling.
            grey = (np.asarray(image, dtype=np.float64) / 257).round().astype(np.uint8)
            return Image.fromarray(grey).convert(MODES[color])
        if "transparency" in image.info or image.mode in ("RGBA", "LA", "PA", "RGBa", "La"):
            upper = image.convert("RGBA")
            return Image.alpha_composite(Image.new("RGBA", upper.size, "white"), upper).convert(MODES[color])
        return image.convert(MODES[color])


def _reason(error: Exception) -> str:
    from PIL import Image, UnidentifiedImageError

    if isinstance(error, UnidentifiedImageError):
        return "is not a JPEG or PNG image"
    if isinstance(error, Image.DecompressionBombError):
        return f"is too large: {error}"
    if isinstance(error, OSError) and error.strerror:
        return f"cannot be read: {error.strerror}"
    return f"is damaged: {error or type(error).__name__}"
