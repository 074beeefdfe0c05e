"""The cache of prepared data sets: one folder each, made once, under a lock, atomically.

<cache>/
  <name>-<hash of identity>/   a prepared data set, see `_format.py`
  <name>-<hash>-<checksum>/    the same of files that have changed since: running studies go on with what they have
  <name>-<hash>.<user>/        the same, where that name belongs to another user
  .<name>-<hash>.lock          held by the process that prepares; empty or with its process id
  .<name>-<hash>.tmp/          what it has written so far; renamed when it is complete and on disk
  downloads/                   published files, see `_download.py`
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from dlbench.datasets._disk import ELSEWHERE, Say, disk_errors, locked, try_lock
from dlbench.datasets._format import META, SCHEMA_VERSION, DatasetMeta, fingerprint, read_entry
from dlbench.datasets._read_files import FILES_READ, changed_file
from dlbench.datasets._writer import ArrayWriter
from dlbench.errors import UserError
from dlbench.records.files import open_lock, sync_folder, write_text


@dataclass(frozen=True)
class Recipe:
    """How to prepare one data set.

    Attributes:
        dataset: Its name.
        options: Its options, JSON-able; kept in `meta.json`.
        identity: Returns what identifies its content, quickly.
        fill: Writes its samples.
    """

    dataset: str
    options: dict[str, Any]
    identity: Callable[[], dict[str, Any]]
    fill: Callable[[ArrayWriter], None]


@dataclass(frozen=True)
class Entry:
    """A prepared data set: its folder and what it holds."""

    folder: Path
    meta: DatasetMeta


def cache_root() -> Path:
    """Return the default cache: $DLBENCH_CACHE, $XDG_CACHE_HOME/dlbench or ~/.cache/dlbench."""
    if folder := os.environ.get("DLBENCH_CACHE"):
        return Path(folder).expanduser().absolute()
    common = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification has relative paths ignored.
    if common.startswith("/"):
        return Path(common) / "dlbench"
    try:
        return Path.home() / ".cache" / "dlbench"
    except RuntimeError as error:
        raise UserError("no folder for the cache is known: HOME is not set", hint=ELSEWHERE) from error


def entry_name(dataset: str, identity: dict[str, Any]) -> str:
    """Return the folder name of one data set's content: readable, then a hash."""
    slug = re.sub(r"[^a-z0-9_.]+", "-", dataset.lower()).strip("-.")[:40]
    key = fingerprint({"schema": SCHEMA_VERSION, "dataset": dataset, "identity": identity})
    return f"{slug or 'dataset'}-{key[:16]}"


def ensure(recipe: Recipe, cache: Path, say: Say) -> Entry:
    """Return the prepared data set, preparing it if it does not exist or is damaged.

    Args:
        recipe: How to prepare it.
        cache: Folder of all prepared data sets.
        say: Receives lines about the progress.

    Raises:
        UserError: The data set or the cache's disk has a fault that the user can fix.
    """
    identity = _as_json(recipe.identity())
    folder = _own(cache / entry_name(recipe.dataset, identity))
    if usable := _usable(folder, identity, say):
        return usable
    with locked(folder.with_name(f".{folder.name}.lock"), f"prepares {folder.name}", say):
        # Another process may have prepared it while this one waited.
        if usable := _usable(folder, identity, lambda line: None):
            return usable
        _sweep(cache, folder)
        temporary = _temporary_of(folder)
        try:
            meta = _fill(recipe, identity, temporary, say)
            with disk_errors(folder):
                return _put(temporary, folder, meta)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


def _put(temporary: Path, folder: Path, meta: DatasetMeta) -> Entry:
    """Move what was prepared into its place; no entry with other samples is replaced, as runs may still read it."""
    sound = {entry.meta.checksum: entry.folder for entry in _entries(folder, meta.identity, lambda line: None, [])}
    if same := sound.get(meta.checksum):
        (temporary / META).replace(same / META)  # the files that it was made of have other states
        _remove(temporary)
        return Entry(same, meta)
    if folder in sound.values():
        folder = _own(folder.with_name(f"{folder.name}-{meta.checksum[:8]}"))
    _remove(folder)
    temporary.rename(folder)
    sync_folder(folder.parent)
    return Entry(folder, meta)


def lookup(recipe: Recipe, cache: Path) -> Entry | None:
    """Return the data set if it is prepared; None where it is not, or is damaged."""
    identity = _as_json(recipe.identity())
    return _usable(_own(cache / entry_name(recipe.dataset, identity)), identity, lambda line: None)


