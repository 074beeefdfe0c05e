"""Whether a host has enough cores, GPUs, memory, threads and files, and no settings that reach workers."""

import shlex
from collections.abc import Iterator

from dlbench.hosts.doctor.facts import ClusterFacts, Finding, HostReport, failed, passed, warned

GIB = 1 << 30
# A worker of TensorFlow has some 0.7 GB before it has read anything.
MIN_MEMORY_BYTES = GIB
# A worker of TensorFlow starts some 60 threads on a small host; the launcher and MPI add theirs.
THREADS_PER_WORKER, OTHER_THREADS = 100, 200
# A rank of MPI holds a connection to each other one, and Python and TensorFlow some hundred files.
MIN_FILES = 1024


def slots(facts: ClusterFacts, report: HostReport) -> Iterator[Finding]:
    """Whether the slots have cores, and GPUs where there are any, of their own."""
    there = list(map(int, report.get("cores") or ()))
    missing = [core for core in report.host.cores if core not in there]
    if missing:
        numbers, usable = (", ".join(map(str, cores)) for cores in (missing, there))
        yield failed(f"has no core {numbers} that it may use; its cores are {usable}", report.command("taskset -cp $$"))
        return
    num_slots, num_cores = report.host.slots, len(report.host.cores or there)
    num_gpus = len(report.get("machine", "gpus") or ())
    most = min(num_cores, num_gpus or num_cores)
    what = f"{num_gpus} GPU{'s' * (num_gpus != 1)} and " if num_gpus else ""
    counts = f"{num_slots} slot{'s' * (num_slots != 1)} on {what}{num_cores} core{'s' * (num_cores != 1)}"
    if num_slots > most:
        yield warned(
            f"{counts}: workers would share them, and runs are marked as oversubscribed", _hosts(facts, report, most)
        )
    elif (shared := _shared(facts, report)) is not None:
        yield shared
    else:
        yield passed(counts)


def _hosts(facts: ClusterFacts, report: HostReport, num_slots: int) -> str:
    """Return the option that gives a host other slots."""
    slots_of = {host.address: host.slots for host in facts.cluster.hosts} | {report.name: num_slots}
    return f"--hosts {','.join(f'{name}:{count}' for name, count in slots_of.items())}"


def _shared(facts: ClusterFacts, report: HostReport) -> Finding | None:
    """Warn of hosts that are one machine, such as containers, if their workers would get the same core."""
    kernel = report.get("kernel")
    siblings = [other for other in facts.hosts if kernel and other.get("kernel") == kernel]
    assigned = [set(_assigned_cores(facts, other)) for other in siblings]
    assigned_here = set(_assigned_cores(facts, report))
    if sum(not assigned_here.isdisjoint(cores) for cores in assigned) < 2:
        return None
    names = ", ".join(other.name for other in siblings)
    num_slots, there = sum(other.host.slots for other in siblings), {core for it in siblings for core in _cores(it)}
    text = f"{names} run on one machine and share its {len(there)} cores for {num_slots} slots"
    if num_slots <= len(there):
        text = f"{names} run on one machine, and workers of several would get the same cores of it"
    fix = f"--hosts {siblings[0].name}:{len(there)}, or separate `cores:` for each host in a cluster file"
    return warned(f"{text}: measurements do not represent separate hosts", fix)


def _cores(report: HostReport) -> tuple[int, ...]:
    """Return the cores of a host, in the order in which workers get them."""
    return report.host.cores or tuple(map(int, report.get("cores") or ()))


def _assigned_cores(facts: ClusterFacts, report: HostReport) -> tuple[int, ...]:
    """Return the cores that workers get if all slots are taken: all have as many, and each host begins with its first.

    `dlbench.scenario.expand.arms.with_cores` and `dlbench.launch.layout` do so.
    """
    counts = [len(_cores(other)) // other.host.slots for other in facts.hosts if _cores(other)]
    return _cores(report)[: report.host.slots * max(1, min(counts, default=1))]


def limits(facts: ClusterFacts, report: HostReport) -> Iterator[Finding]:
    """Whether control groups, and the memory there is, leave enough to each slot."""
    cores, memory = (report.get("machine", "limits", key) for key in ("cpu_cores", "memory_bytes"))
    total = report.get("machine", "memory", "total_bytes")
    sizes = [size for size in (memory, total) if size]
    each = min(sizes) / report.host.slots if sizes else None
    shown = [f"{cores:g} cores"] if cores else []
    shown += [f"{memory / GIB:.1f} GiB"] if memory else []
    if cores and cores < report.host.slots:
        yield warned(
            f"its control group may use {cores:g} cores for {report.host.slots} slots: workers are throttled",
            f"docker update --cpus={report.host.slots} CONTAINER",
        )
    if each is not None and each < MIN_MEMORY_BYTES:
        yield warned(
            f"{min(sizes) / GIB:.1f} GiB of memory for {report.host.slots} slots; a worker of TensorFlow needs 1 GiB",
            _hosts(facts, report, max(1, int(min(sizes) / MIN_MEMORY_BYTES))),
        )
    elif not cores or cores >= report.host.slots:
        yield passed(f"limited to {' and '.join(shown)}" if shown else "no control group limits cores or memory")


def threads(facts: ClusterFacts, report: HostReport) -> Iterator[Finding]:
    """Whether a host's environment sets thread counts, and enough threads and files are allowed."""
    variables = report.get("variables") or {}
    shown = ", ".join(f"{name}={value}" for name, value in variables.items())
    findings = [*_few(report)]
    if variables and not report.is_here:
        findings.insert(
            0, warned(f"{shown} reach programs started there and interfere with what runs set", _where_set(report))
        )
    yield from findings
    if not findings:
        yield passed(f"{shown}: removed from runs" if variables else "no variable reaches runs")


def _where_set(report: HostReport) -> str:
    """Return the command that shows where variables are set."""
    names = "|".join(report.get("variables"))
    places = (
        "~/.bashrc ~/.bash_profile ~/.profile ~/.ssh/environment /etc/environment /etc/profile.d /etc/ssh/sshd_config"
    )
    return report.command(f"grep -rnsE {shlex.quote(names)} {places}")


def _few(report: HostReport) -> Iterator[Finding]:
    """Yield the limits that a run may reach."""
    wanted = report.host.slots * THREADS_PER_WORKER + OTHER_THREADS
    processes, group = report.get("limits", "processes"), report.get("limits", "group_processes")
    files = report.get("limits", "files")
    if processes is not None and processes < wanted:
        fix = report.command(f"echo '* - nproc {4 * wanted}' | sudo tee -a /etc/security/limits.conf")
        yield warned(f"{processes} processes and threads are allowed (ulimit -u), runs may need {wanted}", fix)
    if group is not None and group < wanted:
        text = f"{group} processes and threads are allowed by the control group, runs may need {wanted}"
        yield warned(text, f"docker update --pids-limit={4 * wanted} CONTAINER")
    if files is not None and files < MIN_FILES:
        fix = report.command("echo '* - nofile 65536' | sudo tee -a /etc/security/limits.conf")
        yield warned(f"{files} open files are allowed (ulimit -n), runs may need {MIN_FILES}", fix)
