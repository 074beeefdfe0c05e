"""The image files of a folder by part and class. Reads folders, never an image."""

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dlbench.errors import UserError

EXTENSIONS = (".jpg", ".jpeg", ".png")
TRAIN = "train"
# The first of these that is there is the validation part.
VALIDATION = ("validation", "val", "valid", "test")
MANY = 10


@dataclass(frozen=True)
class ImageFile:
    """One image file: path relative to the data set's folder, class number, size and time of change."""

    path: str
    label: int
    num_bytes: int
    mtime_ns: int


@dataclass(frozen=True)
class Listing:
    """All images of a data set by part (`train`, perhaps `validation`), sorted by class and path."""

    root: Path
    class_names: tuple[str, ...]
    parts: dict[str, tuple[ImageFile, ...]]
    num_ignored_files: int
    ignored_folders: tuple[str, ...]

    @property
    def fingerprint(self) -> str:
        """Hash of every image's path, class, size and time of change."""
        digest = hashlib.sha256()
        for part, images in self.parts.items():
            for image in images:
                words = (part, image.label, image.num_bytes, image.mtime_ns)
                digest.update(os.fsencode(image.path) + f"\0{words}\n".encode())
        return digest.hexdigest()


def read_listing(root: Path, limit_per_class: int | None, seed: int) -> Listing:
    """List the images below `root`.

    Args:
        root: A folder with one folder per class, or with `train/` and perhaps `test/`, `val/` or `validation/` that
            hold one folder per class each.
        limit_per_class: Keep at most this many images of each class in each part.
        seed: Chooses them.

    Raises:
        OSError: A folder or a file cannot be read.
        UserError: The folder does not have this form, or a class has no image.
    """
    folders = {"train": root} | _part_folders(root)
    class_names = _subfolders(folders["train"])
    if not class_names:
        raise UserError(f"{root} has no class folders", hint="it needs one folder of JPEG or PNG files for each class")
    parts: dict[str, tuple[ImageFile, ...]] = {}
    num_ignored = 0
    for part, folder in folders.items():
        images: list[ImageFile] = []
        for label, name in enumerate(class_names):
            files = list(_walk(folder / name, frozenset())) if (folder / name).is_dir() else []
            found = [entry for entry in files if _is_image(entry.name)]
            images += _limited(_image_files(root, found, label), limit_per_class, seed)
            num_ignored += len(files) - len(found)
        parts[part] = tuple(images)
    _check_classes(folders, class_names, parts)
    return Listing(
        root,
        tuple(map(_readable, class_names)),
        {part: found for part, found in parts.items() if found},
        num_ignored,
        tuple(map(_readable, _ignored_folders(root, folders))),
    )


def _part_folders(root: Path) -> dict[str, Path]:
    """Return the folders of the parts; empty where `root` itself holds the class folders."""
    names = _subfolders(root)
    if TRAIN not in names:
        return {}
    validation = next((name for name in VALIDATION if name in names), None)
    if validation is None:
        # `train` beside `car` and `bus` is a class; alone it is the training part.
        return {"train": root / TRAIN} if names == (TRAIN,) else {}
    return {"train": root / TRAIN, "validation": root / validation}


def _ignored_folders(root: Path, folders: dict[str, Path]) -> tuple[str, ...]:
    used = {folder.name for folder in folders.values()}
    return () if folders["train"] == root else tuple(name for name in _subfolders(root) if name not in used)


def _subfolders(folder: Path) -> tuple[str, ...]:
    with os.scandir(folder) as entries:
        return tuple(sorted(entry.name for entry in entries if not _is_hidden(entry.name) and entry.is_dir()))


def _readable(name: str) -> str:
    """Return a folder's name as text, whatever its bytes."""
    return os.fsencode(name).decode("utf-8", "replace")


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name == "__MACOSX"


def _is_image(name: str) -> bool:
    return name.lower().endswith(EXTENSIONS) and not _is_hidden(name)


def _image_files(root: Path, entries: Iterable["os.DirEntry[str]"], label: int) -> list[ImageFile]:
    """Return the images of one class, sorted by path."""
    found = [(os.path.relpath(entry.path, root), entry.stat()) for entry in entries]
    return [ImageFile(path, label, status.st_size, status.st_mtime_ns) for path, status in sorted(found)]


def _limited(images: list[ImageFile], limit: int | None, seed: int) -> list[ImageFile]:
    if limit is None or len(images) <= limit:
        return images
    # NumPy guarantees the same raw bits in every version, but not the same shuffles.
    bits = np.random.PCG64(seed).random_raw(len(images))
    return [images[index] for index in sorted(np.argsort(bits, kind="stable")[:limit])]


def _walk(folder: Path, above: frozenset[tuple[int, int]]) -> Iterator["os.DirEntry[str]"]:
    """Yield every file below a folder; follow links, but not in circles."""
    status = folder.stat()
    key = (status.st_dev, status.st_ino)
    if key in above:
        return
    with os.scandir(folder) as entries:
        found = list(entries)
    for entry in found:
        if not entry.is_dir():
            yield entry
        elif not _is_hidden(entry.name):
            yield from _walk(Path(entry.path), above | {key})


def _check_classes(
    folders: dict[str, Path],
    class_names: tuple[str, ...],
    parts: dict[str, tuple[ImageFile, ...]],
) -> None:
    present = {image.label for image in parts["train"]}
    empty = [name for label, name in enumerate(class_names) if label not in present]
    if empty:
        raise UserError(
            f"{folders['train']}: no JPEG or PNG file in the class folders {_some(empty)}",
            hint="a class without samples cannot be learned: fill or remove these folders",
        )
    if len(class_names) < 2:
        raise UserError(f"{folders['train']}: {class_names[0]!r} is its only class folder; at least two are needed")
    if "validation" not in folders:
        return
    if unknown := sorted(set(_subfolders(folders["validation"])) - set(class_names)):
        raise UserError(f"{folders['validation']}: there is no class {_some(unknown)} in {folders['train']}")
    if not parts["validation"]:
        raise UserError(f"{folders['validation']} has no JPEG or PNG file in its class folders")


def _some(names: list[str]) -> str:
    """Return up to `MANY` names for a message, and how many more there are."""
    rest = f" and {len(names) - MANY} more" if len(names) > MANY else ""
    return ", ".join(repr(name) for name in names[:MANY]) + rest
