"""The image files of a folder by part and class. Reads folders, never an image."""

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice, product
from pathlib import Path

import numpy as np

from dlbench.datasets._file_format import refusal
from dlbench.errors import UserError

EXTENSIONS = (".jpg", ".jpeg", ".png")
# Words in the names of folders that are parts. Of several held-out parts the first in this order validates.
TRAIN = ("train", "training")
HELD_OUT = (
    "validation", "val", "valid", "dev", "devel", "development", "eval", "evaluation", "holdout", "test", "testing",
    "tests",
)  # fmt: skip
# Words beside them that change nothing: `seg_train`, `TrainingSet`, `test images`.
_FILLERS = {"set", "data", "dataset", "images", "imgs", "image", "img", "seg", "split", "part", "folder", "dir"}
# Folders that only hold another one, as archives have them: `seg_train/seg_train/<classes>`.
_MOST_WRAPPERS = 3
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
    """All images of a data set by part (`train`, perhaps `validation`), sorted by class and path.

    `ignored_files` counts those that are no images by class and end of the name, `loose_images` those in no class
    folder. `validation_folder` is the folder of the validation part, relative to `root`; empty where there is none.
    """

    root: Path
    class_names: tuple[str, ...]
    parts: dict[str, tuple[ImageFile, ...]]
    ignored_files: Counter[tuple[str, str]]
    loose_images: Counter[str]
    ignored_folders: tuple[str, ...]
    validation_folder: str

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
        root: A folder with one folder per class, or with a folder for each part (`train`, `val`, `Testing`, `seg_test`,
            ...) that holds one folder per class.
        limit_per_class: Keep at most this many images of each class in each part.
        seed: Chooses them.

    Raises:
        OSError: A folder or a file cannot be read.
        UserError: The folder does not have this form, a class has no image, or two have the same.
    """
    folders, ignored_folders = _layout(root)
    class_names = _subfolders(folders["train"])
    if not class_names:
        foreign = next(filter(None, map(refusal, islice(sorted(root.iterdir()), MANY))), None)
        names = " and ".join(repr(_readable(folder.name)) for folder in folders.values())
        parts_taken = f": {names} are taken for parts; if they are classes, rename them" if len(folders) > 1 else ""
        raise UserError(
            f"{folders['train']} has no class folders{parts_taken}" + (f"; {foreign.message}" if foreign else ""),
            hint=foreign.hint if foreign else "it needs one folder of JPEG or PNG files for each class",
        )
    parts: dict[str, tuple[ImageFile, ...]] = {}
    ignored_files: Counter[tuple[str, str]] = Counter()
    places: dict[int, Path] = {}
    for part, folder in folders.items():
        images: list[ImageFile] = []
        for label, name in enumerate(class_names):
            files = list(_walk(folder / name, frozenset())) if (folder / name).is_dir() else []
            pictures = [entry for entry in files if _is_image(entry.name)]
            _refuse_the_same(root, folder / name, pictures, places)
            by_path = sorted((os.path.relpath(entry.path, root), entry.stat()) for entry in pictures)
            of_class = [ImageFile(path, label, status.st_size, status.st_mtime_ns) for path, status in by_path]
            if limit_per_class is not None and len(of_class) > limit_per_class:
                # NumPy guarantees the same raw bits in every version, but not the same shuffles.
                bits = np.random.PCG64(seed).random_raw(len(of_class))
                of_class = [of_class[index] for index in sorted(np.argsort(bits, kind="stable")[:limit_per_class])]
            images += of_class
            others = (Path(entry.name).suffix.lower() for entry in files if not _is_image(entry.name))
            ignored_files.update((_readable(name), suffix) for suffix in others)
        parts[part] = tuple(images)
    _check_classes(folders, class_names, parts, ignored_files)
    return Listing(
        root,
        tuple(map(_readable, class_names)),
        parts,
        ignored_files,
        Counter(
            {
                _readable(os.path.relpath(folder, root.parent)): _num_loose(folder)
                for folder in (root, *folders.values())
            }
        ),
        tuple(map(_readable, ignored_folders)),
        _readable(os.path.relpath(folders["validation"], root)) if "validation" in folders else "",
    )


def _layout(root: Path) -> tuple[dict[str, Path], list[str]]:
    """Return the folder of each part, which holds class folders, and the names of those that are no part.

    Folders that hold the same folders are never classes: those are the classes.

    Raises:
        UserError: It is not clear which folders are the classes.
    """
    root = _unwrapped(root)
    inner = {name: frozenset(_subfolders(_unwrapped(root / name))) for name in _subfolders(root)}
    ranks = {name: rank for name in inner if (rank := _part_rank(name)) is not None}
    pairs = [
        (train, other)
        for train, other in product(ranks, ranks)
        if ranks[train] == 0 < ranks[other] and (inner[train] & inner[other] or _subject(train) == _subject(other))
    ]
    if not pairs:
        _refuse_parts(root, inner, ranks)
        return {"train": root}, []
    trains = {train for train, _ in pairs}
    if len(trains) > 1 and TRAIN[0] not in trains:
        raise UserError(f"{root} has several training parts: {_some(sorted(trains))}", hint=_PARTS_HINT.format(root))
    train = TRAIN[0] if TRAIN[0] in trains else trains.pop()
    held_out = [other for first, other in pairs if first == train]
    validation = min(held_out, key=lambda name: (not inner[name], ranks[name], not _is_plain(name), name))
    folders = {"train": _unwrapped(root / train), "validation": _unwrapped(root / validation)}
    return folders, [name for name in inner if name not in (train, validation)]


_PARTS_HINT = (
    "call the folders of the parts train and validation, each with one folder for each class in it, or name the one "
    "that holds the class folders: `dataset.path: {0}/...`"
)


def _refuse_parts(root: Path, inner: Mapping[str, frozenset[str]], ranks: Mapping[str, int]) -> None:
    """Refuse folders that seem to be parts or copies: they hold the same folders as others, or are called as a part.

    Raises:
        UserError: There are such folders.
    """
    copy = next((name for name in inner if len(inner[name] & inner.keys()) > 1), None)
    if copy is not None:
        raise UserError(
            f"{root}: {copy!r} holds folders that are called as those beside it: {_some(sorted(inner[copy]))}; it "
            "seems to be a copy of the data set, not a class",
            hint=f"move it elsewhere, or name it: `dataset.path: {root / copy}`",
        )
    for name, other in combinations(filter(inner.get, inner), 2):
        shared = inner[name] & inner[other]
        if len(shared) > 1 and 2 * len(shared) >= len(inner[name] | inner[other]):
            raise UserError(
                f"{root}: {name!r} and {other!r} hold the same folders, {_some(sorted(shared))}: it is not clear "
                "whether these are the classes, and which folder above them is for training",
                hint=f"{_PARTS_HINT.format(root)}; if {name!r} and {other!r} are classes, move their files directly "
                "into them, or return the samples from a function: `dataset: module:function`",
            )
    alone = [name for name in ranks if _is_plain(name) and len(inner[name]) > 1]
    if alone and len(inner) > 1:
        raise UserError(
            f"{root}: {alone[0]!r} is called as a part and holds the folders {_some(sorted(inner[alone[0]]))}, "
            f"but no other part beside it does: {_some([name for name in inner if name != alone[0]])}",
            hint=_PARTS_HINT.format(root),
        )


def _part_rank(name: str) -> int | None:
    """Return 0 for the name of a training part, 1 and more for one of a held-out part, by preference; else None."""
    ranks = {0 if word in TRAIN else 1 + HELD_OUT.index(word) for word in _words(name) if word in TRAIN + HELD_OUT}
    return ranks.pop() if len(ranks) == 1 else None


def _is_plain(name: str) -> bool:
    """Whether a name is that of a part and nothing else: `seg_train` is, `train station` is not."""
    return bool(_words(name)) and not _subject(name)


def _subject(name: str) -> set[str]:
    """Return the words of a name that say nothing of a part: `pets` of `pets_train`."""
    return set(_words(name)) - _FILLERS.union(TRAIN, HELD_OUT)


def _words(name: str) -> list[str]:
    name = re.sub("hold[-_ ]out", "holdout", name.lower() if name.isupper() else name, flags=re.IGNORECASE)
    separated = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[a-z])(?=(?:set|data|dir|images|imgs?)(?![a-z]))", " ", name)
    return re.findall("[a-z]+", separated.lower())


def _unwrapped(folder: Path) -> Path:
    """Skip folders that hold nothing but one folder whose name adds nothing; return the first other folder."""
    for _ in range(_MOST_WRAPPERS):
        names = _subfolders(folder)
        is_wrapper = len(names) == 1 and (names[0] == folder.name or _is_plain(names[0]))
        if not is_wrapper or not _subfolders(folder / names[0]):
            break
        folder /= names[0]
    return folder


def _subfolders(folder: Path) -> tuple[str, ...]:
    with os.scandir(folder) as entries:
        return tuple(sorted(entry.name for entry in entries if not _is_hidden(entry.name) and entry.is_dir()))


def _readable(name: str) -> str:
    """Return a folder's name as text, whatever its bytes."""
    return os.fsencode(name).decode("utf-8", "replace")


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name == "__MACOSX"


