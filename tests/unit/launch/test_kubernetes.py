"""What Kubernetes is asked for, and how its answers are read."""

import subprocess
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from pydantic import ValidationError

from dlbench.errors import UserError
from dlbench.launch.submission import JobStatus, Stage, Submission
from dlbench.launch.submitters import kubernetes
from dlbench.launch.submitters._manifest import name_of
from dlbench.launch.submitters.kubernetes import KubernetesJob, status_of
from dlbench.scenario.cluster import Cluster, Host

TWO = Cluster(hosts=tuple(Host(address=f"queue-{n}", slots=4) for n in range(2)), submitter="kubernetes")
OPTIONS = kubernetes.OPTIONS(image="i", volume_claim="v")


def submission(study: str = "/s/digits-20260101T000000Z", cluster: Cluster = TWO, **parts: Any) -> Submission:
    return Submission(study=Path(study), number=12, cluster=cluster, about="", **parts)


def test_in_a_launchers_pod_the_hosts_are_those_of_the_operators_file(tmp_path: Path) -> None:
    hostfile = tmp_path / "hostfile"
    hostfile.write_text("d-worker-0.d.ns.svc slots=4\nd-worker-1.d.ns.svc slots=4\n")
    found = kubernetes.inside(TWO, {"K_MPI_JOB_ROLE": "launcher", "OMPI_MCA_orte_default_hostfile": str(hostfile)})
    assert found is not None
    assert [(host.address, host.slots) for host in found.hosts] == [(f"d-worker-{n}.d.ns.svc", 4) for n in range(2)]
    assert found.model_copy(update={"hosts": TWO.hosts}) == TWO
    assert kubernetes.inside(TWO, {"K_MPI_JOB_ROLE": "worker"}) is None


def test_a_jobs_name_is_one_that_kubernetes_takes() -> None:
    for name in ("digits-20260101T000000Z", "한글", "9" * 80, "A_b--C", "x" * 34 + "-y"):
        found = name_of(submission(f"/s/{name}"), OPTIONS)
        assert kubernetes.OPTIONS(image="i", volume_claim="v", name=found).name == found, name


def test_what_no_manifest_can_hold_is_refused() -> None:
    refused: list[tuple[dict[str, Any], str]] = [
        ({"image": ""}, "at least 1 character"),
        ({"volume_claim": None}, "should be a valid string"),
        ({"name": "a" * 41}, "should match pattern"),
        ({"gpus_per_host": 4, "resources": {"nvidia.com/gpu": 1}}, "both say how many GPUs"),
    ]
    for given, reason in refused:
        with pytest.raises(ValidationError, match=reason):
            kubernetes.OPTIONS.model_validate({"image": "i", "volume_claim": "v"} | given)
    # Hosts with different slots, or with names, and a scenario that is too large.
    for hosts in ((Host(address="queue-0", slots=1), Host(address="queue-1", slots=2)), (Host(address="g", slots=2),)):
        with pytest.raises(UserError, match="are counted, and have as many slots each"):
            kubernetes.text(submission(cluster=TWO.model_copy(update={"hosts": hosts})), OPTIONS)
    with pytest.raises(UserError, match="exceed the limit of 1000000 bytes for a ConfigMap"):
        kubernetes.text(submission(study_files={"scenario.yaml": "가" * 400_000}), OPTIONS)


def test_what_kubernetes_knows_by_name_and_amount_is_its_own_to_check() -> None:
    given = {"volume_claim": "data.v1", "service_account": "0-sa.eu", "namespace": f"1{'n' * 62}"}
    options = kubernetes.OPTIONS.model_validate({"image": "i", **given, "resources": {"cpu": 1.5, "memory": "2Gi"}})
    assert options.model_dump().items() >= given.items()
    assert "cpu: 1.5\n" in kubernetes.text(submission(), options)


def job(*kinds: str) -> dict[str, Any]:
    conditions = [{"type": kind, "status": "True", "message": f"{kind}!"} for kind in kinds]
    return {"kind": "MPIJob", "status": {"conditions": conditions}}


