"""Every file name of a study, in one place; files that are replaced atomically; temporary files.

<study>/
  scenario.yaml  reference.csv  study.json  environment.json  machine.json  lock
  summary.csv  arms.csv
  runs.csv  epochs.csv  steps.csv (or steps.parquet)  sensors.csv  topology.csv
  nodes.csv  links.csv  staleness.csv  (of strategies of nodes)
  runs/<run_id>/<attempt>/
    assignment.json  plan.json  journal.jsonl  outcome.json  launcher.log  worker-<rank>.log
    .room (while it runs)
  checkpoints/<run_id>/
    epoch-<epoch>.npz
  submissions/<number>/
    job.sh  job.yaml  cluster.yaml  job  output.log  exit_code
"""

import contextlib
import errno
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Literal

from dlbench.regular_file import require_kind

# "No space left", "quota exceeded", "file too large" (`ulimit -f`).
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
SCENARIO = "scenario.yaml"
STUDY = "study.json"
MACHINE = "machine.json"
# Values of the cluster's variables that are not public.
ENVIRONMENT = "environment.json"
REFERENCE = "reference.csv"
LOCK = "lock"
RUNS_FOLDER = "runs"
CHECKPOINTS_FOLDER = "checkpoints"
ASSIGNMENT = "assignment.json"
PLAN = "plan.json"
JOURNAL = "journal.jsonl"
OUTCOME = "outcome.json"
# What stands in a lock file.
_HOLDER_BYTES = 200
# Keeps room for the outcome, which has to say that the disk is full where it is.
ROOM = ".room"
LAUNCHER_LOG = "launcher.log"
SUBMISSIONS_FOLDER = "submissions"
JOB_SCRIPT = "job.sh"
JOB_MANIFEST = "job.yaml"
CLUSTER = "cluster.yaml"
JOB_NAME = "job"
JOB_OUTPUT = "output.log"
EXIT_CODE = "exit_code"


def worker_log(rank: int | Literal["*"]) -> str:
    """Return the name of one process's log; of `*` a pattern for the logs of all."""
    return f"worker-{rank}.log"


def table(name: str) -> str:
    """Return the file name of one of `dlbench.records.columns.TABLES`."""
    return f"{name}.csv"


def compact_table(name: str) -> str:
    """Return the file name of a table that is kept as Parquet."""
    return f"{name}.parquet"


def table_path(study: Path, name: str) -> Path:
    """Return where a table of a study is: compact where that is there, else as CSV, whether it is there or not."""
    compact = study / compact_table(name)
    return compact if compact.exists() else study / table(name)


def attempt_folder(study: Path, run_id: str, attempt: int) -> Path:
    """Return the folder of one attempt."""
    return study / RUNS_FOLDER / run_id / str(attempt)


def checkpoint_folder(study: Path, run_id: str) -> Path:
    """Return the folder of one run's checkpoints, which outlives its attempts."""
    return study / CHECKPOINTS_FOLDER / run_id


@contextlib.contextmanager
def replacing(path: Path, mode: Literal["w", "wb"] = "w", *, is_private: bool = False) -> Iterator[IO[Any]]:
    """Open a file that replaces `path` as a whole, on disk, when the block ends without an error; text by default.

    Others may read it as far as the umask allows, and not at all where it is private.

    Raises:
        OSError: Something other than a regular file is there, the disk is full or the folder cannot be written; `path`
            is then as it was.
    """
    require_kind(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        descriptor = os.open(
            temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600 if is_private else 0o666
        )
    except OSError as error:
        error.filename = str(path)
        raise
    try:
        encoding, newline = ("utf-8", "") if mode == "w" else (None, None)
        with os.fdopen(descriptor, mode, encoding=encoding, newline=newline) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str, *, is_private: bool = False) -> None:
    """Replace a file's text atomically; see `replacing`."""
    with replacing(path, is_private=is_private) as file:
        file.write(text)


def make_folder(path: Path, *parts: str) -> Path:
    """Make a folder with its parents and, in it, one folder in another, where they are absent; return the last.

    Raises:
        OSError: One cannot be made, or `path` or a part is a link or no folder.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    folders = [path.joinpath(*parts[:number]) for number in range(len(parts) + 1)]
    for folder in folders:
        with contextlib.suppress(FileExistsError):
            folder.mkdir()
        require_kind(folder, stat.S_IFDIR)
    return folders[-1]


def open_lock(path: Path) -> int:
    """Open a lock file, made if it is not there, and return its descriptor; nothing of it is changed.

    In a folder that others may write to, a link of that name could lead to any file of the user's.

    Raises:
        OSError: It cannot be opened, is a link, or is not a file with this name alone.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and status.st_nlink <= 1:
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "it is no lock file", str(path))


def write_holder(descriptor: int, text: str) -> None:
    """Write the holder into a lock file; as long as any that stood there before, so that nothing is cut off."""
    os.pwrite(descriptor, text.encode()[:_HOLDER_BYTES].ljust(_HOLDER_BYTES), 0)


def sync_folder(folder: Path) -> None:
    """Force a folder's entries to disk, so that a rename survives a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def own_folder(place: Path | None = None) -> Path:
    """Return a folder of this user alone in a place that all may write to, made if it is not there.

    Args:
        place: Default: where temporary files are.

    Raises:
        OSError: It cannot be made.
    """
    folder = (place or Path(tempfile.gettempdir())) / f"dlbench-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        # Another user made it first, in a folder that all may write to: take one with a name that cannot be guessed.
        return Path(tempfile.mkdtemp(prefix="dlbench-", dir=place))
    return folder


def own_log(attempt_id: str, name: str) -> Path | None:
    """Return the path of a worker's log on a host that has not the attempt's folder; None where there cannot be one."""
    try:
        return own_folder() / f"{attempt_id}-{name}"
    except OSError:
        return None