def _is_image(name: str) -> bool:
    return name.lower().endswith(EXTENSIONS)


def _walk(folder: Path, above: frozenset[tuple[int, int]]) -> Iterator["os.DirEntry[str]"]:
    """Yield every file below a folder that is not hidden; follow links, but not in circles."""
    status = folder.stat()
    key = (status.st_dev, status.st_ino)
    if key in above:
        return
    with os.scandir(folder) as entries:
        children = [entry for entry in entries if not _is_hidden(entry.name)]
    for entry in children:
        if entry.is_dir():
            yield from _walk(Path(entry.path), above | {key})
        else:
            yield entry


def _num_loose(folder: Path) -> int:
    with os.scandir(folder) as entries:
        return sum(_is_image(entry.name) and not _is_hidden(entry.name) and entry.is_file() for entry in entries)


def _refuse_the_same(root: Path, folder: Path, pictures: Sequence["os.DirEntry[str]"], places: dict[int, Path]) -> None:
    """Refuse a file that another folder has, too, by a link; `places` has the folders of all files so far.

    Raises:
        UserError: There is such a file.
    """
    for picture in pictures:
        status = picture.stat()
        key = hash((status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns))
        if (other := places.setdefault(key, folder)) is not folder:
            names = sorted(repr(_readable(os.path.relpath(place, root))) for place in (other, folder))
            path = _readable(os.path.relpath(picture.path, root))
            raise UserError(
                f"{root}: {' and '.join(names)} hold the same file, by a link: {path!r}",
                hint="an image belongs to one class of one part: remove the link",
            )


