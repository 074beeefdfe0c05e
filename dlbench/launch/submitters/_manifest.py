"""The manifest of a job for Kubernetes: a ConfigMap with all that dlbench needs, and an MPIJob. Pure.

The fields of an MPIJob are those of `kubeflow.org/v2beta1`, as the operator's custom resource definition has them:
https://github.com/kubeflow/mpi-operator. dlbench runs in the launcher's pod and reaches the workers' pods by ssh.
"""

import re
import shlex
from collections.abc import Mapping
from typing import Any

import yaml

from dlbench.errors import UserError
from dlbench.launch.submission import ANY_HOST, Submission, cluster_text
from dlbench.launch.submitters._kubernetes_options import OPTIONS
from dlbench.records import files

# Folders in the pods: what the ConfigMap holds, the studies, and the files by which the study's end is signalled.
JOB, STUDIES, STATE = "/dlbench/job", "/dlbench/studies", "/dlbench/state"
COLLECTED = "collected"
# Label of the job and of its pods, by which kubectl finds them.
INSTANCE = "app.kubernetes.io/instance"
# So long a pod has to end in good order before it is killed.
_GRACE_S = 90
_MOST_LETTERS = 40
# The ConfigMap of Kubernetes holds at most 1 MiB.
_MOST_BYTES = 1_000_000
# The keys of hosts are made with the pods, so they cannot be known.
_SSH = "ssh -p {port} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
_SCRIPT = """\
#!/bin/sh
# {about}
study={study}
if [ ! -e "$study/{record}" ]; then
    mkdir -p "$study/{submissions}" && cp {copied} "$study/" || exit 73
fi
trap 'asked=yes; kill -TERM "$child" 2>/dev/null' TERM
{python} {words} &
child=$!
asked=yes
while [ -n "$asked" ]; do
    asked=
    wait "$child"
    code=$?
done
printf '%s\\n' "$code" >{state}/{code}.new && mv {state}/{code}.new {state}/{code}
# The study is in this pod: it waits until it is collected.
waited=0
while [ ! -e {state}/{collected} ] && [ "$waited" -lt {timeout_s} ]; do
    sleep 1
    waited=$((waited + 1))
done
exit "$code"
"""


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as such."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)


def name_of(submission: Submission, options: OPTIONS) -> str:
    """Return the job's name: after the study and the submission by default."""
    if options.name is not None:
        return options.name
    slug = re.sub(r"[^a-z0-9]+", "-", submission.study.name.lower()).strip("-")
    number = f"-{submission.number}"
    # The end of a study's name, its time, is unique.
    return f"dlbench-{slug[-(_MOST_LETTERS - len(number) - 8) :].strip('-')}{number}".replace("--", "-")


def study_of(submission: Submission) -> str:
    """Return the study's folder in the pods."""
    return f"{STUDIES}/{submission.study.name}"


def text(submission: Submission, options: OPTIONS) -> str:
    """Return the manifest.

    Raises:
        UserError: Hosts have names or different slots, which the operator cannot be asked for, or the scenario is too
            large.
    """
    hosts = submission.cluster.hosts
    if len({host.slots for host in hosts}) > 1 or not hosts[0].address.startswith(ANY_HOST):
        raise UserError(
            "hosts of a job for Kubernetes are counted, and have as many slots each", hint="hosts: {count: 2, slots: 4}"
        )
    content = {
        **submission.study_files,
        files.CLUSTER: cluster_text(submission.cluster, options),
        files.JOB_SCRIPT: _script(submission, options),
    }
    if sum(len(text.encode()) for text in content.values()) > _MOST_BYTES:
        raise UserError(f"the scenario and what goes with it are larger than {_MOST_BYTES} bytes, which no job may be")
    documents = [_config_map(submission, options, content), _mpi_job(submission, options)]
    return yaml.dump_all(documents, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=120)


def _script(submission: Submission, options: OPTIONS) -> str:
    return _SCRIPT.format(
        about=" ".join(submission.about.split()),
        study=shlex.quote(study_of(submission)),
        record=files.STUDY,
        submissions=files.SUBMISSIONS_FOLDER,
        copied=" ".join(f"{JOB}/{name}" for name in submission.study_files),
        python=shlex.quote(options.python),
        words=shlex.join(submission.words(study_of(submission), f"{JOB}/{files.CLUSTER}")),
        state=STATE,
        code=files.EXIT_CODE,
        collected=COLLECTED,
        timeout_s=options.collect_timeout_s,
    )


def _metadata(submission: Submission, options: OPTIONS, suffix: str = "") -> dict[str, Any]:
    namespace = {} if options.namespace is None else {"namespace": options.namespace}
    name = f"{name_of(submission, options)}{suffix}"
    return {"name": name, **namespace, "labels": _labels(submission, options)}


