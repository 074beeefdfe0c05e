"""Hands dlbench to Kubernetes as an MPIJob of Kubeflow's MPI operator, with a pod for each host."""

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from dlbench.errors import UserError, shorten
from dlbench.launch.submission import Submission
from dlbench.launch.submitters import _manifest
from dlbench.launch.submitters._kubernetes import KubernetesJob, kubectl
from dlbench.launch.submitters._kubernetes_options import OPTIONS
from dlbench.records import files
from dlbench.scenario.cluster import Cluster
from dlbench.scenario.host_list import parse_hostfile
from dlbench.scenario.text_file import read_text

SHARES_FILES = False

# What the operator says to the pod of the launcher, and where it writes the names of the others.
_ROLE, _LAUNCHER = "K_MPI_JOB_ROLE", "launcher"
_HOSTFILE = "OMPI_MCA_orte_default_hostfile"
_ANSWER_S = 120.0
# Where kubectl itself applies, it keeps all of the ConfigMap once more in an annotation, which holds 256 KiB.
_BY_SERVER = "--server-side"


def available() -> str:
    """Return "" where a job can be applied, else what is missing."""
    if shutil.which("kubectl") is None:
        return "there is no kubectl on PATH; `--dry-run` prints the manifest, which can be applied elsewhere"
    return ""


def inside(cluster: Cluster, environment: Mapping[str, str]) -> Cluster | None:
    """Return the cluster with the pods of the job in whose launcher we are.

    Raises:
        UserError: The operator's hostfile cannot be read.
    """
    if environment.get(_ROLE) != _LAUNCHER:
        return None
    hostfile = environment.get(_HOSTFILE, "/etc/mpi/hostfile")
    found = parse_hostfile(read_text(Path(hostfile), "host"), hostfile)
    cores = cluster.hosts[0].cores
    return cluster.model_copy(update={"hosts": tuple(h.model_copy(update={"cores": cores}) for h in found.hosts)})


def text(submission: Submission, options: OPTIONS) -> str:
    """Return the manifest of a job: a ConfigMap and an MPIJob.

    Raises:
        UserError: Hosts have names or different slots, or the scenario is too large.
    """
    return _manifest.text(submission, options)


def submit(submission: Submission, options: OPTIONS) -> str:
    """Write the manifest into the submission's folder, which exists, apply it, and return the job's name.

    Raises:
        UserError: Kubernetes refuses it or does not answer, or the study is where no other job sees it.
    """
    if options.volume_claim is None and (submission.study / files.RUNS_FOLDER).exists():
        raise UserError(
            "a study that lived in a pod cannot be continued: the next pod would not have it",
            hint="submitter.volume_claim names a volume that studies are kept on; start a new study with it",
        )
    manifest = submission.folder / files.JOB_MANIFEST
    files.write_text(manifest, text(submission, options))
    try:
        done = subprocess.run(
            kubectl(options, "apply", f"--filename={manifest}", _BY_SERVER), stdin=subprocess.DEVNULL,
            capture_output=True, text=True, errors="replace", timeout=_ANSWER_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"the job cannot be handed to Kubernetes: {error}") from error
    if done.returncode:
        raise UserError(f"Kubernetes refused the job: {shorten(done.stderr.strip()) or 'it says nothing'}")
    return _manifest.name_of(submission, options)


def job(name: str, submission: Submission, options: OPTIONS) -> KubernetesJob:
    """Return a job that was handed in."""
    return KubernetesJob(name, submission, options)
