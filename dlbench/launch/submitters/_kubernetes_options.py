"""The options of a job for Kubernetes."""

from typing import Annotated, Literal

from pydantic import Field

from dlbench.plugins import Options

# A name of Kubernetes that also fits before `-launcher` in a host's name. Amounts and labels are checked by Kubernetes.
Name = Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$")]


def _small() -> dict[str, str | int]:
    return {"cpu": 1, "memory": "2Gi"}


class OPTIONS(Options):
    """Options of `kubernetes`."""

    image: str = Field(min_length=1, description="Image of all pods: dlbench, what it measures, and an sshd.")
    namespace: Name | None = Field(None, description="Namespace of the job; that of kubectl where it is not given.")
    name: Name | None = Field(None, description="Name of the job; after the study where it is not given.")
    python: str = Field("python", description="Interpreter that dlbench is installed for, in the image.")
    resources: dict[str, str | int] = Field(
        default_factory=dict, description="What each host gets, and may use, such as {cpu: 8, memory: 32Gi}."
    )
    gpus_per_host: int = Field(0, ge=0, le=1024, description="GPUs of each host.")
    launcher_resources: dict[str, str | int] = Field(
        default_factory=_small,
        description="What dlbench itself gets, in the pod beside the hosts.",
    )
    volume_claim: Name | None = Field(
        None, description="Volume claim that studies are kept on, mounted in all pods; without one they live in a pod."
    )
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = Field(
        None, description="When the image is pulled."
    )
    node_selector: dict[str, str] = Field(default_factory=dict, description="Labels that the pods' nodes must have.")
    service_account: Name | None = Field(None, description="Service account of the pods.")
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