def _labels(submission: Submission, options: OPTIONS) -> dict[str, str]:
    return {"app.kubernetes.io/name": "dlbench", INSTANCE: name_of(submission, options)}


def _config_map(submission: Submission, options: OPTIONS, content: Mapping[str, str]) -> dict[str, Any]:
    # The operator makes one of its own, which ends in `-config`.
    metadata = _metadata(submission, options, "-study")
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(content)}


def _mpi_job(submission: Submission, options: OPTIONS) -> dict[str, Any]:
    hosts = submission.cluster.hosts
    deadline = {} if options.deadline_s is None else {"activeDeadlineSeconds": options.deadline_s}
    # A second launcher would not be followed: `--resume` makes what is missing.
    policy = {"cleanPodPolicy": "All", "backoffLimit": 0, **deadline}
    spec = {
        "slotsPerWorker": hosts[0].slots,
        "mpiImplementation": "OpenMPI",
        "launcherCreationPolicy": "WaitForWorkersReady",
        "sshAuthMountPath": options.keys,
        "runPolicy": policy,
        "mpiReplicaSpecs": {
            "Launcher": _replicas(1, submission, options, _launcher(options)),
            "Worker": _replicas(len(hosts), submission, options, _worker(options)),
        },
    }
    metadata = _metadata(submission, options)
    return {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": metadata, "spec": spec}


def _replicas(count: int, submission: Submission, options: OPTIONS, container: dict[str, Any]) -> dict[str, Any]:
    studies = (
        {"emptyDir": {}}
        if options.volume_claim is None
        else {"persistentVolumeClaim": {"claimName": options.volume_claim}}
    )
    pod: dict[str, Any] = {
        "terminationGracePeriodSeconds": _GRACE_S,
        "containers": [container],
        "volumes": [
            {"name": "job", "configMap": {"name": f"{name_of(submission, options)}-study"}},
            {"name": "studies", **studies},
            {"name": "state", "emptyDir": {}},
        ],
    }
    if options.node_selector:
        pod["nodeSelector"] = dict(options.node_selector)
    if options.service_account is not None:
        pod["serviceAccountName"] = options.service_account
    template = {"metadata": {"labels": _labels(submission, options)}, "spec": pod}
    return {"replicas": count, "restartPolicy": "Never", "template": template}


def _container(
    name: str, started: Mapping[str, list[str]], options: OPTIONS, amounts: Mapping[str, str | int]
) -> dict[str, Any]:
    pulled = {} if options.image_pull_policy is None else {"imagePullPolicy": options.image_pull_policy}
    # As much asked for as allowed: a pod may then have its cores to itself.
    resources = {"resources": {"requests": dict(amounts), "limits": dict(amounts)}} if amounts else {}
    places = {"job": JOB, "studies": STUDIES, "state": STATE}
    mounts = [{"name": volume, "mountPath": path} for volume, path in places.items()]
    return {"name": name, "image": options.image, **pulled, **started, **resources, "volumeMounts": mounts}


def _launcher(options: OPTIONS) -> dict[str, Any]:
    words = ["/bin/sh", f"{JOB}/{files.JOB_SCRIPT}"]
    # The entry point runs what it is given, once it has taken the keys.
    started = {"args": words} if options.entry_point else {"command": words}
    container = _container("launcher", started, options, options.launcher_resources)
    variables = {"PRTE_MCA_plm_ssh_agent": _SSH.format(port=options.port), "PYTHONUNBUFFERED": "1"}
    return {**container, "env": _env({**variables, **_of_entry_point(options)})}


def _worker(options: OPTIONS) -> dict[str, Any]:
    gpus = {"nvidia.com/gpu": options.gpus_per_host} if options.gpus_per_host else {}
    command = {"command": ["/usr/sbin/sshd", "-De", "-p", str(options.port)]}
    started = {"args": ["host"]} if options.entry_point else command
    container = _container("worker", started, options, {**options.resources, **gpus})
    variables = _of_entry_point(options)
    env = {"env": _env(variables)} if variables else {}
    return {**container, **env, "readinessProbe": {"tcpSocket": {"port": options.port}, "periodSeconds": 2}}


def _of_entry_point(options: OPTIONS) -> dict[str, str]:
    """Return the variables of docker/entrypoint: where the operator mounts the keys of the job, and the port of ssh."""
    return {"DLBENCH_KEYS": options.keys, "DLBENCH_SSH_PORT": str(options.port)} if options.entry_point else {}


def _env(variables: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in variables.items()]
