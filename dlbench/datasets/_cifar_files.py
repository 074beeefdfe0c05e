"""Where the CIFAR files are: the given place, the usual places, or loaded from where Keras loads them."""

import os
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from dlbench.datasets import _download
from dlbench.datasets._writer import Say
from dlbench.errors import UserError

if TYPE_CHECKING:
    from dlbench.datasets._cifar import Edition

# No file of either archive is larger than 156 MB.
MOST_BYTES = 256 * 2**20


def read(edition: "Edition", path: str | None, say: Say) -> tuple[Path, dict[str, bytes]]:
    """Return where the files were found and the content of each by name; whether they are the published ones is open.

    Raises:
        UserError: They are not there and cannot be loaded, or the archive is damaged.
    """
    found = given(edition, path) if path is not None else _found(edition)
    if found is None:
        found = _download.fetch(edition.url, edition.archive_md5, keras_home() / "datasets" / edition.archive, say)
    say(f"reading {found}")
    content = _of_folder(edition, found) if found.is_dir() else _of_archive(edition, found)
    if missing := [name for name in edition.checksums if name not in content]:
        raise UserError(f"{edition.name}: {found} has no {', '.join(missing)}")
    return found, content


def given(edition: "Edition", path: str) -> Path:
    """Return the archive or the folder of batches that a path means.

    Raises:
        UserError: It is neither.
    """
    try:
        place = Path(path).expanduser().absolute()
        if place.is_file():
            return place
        found = next((folder for folder in (place, place / edition.folder) if _is_whole(edition, folder)), None)
        found = found or next((file for file in (place / edition.archive,) if file.is_file()), None)
    except (RuntimeError, ValueError, OSError) as error:
        raise UserError(f"{edition.name}: {path!r} cannot be read: {error}") from error
    if found is None:
        raise UserError(
            f"{edition.name}: {path!r} is neither {edition.archive} nor a folder with {', '.join(edition.checksums)}",
            hint=f"the archive is {edition.url}; without dataset.path it is looked for and loaded",
        )
    return found


def keras_home() -> Path:
    """Return Keras's folder: $KERAS_HOME, or ~/.keras."""
    own = os.environ.get("KERAS_HOME")
    return Path(own).expanduser().absolute() if own else Path.home() / ".keras"


def _found(edition: "Edition") -> Path | None:
    return next((place for place in _places(edition) if place.is_file() or _is_whole(edition, place)), None)


def _places(edition: "Edition") -> Iterator[Path]:
    """Yield where the data set usually is: Keras's caches of all its versions, and `data` in the current folder."""
    homes = dict.fromkeys((keras_home() / "datasets", Path.home() / ".keras" / "datasets", Path("data").absolute()))
    for home in homes:
        yield from (home / edition.archive, home / f"{edition.folder}.tar.gz", home / f"{edition.keras_folder}_archive")
        yield from (home / edition.folder, home / edition.keras_folder / edition.folder)


def _is_whole(edition: "Edition", folder: Path) -> bool:
    return all((folder / name).is_file() for name in edition.checksums)


def _of_folder(edition: "Edition", folder: Path) -> dict[str, bytes]:
    try:
        for name in edition.checksums:
            _check_size(edition, folder / name, (folder / name).stat().st_size)
        return {name: (folder / name).read_bytes() for name in edition.checksums}
    except OSError as error:
        raise UserError(f"{edition.name}: {folder} cannot be read: {error}") from error


def _of_archive(edition: "Edition", path: Path) -> dict[str, bytes]:
    """Read the files in one pass: nothing of the archive is ever written to disk."""
    content: dict[str, bytes] = {}
    try:
        with tarfile.open(path, "r|*") as archive:
            for member in archive:
                folder, _, name = member.name.removeprefix("./").rpartition("/")
                if folder != edition.folder or name not in edition.checksums or not member.isfile():
                    continue
                _check_size(edition, path / member.name, member.size)
                file = archive.extractfile(member)
                assert file is not None
                content[name] = file.read()
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise UserError(
            f"{edition.name}: {path} is no archive, or a damaged one: {error}",
            hint=f"remove it and load {edition.url} anew",
        ) from error
    return content


def _check_size(edition: "Edition", path: Path, size: int) -> None:
    if size > MOST_BYTES:
        raise UserError(f"{edition.name}: {path} has {size:,} bytes, more than any file of the data set")
