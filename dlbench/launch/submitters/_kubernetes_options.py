"""What may be said of a job for Kubernetes."""

import re

from pydantic import Field, field_validator

from dlbench.plugins import Options

# A name of Kubernetes that also fits before `-launcher` in a host's name.
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?", re.ASCII)
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", re.ASCII)
_QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?", re.ASCII)


def _small() -> dict[str, str | int]:
    return {"cpu": 1, "memory": "2Gi"}


class OPTIONS(Options):
    """Options of `kubernetes`."""

    image: str = Field(min_length=1, description="Image of all pods: dlbench, what it measures, and an sshd.")
    namespace: str | None = Field(None, description="Namespace of the job; that of kubectl where it is not given.")
    name: str | None = Field(None, description="Name of the job; after the study where it is not given.")
    python: str = Field("python", description="Interpreter that dlbench is installed for, in the image.")
    resources: dict[str, str | int] = Field(
        default_factory=dict, description="What each host gets, and may use, such as {cpu: 8, memory: 32Gi}."
    )
    gpus_per_host: int = Field(0, ge=0, le=1024, description="GPUs of each host.")
    launcher_resources: dict[str, str | int] = Field(
        default_factory=_small,
        description="What dlbench itself gets, in the pod beside the hosts.",
    )
    volume_claim: str | None = Field(
        None, description="Volume claim that studies are kept on, mounted in all pods; without one they live in a pod."
    )
    image_pull_policy: str | None = Field(None, description="When the image is pulled: Always, IfNotPresent or Never.")
    node_selector: dict[str, str] = Field(default_factory=dict, description="Labels that the pods' nodes must have.")
    service_account: str | None = Field(None, description="Service account of the pods.")
    entry_point: bool = Field(
        False, description="Whether pods start through the image's entry point: for images of dlbench's own docker/."
    )
    ssh_port: int | None = Field(
        None, ge=1, le=65535, description="Port on which the hosts' pods listen for ssh: 22, with entry_point 2222."
    )
    ssh_folder: str | None = Field(
        None, description="Where the image's user has its keys of ssh: /root/.ssh, with entry_point /keys."
    )
    deadline_s: int | None = Field(None, ge=1, description="Time limit of the job in seconds.")
    collect_timeout_s: int = Field(
        600, ge=0, le=86_400, description="So many seconds the finished study waits in its pod to be collected."
    )

    @property
    def port(self) -> int:
        """The port of ssh."""
        return self.ssh_port or (2222 if self.entry_point else 22)

    @property
    def keys(self) -> str:
        """The folder of the keys of ssh."""
        return self.ssh_folder or ("/keys" if self.entry_point else "/root/.ssh")

    @field_validator("namespace", "name", "service_account", "volume_claim")
    @classmethod
    def _is_name(cls, value: str | None) -> str | None:
        if value is not None and not _NAME.fullmatch(value):
            raise ValueError("is a name of small letters, digits and hyphens, at most 40 of them, a letter first")
        return value

    @field_validator("resources", "launcher_resources")
    @classmethod
    def _are_quantities(cls, resources: dict[str, str | int]) -> dict[str, str | int]:
        for name, amount in resources.items():
            if not _QUANTITY.fullmatch(str(amount)):
                raise ValueError(f"{name}: {amount!r} is no amount such as 8, 500m or 32Gi")
        return resources

    @field_validator("image_pull_policy")
    @classmethod
    def _is_policy(cls, value: str | None) -> str | None:
        if value not in (None, "Always", "IfNotPresent", "Never"):
            raise ValueError("is Always, IfNotPresent or Never")
        return value

    @field_validator("node_selector")
    @classmethod
    def _are_labels(cls, labels: dict[str, str]) -> dict[str, str]:
        for name, value in labels.items():
            if not name or not _LABEL_VALUE.fullmatch(value):
                raise ValueError(f"{name}: {value!r} is no label")
        return labels

    @field_validator("ssh_folder")
    @classmethod
    def _is_absolute(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith("/"):
            raise ValueError("is an absolute path")
        return value
