"""The manifest of a job for Kubernetes: a ConfigMap with all that dlbench needs, and an MPIJob. Pure.

The fields of an MPIJob are those of `kubeflow.org/v2beta1`, as the operator's custom resource definition has them:
https://github.com/kubeflow/mpi-operator. dlbench runs in the launcher's pod and reaches the workers' pods by ssh.
"""

import re
import shlex
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, ValidationInfo, field_validator

from dlbench.errors import UserError
from dlbench.launch.submission import ANY_HOST, FOLLOWED, Submission, cluster_text
from dlbench.plugins import Options
from dlbench.records import files
from dlbench.search_path import SHELL_LINE

# Folders in the pods: what the ConfigMap holds, and the studies.
JOB, STUDIES = "/dlbench/job", "/dlbench/studies"
# Label of the job and of its pods, by which kubectl finds them.
INSTANCE = "app.kubernetes.io/instance"
_GPUS = "nvidia.com/gpu"
# So long a pod has to end before it is killed.
_GRACE_S = 90
_MOST_LETTERS = 40
# The ConfigMap of Kubernetes holds at most 1 MiB.
_MOST_BYTES = 1_000_000
# The keys of hosts are made with the pods, so they cannot be known.
_SSH = "ssh -p {port} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
# A name of Kubernetes that also fits before `-launcher` in a host's name. Names of what is there already, amounts and
# labels are checked by Kubernetes.
_Name = Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$")]
_SCRIPT = """\
#!/bin/sh
# {about}
study={study}
if [ ! -e "$study/{record}" ]; then
    mkdir -p "$study/{submissions}" && cp {copied} "$study/" || exit 73
fi
{followed}exit "$code"
"""


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as such, and what stands twice without an alias."""

    def ignore_aliases(self, data: object) -> bool:
        return True

    def text(self, value: str) -> yaml.ScalarNode:
        return self.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _Dumper.text)


class OPTIONS(Options):
    """Options of `kubernetes`."""

    image: str = Field(min_length=1, description="Image of all pods: dlbench, what it measures, and an sshd.")
    namespace: str | None = Field(
        None, min_length=1, description="Namespace of the job; that of kubectl where it is not given."
    )
    name: _Name | None = Field(None, description="Name of the job; after the study where it is not given.")
    python: str = Field("python", description="Interpreter that dlbench is installed for, in the image.")
    resources: dict[str, str | int | float] = Field(
        default_factory=dict, description="What each host gets, and may use, such as {cpu: 8, memory: 32Gi}."
    )
    gpus_per_host: int = Field(0, ge=0, le=1024, description="GPUs of each host.")
    launcher_resources: dict[str, str | int | float] = Field(
        {"cpu": 1, "memory": "2Gi"}, description="What dlbench itself gets, in the pod beside the hosts."
    )
    volume_claim: str = Field(
        min_length=1, description=f"Volume claim that studies are kept on, mounted in all pods at {STUDIES}."
    )
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = Field(
        None, description="When the image is pulled."
    )
    node_selector: dict[str, str] = Field(default_factory=dict, description="Labels that the pods' nodes must have.")
    service_account: str | None = Field(None, min_length=1, description="Service account of the pods.")
    entry_point: bool = Field(
        False, description="Whether pods start through the image's entry point: for images of dlbench's own docker/."
    )
    ssh_port: int | None = Field(
        None, ge=1, le=65535, description="Port on which the hosts' pods listen for ssh: 22, with entry_point 2222."
    )
    ssh_folder: str | None = Field(
        None,
        pattern="^/",
        description="Where the image's user has its keys of ssh: /root/.ssh, with entry_point /keys.",
    )
    deadline_s: int | None = Field(None, ge=1, description="Time limit of the job in seconds.")

    @field_validator("gpus_per_host")
    @classmethod
    def _are_counted_once(cls, gpus_per_host: int, info: ValidationInfo) -> int:
        if gpus_per_host and _GPUS in info.data.get("resources", {}):
            raise ValueError(f"and {_GPUS} of `submitter.resources` both say how many GPUs a host has: remove one")
        return gpus_per_host

    @property
    def port(self) -> int:
        """The port of ssh."""
        return self.ssh_port or (2222 if self.entry_point else 22)

    @property
    def keys(self) -> str:
        """The folder of the keys of ssh."""
        return self.ssh_folder or ("/keys" if self.entry_point else "/root/.ssh")


def name_of(submission: Submission, options: OPTIONS) -> str:
    """Return the job's name: after the study and the submission by default."""
    if options.name is not None:
        return options.name
    slug = re.sub(r"[^a-z0-9]+", "-", submission.study.name.lower()).strip("-")
    number = f"-{submission.number}"
    # The end of a study's name, its time, is unique.
    return f"dlbench-{slug[-(_MOST_LETTERS - len(number) - 8) :].strip('-')}{number}".replace("--", "-")


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
    study = f"{STUDIES}/{submission.study.name}"
    words = submission.words(study, f"{JOB}/{files.CLUSTER}")
    script = _SCRIPT.format(
        about=" ".join(submission.about.split()),
        study=shlex.quote(study),
        record=files.STUDY,
        submissions=files.SUBMISSIONS_FOLDER,
        copied=" ".join(f"{JOB}/{name}" for name in submission.study_files),
        followed=FOLLOWED.format(command=f"{SHELL_LINE}\n{shlex.join([options.python, *words])}"),
    )
    cluster = cluster_text(submission.cluster, options)
    content = {**submission.study_files, files.CLUSTER: cluster, files.JOB_SCRIPT: script}
    if sum(len(text.encode()) for text in content.values()) > _MOST_BYTES:
        raise UserError(f"the scenario and its files exceed the limit of {_MOST_BYTES} bytes for a ConfigMap")
    return yaml.dump_all(
        _documents(submission, options, content), Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=120
    )


