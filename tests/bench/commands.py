"""Running dlbench and plain scripts from a benchmark, each with the same cores, threads and mpirun."""

import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


# The environment of every rank, dlbench's and the plain scripts': a unit test compares it with dlbench's own plan.
# Only what makes nothing quicker differs: dlbench asks Open MPI to name its components at the start.
THREADS = {
    "MKL_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "1",
    "TF_NUM_INTRAOP_THREADS": "1",
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "PYTHONFAULTHANDLER": "1",
}
OPEN_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_pml": "ob1",
    "OMPI_MCA_btl": "self,sm,tcp",
}
# Of each strategy: how a rank waits in MPI, and Horovod's own.
STRATEGIES = {
    "mpi": {"OMPI_MCA_mpi_yield_when_idle": "0"},
    "horovod": {
        "OMPI_MCA_mpi_yield_when_idle": "1",
        "HOROVOD_CONTROLLER": "mpi",
        "HOROVOD_CPU_OPERATIONS": "mpi",
        "HOROVOD_CYCLE_TIME": "1",
        "HOROVOD_FUSION_THRESHOLD": "134217728",
        "HOROVOD_GLOO_TIMEOUT_SECONDS": "600",
        "HOROVOD_HIERARCHICAL_ALLGATHER": "0",
        "HOROVOD_HIERARCHICAL_ALLREDUCE": "0",
        "HOROVOD_STALL_CHECK_TIME_SECONDS": "150",
        "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "0",
        "HOROVOD_TORUS_ALLREDUCE": "0",
    },
}


def variables(strategy: str) -> dict[str, str]:
    """Return the variables of every rank that trains by this strategy."""
    return THREADS | OPEN_MPI | STRATEGIES[strategy]


def mpirun(workers: int, *words: str, python: str = sys.executable) -> list[str]:
    """Return the command that starts a Python program on so many ranks, each passed what `variables` names."""
    options = ["--bind-to", "none", "--map-by", ":OVERSUBSCRIBE"]
    return [str(BIN / "mpirun"), "-np", str(workers), *options, python, *words]


def output(argv: list[str], added: Mapping[str, str] | None = None) -> str:
    """Run a command from the project's folder and return what it printed; a failure shows everything."""
    env = os.environ | OPEN_MPI | dict(added or {})
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{argv} ended with {done.returncode}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done.stdout


def last_json(text: str) -> Any:
    """Return the JSON value on the last line of a program's output."""
    return json.loads(text.strip().splitlines()[-1])


def prepared(dataset: str, options: Mapping[str, Any]) -> dict[str, str]:
    """Prepare a data set once; return its `folder` and `checksum`."""
    from dlbench.datasets._cache import cache_root

    return _prepared(json.dumps({"dataset": dataset, "options": dict(options), "cache": str(cache_root())}))


@cache
def _prepared(question: str) -> dict[str, str]:
    found: dict[str, str] = last_json(output([sys.executable, "-m", "dlbench.datasets._prepare", question]))
    return found


def dlbench_row(settings: dict[str, Any], steps: Path | None = None) -> dict[str, Any]:
    """Run one run through the real command; return its row, and the seconds the whole command took as `command_s`.

    Its rows of steps are copied to the file `steps`, if that is given.
    """
    with tempfile.TemporaryDirectory(prefix="dlbench-bench-") as folder:
        scenario = Path(folder) / "bench.yaml"
        scenario.write_text(yaml.safe_dump({"base": settings, "baseline": "none"}))
        started = perf_counter()
        output([str(BIN / "dlbench"), "run", str(scenario), "--output", folder])
        seconds = perf_counter() - started
        (table,) = Path(folder).glob("bench-*/runs.csv")
        with table.open(newline="") as file:
            (row,) = csv.DictReader(file)
        if steps is not None:
            shutil.copyfile(table.with_name("steps.csv"), steps)
    if row["status"] != "completed":
        raise RuntimeError(f"the run ended as {row['status']}: {row['reason']}")
    return row | {"command_s": seconds}