def pod(phase: str, role: str = "launcher", status: dict[str, Any] | None = None, **state: Any) -> dict[str, Any]:
    found = {"phase": phase, "containerStatuses": [{"state": state}], **(status or {})}
    return {"kind": "Pod", "metadata": {"labels": {"training.kubeflow.org/job-role": role}}, "status": found}


UNSCHEDULED = {
    "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}]
}
WAITS, ENDED = Stage.WAITING, Stage.ENDED
# The MPIJob and its pods, and how the job stands.
SEEN: list[tuple[list[dict[str, Any]], Stage, str]] = [
    ([], ENDED, "there is no job d any more"),
    ([job("Created")], WAITS, "job d waits: its hosts are not ready"),
    ([job()], WAITS, "job d waits: its hosts are not ready"),
    ([job("Created", "Suspended")], WAITS, "job d waits: Suspended"),
    ([job("Created"), pod("Pending", status=UNSCHEDULED)], WAITS, "job d waits: Unschedulable: 0/3 nodes"),
    (
        # The launcher waits for the hosts, of which one has no image.
        [job("Created"), pod("Pending", "worker", waiting={"reason": "ErrImagePull", "message": "no such image"})],
        WAITS,
        "job d waits: ErrImagePull: no such image",
    ),
    ([job("Failed")], ENDED, "job d has failed: Failed!"),
    ([job("Running", "Failed"), pod("Failed", terminated={"reason": "OOMKilled", "exitCode": 137})], ENDED,
     "job d has failed: OOMKilled"),
    ([job("Running"), pod("Failed", status={"reason": "Evicted", "message": "low on memory"})], ENDED,
     "the pod of job d has ended: Evicted: low on memory"),
]  # fmt: skip


def test_what_kubernetes_reports_is_read() -> None:
    for items, stage, said in SEEN:
        assert status_of("d", items) == JobStatus(stage, said), items


def test_the_exit_code_is_that_of_the_launchers_pod() -> None:
    other = pod("Succeeded", "worker", terminated={"reason": "Completed", "exitCode": 1})
    for reason, ended_with, code in (
        ("Completed", 0, 0), ("Error", 3, 3), ("Error", 130, 130), ("Error", 137, None), ("OOMKilled", 137, None),
    ):  # fmt: skip
        phase = "Failed" if ended_with else "Succeeded"
        launcher = pod(phase, terminated={"reason": reason, "exitCode": ended_with})
        status = status_of("d", [job("Running"), other, launcher])
        assert (status.stage, status.exit_code) == (ENDED, code), (reason, ended_with)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Return what kubectl is called with from now on; it succeeds."""
    asked: list[tuple[str, ...]] = []

    def run(argv: tuple[str, ...], **_: Any) -> "subprocess.CompletedProcess[Any]":
        asked.append(argv)
        return subprocess.CompletedProcess(argv, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    return asked


def test_a_job_that_has_ended_is_deleted_and_of_one_that_is_left_the_log_is_followed_no_more(
    tmp_path: Path, calls: list[tuple[str, ...]]
) -> None:
    for end, is_deleted in ((KubernetesJob.detach, []), (KubernetesJob.clean_up, [True])):
        left = kubernetes.job("d", submission(str(tmp_path / "d")), OPTIONS)
        left._status, left._pod = JobStatus(Stage.ENDED, "job d has ended", 0), "d-launcher-x"
        left._log = log = Mock()
        end(left)
        assert ["delete" in argv for argv in calls] == is_deleted
        assert log.terminate.called


def test_a_job_is_created_and_deleted_by_its_manifest(tmp_path: Path, calls: list[tuple[str, ...]]) -> None:
    given = submission(str(tmp_path / "d"))
    given.folder.mkdir(parents=True)
    name = kubernetes.submit(given, OPTIONS)
    kubernetes.job(name, given, OPTIONS).kill()
    assert (given.folder / "job.yaml").stat().st_mode & 0o777 == 0o600
    manifest = f"--filename={given.folder / 'job.yaml'}"
    deletion = ("kubectl", "delete", manifest, "--ignore-not-found", "--wait=false")
    assert calls == [("kubectl", "create", manifest), deletion]
