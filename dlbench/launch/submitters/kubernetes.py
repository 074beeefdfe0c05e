"""Submits dlbench to Kubernetes as an MPIJob of Kubeflow's MPI operator, with a pod for each host."""

import contextlib
import json
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dlbench.errors import UserError, shorten
from dlbench.launch.submission import Job, JobStatus, Stage, Submission, ask
from dlbench.launch.submitters._manifest import INSTANCE, OPTIONS, name_of, text
from dlbench.records import files
from dlbench.scenario.cluster import Cluster
from dlbench.scenario.cluster.host_list import parse_hostfile
from dlbench.scenario.read.document import read_text

__all__ = ["OPTIONS", "SHARES_FILES", "available", "inside", "job", "submit", "text"]

SHARES_FILES = False

# What the operator sets in the launcher's pod, and where it writes the names of the others.
_ROLE, _LAUNCHER = "K_MPI_JOB_ROLE", "launcher"
_HOSTFILE = "OMPI_MCA_orte_default_hostfile"
# The operator's label of each pod.
_ROLE_LABEL = "training.kubeflow.org/job-role"
_ANSWER_S = 120.0
_EVERY_S = 3.0
# The log of a pod that has ended is read at once.
_LOG_S = 10.0
# How a container ends that was not killed, and the exit codes of dlbench.
_BY_ITSELF, _EXIT_CODES = ("Completed", "Error"), (0, 1, 2, 3, 130)
_ENDED = {"Succeeded": "has ended", "Failed": "has failed"}


def available() -> str:
    """Return "" where a job can be created, else what is missing."""
    if shutil.which("kubectl") is None:
        return "there is no kubectl on PATH; `--dry-run` prints the manifest, which can be created elsewhere"
    return ""


def inside(cluster: Cluster, environment: Mapping[str, str]) -> Cluster | None:
    """Return the cluster with the pods of the job in whose launcher we are.

    Raises:
        UserError: The operator's hostfile cannot be read.
    """
    if environment.get(_ROLE) != _LAUNCHER:
        return None
    hostfile = environment.get(_HOSTFILE, "/etc/mpi/hostfile")
    parsed = parse_hostfile(read_text(Path(hostfile), "host"), hostfile)
    cores = cluster.hosts[0].cores
    return cluster.model_copy(update={"hosts": tuple(h.model_copy(update={"cores": cores}) for h in parsed.hosts)})


def submit(submission: Submission, options: OPTIONS) -> str:
    """Write the manifest into the submission's folder, which exists, create the job, and return its name.

    Raises:
        UserError: Kubernetes refuses it or does not answer.
    """
    manifest = submission.folder / files.JOB_MANIFEST
    files.write_text(manifest, text(submission, options), is_private=True)
    done = ask(*kubectl(options, "create", f"--filename={manifest}"), timeout_s=_ANSWER_S)
    if done is None:
        raise UserError("the job cannot be submitted to Kubernetes: kubectl does not answer")
    if done.returncode:
        raise UserError(f"Kubernetes refused the job: {shorten(done.stderr.strip()) or 'it gives no reason'}")
    return name_of(submission, options)


def kubectl(options: OPTIONS, *words: str) -> tuple[str, ...]:
    """Return a command of kubectl in the job's namespace."""
    return ("kubectl", *(() if options.namespace is None else (f"--namespace={options.namespace}",)), *words)


