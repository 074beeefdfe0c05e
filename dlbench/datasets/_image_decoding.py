"""Decodes image files into arrays, in threads (the decoders release Python's lock) and in bounded memory."""

import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]
Color = Literal["rgb", "grayscale"]

MODES = {"rgb": "RGB", "grayscale": "L"}
CHANNELS = {"rgb": 3, "grayscale": 1}
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
class Decoded:
    """The images of one task: those that could be decoded, their positions, and why the others could not."""

    pixels: Pixels
    positions: tuple[int, ...]
    failures: tuple["DecodingFailure", ...]


@dataclass(frozen=True)
class DecodingFailure:
    """An image that cannot be used: its file, why, and whether its size is the reason."""

    path: Path
    reason: str
    is_size: bool


class _SizeError(Exception):
    """An image has another size than the rest."""


def decode_all(paths: Sequence[Path], form: Form) -> Iterator[Decoded]:
    """Decode images in order, a few at a time.

    Args:
        paths: The files.
        form: What each becomes.

    Yields:
        The images of consecutive pieces of `paths`; positions count from the start of `paths`.
    """
    step = max(1, min(TASK_FILES, TASK_BYTES // int(np.prod(form.shape))))
    threads = min(MAX_THREADS, len(os.sched_getaffinity(0)))
    waiting: deque[Future[Decoded]] = deque()
    pool = ThreadPoolExecutor(threads, thread_name_prefix="decode")
    try:
        for start in range(0, len(paths), step):
            waiting.append(pool.submit(_decode_some, paths, range(start, min(start + step, len(paths))), form))
            if len(waiting) > 2 * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def size_of(path: Path) -> tuple[int, int] | None:
    """Return (height, width) of an image as displayed, or None where it cannot be decoded."""
    try:
        image = _decode(path, "grayscale")
    except Exception:  # noqa: BLE001  # a broken file may raise any exception in a decoder
        return None
    return image.height, image.width


def _decode_some(paths: Sequence[Path], positions: range, form: Form) -> Decoded:
    pixels = np.empty((len(positions), *form.shape), dtype=np.uint8)
    good: list[int] = []
    failures: list[DecodingFailure] = []
    for position in positions:
        try:
            pixels[len(good)] = _image(paths[position], form)
        except Exception as error:  # noqa: BLE001  # a broken file may raise any exception in a decoder
            failures.append(DecodingFailure(paths[position], _reason(error), isinstance(error, _SizeError)))
        else:
            good.append(position)
    return Decoded(pixels[: len(good)], tuple(good), tuple(failures))


def _image(path: Path, form: Form) -> Pixels:
    from PIL import Image

    image = _decode(path, form.color)
    if image.size != (form.width, form.height):
        if not form.resize:
            raise _SizeError(f"is {image.height} x {image.width}, not {form.height} x {form.width}")
        image = image.resize((form.width, form.height), Image.Resampling.BILINEAR)
    return np.asarray(image).reshape(form.shape)


def _decode(path: Path, color: Color) -> Any:
    """Return one image upright and in its colors; transparent parts become white."""
    from PIL import Image, ImageOps

    with Image.open(path, formats=("JPEG", "PNG")) as image:
        ImageOps.exif_transpose(image, in_place=True)
        if image.mode.startswith("I"):
            # 16-bit grey: PIL's own conversion clips at 255 instead of scaling.
            return Image.fromarray(_eight_bits(image)).convert(MODES[color])
        if "transparency" in image.info or image.mode in ("RGBA", "LA", "PA", "RGBa", "La"):
            upper = image.convert("RGBA")
            return Image.alpha_composite(Image.new("RGBA", upper.size, "white"), upper).convert(MODES[color])
        return image.convert(MODES[color])


def _eight_bits(image: Any) -> Pixels:
    return (np.asarray(image, dtype=np.float64) / 257).round().astype(np.uint8)


def _reason(error: Exception) -> str:
    if isinstance(error, _SizeError):
        return str(error)
    name = type(error).__name__
    if name == "UnidentifiedImageError":
        return "is not a JPEG or PNG image"
    if isinstance(error, OSError) and error.strerror:
        return f"cannot be read: {error.strerror}"
    return f"is damaged: {error or name}"
