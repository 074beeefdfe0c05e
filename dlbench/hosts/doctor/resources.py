"""Whether a host has enough cores, GPUs, memory, threads, files and room on its disks."""

import shlex
from typing import Any

from dlbench.hosts.doctor.facts import FAIL, PASS, WARN, ClusterFacts, Finding, HostReport

GIB, MIB = 1 << 30, 1 << 20
# A worker of TensorFlow has some 0.7 GB before it has read anything.
MIN_MEMORY_BYTES = GIB
# A worker of TensorFlow starts some 60 threads on a small host; the launcher and MPI add theirs.
THREADS_PER_WORKER, OTHER_THREADS = 100, 200
# A rank of MPI holds a connection to each other one, and Python and TensorFlow some hundred files.
MIN_FILES = 1024
# What a folder is for, the room that most studies need, and the command that takes another one.
FOLDERS = {
    "studies": (256 * MIB, "dlbench run SCENARIO --output FOLDER"),
    "cache": (2048 * MIB, "export DLBENCH_CACHE=FOLDER"),
    "temporary": (64 * MIB, "export TMPDIR=FOLDER"),
}
# A data set of digits, a run's rows or what MPI's daemon writes do not fit into less.
MIN_BYTES = 16 * MIB
# Docker gives a container 64 MiB, of which a few workers' messages and NCCL's buffers take more than there is.
SHARED_BYTES, SHARED_BYTES_PER_WORKER = 64 * MIB, 32 * MIB


def _cores(report: HostReport) -> tuple[int, ...]:
    """Return the cores of a host, in the order in which workers get them."""
    return report.host.cores or tuple(map(int, report["cores"] or ()))


def missing_cores(report: HostReport) -> dict[str, str]:
    """Return the cores that the cluster names and the host may not use, and those it may."""
    there = list(map(int, report["cores"] or ()))
    missing = [core for core in report.host.cores if core not in there]
    return {"missing": ", ".join(map(str, missing)), "there": ", ".join(map(str, there))} if missing else {}


def crowded(facts: ClusterFacts, report: HostReport) -> dict[str, str]:
    """Return the counts of a host where not each slot can have a core, and a GPU where there are any."""
    most = min(len(_cores(report)), len(report["machine.gpus"] or ()) or len(_cores(report)))
    return {"counts": counts(report), "fix": _hosts(facts, report, most)} if report.host.slots > most else {}


def counts(report: HostReport) -> str:
    """Return such as `2 slots on 1 GPU and 4 cores`."""
    numbers = {"slot": report.host.slots, "GPU": len(report["machine.gpus"] or ()), "core": len(_cores(report))}
    slots, gpus, cores = (f"{number} {what}{'s' * (number != 1)}" for what, number in numbers.items())
    return f"{slots} on {f'{gpus} and ' if numbers['GPU'] else ''}{cores}"


def _hosts(facts: ClusterFacts, report: HostReport, num_slots: int) -> str:
    """Return the option that gives a host other slots."""
    slots_of = {host.address: host.slots for host in facts.cluster.hosts} | {report.name: num_slots}
    return f"--hosts {','.join(f'{name}:{count}' for name, count in slots_of.items())}"


def shared(facts: ClusterFacts, report: HostReport) -> dict[str, Any]:
    """Return which hosts are one machine, such as containers, if their workers would get the same core of it."""
    kernel = report["kernel"]
    siblings = [other for other in facts.hosts if kernel and other["kernel"] == kernel]
    assigned = [set(_assigned_cores(facts, other)) for other in siblings]
    assigned_here = set(_assigned_cores(facts, report))
    if sum(not assigned_here.isdisjoint(cores) for cores in assigned) < 2:
        return {}
    names = ", ".join(other.name for other in siblings)
    num_slots, there = sum(other.host.slots for other in siblings), {core for it in siblings for core in _cores(it)}
    text = f"{names} run on one machine and share its {len(there)} cores for {num_slots} slots"
    if num_slots <= len(there):
        text = f"{names} run on one machine, and workers of several would get the same cores of it"
    return {"text": text, "first": siblings[0].name, "cores": len(there)}