class KubernetesJob(Job):
    """A job that was created, seen through kubectl.

    Args:
        name: Its name.
        submission: What was submitted.
        options: As what.
    """

    def __init__(self, name: str, submission: Submission, options: OPTIONS) -> None:
        super().__init__(name, submission.folder)
        self._submission, self._options = submission, options
        self._ask_at = time.monotonic()
        self._status = JobStatus(Stage.WAITING, f"job {name} is created")
        self._pod = ""
        self._log: subprocess.Popen[bytes] | None = None

    def status(self) -> JobStatus:
        """Return how it stands; asks every few seconds."""
        if self._status.stage is not Stage.ENDED and time.monotonic() >= self._ask_at:
            self._status = self._asked()
            self._ask_at = time.monotonic() + _EVERY_S
        return self._status

    def output(self) -> str:
        """Return what dlbench has printed since the last call."""
        if self._pod and (self._log is None or (self._log.poll() is not None and self._status.stage is Stage.RUNNING)):
            # From its beginning, into the file that is read on where it was left.
            with self._output_path.open("wb") as file:
                argv = kubectl(self._options, "logs", "--follow", self._pod)
                self._log = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.DEVNULL)
        if self._log is not None and self._status.stage is Stage.ENDED:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._log.wait(_LOG_S)
        return super().output()

    def cancel(self) -> None:
        """Ask dlbench in the launcher's pod to end; without such a pod there is nothing to keep."""
        if not self._pod or self._answer("exec", self._pod, "--", "/bin/sh", "-c", "kill -TERM 1") is None:
            self.kill()
            self._status = JobStatus(Stage.ENDED, f"job {self.name} is deleted")

    def kill(self) -> None:
        """Delete all that was created."""
        self.detach()
        manifest = self._submission.folder / files.JOB_MANIFEST
        self._answer("delete", f"--filename={manifest}", "--ignore-not-found", "--wait=false")

    def detach(self) -> None:
        """End what reads its log here."""
        if self._log is not None:
            self._log.terminate()
            self._log.wait()

    def clean_up(self) -> None:
        """Delete the job; what it has made is on the volume claim."""
        self.kill()

    def _asked(self) -> JobStatus:
        words = ("get", "mpijobs.kubeflow.org,pods", f"--selector={INSTANCE}={self.name}", "--output=json")
        try:
            items = json.loads(self._answer(*words) or "")["items"]
        except (ValueError, KeyError, TypeError):
            return JobStatus(self._status.stage, f"job {self.name}: Kubernetes does not answer; trying again")
        pod: Mapping[str, Any] = next(filter(_is_launcher, items), {})
        if (phase := _phase(pod)) in ("Running", "Succeeded", "Failed"):
            self._pod = str(pod["metadata"]["name"])
        if phase == "Running":
            return JobStatus(Stage.RUNNING, f"job {self.name} runs in the pod {self._pod}")
        status = status_of(self.name, items)
        if status.stage is not Stage.ENDED:
            return status
        study = f"its study is {self._submission.study.name} on the volume claim {self._options.volume_claim}"
        return replace(status, text=f"{status.text}; {study}")

    def _answer(self, *words: str) -> str | None:
        """Run kubectl and return what it printed; None where it fails."""
        done = ask(*kubectl(self._options, *words))
        return None if done is None or done.returncode else done.stdout


job = KubernetesJob


def status_of(name: str, items: Sequence[Mapping[str, Any]]) -> JobStatus:
    """Return how a job stands whose launcher's pod does not run.

    Args:
        name: Its name.
        items: The MPIJob and its pods, as kubectl gets them.
    """
    mpi_job = next((item for item in items if item.get("kind") == "MPIJob"), None)
    if mpi_job is None:
        return JobStatus(Stage.ENDED, f"there is no job {name} any more")
    pods = sorted((item for item in items if item.get("kind") == "Pod"), key=lambda pod: not _is_launcher(pod))
    codes = [code for code in map(_exit_code, filter(_is_launcher, pods)) if code is not None]
    if codes:
        return JobStatus(Stage.ENDED, f"job {name} has ended", codes[0])
    why = next(filter(None, map(_why, pods)), "")
    conditions = {entry["type"]: entry for entry in mpi_job.get("status", {}).get("conditions", ())}
    is_true = [kind for kind, entry in conditions.items() if entry.get("status") == "True"]
    for kind, words in _ENDED.items():
        if kind in is_true:
            message = why or str(conditions[kind].get("message", ""))
            return JobStatus(Stage.ENDED, f"job {name} {words}{f': {shorten(message)}' if message else ''}")
    if any(_is_launcher(pod) and _phase(pod) in ("Succeeded", "Failed") for pod in pods):
        return JobStatus(Stage.ENDED, f"the pod of job {name} has ended{f': {why}' if why else ''}")
    state = why or ("Suspended" if "Suspended" in is_true else "its hosts are not ready")
    return JobStatus(Stage.WAITING, f"job {name} waits: {state}")


def _exit_code(pod: Mapping[str, Any]) -> int | None:
    """Return the exit code of dlbench in a pod; None where it was killed, or has not ended."""
    states = (entry.get("state", {}) for entry in pod.get("status", {}).get("containerStatuses", ()))
    ends = (state["terminated"] for state in states if "terminated" in state)
    return next((e["exitCode"] for e in ends if e.get("reason") in _BY_ITSELF and e["exitCode"] in _EXIT_CODES), None)


def _why(pod: Mapping[str, Any]) -> str:
    """Return why a pod does not run, as Kubernetes gives the reason; empty where there is none."""
    status: Mapping[str, Any] = pod.get("status", {})
    states = [state for entry in status.get("containerStatuses", ()) for state in entry.get("state", {}).values()]
    notes = [*states, status, *(entry for entry in status.get("conditions", ()) if entry.get("status") == "False")]
    reasons = ((str(entry.get("reason", "")), str(entry.get("message", ""))) for entry in notes if entry.get("reason"))
    return next((shorten(": ".join(filter(None, words))) for words in reasons), "")


def _is_launcher(item: Mapping[str, Any]) -> bool:
    return bool(item.get("metadata", {}).get("labels", {}).get(_ROLE_LABEL) == _LAUNCHER)


def _phase(pod: Mapping[str, Any]) -> str:
    return str(pod.get("status", {}).get("phase", ""))
