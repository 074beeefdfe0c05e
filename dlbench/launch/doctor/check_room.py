"""Whether there is room for studies, data sets and the memory that processes of a host share."""

from collections.abc import Iterator

from dlbench.launch.doctor.facts import Asked, Facts
from dlbench.launch.doctor.finding import Remark, failed, passed, warned

MIB = 1 << 20
# What a folder is for, the room that most need, and the command that takes another one.
FOLDERS = {
    "studies": (256 * MIB, "dlbench run SCENARIO --output FOLDER"),
    "cache": (2048 * MIB, "export DLBENCH_CACHE=FOLDER"),
}
# Below so much a data set of digits or a run's rows do not fit.
LEAST_BYTES = 16 * MIB
_PLACE = "/dev/shm"  # noqa: S108
# Docker gives a container 64 MiB, of which a few workers' messages and NCCL's buffers take more than there is.
SHARED_BYTES, SHARED_BYTES_PER_WORKER = 64 * MIB, 32 * MIB


def disk(facts: Facts, asked: Asked) -> Iterator[Remark]:
    """Whether studies, on this machine, and data sets, on every host, have room."""
    remarks = [_folder(asked, name) for name in FOLDERS if asked.is_here or name != "studies"]
    bad = [remark for remark in remarks if remark.mend]
    yield from bad or [passed("; ".join(remark.text for remark in remarks))]


def _folder(asked: Asked, name: str) -> Remark:
    needed, mend = FOLDERS[name]
    told = asked.has(f"folders.{name}") or {}
    path, free = told.get("path", name), told.get("free_bytes")
    if free is None:
        return failed(f"{name} ({path}) cannot be looked at: {told.get('error', 'unknown')}", mend)
    if not told.get("is_writable"):
        return failed(f"{path}, for {name}, cannot be written to", mend)
    text = f"{free / 2**30:.1f} GiB free for {name} in {path}"
    if free < LEAST_BYTES:
        return failed(text, mend)
    return warned(f"{text}; most need {needed / 2**30:.2g} GiB", mend) if free < needed else passed(text)


def shared_memory(facts: Facts, asked: Asked) -> Iterator[Remark]:
    """Whether the processes of a host have room to hand each other messages."""
    total = asked.has("shared_memory", "total_bytes")
    needed = SHARED_BYTES + asked.host.slots * SHARED_BYTES_PER_WORKER
    mend = "docker run --shm-size=1g ..." if _is_container(asked) else f"sudo mount -o remount,size=1g {_PLACE}"
    mend = mend if mend.startswith("docker") else asked.line(mend)
    if total is None:
        yield warned(f"there is no {_PLACE}: Open MPI's messages within the host go through files", mend)
    elif total < needed:
        text = f"{_PLACE} has {total / MIB:.0f} MiB; MPI and NCCL may need {needed / MIB:.0f} MiB for the slots there"
        yield warned(text, mend)
    else:
        yield passed(f"{total / 2**30:.1f} GiB")


def _is_container(asked: Asked) -> bool:
    return asked.has("machine", "virtualisation", "container") in ("docker", "podman")
