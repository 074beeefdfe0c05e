"""The processes below a process."""

from pathlib import Path


def with_children(pid: int) -> list[int]:
    """Return a process, its children and theirs.

    Raises:
        OSError: One of them cannot be looked at, such as one that has just ended.
    """
    pids = [pid]
    for each in pids:  # psutil would ask all processes of the machine
        for task in Path(f"/proc/{each}/task").iterdir():
            pids += map(int, (task / "children").read_text().split())
    return pids
