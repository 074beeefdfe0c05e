"""Submits dlbench to Slurm: one job for the whole study, or one for each run, on hosts that share its files."""

import os
import shutil
from collections.abc import Mapping, Sequence

from dlbench.cgroups import usable_cores
from dlbench.errors import UserError, shorten
from dlbench.launch.submission import ANY_HOST, Submission, cluster_text
from dlbench.launch.submitters._job import ask
from dlbench.launch.submitters._slurm_job import SlurmJob
from dlbench.launch.submitters._slurm_script import OPTIONS, SUBMITTED, asked, instead, text
from dlbench.records import files
from dlbench.scenario.cluster import Cluster, Host
from dlbench.scenario.cluster.allocation import allocation

__all__ = [
    "OPTIONS", "SHARES_FILES", "STARTS_ON_ITS_HOST", "available", "inside", "instead", "job", "one_for_each_run",
    "submit", "text",
]  # fmt: skip

SHARES_FILES = True
STARTS_ON_ITS_HOST = True

_PROGRAMS = ("sbatch", "squeue", "scancel")
_JOB = "SLURM_JOB_ID"
_ANSWER_S = 120.0
# Variables of sbatch that win over a script, where they are not called as the option is.
_VARIABLES = {"time": "TIMELIMIT", "mem": "MEM_PER_NODE", "no-requeue": "REQUEUE"}
# These would change what sbatch itself does.
_NEVER = frozenset({"SBATCH_WAIT", "SBATCH_ARRAY_INX", "SBATCH_IGNORE_PBS"})


def available() -> str:
    """Return "" where a job can be submitted, else what is missing."""
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    if not missing:
        return ""
    return f"there is no {', '.join(missing)} on PATH: run dlbench on a login node"


def inside(cluster: Cluster, environment: Mapping[str, str]) -> Cluster | None:
    """Return the cluster with the hosts of the job that dlbench is; this machine where it is the only one."""
    if not environment.get(_JOB) or environment.get(SUBMITTED) != environment[_JOB]:
        return None
    allocated = allocation(environment)
    if allocated is None:
        here = Host(address="localhost", slots=cluster.hosts[0].slots, cores=cluster.hosts[0].cores or usable_cores())
        return cluster.model_copy(update={"hosts": (here,)})
    return cluster.model_copy(update={"hosts": _as_asked(allocated.hosts, cluster)})


def one_for_each_run(options: OPTIONS) -> bool:
    """Return whether each run is its own job."""
    return options.per == "run"


def submit(submission: Submission, options: OPTIONS) -> str:
    """Write the script into the submission's folder, which exists, submit it, and return the job's number.

    Raises:
        UserError: Slurm refuses it, or does not answer.
    """
    script = submission.folder / files.JOB_SCRIPT
    files.write_text(submission.folder / files.CLUSTER, cluster_text(submission.cluster, options), is_private=True)
    files.write_text(script, text(submission, options), is_private=True)
    named = {name for name, _ in asked(submission, options)}
    done = ask("sbatch", "--parsable", str(script), timeout_s=_ANSWER_S, env=_environment(named, os.environ))
    if done is None:
        raise UserError("the job cannot be submitted to Slurm: sbatch does not answer")
    name = done.stdout.strip().partition(";")[0]
    if done.returncode or not name.isdecimal():
        raise UserError(f"Slurm refused the job: {_said(done.stderr)}", hint="the options are in the cluster file")
    return name


def job(name: str, submission: Submission, options: OPTIONS) -> SlurmJob:
    """Return a job that was submitted."""
    return SlurmJob(name, submission.folder)


def _as_asked(given: Sequence[Host], cluster: Cluster) -> tuple[Host, ...]:
    """Return the hosts of a job with the cores that the cluster file names, in its order.

    Slurm sorts them, and its srun assigns ranks in Slurm's order in any case.
    """
    asked = cluster.hosts
    if asked[0].address.startswith(ANY_HOST):
        return tuple(host.model_copy(update={"cores": asked[0].cores}) for host in given)
    order = {} if cluster.launcher == "srun" else {host.address: number for number, host in enumerate(asked)}
    cores = {host.address: host.cores for host in asked}
    ordered = sorted(given, key=lambda host: order.get(host.address, len(order)))
    return tuple(host.model_copy(update={"cores": cores.get(host.address, ())}) for host in ordered)


def _environment(named: set[str], base: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of sbatch without variables that would win over the script, or change what sbatch does."""
    dropped = {f"SBATCH_{_VARIABLES.get(name, name.upper().replace('-', '_'))}" for name in named}
    return {name: value for name, value in base.items() if name not in dropped | _NEVER}


def _said(stderr: str) -> str:
    lines = [line.removeprefix("sbatch: ").removeprefix("error: ") for line in stderr.splitlines() if line.strip()]
    return shorten("; ".join(lines)) or "it gives no reason"
