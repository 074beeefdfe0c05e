"""Start a program of this folder under the mpirun beside the interpreter, and return what each rank wrote."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from dlbench import scratch

ROOT = Path(__file__).parents[3]
MPIRUN = Path(sys.executable).with_name("mpirun")
FOLDER = "DLBENCH_TEST_FOLDER"
# Most of what JAX does here is compiling: without optimizing that takes two thirds of the time.
QUICK_XLA = {"XLA_FLAGS": "--xla_backend_optimization_level=0"}
BASE = {
    **QUICK_XLA,
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_btl": "self,sm,tcp",
    "OMPI_MCA_pml": "ob1",
    "PYTHONFAULTHANDLER": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
GRACE_S = 10


@dataclass(frozen=True)
class Ended:
    """How a program ended: exit code, everything printed, and what each rank wrote, by rank."""

    code: int
    output: str
    results: tuple[Any, ...]


def mpirun(
    folder: Path,
    workers: int,
    program: str,
    *arguments: object,
    mca: Mapping[str, str] | None = None,
    timeout_s: float = 60,
) -> Ended:
    """Run a program on so many ranks; nothing is left of it, whatever happens."""
    argv = [MPIRUN, "--bind-to", "none", "--map-by", ":OVERSUBSCRIBE", "-np", workers]
    return run(folder, [*argv, *python(program, *arguments)], mca=mca, timeout_s=timeout_s)


def python(program: str, *arguments: object) -> list[object]:
    """Return the command line of a program of this folder."""
    return [sys.executable, "-m", f"tests.functional.mpi_programs.{program}", *arguments]


def run(
    folder: Path,
    argv: list[object],
    *,
    mca: Mapping[str, str] | None = None,
    timeout_s: float = 60,
    environ: Mapping[str, str] | None = None,
) -> Ended:
    """Run a command line in a session of its own with MCA parameters in its environment."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = {f"OMPI_MCA_{name}": value for name, value in (mca or {}).items()}
    env = os.environ | BASE | settings | {FOLDER: str(folder)} | (environ or {})
    held = scratch.use(env, temporary=False)
    log = folder / "output.txt"
    with log.open("wb") as output:
        process = subprocess.Popen(
            list(map(str, argv)), cwd=ROOT, env=env, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            _dump_stacks(process.pid)
            raise AssertionError(f"no end within {timeout_s:g} s: {argv}\n{log.read_text(errors='replace')}") from None
        finally:
            _end(process)
            for descriptor in held:
                os.close(descriptor)
            scratch.sweep()
    files = sorted(folder.glob("rank-*.json"), key=lambda path: int(path.stem.split("-")[1]))
    return Ended(code, log.read_text(errors="replace"), tuple(json.loads(path.read_text()) for path in files))


def _dump_stacks(pid: int) -> None:
    """Have each rank that hangs print its stacks: all run with Python's fault handler."""
    for rank in psutil.Process(pid).children(recursive=True):
        if "python" in rank.name():
            rank.send_signal(signal.SIGABRT)
    time.sleep(GRACE_S)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Ask mpirun to end, so that it ends its ranks, and then kill it."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def hand_in(rank: int, result: object) -> None:
    """Write one rank's result; called by the programs."""
    Path(os.environ[FOLDER], f"rank-{rank}.json").write_text(json.dumps(result))
