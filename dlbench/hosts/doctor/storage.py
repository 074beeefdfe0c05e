"""Whether there is room for studies, data sets and the memory that processes of a host share."""

from collections.abc import Iterator

from dlbench.hosts.doctor.facts import ClusterFacts, Finding, HostReport, failed, passed, warned

MIB = 1 << 20
# What a folder is for, the room that most studies need, and the command that takes another one.
FOLDERS = {
    "studies": (256 * MIB, "dlbench run SCENARIO --output FOLDER"),
    "cache": (2048 * MIB, "export DLBENCH_CACHE=FOLDER"),
}
# A data set of digits or a run's rows do not fit into less.
MIN_BYTES = 16 * MIB
_PLACE = "/dev/shm"  # noqa: S108
# Docker gives a container 64 MiB, of which a few workers' messages and NCCL's buffers take more than there is.
SHARED_BYTES, SHARED_BYTES_PER_WORKER = 64 * MIB, 32 * MIB


def disk(facts: ClusterFacts, report: HostReport) -> Iterator[Finding]:
    """Whether studies, on this machine, and data sets, on every host, have room."""
    findings = [_folder(report, name) for name in FOLDERS if report.is_here or name != "studies"]
    bad = [finding for finding in findings if finding.fix]
    yield from bad or [passed("; ".join(finding.text for finding in findings))]


def _folder(report: HostReport, name: str) -> Finding:
    needed, fix = FOLDERS[name]
    answer = report.get(f"folders.{name}") or {}
    path, free = answer.get("path", name), answer.get("free_bytes")
    if free is None:
        return failed(f"{name} ({path}) cannot be examined: {answer.get('error', 'unknown')}", fix)
    if not answer.get("is_writable"):
        return failed(f"{path}, for {name}, cannot be written to", fix)
    text = f"{free / 2**30:.1f} GiB free for {name} in {path}"
    if free < MIN_BYTES:
        return failed(text, fix)
    return warned(f"{text}; most need {needed / 2**30:.2g} GiB", fix) if free < needed else passed(text)


def shared_memory(facts: ClusterFacts, report: HostReport) -> Iterator[Finding]:
    """Whether the processes of a host have room to hand each other messages."""
    total = report.get("shared_memory", "total_bytes")
    needed = SHARED_BYTES + report.host.slots * SHARED_BYTES_PER_WORKER
    fix = report.command(f"sudo mount -o remount,size=1g {_PLACE}")
    if report.get("machine", "virtualisation", "container") in ("docker", "podman"):
        fix = "docker run --shm-size=1g ..."
    if total is None:
        yield warned(f"there is no {_PLACE}: Open MPI's messages within the host go through files", fix)
    elif total < needed:
        text = f"{_PLACE} has {total / MIB:.0f} MiB; MPI and NCCL may need {needed / MIB:.0f} MiB for the slots there"
        yield warned(text, fix)
    else:
        yield passed(f"{total / 2**30:.1f} GiB")
