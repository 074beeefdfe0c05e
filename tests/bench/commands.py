"""Running dlbench and plain scripts from a benchmark, each with the same cores, threads and mpirun."""

import csv
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import yaml

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


def environment() -> dict[str, str]:
    """Return an environment in which mpirun works as any user and every rank computes on one core."""
    return os.environ | {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_pml": "ob1",
        "OMPI_MCA_btl": "self,sm,tcp",
        "OMP_NUM_THREADS": "1",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        # Where PyTorch's processes connect.
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29417",
    }


def mpirun(workers: int, *words: str, python: str = sys.executable) -> list[str]:
    """Return the command that starts a Python program on so many ranks."""
    options = ["--bind-to", "none", "--map-by", ":OVERSUBSCRIBE"]
    return [str(BIN / "mpirun"), "-np", str(workers), *options, python, *words]


def output(argv: list[str], variables: Mapping[str, str] | None = None) -> str:
    """Run a command from the project's folder and return what it printed; a failure shows everything."""
    env = environment() | dict(variables or {})
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{argv} ended with {done.returncode}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done.stdout


def last_json(text: str) -> Any:
    """Return the JSON value on the last line of a program's output."""
    return json.loads(text.strip().splitlines()[-1])


def prepared(dataset: str, options: dict[str, Any]) -> dict[str, Any]:
    """Prepare a data set and return its `folder`, and the number of its training samples as `num_train`."""
    from dlbench.datasets._cache import cache_root

    question = json.dumps({"dataset": dataset, "options": options, "cache": str(cache_root())})
    folder = Path(last_json(output([sys.executable, "-m", "dlbench.datasets._prepare", question]))["folder"])
    return {"folder": str(folder), "num_train": len(np.load(folder / "y.npy", mmap_mode="r"))}


def dlbench_row(settings: dict[str, Any]) -> dict[str, Any]:
    """Run one run through the real command; return its row, and the seconds the whole command took as `command_s`."""
    with tempfile.TemporaryDirectory(prefix="dlbench-bench-") as folder:
        scenario = Path(folder) / "bench.yaml"
        scenario.write_text(yaml.safe_dump({"base": settings, "baseline": "none"}))
        started = perf_counter()
        output([str(BIN / "dlbench"), "run", str(scenario), "--output", folder])
        seconds = perf_counter() - started
        (table,) = Path(folder).glob("bench-*/runs.csv")
        with table.open(newline="") as file:
            (row,) = csv.DictReader(file)
    if row["status"] != "completed":
        raise RuntimeError(f"the run ended as {row['status']}: {row['reason']}")
    return row | {"command_s": seconds}
