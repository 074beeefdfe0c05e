"""Start a program of this folder as dlbench would start its workers, and return what each rank wrote."""

import os
from pathlib import Path
from typing import Any

from dlbench.launch.plan import plan
from dlbench.records.assignment import Assignment
from dlbench.scenario.layout import Layout, Place
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Settings
from tests.functional.mpi_programs.launch import Ended, run

LAUNCHERS = {"mpi": "mpirun", "gloo": "horovodrun"}


def start(
    folder: Path,
    collectives: str,
    workers: int,
    program: str,
    *arguments: object,
    options: dict[str, Any] | None = None,
    launcher: str = "",
    timeout_s: float = 400,
) -> Ended:
    """Run a program with the plan's own command and environment; nothing is left of it, whatever happens."""
    folder.mkdir(parents=True, exist_ok=True)
    made = plan(assignment(folder, collectives, workers, options or {}, launcher or LAUNCHERS[collectives]), os.environ)
    before = made.argv[: made.argv.index("dlbench.worker")]
    argv = [*before, f"tests.functional.horovod_programs.{program}", *arguments]
    return run(folder, argv, environ=made.env, timeout_s=timeout_s)


def assignment(folder: Path, collectives: str, workers: int, options: dict[str, Any], launcher: str) -> Assignment:
    settings = Settings(
        strategy="horovod", communicator="horovod", collectives=collectives, launcher=launcher, workers=workers
    )
    dotted = {f"strategy.{name}": value for name, value in options.items()}
    return Assignment(
        run=RunSpec(scenario="test", label="", repeat=0, settings=settings, options=dotted),
        attempt=1,
        attempt_id=f"{folder.name}-{os.urandom(4).hex()}",
        layout=Layout(
            places=tuple(Place(rank=rank, workers=(rank,), local_index=rank) for rank in range(workers)),
            intra_op_threads=1,
            inter_op_threads=1,
        ),
        log_folder=str(folder),
    )
