"""Downloads of published files: verified by checksum, kept in the cache, shared by all data sets."""

import time
from dataclasses import dataclass
from pathlib import Path

from dlbench.datasets._disk import Say, locked
from dlbench.errors import UserError

TIMEOUT_S = 60.0
CHUNK_BYTES = 2**20
PROGRESS_INTERVAL_S = 1.0


@dataclass(frozen=True)
class RemoteFile:
    """A published file: its address, and its sha256 as 64 hexadecimal digits."""

    url: str
    sha256: str


def download(file: RemoteFile, folder: Path, say: Say) -> Path:
    """Return a published file in `folder`; download it if it is not there or is damaged.

    A download is written to a temporary file, verified and then renamed. One that was interrupted starts again.

    Args:
        file: What to download.
        folder: Where it is kept; created where it does not exist.
        say: Receives lines about the progress.

    Raises:
        UserError: It cannot be downloaded or written, or what arrives is not the published file.
    """
    import pooch

    pooch.get_logger().setLevel("ERROR")  # `say` reports instead
    target = folder / file.url.rpartition("/")[2]
    with locked(folder / ".lock", "downloads into the same folder", say):
        for left in folder.glob("tmp*"):  # pooch's temporary files, of processes that were killed
            left.unlink(missing_ok=True)
        downloader = pooch.HTTPDownloader(_Progress(file.url, say), chunk_size=CHUNK_BYTES, timeout=TIMEOUT_S)
        try:
            pooch.retrieve(file.url, f"sha256:{file.sha256}", target.name, folder, downloader=downloader)
        except (OSError, ValueError) as error:  # a failed request is an OSError, a wrong checksum a ValueError
            raise UserError(
                f"{file.url} cannot be downloaded: {error}",
                hint=f"without a network copy the file to {target}, or set `dataset.path` to a copy of your own",
            ) from error
    return target


class _Progress:
    """What pooch calls while it downloads; it sets `total`, in bytes (0 where the server does not say)."""

    def __init__(self, url: str, say: Say) -> None:
        self.total = 0
        self._num_bytes = 0
        self._url = url
        self._say = say
        self._reported_at: float | None = None

    def update(self, num_bytes: int) -> None:
        """Count bytes that have arrived."""
        self._num_bytes += num_bytes
        now = time.monotonic()
        if self._reported_at is None or now - self._reported_at >= PROGRESS_INTERVAL_S:
            self._reported_at = now
            total = f" of {self.total / 1e6:,.0f}" if self.total else ""
            self._say(f"downloading {self._url}: {self._num_bytes / 1e6:,.0f}{total} MB")

    def reset(self) -> None:
        """Start the count again; pooch does so at the end."""
        self._num_bytes = 0

    def close(self) -> None:
        """Nothing is open."""
