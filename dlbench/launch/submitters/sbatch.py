"""Submits dlbench to Slurm: one job for the whole study, or one for each run, on hosts that share its files."""

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from dlbench.cgroups import usable_cores
from dlbench.errors import UserError, shorten
from dlbench.launch.submission import ANY_HOST, Job, JobStatus, Stage, Submission, ask, cluster_text
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
_WAITING = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD"})
# Why a job may wait for ever, as Slurm says it, and what can be done about it.
_REMEDIES = dict.fromkeys(
    ("BadConstraints", "PartitionConfig"),
    ": no host has the `slots`, `submitter.memory`, `submitter.gpus_per_host` or `submitter.extra`; Ctrl-C cancels it",
) | {
    "PartitionTimeLimit": ": the partition allows less time (sinfo): lower `submitter.time_limit`; Ctrl-C cancels it",
    "PartitionNodeLimit": ": too few hosts are up or allowed (sinfo): lower `hosts`; Ctrl-C cancels it",
}
_ENDED = frozenset({
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED",
    "TIMEOUT",
})  # fmt: skip
_NOTHING = ("", "None")
_UNKNOWN_JOB = "invalid job id"
# Between two questions: short at first, then longer, for every one is work for Slurm's controller.
_FIRST_S, _LONGER, _LAST_S = 1.0, 1.3, 15.0
# Files of another host are seen here a little later.
_LAG_S = 10.0


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
        raise UserError(f"Slurm refused the job: {_refusal(done.stderr)}", hint="the options are in the cluster file")
    return name


class SlurmJob(Job):
    """A job of Slurm, seen through squeue and, once that has forgotten it, sacct; its output and exit code are files.

    Args:
        name: Its number.
        folder: Where its script writes its output and exit code.
        clock: Seconds of a clock that never goes back.
    """

    def __init__(self, name: str, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(name, folder)
        self._folder = folder
        self._clock = clock
        self._status = JobStatus(Stage.WAITING, f"job {name} is submitted")
        self._ask_at, self._pause_s = clock(), _FIRST_S
        self._over_since: float | None = None
        self._has_begun = False

    def status(self) -> JobStatus:
        """Return how it stands; asks Slurm now and then, and sees at once when dlbench in the job has ended."""
        code = self._exit_code()
        if code is not None:
            return JobStatus(Stage.ENDED, f"job {self.name} has ended", code)
        if self._clock() >= self._ask_at:
            self._status = self._asked()
            self._pause_s = min(self._pause_s * _LONGER, _LAST_S)
            self._ask_at = self._clock() + self._pause_s
        if self._status.stage is not Stage.ENDED:
            self._over_since = None
            return self._status
        # It is over until its files must be here.
        if self._over_since is None:
            self._over_since = self._clock()
        if self._clock() - self._over_since < _LAG_S:
            return JobStatus(Stage.OVER, f"job {self.name} is over")
        if self._output_path.exists() or not self._has_begun:
            return self._status
        unseen = "the hosts of the job must see the study's folder, on a file system that they share with this machine"
        return replace(self._status, text=f"{self._status.text}; it wrote nothing into {self._folder}: {unseen}")

    def cancel(self) -> None:
        """Take it out of the queue, or ask its shell to end, which asks dlbench."""
        ask("scancel", "--state=PENDING", self.name)
        ask("scancel", "--batch", "--signal=TERM", self.name)
        self._ask_at, self._pause_s = self._clock(), _FIRST_S

    def kill(self) -> None:
        """End it; Slurm sends SIGTERM, waits as long as it is set up to, and kills what is left."""
        ask("scancel", self.name)

    def _asked(self) -> JobStatus:
        done = ask("squeue", "--noheader", "--states=all", f"--jobs={self.name}", "--format=%T|%r|%N")
        if done is None or (done.returncode and _UNKNOWN_JOB not in done.stderr.lower()):
            return JobStatus(self._status.stage, f"job {self.name}: Slurm does not answer; asked again until it does")
        state, _, details = done.stdout.strip().partition("|")
        reason, _, hosts = details.partition("|")
        self._has_begun |= bool(hosts)
        return job_status(self.name, state, reason, hosts) if state else self._from_accounts()

    def _from_accounts(self) -> JobStatus:
        """Return how a job ended that squeue has forgotten."""
        done = ask(
            "sacct", f"--jobs={self.name}", "--allocations", "--noheader", "--parsable2", "--format=State,NodeList"
        )
        line = done.stdout.split("\n")[0] if done and not done.returncode else ""
        words, _, hosts = line.partition("|")
        state = words.partition(" ")[0]
        self._has_begun |= hosts != "None assigned"
        if state:
            return job_status(self.name, state, "", "")
        return JobStatus(Stage.ENDED, f"Slurm no longer knows job {self.name}, and dlbench in it has left no exit code")

    def _exit_code(self) -> int | None:
        # Listed anew: a file system over a network may remember that a file was not there.
        with contextlib.suppress(OSError):
            os.listdir(self._folder)  # noqa: PTH208 - the call itself is what is wanted
        try:
            return int((self._folder / files.EXIT_CODE).read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None


def job(name: str, submission: Submission, options: OPTIONS) -> SlurmJob:
    """Return a job that was submitted."""
    return SlurmJob(name, submission.folder)


def job_status(name: str, state: str, reason: str, hosts: str) -> JobStatus:
    """Return how a job stands, from the words of Slurm.

    Args:
        name: Its number.
        state: `PENDING`, `RUNNING`, ...
        reason: Why it is so; may be empty or `None`.
        hosts: Where it runs; may be empty.
    """
    because = "" if reason in _NOTHING else f" ({reason})"
    if state in _WAITING:
        return JobStatus(Stage.WAITING, f"job {name} waits: {state}{because}{_REMEDIES.get(reason, '')}")
    if state in _ENDED:
        return JobStatus(Stage.ENDED, f"Slurm reports job {name}: {state}{because}")
    return JobStatus(Stage.RUNNING, f"job {name} runs{f' on {hosts}' if hosts else ''}{because}")


def _as_asked(allocated: Sequence[Host], cluster: Cluster) -> tuple[Host, ...]:
    """Return the hosts of a job with the cores that the cluster file names, in its order.

    Slurm sorts them, and its srun assigns ranks in Slurm's order in any case.
    """
    asked = cluster.hosts
    if asked[0].address.startswith(ANY_HOST):
        return tuple(host.model_copy(update={"cores": asked[0].cores}) for host in allocated)
    order = {} if cluster.launcher == "srun" else {host.address: number for number, host in enumerate(asked)}
    cores = {host.address: host.cores for host in asked}
    ordered = sorted(allocated, key=lambda host: order.get(host.address, len(order)))
    return tuple(host.model_copy(update={"cores": cores.get(host.address, ())}) for host in ordered)


def _environment(named: set[str], base: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of sbatch without variables that would win over the script, or change what sbatch does."""
    dropped = {f"SBATCH_{_VARIABLES.get(name, name.upper().replace('-', '_'))}" for name in named}
    return {name: value for name, value in base.items() if name not in dropped | _NEVER}


def _refusal(stderr: str) -> str:
    lines = [line.removeprefix("sbatch: ").removeprefix("error: ") for line in stderr.splitlines() if line.strip()]
    return shorten("; ".join(lines)) or "it gives no reason"