def _assigned_cores(facts: ClusterFacts, report: HostReport) -> tuple[int, ...]:
    """Return the cores that workers get if all slots are taken: all have as many, and each host begins with its first.

    `dlbench.scenario.expand.arms.with_cores` and `dlbench.launch.layout` do so.
    """
    each = [len(_cores(other)) // other.host.slots for other in facts.hosts if _cores(other)]
    return _cores(report)[: report.host.slots * max(1, min(each, default=1))]


def little_memory(facts: ClusterFacts, report: HostReport) -> dict[str, Any]:
    """Return a host's memory, or what it may use of it, and the slots that fit, where its slots do not."""
    sizes = (report["machine.limits.memory_bytes"], report["machine.memory.total_bytes"])
    size = min(filter(None, sizes), default=None)
    if size is None or size / report.host.slots >= MIN_MEMORY_BYTES:
        return {}
    return {"gib": size / GIB, "hosts": _hosts(facts, report, max(1, int(size / MIN_MEMORY_BYTES)))}


def limited(report: HostReport) -> str:
    """Return to what the host's control group limits it."""
    cores, memory = report["machine.limits.cpu_cores"], report["machine.limits.memory_bytes"]
    limits = [f"{cores:g} cores" if cores else "", f"{memory / GIB:.1f} GiB" if memory else ""]
    shown = " and ".join(filter(None, limits))
    return f"limited to {shown}" if shown else "no control group limits cores or memory"


def variables(report: HostReport) -> dict[str, str]:
    """Return the variables that would reach runs, and a pattern of their names."""
    values: dict[str, str] = report["variables"] or {}
    shown = ", ".join(f"{name}={value}" for name, value in values.items())
    return {"shown": shown, "names": shlex.quote("|".join(values))} if values else {}


def too_few(report: HostReport, kind: str) -> dict[str, int]:
    """Return what is allowed of a kind (`processes`, `group_processes`, `files`), where a run may need more."""
    wanted = MIN_FILES if kind == "files" else report.host.slots * THREADS_PER_WORKER + OTHER_THREADS
    allowed = report[f"limits.{kind}"]
    is_enough = allowed is None or allowed >= wanted
    return {} if is_enough else {"allowed": allowed, "wanted": wanted, "more": 4 * wanted}


def disk(report: HostReport) -> list[Finding]:
    """Judge whether studies, on this machine, and data sets, on every host, have room."""
    findings = [_folder(report, name) for name in FOLDERS if report.is_here or name != "studies"]
    bad = [finding for finding in findings if finding.fix]
    return bad or [Finding(PASS, "; ".join(finding.text for finding in findings))]


def _folder(report: HostReport, name: str) -> Finding:
    needed, fix = FOLDERS[name]
    answer = report.get(f"folders.{name}") or {}
    path, free = answer.get("path", name), answer.get("free_bytes")
    if free is None:
        return Finding(FAIL, f"{name} ({path}) cannot be examined: {answer.get('error', 'unknown')}", fix)
    if not answer.get("is_writable"):
        return Finding(FAIL, f"{path}, for {name}, cannot be written to", fix)
    text = f"{free / GIB:.1f} GiB free for {name} in {path}"
    if free < MIN_BYTES:
        return Finding(FAIL, text, fix)
    return Finding(WARN, f"{text}; most need {needed / GIB:.2g} GiB", fix) if free < needed else Finding(PASS, text)


def more_shared_memory(report: HostReport) -> str:
    """Return the command that gives the processes of a host more room to hand each other messages."""
    if report["machine.virtualisation.container"] in ("docker", "podman"):
        return "docker run --shm-size=1g ..."
    return report.command("sudo mount -o remount,size=1g /dev/shm")


def little_shared_memory(report: HostReport) -> dict[str, Any]:
    """Return the size of a host's shared memory where processes for all slots may need more."""
    total, needed = report["shared_memory.total_bytes"], SHARED_BYTES + report.host.slots * SHARED_BYTES_PER_WORKER
    if total is None or total >= needed:
        return {}
    return {"mib": total / MIB, "needed": needed / MIB, "fix": more_shared_memory(report)}
