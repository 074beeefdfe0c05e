"""Loads one published file: beside its place first, checked, then moved there."""

import hashlib
import os
import tempfile
import time
from pathlib import Path
from typing import IO, Any

from dlbench.datasets._writer import PROGRESS_INTERVAL_S, Say
from dlbench.errors import UserError

BLOCK_BYTES = 2**20
TIMEOUT_S = 60.0


def fetch(url: str, md5: str, target: Path, say: Say) -> Path:
    """Load a file and return where it is now.

    Args:
        url: Where it is.
        md5: Its published checksum.
        target: What it becomes; the folder is made.
        say: Takes lines about the progress.

    Raises:
        UserError: It cannot be loaded or written, or is not the published file.
    """
    say(f"loading {url}")
    hint = f"load it by other means and put it in {target}, or name it: `dataset.path`"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as file:
            part = Path(file.name)
        try:
            found = _load(url, part, say)
            if found != md5:
                raise UserError(f"{url} is not the published file: its md5 is {found}, not {md5}", hint=hint)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:  # URLError and time-outs are such, too
        raise UserError(f"{url} cannot be loaded: {error}", hint=hint) from error
    return target


def _load(url: str, part: Path, say: Say) -> str:
    """Write what is there to a file; return its md5."""
    from urllib.request import urlopen

    with urlopen(url, timeout=TIMEOUT_S) as answer, part.open("wb") as file:  # noqa: S310 - the caller's constant
        found = _copy(answer, file, int(answer.headers.get("Content-Length") or 0), say)
        file.flush()
        os.fsync(file.fileno())
    return found


def _copy(source: IO[bytes] | Any, file: IO[bytes], expected: int, say: Say) -> str:
    digest, size, said_at = hashlib.md5(usedforsecurity=False), 0, time.monotonic()
    while block := source.read(BLOCK_BYTES):
        file.write(block)
        digest.update(block)
        size += len(block)
        if time.monotonic() - said_at >= PROGRESS_INTERVAL_S:
            said_at = time.monotonic()
            say(f"{size / 1e6:,.0f}" + f" of {expected / 1e6:,.0f}" * bool(expected) + " MB loaded")
    return digest.hexdigest()
