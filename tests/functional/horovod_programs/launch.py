"""Start a program of this folder as dlbench would start its workers, and return what each rank wrote."""

import os
from pathlib import Path
from typing import Any

from dlbench.launch.plan import plan
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Settings
from tests.functional.attempt import assignment
from tests.functional.mpi_programs.launch import ROOT, Ended, run

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
    settings = Settings(
        strategy="horovod",
        communicator="horovod",
        collectives=collectives,
        launcher=launcher or LAUNCHERS[collectives],
        workers=workers,
    )
    dotted = {f"strategy.{name}": value for name, value in (options or {}).items()}
    run_spec = RunSpec(scenario="test", label="", repeat=0, settings=settings, options=dotted)
    made = plan(assignment(run_spec, folder), os.environ)
    before = made.argv[: made.argv.index("dlbench.worker")]
    argv = [*before, f"tests.functional.horovod_programs.{program}", *arguments]
    return run(folder, argv, environ=made.env | {"PYTHONPATH": str(ROOT)}, timeout_s=timeout_s)