def _documents(submission: Submission, options: OPTIONS, content: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the ConfigMap with this content, and the MPIJob."""
    name, hosts = name_of(submission, options), submission.cluster.hosts
    labels = {"app.kubernetes.io/name": "dlbench", INSTANCE: name}
    metadata = _without_empty(name=name, namespace=options.namespace, labels=labels)
    # The operator makes its own ConfigMap, which ends in `-config`.
    config = f"{name}-study"
    volumes = [
        {"name": "job", "configMap": {"name": config}},
        {"name": "studies", "persistentVolumeClaim": {"claimName": options.volume_claim}},
        # Open MPI and NCCL share memory here; without it a pod has 64 MiB.
        {"name": "shm", "emptyDir": {"medium": "Memory"}},
    ]

    def replicas(count: int, container: dict[str, Any]) -> dict[str, Any]:
        pod = _without_empty(
            terminationGracePeriodSeconds=_GRACE_S,
            containers=[container],
            volumes=volumes,
            nodeSelector=options.node_selector,
            serviceAccountName=options.service_account,
        )
        return {"replicas": count, "restartPolicy": "Never", "template": {"metadata": {"labels": labels}, "spec": pod}}

    spec = {
        "slotsPerWorker": hosts[0].slots,
        "mpiImplementation": "OpenMPI",
        "launcherCreationPolicy": "WaitForWorkersReady",
        "sshAuthMountPath": options.keys,
        # A second launcher would not be followed: `--resume` makes what is missing.
        "runPolicy": _without_empty(cleanPodPolicy="All", backoffLimit=0, activeDeadlineSeconds=options.deadline_s),
        "mpiReplicaSpecs": {
            "Launcher": replicas(1, _launcher(options)),
            "Worker": replicas(len(hosts), _worker(options)),
        },
    }
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata | {"name": config}, "data": dict(content)},
        {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": metadata, "spec": spec},
    ]


def _launcher(options: OPTIONS) -> dict[str, Any]:
    words = ["/bin/sh", f"{JOB}/{files.JOB_SCRIPT}"]
    variables = {"PRTE_MCA_plm_ssh_agent": _SSH.format(port=options.port), "PYTHONUNBUFFERED": "1"}
    # The entry point runs what it is given, once it has taken the keys.
    started = {"args" if options.entry_point else "command": words}
    return _container("launcher", started, options, options.launcher_resources, variables)


def _worker(options: OPTIONS) -> dict[str, Any]:
    gpus = {_GPUS: options.gpus_per_host} if options.gpus_per_host else {}
    command = {"command": ["/usr/sbin/sshd", "-De", "-p", str(options.port)]}
    started = {"args": ["host"]} if options.entry_point else command
    container = _container("worker", started, options, options.resources | gpus, {})
    return {**container, "readinessProbe": {"tcpSocket": {"port": options.port}, "periodSeconds": 2}}


def _container(
    name: str,
    started: Mapping[str, list[str]],
    options: OPTIONS,
    amounts: Mapping[str, str | int | float],
    variables: Mapping[str, str],
) -> dict[str, Any]:
    if options.entry_point:  # docker/entrypoint: where the operator mounts the keys of the job, and the port of ssh
        variables = {**variables, "DLBENCH_KEYS": options.keys, "DLBENCH_SSH_PORT": str(options.port)}
    places = {"job": JOB, "studies": STUDIES, "shm": "/dev/shm"}  # noqa: S108 - a path in a pod
    return _without_empty(
        name=name,
        image=options.image,
        imagePullPolicy=options.image_pull_policy,
        **started,
        # As much asked for as allowed: a pod may then have its cores to itself.
        resources={"requests": dict(amounts), "limits": dict(amounts)} if amounts else None,
        volumeMounts=[{"name": volume, "mountPath": path} for volume, path in places.items()],
        env=[{"name": variable, "value": value} for variable, value in variables.items()],
    )


def _without_empty(**fields: Any) -> dict[str, Any]:
    """Return the fields that have a value; Kubernetes chooses the others."""
    return {name: value for name, value in fields.items() if value not in (None, {}, [])}
