"""JPEG and PNG files in one folder per class, perhaps below train/ and test/ (or other names of parts)."""

import glob
import random
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, field_validator

from dlbench.datasets import Description
from dlbench.datasets._file_format import refusal
from dlbench.datasets._image_decoding import (
    CHANNELS,
    Color,
    DecodingFailure,
    Form,
    decode_all,
    has_both_ends,
    header_size,
    size_of,
)
from dlbench.datasets._image_listing import MANY, Listing, read_listing
from dlbench.datasets._writer import ArrayWriter
from dlbench.errors import UserError, first_of
from dlbench.plugins import Options
from dlbench.scenario.settings import Count, Natural

# The most images that `verify` decodes, drawn by a fixed seed, and the most others of which it reads the ends.
VERIFIED_IMAGES, VERIFIED_ENDS = 2_000, 100_000
# The size that images of different sizes get in a first scenario.
COMMON_SIZE = (64, 64)
SCALED = "bytes enter the network as x/255"
Pixels = Annotated[Count, Field(le=8192)]


class ImageFolderOptions(Options):
    """Where the images are and how they are converted."""

    path: str = Field(
        min_length=1,
        description="Folder of class folders; relative to the folder dlbench is started in.",
    )
    image_size: tuple[Pixels, Pixels] | None = Field(
        None,
        description="[height, width] that every image is resized to (bilinear, aspect ratio not kept); "
        "default: the size of the first, and any other size is refused.",
    )
    color: Color = Field("rgb", description="rgb (3 channels) or grayscale (1).")
    limit_per_class: Count | None = Field(
        None, description="Use at most this many images of each class in each part: a fixed subset drawn by `seed`."
    )
    seed: Natural = Field(0, description="Draws the subset of `limit_per_class`.")

    @field_validator("image_size", mode="before")
    @classmethod
    def _is_height_and_width(cls, value: Any) -> Any:
        if isinstance(value, int):
            raise ValueError(f"must be [height, width]: [{value}, {value}]")
        return value


OPTIONS = ImageFolderOptions


def identity(options: ImageFolderOptions) -> dict[str, Any]:
    """Return the folder, a fingerprint of its listing (path, size and time of each file) and how it is decoded."""
    listing = _listing(options)
    return {
        "path": str(listing.root),
        "listing": listing.fingerprint,
        "image_size": options.image_size,
        "color": options.color,
        "pillow": version("pillow"),
    }


def describe(options: ImageFolderOptions) -> Description:
    """Count the images; where the options set no size, it is that of the first one that is not damaged."""
    listing = _listing(options)
    num_validation = len(listing.parts["validation"]) if "validation" in listing.parts else None
    size = options.image_size or _first_size(listing)
    shape = None if size is None else (*size, CHANNELS[options.color])
    return Description(len(listing.parts["train"]), num_validation, shape, len(listing.class_names))


def common_size(options: ImageFolderOptions) -> tuple[int, int] | None:
    """Return the size that images of different sizes can get; None where the headers of those drawn have one size."""
    sizes = {header_size(path) for path in _drawn(_paths(_listing(options)), VERIFIED_IMAGES)} - {None}
    return COMMON_SIZE if len(sizes) > 1 else None


def verify(options: ImageFolderOptions) -> str:
    """Refuse what `prepare` would refuse of the images that are looked at; return which they are.

    Up to `VERIFIED_IMAGES` are all decoded. Of more, this number is drawn and decoded, and the first and last bytes of
    others are read; those that do not begin and end as an image does are decoded too.

    Raises:
        UserError: Images are damaged, or of different sizes where `image_size` is not set.
    """
    listing = _listing(options)
    paths = _paths(listing)
    chosen = _drawn(paths, VERIFIED_IMAGES)
    others = _drawn(sorted(set(paths) - set(chosen)), VERIFIED_ENDS)
    with ThreadPoolExecutor() as pool:
        are_whole = pool.map(has_both_ends, others, chunksize=256)
    odd = [path for path, is_whole in zip(others, are_whole, strict=True) if not is_whole]
    with warnings.catch_warnings(action="ignore"):
        results = decode_all([*chosen, *odd[:VERIFIED_IMAGES]], _form(options, listing))
        if failures := [failure for _, failed in results for failure in failed]:
            raise _unusable(listing.root, failures)
    seen = f"{len(chosen):,} of {len(paths):,} images were decoded"
    ends = f", and the ends of {len(others):,} others read" if others else ""
    return f"{options.path}: {SCALED}; {seen}{ends}{_parts_in_words(listing)}"


