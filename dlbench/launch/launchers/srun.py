"""Starts the processes with Slurm's srun, within a job of Slurm; they can use MPI, and what is set up over MPI."""

import os
import shutil

from pydantic import Field

from dlbench.launch.launchers import mpirun
from dlbench.scenario.layout import Layout
from dlbench.scenario.settings import Settings

PROVIDES = ("mpi", "nccl", "grpc")
MULTIPLE_HOSTS = True

# Workers end together; one that is left behind would hold the job.
_LAST_S = 60


class OPTIONS(mpirun.OPTIONS):
    """Options of `srun`."""

    mpi: str = Field(
        "pmix",
        pattern="[a-z][a-z0-9_]*",
        description="Process manager interface, as `srun --mpi=list` names it: pmix for Open MPI 5, pmi2 for MPICH.",
    )


def available() -> str:
    """Return "" where there is an srun, else what is missing."""
    if shutil.which("srun") is None:
        return "there is no srun on PATH: it belongs to Slurm, and starts processes within its jobs"
    return ""


def refuse(options: OPTIONS, settings: Settings) -> str:
    """Return why a run cannot be started so: outside of a job srun would wait for other hosts; else ""."""
    if settings.submitter == "sbatch" or os.environ.get("SLURM_JOB_ID"):
        return ""
    return "the launcher srun is for jobs of Slurm: `submitter: sbatch` in a cluster file, or call dlbench in a job"


def argv(
    layout: Layout, program: tuple[str, ...], options: OPTIONS, settings: Settings, variables: tuple[str, ...]
) -> tuple[str, ...]:
    """Return one command that starts every process; Slurm hands on the whole environment, so no value is in it.

    dlbench binds processes to cores itself, and steps of one job may share what the job has.
    """
    step = (f"--mpi={options.mpi}", "--export=ALL", "--cpu-bind=none", "--overlap", "--overcommit")
    ending = ("--kill-on-bad-exit=1", f"--wait={_LAST_S}", "--unbuffered")
    # Slurm sorts the hosts of a step by their names; only its arbitrary distribution takes them as they are listed, one
    # name for each process.
    placing: tuple[str, ...] = ("--distribution=block",)
    if not layout.is_here:
        placing = ("--distribution=arbitrary", f"--nodelist={','.join(place.host for place in layout.places)}")
    number = (f"--nodes={len(layout.hosts)}", f"--ntasks={len(layout.places)}")
    return ("srun", *step, *number, *placing, *ending, *program)


# The parameters of MPI as variables.
environment = mpirun.environment
