"""Whether a host has cores, GPUs, memory, threads and files enough for its slots, and nobody's settings in the way."""

import shlex
from collections.abc import Iterator

from dlbench.launch.doctor.facts import Asked, Facts
from dlbench.launch.doctor.finding import Remark, failed, passed, warned

GIB = 1 << 30
# A worker of TensorFlow has some 0.7 GB before it has read anything.
LEAST_MEMORY_BYTES = GIB
# A worker of TensorFlow starts some 60 threads on a small host; the launcher and MPI add theirs.
THREADS_PER_WORKER, OTHER_THREADS = 100, 200
# A rank of MPI holds a connection to each other one, and Python and TensorFlow some hundred files.
LEAST_FILES = 1024


def slots(facts: Facts, asked: Asked) -> Iterator[Remark]:
    """Whether the slots have cores, and GPUs where there are any, of their own."""
    there = list(map(int, asked.has("cores") or ()))
    lacking = [core for core in asked.host.cores if core not in there]
    if lacking:
        numbers, usable = (", ".join(map(str, cores)) for cores in (lacking, there))
        yield failed(f"has no core {numbers} that may be used; there are {usable}", asked.line("taskset -cp $$"))
        return
    num_slots, num_cores = asked.host.slots, len(asked.host.cores or there)
    num_gpus = len(asked.has("machine", "gpus") or ())
    most = min(num_cores, num_gpus or num_cores)
    what = f"{num_gpus} GPU{'s' * (num_gpus != 1)} and " if num_gpus else ""
    found = f"{num_slots} slot{'s' * (num_slots != 1)} on {what}{num_cores} core{'s' * (num_cores != 1)}"
    if num_slots > most:
        yield warned(
            f"{found}: workers would share them, and runs are marked as oversubscribed", _hosts(facts, asked, most)
        )
    elif (shared := _shared(facts, asked)) is not None:
        yield shared
    else:
        yield passed(found)


def _hosts(facts: Facts, asked: Asked, slots: int) -> str:
    """Return the option that gives a host other slots."""
    given = {host.address: host.slots for host in facts.cluster.hosts} | {asked.name: slots}
    return f"--hosts {','.join(f'{name}:{count}' for name, count in given.items())}"


def _shared(facts: Facts, asked: Asked) -> Remark | None:
    """Doubt hosts that are one machine, such as containers, and have more slots than it has cores."""
    kernel = asked.has("kernel")
    siblings = [other for other in facts.hosts if kernel and other.has("kernel") == kernel]
    cores = {int(core) for other in siblings for core in (other.host.cores or other.has("cores") or ())}
    num_slots = sum(other.host.slots for other in siblings)
    if len(siblings) < 2 or num_slots <= len(cores):
        return None
    names = ", ".join(other.name for other in siblings)
    text = f"{names} run on one machine and share its {len(cores)} cores for {num_slots} slots"
    mend = f"--hosts {siblings[0].name}:{len(cores)}"
    return warned(f"{text}: what they show is no picture of several hosts", mend)


def limits(facts: Facts, asked: Asked) -> Iterator[Remark]:
    """Whether control groups, and the memory there is, leave enough to each slot."""
    cores, memory = (asked.has("machine", "limits", key) for key in ("cpu_cores", "memory_bytes"))
    total = asked.has("machine", "memory", "total_bytes")
    known = [size for size in (memory, total) if size]
    each = min(known) / asked.host.slots if known else None
    said = [f"{cores:g} cores"] if cores else []
    said += [f"{memory / GIB:.1f} GiB"] if memory else []
    if cores and cores < asked.host.slots:
        yield warned(
            f"its control group may use {cores:g} cores for {asked.host.slots} slots: workers are stopped in between",
            f"docker update --cpus={asked.host.slots} CONTAINER",
        )
    if each is not None and each < LEAST_MEMORY_BYTES:
        yield warned(
            f"{min(known) / GIB:.1f} GiB of memory for {asked.host.slots} slots; a worker of TensorFlow needs 1 GiB",
            _hosts(facts, asked, max(1, int(min(known) / LEAST_MEMORY_BYTES))),
        )
    elif not cores or cores >= asked.host.slots:
        yield passed(f"limited to {' and '.join(said)}" if said else "no control group limits cores or memory")


def threads(facts: Facts, asked: Asked) -> Iterator[Remark]:
    """Whether a host's own environment says how many threads there are, and enough threads and files are allowed."""
    found = asked.has("variables") or {}
    shown = ", ".join(f"{name}={value}" for name, value in found.items())
    remarks = [*_few(asked)]
    if found and not asked.is_here:
        remarks.insert(0, warned(f"{shown} reach what is started there, over or beside what runs set", _finding(asked)))
    yield from remarks
    if not remarks:
        yield passed(f"{shown}: taken out of runs" if found else "nothing leaks into runs")


def _finding(asked: Asked) -> str:
    """Return the command that shows where variables are set."""
    names = "|".join(asked.has("variables"))
    places = (
        "~/.bashrc ~/.bash_profile ~/.profile ~/.ssh/environment /etc/environment /etc/profile.d /etc/ssh/sshd_config"
    )
    return asked.line(f"grep -rnsE {shlex.quote(names)} {places}")


def _few(asked: Asked) -> Iterator[Remark]:
    """Doubt limits that a run may reach."""
    wanted = asked.host.slots * THREADS_PER_WORKER + OTHER_THREADS
    processes, group = asked.has("limits", "processes"), asked.has("limits", "group_processes")
    files = asked.has("limits", "files")
    if processes is not None and processes < wanted:
        mend = asked.line(f"echo '* - nproc {4 * wanted}' | sudo tee -a /etc/security/limits.conf")
        yield warned(f"{processes} processes and threads are allowed (ulimit -u), runs may need {wanted}", mend)
    if group is not None and group < wanted:
        text = f"{group} processes and threads are allowed by the control group, runs may need {wanted}"
        yield warned(text, f"docker update --pids-limit={4 * wanted} CONTAINER")
    if files is not None and files < LEAST_FILES:
        mend = asked.line("echo '* - nofile 65536' | sudo tee -a /etc/security/limits.conf")
        yield warned(f"{files} open files are allowed (ulimit -n), runs may need {LEAST_FILES}", mend)