def _own(folder: Path) -> Path:
    """Return where this user's entry is: where others may have put or changed one, under a name of the user's own."""
    with contextlib.suppress(OSError):
        status = folder.lstat()
        if status.st_uid not in (0, os.getuid()) or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return folder.with_name(f"{folder.name}.{os.getuid()}")
    return folder


def _as_json(identity: dict[str, Any]) -> dict[str, Any]:
    """Return an identity as it reads back from `meta.json`: lists for tuples."""
    plain: dict[str, Any] = json.loads(json.dumps(identity))
    return plain


def _usable(folder: Path, identity: dict[str, Any], say: Say) -> Entry | None:
    reasons: list[str] = []
    for entry in _entries(folder, identity, say, reasons):
        files = entry.meta.content.notes.get(FILES_READ, {})
        if path := changed_file(files):
            reasons.append(f"prepared again, as {path} has changed since {entry.meta.created_at}")
            continue
        if files:
            say(f"as prepared at {entry.meta.created_at} from {entry.meta.content.source}")
        if doubt := entry.meta.content.doubt:
            say(doubt)
        return entry
    for reason in reasons[:1]:
        say(reason)
    return None


def _entries(folder: Path, identity: dict[str, Any], say: Say, reasons: list[str]) -> list[Entry]:
    """Return what is there of one data set, the newest first, without what is damaged; `reasons` get why that is."""
    entries = []
    for place in folder.parent.glob(f"{folder.name}*"):
        if _own(place) != place:
            continue
        try:
            meta = read_entry(place)
            if meta.identity != identity:
                raise ValueError("it holds other samples")
            _verify(place, meta, say)
            entries.append(Entry(place, meta))
        except (OSError, ValueError) as error:
            reasons.append(f"{place} is damaged and is prepared again: {error}")
    return sorted(entries, key=lambda entry: entry.meta.created_at, reverse=True)


def _verify(place: Path, meta: DatasetMeta, say: Say) -> None:
    """Compare arrays written after `meta.json`, an entry's last file, with their checksums, and note it there.

    Raises:
        ValueError: One is damaged.
    """
    written = {name: (place / f"{name}.npy").stat().st_mtime_ns for name in meta.content.arrays}
    latest = max(written.values())
    noted = (place / META).stat().st_mtime_ns
    for name in (name for name, moment in written.items() if moment > noted):
        wanted = meta.content.arrays[name]
        say(f"{place / name}.npy was written to since: its checksum is compared")
        if _checked(place / f"{name}.npy", written[name]) != (wanted.dtype, wanted.shape, wanted.sha256):
            raise ValueError(f"{name}.npy is damaged: it was written to since, and its checksum is another")
    if latest > noted:
        with contextlib.suppress(OSError):  # in a cache that can only be read each process compares
            os.utime(place / META, ns=(latest, latest))


@cache
def _checked(path: Path, _: int) -> tuple[str, tuple[int, ...], str]:
    """Return type, shape and checksum of an array that was written at a moment."""
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    return array.dtype.str, array.shape, hashlib.sha256(array.reshape(-1).view(np.uint8)).hexdigest()


def _temporary_of(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.tmp")


def _sweep(cache: Path, folder: Path) -> None:
    """Remove what killed processes left: of this entry, which is locked, and of all others that are not."""
    with disk_errors(cache):
        _remove(_temporary_of(folder))
    for left in cache.glob(".*.tmp"):
        lock = left.with_suffix(".lock")
        # Another user's files may not be removable; they do no harm.
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            descriptor = open_lock(lock)
            stack.callback(os.close, descriptor)
            if try_lock(descriptor):
                shutil.rmtree(left, ignore_errors=True)


def _remove(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)


def _fill(recipe: Recipe, identity: dict[str, Any], temporary: Path, say: Say) -> DatasetMeta:
    with disk_errors(temporary):
        temporary.mkdir(mode=0o755)
    try:
        with ArrayWriter(temporary, say) as writer:
            recipe.fill(writer)
            content = writer.finish()
    except UserError as error:
        raise UserError(f"data set {recipe.dataset!r}: {error.message}", hint=error.hint) from error
    if _as_json(recipe.identity()) != identity:
        raise UserError(f"the source of data set {recipe.dataset!r} changed while it was prepared", hint="run it again")
    meta = DatasetMeta(
        dataset=recipe.dataset,
        options=recipe.options,
        identity=identity,
        content=content,
        checksum=content.checksum,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    with disk_errors(temporary):
        write_text(temporary / META, meta.model_dump_json(indent=2) + "\n")
        sync_folder(temporary)
    return meta