def _check_classes(
    folders: dict[str, Path],
    class_names: tuple[str, ...],
    parts: dict[str, tuple[ImageFile, ...]],
    ignored_files: Counter[tuple[str, str]],
) -> None:
    present = {image.label for image in parts["train"]}
    empty = [name for label, name in enumerate(class_names) if label not in present]
    if empty:
        ends = sorted({end for name, end in ignored_files if name in map(_readable, empty)} - {""})
        raise UserError(
            f"{folders['train']}: no JPEG or PNG file in the class folders {_some(empty)}"
            + (f", only {', '.join(ends[:MANY])}" if ends else ""),
            hint="a class without samples cannot be learned: fill or remove these folders",
        )
    if len(class_names) < 2:
        raise UserError(f"{folders['train']}: {class_names[0]!r} is its only class folder; at least two are needed")
    if "validation" not in folders:
        return
    if unknown := sorted(set(_subfolders(folders["validation"])) - set(class_names)):
        raise UserError(f"{folders['validation']}: there is no class {_some(unknown)} in {folders['train']}")
    if not parts["validation"]:
        raise UserError(
            f"{folders['validation']} has no JPEG or PNG file in its class folders",
            hint=f"to keep a part of the training images for validation: `dataset.path: {folders['train']}`",
        )


def _some(names: list[str]) -> str:
    """Return up to `MANY` names for a message, and how many more there are."""
    more = f" and {len(names) - MANY} more" if len(names) > MANY else ""
    return ", ".join(repr(name) for name in names[:MANY]) + more
