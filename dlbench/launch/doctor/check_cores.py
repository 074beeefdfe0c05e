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
    """Doubt hosts that are one machine, such as containers, if workers of this one and of others would get one core."""
    kernel = asked.has("kernel")
    siblings = [other for other in facts.hosts if kernel and other.has("kernel") == kernel]
    given = [set(_given(facts, other)) for other in siblings]
    own = set(_given(facts, asked))
    if sum(not own.isdisjoint(cores) for cores in given) < 2:
        return None
    names = ", ".join(other.name for other in siblings)
    num_slots, there = sum(other.host.slots for other in siblings), {core for it in siblings for core in _cores(it)}
    text = f"{names} run on one machine and share its {len(there)} cores for {num_slots} slots"
    if num_slots <= len(there):
        text = f"{names} run on one machine, and workers of several would get the same cores of it"
    cores = _apart(siblings, len(there) // num_slots)
    mend = _with_cores(facts, cores) if cores else f"--hosts {siblings[0].name}:{len(there)}"
    return warned(f"{text}: what they show is no picture of several hosts", mend)


def _cores(asked: Asked) -> tuple[int, ...]:
    """Return the cores of a host, in the order in which workers get them."""
    return asked.host.cores or tuple(map(int, asked.has("cores") or ()))


def _given(facts: Facts, asked: Asked) -> tuple[int, ...]:
    """Return the cores that workers get if all slots are taken: all have as many, and each host begins with its first.

    `dlbench.scenario.arms.with_cores` and `dlbench.launch.layout` do so.
    """
    counts = [len(_cores(other)) // other.host.slots for other in facts.hosts if _cores(other)]
    return _cores(asked)[: asked.host.slots * max(1, min(counts, default=1))]


def _apart(siblings: list[Asked], most: int) -> dict[str, list[int]]:
    """Return cores of its own for each host, as many for each slot as can be; nothing where there are too few."""
    for each in range(most, 0, -1):
        found: dict[str, list[int]] = {}
        for other in sorted(siblings, key=lambda it: len(_cores(it))):
            free = [core for core in _cores(other) if not any(core in taken for taken in found.values())]
            found[other.name] = free[: other.host.slots * each]
        if all(len(found[other.name]) == other.host.slots * each for other in siblings):
            return found
    return {}


def _with_cores(facts: Facts, cores: dict[str, list[int]]) -> str:
    """Return what a cluster file says to give hosts these cores."""
    own = {name: f", cores: {found}" for name, found in cores.items()}
    hosts = [f"{{address: {it.address}, slots: {it.slots}{own.get(it.address, '')}}}" for it in facts.cluster.hosts]
    return f"--cluster FILE, in which each has cores of its own: hosts: [{', '.join(hosts)}]"


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
