"""A stand-in for kubectl and a Kubernetes with the MPI operator: one pod, which is a process of this machine.

`FAKE_KUBERNETES` names its folder. A file there changes what it does: `refuses` (what create says), `waiting` (why the
pod does not start), `dies` (why the pod ended before it began), `silent` (the server does not answer).
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml

HOME = Path(os.environ.get("FAKE_KUBERNETES", "/nonexistent"))
ROOT, LOG, PID, JOB, EXIT = HOME / "root", HOME / "log", HOME / "pid", HOME / "job.json", HOME / "exit_code"


def content(name: str) -> str:
    path = HOME / name
    return path.read_text() if path.exists() else ""


def moved(text: str) -> str:
    """Return a text with the folders of the pod where they are here."""
    return re.sub(r"(?<![\w./-])/dlbench/", f"{ROOT}/dlbench/", text)  # not of a checkout in a folder of that name


def create(manifest: Path) -> int:
    if refusal := content("refuses"):
        sys.stderr.write(f"{refusal}\n")
        return 1
    config, job = yaml.safe_load_all(manifest.read_text())
    (claim,) = [v["persistentVolumeClaim"]["claimName"] for v in pod_of(job)["volumes"] if v["name"] == "studies"]
    shutil.rmtree(ROOT, ignore_errors=True)
    place = ROOT / "dlbench"
    (place / "job").mkdir(parents=True)
    studies = HOME / "claims" / claim
    studies.mkdir(parents=True, exist_ok=True)
    (place / "studies").symlink_to(studies)
    for name, text in config["data"].items():
        (place / "job" / name).write_text(moved(text))
    JOB.write_text(json.dumps(job))
    EXIT.unlink(missing_ok=True)
    if not content("waiting") and not content("dies"):
        start(job, place)
    return 0


def pod_of(job: dict[str, Any]) -> dict[str, Any]:
    return job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]


def start(job: dict[str, Any], place: Path) -> None:
    (container,) = pod_of(job)["containers"]
    hostfile = HOME / "hostfile"
    hostfile.write_text(f"localhost slots={job['spec']['slotsPerWorker']}\n")
    given = {entry["name"]: entry["value"] for entry in container["env"]}
    operators = {"K_MPI_JOB_ROLE": "launcher", "OMPI_MCA_orte_default_hostfile": str(hostfile)}
    with LOG.open("wb") as log:
        pod = subprocess.Popen(
            [sys.executable, __file__, "be a pod", *map(moved, container["command"])], stdin=subprocess.DEVNULL,
            stdout=log, stderr=log, env={**os.environ, **given, **operators}, start_new_session=True,
        )  # fmt: skip
    PID.write_text(str(pod.pid))


def be_pod(words: list[str]) -> int:
    """Run a container's command, and note how it ended."""
    with subprocess.Popen(words) as container:
        signal.signal(signal.SIGTERM, lambda *_: container.terminate())
        EXIT.write_text(str(container.wait()))
    return 0


def runs() -> bool:
    """Whether the pod's process lives; a dead one has no parent here, and init reaps it."""
    try:
        return Path(f"/proc/{PID.read_text()}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def get() -> int:
    if content("silent"):
        sys.stderr.write("Unable to connect to the server: EOF\n")
        return 1
    sys.stdout.write(json.dumps({"items": [mpi_job(), pod()] if JOB.exists() else []}))
    return 0


def mpi_job() -> dict[str, Any]:
    kind = "Failed" if content("dies") else "Running" if runs() else "Created" if content("waiting") else "Succeeded"
    conditions = [{"type": "Created", "status": "True"}, {"type": kind, "status": "True", "message": "a message"}]
    return {"kind": "MPIJob", "metadata": {"name": "x"}, "status": {"conditions": conditions}}


def pod() -> dict[str, Any]:
    code = int(content("exit_code") or 0)
    phase, state = "Succeeded", {"terminated": {"reason": "Error" if code else "Completed", "exitCode": code}}
    if reason := content("waiting"):
        phase, state = "Pending", {"waiting": {"reason": reason, "message": "it says so"}}
    elif reason := content("dies"):
        phase, state = "Failed", {"terminated": {"reason": reason, "exitCode": 137}}
    elif runs():
        phase, state = "Running", {"running": {"startedAt": "now"}}
    status = {"phase": phase, "containerStatuses": [{"state": state}]}
    labels = {"training.kubeflow.org/job-role": "launcher"}
    return {"kind": "Pod", "metadata": {"name": "x-launcher-abcde", "labels": labels}, "status": status}


def follow() -> int:
    with LOG.open("rb") as file:
        while True:
            is_over = not runs()
            sys.stdout.buffer.write(file.read())
            sys.stdout.buffer.flush()
            if is_over:
                return 0
            time.sleep(0.1)


def execute(words: list[str]) -> int:
    if not runs():
        return 1
    assert words[-1] == "kill -TERM 1", words
    os.kill(int(PID.read_text()), signal.SIGTERM)
    return 0


def delete() -> int:
    if runs():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(int(PID.read_text()), signal.SIGKILL)
    JOB.unlink(missing_ok=True)
    return 0


def main() -> int:
    if sys.argv[1] == "be a pod":
        return be_pod(sys.argv[2:])
    words = [word for word in sys.argv[1:] if not word.startswith("--namespace")]
    with (HOME / "calls").open("a") as file:
        file.write(" ".join(sys.argv[1:]) + "\n")
    if words[0] == "create":
        return create(Path(words[1].partition("=")[2]))
    if words[0] == "get":
        return get()
    if words[0] == "logs":
        return follow()
    if words[0] == "exec":
        return execute(words[words.index("--") + 1 :])
    return delete()


if __name__ == "__main__":
    sys.exit(main())
