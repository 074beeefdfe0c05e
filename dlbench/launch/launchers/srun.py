"""Starts the processes with Slurm's srun, within a job of Slurm; they can use MPI, and whatever meets by MPI first."""

import os
import shutil
from collections import Counter

from pydantic import Field

from dlbench.errors import UserError
from dlbench.launch.launchers import mpirun
from dlbench.launch.launchers._placing import is_here
from dlbench.plugins import Options as BaseOptions
from dlbench.scenario.layout import Layout
from dlbench.scenario.settings import Settings

PROVIDES = ("mpi", "nccl", "grpc")
MULTIPLE_HOSTS = True

# Workers end together; one that is left behind would hold the job.
_LAST_S = 60


class OPTIONS(BaseOptions):
    """Options of `srun`."""

    mpi: str = Field(
        "pmix",
        pattern="[a-z][a-z0-9_]*",
        description="How processes meet, as `srun --mpi=list` names it: pmix for Open MPI 5, pmi2 for MPICH.",
    )
    mca: dict[str, str] = Field(
        default_factory=dict,
        description="Open MPI's own parameters by name, such as {btl: 'self,sm,tcp'}; they win over dlbench's.",
    )


def available() -> str:
    """Return "" where there is an srun, else what is missing."""
    if shutil.which("srun") is None:
        return "there is no srun on PATH: it belongs to Slurm, and starts processes within its jobs"
    return ""


def refuse(options: OPTIONS, settings: Settings) -> str:
    """Return why a run cannot be started so: outside of a job srun would wait for hosts of its own; else ""."""
    if settings.submitter == "sbatch" or os.environ.get("SLURM_JOB_ID"):
        return ""
    return "the launcher srun is for jobs of Slurm: `submitter: sbatch` in a cluster file, or call dlbench in a job"


def argv(
    layout: Layout, program: tuple[str, ...], options: OPTIONS, settings: Settings, variables: tuple[str, ...]
) -> tuple[str, ...]:
    """Return one command that starts every process; Slurm hands on the whole environment, so no value is in it.

    dlbench binds processes to cores itself, and steps of one job may share what the job has.

    Raises:
        UserError: The hosts have different numbers of processes, which srun cannot be told without a file.
    """
    step = (f"--mpi={options.mpi}", "--export=ALL", "--cpu-bind=none", "--overlap", "--overcommit")
    ending = ("--kill-on-bad-exit=1", f"--wait={_LAST_S}", "--unbuffered")
    return ("srun", *step, *_placing(layout), *ending, *program)


def _placing(layout: Layout) -> tuple[str, ...]:
    """Return the words that put the processes on their hosts, in the order of ranks."""
    counts = Counter(place.host for place in layout.places)
    most, *others = counts.values()
    if any(count != most for count in others[:-1]) or any(count > most for count in others):
        raise UserError(
            f"srun puts as many processes on each host, and here they are {', '.join(map(str, counts.values()))}",
            hint="`workers_per_host`, or `launcher: mpirun`",
        )
    hosts = () if is_here(layout) else (f"--nodelist={','.join(counts)}",)
    number = (f"--nodes={len(counts)}", f"--ntasks={len(layout.places)}", f"--ntasks-per-node={most}")
    return (*number, "--distribution=block", *hosts)


def environment(layout: Layout, options: OPTIONS, settings: Settings) -> dict[str, str]:
    """Return the parameters of MPI as variables."""
    return mpirun.environment(layout, mpirun.OPTIONS(mca=options.mca), settings)
