"""What is submitted to queues, as text: scripts of sbatch and manifests for Kubernetes, also where names are odd.

A change here is a change of what runs. To accept it: UPDATE_GOLDEN=1 pytest tests/golden
"""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from dlbench.launch.submission import Submission
from dlbench.launch.submitters import kubernetes, sbatch
from dlbench.scenario.cluster import Cluster, Host

SCRIPTS = Path(__file__).parent / "scripts"
ODD = Path('/data/a study\'s "runs"/한글\n$HOME;x')


def submission(study: Path = Path("/data/studies/digits-20260101T000000Z"), **parts: Any) -> Submission:
    hosts = tuple(Host(address=f"queue-{number}", slots=4) for number in range(2))
    given: dict[str, Any] = {
        "study": study,
        "number": 1,
        "cluster": Cluster(hosts=hosts, submitter="sbatch"),
        "about": f"{study.name}, all runs",
        "working_folder": Path("/home/u/work"),
        "python": "/opt/env/bin/python",
    }
    return Submission(**given | parts)


EVERYTHING = sbatch.OPTIONS(
    partition="gpu,long",
    account="proj-7",
    qos="high",
    time_limit="1-12:00:00",
    gpus_per_host=4,
    cores_per_slot=8,
    memory="0",
    exclusive=False,
    setup=("source /etc/profile.d/modules.sh", "module load 'cuda/12' # as the site asks"),
    extra={"constraint": "a100&nvlink", "comment": "a 'b' #c", "contiguous": True, "nice": 5, "spread-job": False},
)
WRITTEN = {
    "study": (submission(), sbatch.OPTIONS()),
    "run": (
        submission(number=3, part=(2, 12), about="digits, run 2 of 12: workers=2", only={"workers": "2"}, repeats="3"),
        sbatch.OPTIONS(per="run"),
    ),
    "all-options": (submission(), EVERYTHING),
    "odd-names": (
        submission(
            ODD, working_folder=ODD / "here", python="/opt/my env's/bin/python", about="한글\n$(touch x)",
            only={"model": "내.모듈:net", "dataset.path": 'a "b" c'},
        ),
        sbatch.OPTIONS(),
    ),
    "named-hosts": (
        submission(
            cluster=Cluster(hosts=(Host(address="gpu-a", slots=4), Host(address="gpu-b", slots=4)), submitter="sbatch")
        ),
        sbatch.OPTIONS(),
    ),
}  # fmt: skip


def compare(golden: Path, text: str) -> None:
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()


@pytest.mark.parametrize("name", WRITTEN)
def test_a_script_is_as_it_was(name: str) -> None:
    compare(SCRIPTS / f"{name}.sh", sbatch.text(*WRITTEN[name]))


@pytest.mark.parametrize("name", WRITTEN)
def test_bash_reads_a_script(name: str) -> None:
    text = sbatch.text(*WRITTEN[name])
    done = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


MANIFESTS = Path(__file__).parent / "manifests"
FILES = {
    "scenario.yaml": "# What to measure.\nname: digits\nbase: {trainer: numpy}\n",
    "study.json": '{\n  "scenario": "digits"\n}\n',
    "machine.json": "{}\n",
}
FULL = kubernetes.OPTIONS(
    image="registry.example/dlbench:1.0",
    namespace="research",
    name="my-study",
    python="/opt/env/bin/python",
    resources={"cpu": 8, "memory": "32Gi"},
    gpus_per_host=4,
    launcher_resources={"cpu": "500m", "memory": "1Gi"},
    volume_claim="studies",
    image_pull_policy="Always",
    node_selector={"pool": "gpu"},
    service_account="bench",
    ssh_port=2222,
    ssh_folder="/home/mpiuser/.ssh",
    deadline_s=7200,
)
PODS = Cluster(hosts=tuple(Host(address=f"queue-{number}", slots=4) for number in range(2)), submitter="kubernetes")
APPLIED = {
    "default": (
        submission(cluster=PODS, study_files=FILES),
        kubernetes.OPTIONS(image="dlbench:1", volume_claim="studies"),
    ),
    "all-options": (submission(cluster=PODS, study_files=FILES, only={"workers": "2"}, repeats="3"), FULL),
    "own-image": (
        submission(cluster=PODS, study_files=FILES),
        kubernetes.OPTIONS(image="dlbench-cpu", volume_claim="studies", entry_point=True),
    ),
    "odd-names": (
        submission(
            ODD,
            cluster=PODS,
            study_files={**FILES, "scenario.yaml": "a: 'x \"y\"'  \n\tb\n한글: $HOME"},
            about="한글\n$(touch x)",
            only={"model": "내.모듈:net"},
        ),
        kubernetes.OPTIONS(image="dlbench:1", volume_claim="studies", python="/opt/my env's/bin/python"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", APPLIED)
def test_a_manifest_is_as_it_was(name: str) -> None:
    compare(MANIFESTS / f"{name}.yaml", kubernetes.text(*APPLIED[name]))


@pytest.mark.parametrize("name", APPLIED)
def test_a_manifest_is_what_the_operator_takes(name: str) -> None:
    config, job = yaml.safe_load_all(kubernetes.text(*APPLIED[name]))
    assert (job["apiVersion"], job["kind"]) == ("kubeflow.org/v2beta1", "MPIJob")
    jsonschema.validate(job, schema())
    given = APPLIED[name][0].study_files
    assert {key: config["data"][key] for key in given} == given
    # What the operator itself checks beyond its schema.
    assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", job["metadata"]["name"])
    assert len(f"{job['metadata']['name']}-launcher-12345") <= 63
    assert job["spec"]["runPolicy"]["cleanPodPolicy"] in ("None", "Running", "All")
    replicas = job["spec"]["mpiReplicaSpecs"]
    assert set(replicas) == {"Launcher", "Worker"}
    assert replicas["Launcher"]["replicas"] == 1
    assert {entry["restartPolicy"] for entry in replicas.values()} <= {"Never", "OnFailure"}
    # The operator makes a ConfigMap of its own under this name.
    assert config["metadata"]["name"] != f"{job['metadata']['name']}-config"


@pytest.mark.parametrize("place", ["spec", "spec.runPolicy", "spec.mpiReplicaSpecs.Worker.template.spec.containers.0"])
def test_a_misspelt_key_is_found(place: str) -> None:
    _, job = yaml.safe_load_all(kubernetes.text(*APPLIED["default"]))
    target: Any = job
    for part in place.split("."):
        target = target[int(part) if part.isdecimal() else part]
    target["slotPerWorker"] = 1
    with pytest.raises(jsonschema.ValidationError, match="slotPerWorker"):
        jsonschema.validate(job, schema())


@pytest.mark.parametrize("name", APPLIED)
def test_a_shell_reads_the_script_of_a_pod(name: str) -> None:
    config, _ = yaml.safe_load_all(kubernetes.text(*APPLIED[name]))
    done = subprocess.run(["sh", "-n"], input=config["data"]["job.sh"], text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def schema() -> dict[str, Any]:
    """Return the operator's schema with every unknown key refused: Kubernetes drops such keys without a word."""
    found = yaml.safe_load((Path(__file__).parent / "schemas" / "mpijob-v2beta1.yaml").read_text())
    _close(found)
    return found


def _close(part: Any) -> None:
    if isinstance(part, dict):
        if "properties" in part:
            part["additionalProperties"] = False
        for inner in part.values():
            _close(inner)