def prepare(options: ImageFolderOptions, writer: ArrayWriter) -> None:
    """Decode every image to uint8 [height, width, channels]; pixels enter the network as 0 to 1.

    Raises:
        UserError: Images are damaged, or of different sizes where `image_size` is not set.
    """
    listing = _listing(options)
    writer.say(f"reading {listing.root}{_parts_in_words(listing)}")
    failures: list[DecodingFailure] = []
    # Decoders warn of odd metadata and palettes, which do not change the pixels.
    with warnings.catch_warnings(action="ignore"):
        form = _form(options, listing)
        writer.describe(
            source=f"images of {listing.root}",
            class_names=listing.class_names,
            scale=1 / 255,
            notes={
                "ignored_files": listing.ignored_files.total(),
                "ignored_folders": list(listing.ignored_folders),
                "resize": "bilinear, aspect ratio not kept" if form.resize else "none",
                "color": f"{form.color}; EXIF orientation applied; transparent parts laid on white; 16-bit grey scaled "
                "to 8",
                "decoder": f"pillow {version('pillow')}",
            },
            num_samples=sum(len(images) for images in listing.parts.values()),
            has_validation="validation" in listing.parts,
        )
        writer.add_remark(SCALED)
        for part, images in listing.parts.items():
            labels = iter([image.label for image in images])
            for pixels, failed in decode_all([listing.root / image.path for image in images], form):
                failures += failed
                # After a failure the rest is still decoded, so that one message names every file to fix.
                if not failures:
                    writer.append(pixels, list(islice(labels, len(pixels))), part)
    if failures:
        raise _unusable(listing.root, failures)


_NOT_THERE = (
    "`dataset.path` is relative to the folder that dlbench is started in, and must be there for jobs in pods, too; a "
    "scenario's head may say where the images come from"
)


def _listing(options: ImageFolderOptions) -> Listing:
    root = Path(options.path)
    try:
        root = root.expanduser().absolute()
        if foreign := refusal(root):
            raise UserError(f"image_folder: {foreign.message}", hint=foreign.hint)
        return read_listing(root, options.limit_per_class, options.seed)
    except RuntimeError as error:
        raise UserError(f"image_folder: {options.path!r}: there is no such user, or no home folder is known") from error
    except OSError as error:
        hint = "make it readable or remove it; a link may lead nowhere"
        if str(error.filename) == str(root):
            # An archive may lie where its folder is named.
            beside = sorted(root.parent.glob(f"{glob.escape(root.name)}.*"))
            hint = next((foreign.hint for archive in beside if (foreign := refusal(archive))), None) or _NOT_THERE
        raise UserError(f"image_folder: cannot read {error.filename}: {error.strerror}", hint=hint) from error


def _paths(listing: Listing) -> list[Path]:
    return [listing.root / image.path for images in listing.parts.values() for image in images]


def _drawn(paths: Sequence[Path], most: int) -> Sequence[Path]:
    return paths if len(paths) <= most else sorted(random.Random(0).sample(paths, most))


def _parts_in_words(listing: Listing) -> str:
    """Say which folder validates, and which folders and files are left out, where there are such."""
    held_out = f"; {listing.validation_folder!r} is the validation part" if listing.validation_folder else ""
    folders = ", ".join(map(repr, listing.ignored_folders[:MANY]))
    counts = listing.ignored_files.most_common(MANY)
    files = ", ".join(f"{number:,} {end or 'without an ending'} in {name!r}" for (name, end), number in counts)
    loose = ", ".join(f"{number:,} images in {name!r}" for name, number in (+listing.loose_images).items())
    return (
        held_out
        + (f"; not used: {folders}" if folders else "")
        + (f"; not used, in no class folder: {loose}" if loose else "")
        + (f"; not used, as neither JPEG nor PNG: {files}" if files else "")
    )


def _form(options: ImageFolderOptions, listing: Listing) -> Form:
    # Damaged images, of which none may have a size, are all named later.
    size = options.image_size or _first_size(listing) or (1, 1)
    return Form(*size, options.color, resize=options.image_size is not None)


def _first_size(listing: Listing) -> tuple[int, int] | None:
    """Return (height, width) of the first training image that is not damaged."""
    return next(filter(None, (size_of(listing.root / image.path) for image in listing.parts["train"])), None)


def _unusable(root: Path, failures: list[DecodingFailure]) -> UserError:
    lines = [f"    {str(failure.path.relative_to(root))!r} {failure.reason}" for failure in failures]
    shown = "\n".join(first_of(lines, MANY, "    and {:,} more"))
    resize = any(failure.is_size for failure in failures)
    return UserError(
        f"{len(failures):,} of the images in {root} cannot be used:\n{shown}",
        hint="set `dataset.image_size: [height, width]` to resize" if resize else "replace or remove these files",
    )
